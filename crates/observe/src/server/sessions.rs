//! Client sessions that are not pgdyno's, as `pg_stat_activity` shows them. Background work is not among them:
//! autovacuum, replication, parallel workers of our own sessions.
//!
//! Pure. The server returns all client backends as one string, because it would compare the process ids of a thousand
//! clients with a list of as many more slowly than we do.

use model::telemetry::watch::Backends;
use wire::quote_literal;

/// The row with all client backends: [`parts`](crate::server::statistics::parts) puts them into its value.
pub(crate) const CLIENTS: &str = "event.clients";

/// Sessions of others at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Foreign {
    /// Their backends and parallel workers, by process id.
    pub(crate) pids: Vec<i32>,
    /// Backends without parallel workers.
    pub(crate) n_sessions: u32,
    /// Backends and parallel workers at work: active, and waiting neither for a lock nor for a client nor for time to
    /// pass. `None` if there is one whose state this role cannot see, or the server does not track.
    pub(crate) n_working: Option<u32>,
    /// Parallel workers of our own sessions; on a server that does not say whose they are (before 13), of any.
    pub(crate) n_our_workers: u32,
}

/// SQL for one row that lists client backends and parallel workers: process id, `<` and its leader, if known, for a worker,
/// and `*` if it is at work, or `?` if its state is unknown. Other observers of this process are left out: they cost what this one does.
pub(crate) fn sql(observer: &str) -> String {
    format!(
        "select '{CLIENTS}', '', coalesce(string_agg(pid::text \
         || case when kind = 'parallel worker' then '<' || coalesce(leader_pid::text, '') else '' end \
         || case when is_hidden or state = 'disabled' then '?' when state = 'active' and (wait_event_type is null or wait_event_type not in \
         ('Lock', 'Client', 'Timeout', 'Activity', 'Extension')) then '*' else '' end, ' '), '') from a \
         where kind in ('client backend', 'parallel worker') and is_user and application_name <> {}",
        quote_literal(observer)
    )
}

/// The sessions of a row that are not ours.
pub(crate) fn foreign(row: &str, backends: &Backends) -> Foreign {
    let mut found = Foreign { pids: Vec::new(), n_sessions: 0, n_working: Some(0), n_our_workers: 0 };
    for word in row.split(' ') {
        let session = word.trim_end_matches(['*', '?']);
        let (pid, leader) = session.split_once('<').map_or((session, None), |(pid, of)| (pid, Some(of)));
        let Ok(pid) = pid.parse::<i32>() else { continue };
        let is_of_nobody = leader == Some("");
        let leader = leader.and_then(|leader| leader.parse().ok());
        if is_of_nobody {
            found.n_our_workers += 1;
            continue;
        }
        if backends.is_ours(leader.unwrap_or(pid)) {
            found.n_our_workers += u32::from(leader.is_some());
            continue;
        }
        found.pids.push(pid);
        found.n_sessions += u32::from(leader.is_none());
        found.n_working =
            found.n_working.filter(|_| !word.ends_with('?')).map(|n| n + u32::from(word.ends_with('*')));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_sessions_are_distinguished() {
        let backends = Backends { load: [10, 11].into(), own: [20].into(), ..Backends::default() };
        let check = |row: &str, pids: &[i32], n_sessions, n_working: i32, n_our_workers| {
            let n_working = (n_working >= 0).then_some(n_working as u32);
            let expected = Foreign { pids: pids.to_vec(), n_sessions, n_working, n_our_workers };
            assert_eq!(foreign(row, &backends), expected, "{row}");
        };
        check("", &[], 0, 0, 0);
        check("10* 11 20 12<10* 13<10", &[], 0, 0, 2);
        check("10* 30 31*", &[30, 31], 2, 1, 0);
        check("10* 40<* 41<", &[], 0, 0, 2);
        check("31* 32<31* 33<31*", &[31, 32, 33], 1, 3, 0);
        check("nonsense 99999999999 -", &[], 0, 0, 0);
        // What one hidden session does is unknown, and so is what all of them do; our own does not matter.
        check("30? 31*", &[30, 31], 2, -1, 0);
        check("10? 31*", &[31], 1, 1, 0);
    }
}
