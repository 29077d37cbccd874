//! Queues for locks: what the root of each does, which lock its sessions wait for, and whose the root is.
//!
//! Pure.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use model::telemetry::wait;
use model::telemetry::watch::Backends;

use crate::gather::Gather;
use crate::server::waits::{Kernel, LOCKED_ELSEWHERE};

/// Pause between two looks for the roots of lock queues, which lock the lock manager.
pub(crate) const ROOTS_PAUSE: Duration = Duration::from_millis(900);
/// Waiting sessions whose root is looked for: each costs a look into the lock manager. Those that have waited longest are
/// nearest to the heads of the queues.
const WAITING_MAX: u32 = 32;
/// Longest chain of blockers.
const CHAIN_MAX: usize = 64;

/// Sessions in a queue with those that block them and the lock that they wait for, and what all other sessions at work do, with those
/// that hold a lock between transactions.
pub(crate) fn sql() -> String {
    format!(
        ", q as (select pid, pg_blocking_pids(pid) as blockers, coalesce(wait_event, '') as lock from a \
         where wait_event_type = 'Lock' and not ({LOCKED_ELSEWHERE}) order by state_change limit {WAITING_MAX}) \
         select pid::text, array_to_string(blockers, ' '), lock, '', '' from q \
         union all select pid::text, null, \
         case when state = 'idle' then 'session' else coalesce(wait_event_type, case when state like 'idle%' then 'idle' else '' end) end, \
         coalesce(wait_event, ''), case when kind = 'client backend' then 'client:' || application_name else kind end \
         from a where kind in ('client backend', 'parallel worker', 'autovacuum worker') \
         and state <> 'disabled' and wait_event_type is distinct from 'Lock' \
         and (state <> 'idle' or pid in (select unnest(blockers) from q))"
    )
}

/// Sessions that wait for locks, summed over looks.
#[derive(Debug, Default)]
pub(crate) struct RootTally {
    /// By what the root of the queue does.
    doing: BTreeMap<String, f64>,
    /// By the lock and the root's owner.
    holders: BTreeMap<String, f64>,
}

impl RootTally {
    /// Adds the rows of [`sql`]. `ours` says whose sessions are whose, if that is known.
    pub(crate) fn add(&mut self, rows: &[Vec<Option<String>>], kernel: &Kernel, ours: Option<&Backends>) {
        for wait in roots(rows, kernel, ours) {
            if let Some(owner) = wait.owner {
                *self.holders.entry(format!("{}/{owner}", wait.lock)).or_default() += 1.0;
            }
            *self.doing.entry(wait.doing).or_default() += 1.0;
        }
    }

    pub(crate) fn put(self, gather: &mut Gather) {
        self.doing.iter().for_each(|(key, n)| gather.put_said("waits.roots", key, *n));
        self.holders.iter().for_each(|(key, n)| gather.put_said("waits.holders", key, *n));
    }
}

/// A session that waits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct LockWait {
    /// What the root of its queue does.
    doing: String,
    lock: String,
    /// Whose the root is; `None` if there is none.
    owner: Option<String>,
}

/// A session that does not wait for a lock.
struct Other<'a> {
    kind: &'a str,
    event: &'a str,
    who: &'a str,
}

/// The root of each waiting session's queue.
fn roots(rows: &[Vec<Option<String>>], kernel: &Kernel, ours: Option<&Backends>) -> Vec<LockWait> {
    let (mut waiting, mut others) = (HashMap::<&str, (&str, &str)>::new(), HashMap::<&str, Other>::new());
    for row in rows {
        match row.as_slice() {
            [Some(pid), Some(blockers), Some(lock), ..] => {
                waiting.insert(pid, (blockers, lock));
            }
            [Some(pid), None, Some(kind), Some(event), Some(who)] => {
                others.insert(pid, Other { kind, event, who });
            }
            _ => {}
        }
    }
    let of = |(blockers, lock): &(&str, &str)| {
        let (doing, owner) = match root(blockers, &waiting)? {
            Root::Cycle => (wait::CYCLE.to_string(), None),
            Root::Session("0") => (wait::PREPARED.to_string(), Some("prepared".to_string())),
            Root::Session(pid) => match others.get(pid) {
                Some(other) => (doing(pid, other, kernel), Some(owner(pid, other.who, ours))),
                None => (wait::GONE.to_string(), None),
            },
        };
        Some(LockWait { doing, lock: (*lock).to_string(), owner })
    };
    waiting.values().filter_map(of).collect()
}

fn doing(pid: &str, other: &Other, kernel: &Kernel) -> String {
    match (other.kind, other.event) {
        ("session", _) => wait::IDLE.to_string(),
        ("idle", _) | ("Client", "ClientRead") => wait::IDLE_IN_TRANSACTION.to_string(),
        ("", _) => kernel.what(kernel.place(pid)).to_string(),
        (kind, event) => wait::name(kind, event),
    }
}

/// `load`, `pgdyno`, or `other` with the name that it gives itself. A worker is of somebody, who need not be known.
fn owner(pid: &str, who: &str, ours: Option<&Backends>) -> String {
    let Some(name) = who.strip_prefix("client:") else {
        return if who == "autovacuum worker" { "autovacuum" } else { "unknown" }.to_string();
    };
    match (ours, pid.parse::<i32>()) {
        (Some(ours), Ok(pid)) if ours.load.contains(&pid) => "load".to_string(),
        (Some(ours), Ok(pid)) if ours.own.contains(&pid) => "pgdyno".to_string(),
        (Some(_), Ok(_)) if name.is_empty() => "other".to_string(),
        (Some(_), Ok(_)) => format!("other:{name}"),
        _ => "unknown".to_string(),
    }
}

/// The head of a queue.
enum Root<'a> {
    Session(&'a str),
    /// All wait for each other.
    Cycle,
}

/// The head of the queue behind these blockers.
fn root<'a>(blockers: &'a str, waiting: &HashMap<&'a str, (&'a str, &'a str)>) -> Option<Root<'a>> {
    let first = |blockers: &'a str| blockers.split(' ').next().filter(|pid| !pid.is_empty());
    let mut chain = vec![first(blockers)?];
    while let Some((next, _)) = chain.last().and_then(|pid| waiting.get(pid)) {
        let pid = first(next)?;
        if chain.contains(&pid) || chain.len() > CHAIN_MAX {
            return Some(Root::Cycle);
        }
        chain.push(pid);
    }
    chain.pop().map(Root::Session)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::place::ProcessPlace;

    /// Process 2 runs, 3 flushes WAL.
    fn kernel(has_io_events: bool) -> Kernel<'static> {
        let look = &|pid| match pid {
            2 => Some(ProcessPlace::Running),
            3 => Some(ProcessPlace::WalFlush),
            _ => None,
        };
        Kernel { look, has_io_events }
    }

    fn row(texts: [Option<&str>; 5]) -> Vec<Option<String>> {
        texts.map(|text| text.map(str::to_string)).to_vec()
    }

    fn waiting(pid: &str, by: &str, lock: &str) -> Vec<Option<String>> {
        row([Some(pid), Some(by), Some(lock), Some(""), Some("")])
    }

    fn other(pid: &str, kind: &str, event: &str, who: &str) -> Vec<Option<String>> {
        row([Some(pid), None, Some(kind), Some(event), Some(who)])
    }

    #[test]
    fn a_queue_is_charged_to_what_its_root_does() {
        let found = |rows: &[Vec<Option<String>>], has_io_events| {
            let mut found: Vec<String> =
                roots(rows, &kernel(has_io_events), None).into_iter().map(|wait| wait.doing).collect();
            found.sort();
            found
        };
        let rows = [
            waiting("2", "1", "tuple"),
            waiting("3", "2 1", "tuple"),
            waiting("5", "4", "tuple"),
            waiting("7", "6", "tuple"),
            waiting("9", "", "tuple"),
            waiting("12", "11", "advisory"),
            waiting("13", "0", "transactionid"),
            other("1", "IO", "WALSync", "client:"),
            other("4", "idle", "ClientRead", "client:"),
            other("11", "session", "ClientRead", "client:"),
        ];
        let expected =
            ["IO:WalSync", "IO:WalSync", "gone", "idle", "idle in transaction", "prepared transaction"];
        assert_eq!(found(&rows, true), expected);
        let rows = [
            waiting("8", "3", "tuple"),
            waiting("9", "2", "tuple"),
            other("2", "", "", "client:"),
            other("3", "", "", "client:"),
        ];
        assert_eq!(found(&rows, false), ["CPU", "Kernel:WalFlush"]);
    }

    #[test]
    fn sessions_that_wait_for_each_other_have_no_root() {
        let rows = [
            waiting("2", "3", "transactionid"),
            waiting("3", "2", "transactionid"),
            waiting("4", "3", "tuple"),
            waiting("8", "8", "transactionid"),
        ];
        let found = roots(&rows, &kernel(true), None);
        assert!(found.iter().all(|wait| wait.doing == "cycle" && wait.owner.is_none()), "{found:?}");
        assert_eq!(found.len(), 4);
    }

    #[test]
    fn the_lock_and_the_owner_of_its_holder_are_counted() {
        let ours = Backends { load: [10, 11].into(), own: [20].into(), ..Backends::default() };
        let rows = [
            waiting("11", "10", "transactionid"),
            waiting("12", "30", "advisory"),
            waiting("13", "31", "relation"),
            waiting("14", "20", "relation"),
            waiting("15", "40", "relation"),
            waiting("16", "50", "relation"),
            other("10", "", "", "client:pgdyno"),
            other("30", "session", "ClientRead", "client:psql"),
            other("31", "idle", "", "client:"),
            other("20", "", "", "client:"),
            other("40", "IO", "DataFileRead", "autovacuum worker"),
            other("50", "", "", "parallel worker"),
        ];
        let holders = |ours: Option<&Backends>| {
            let mut tally = RootTally::default();
            tally.add(&rows, &kernel(true), ours);
            tally.holders.into_keys().collect::<Vec<String>>()
        };
        let expected = [
            "advisory/other:psql",
            "relation/autovacuum",
            "relation/other",
            "relation/pgdyno",
            "relation/unknown",
            "transactionid/load",
        ];
        assert_eq!(holders(Some(&ours)), expected);
        let unknown =
            ["advisory/unknown", "relation/autovacuum", "relation/unknown", "transactionid/unknown"];
        assert_eq!(holders(None), unknown, "behind a pooler nobody knows whose a session is");
    }
}
