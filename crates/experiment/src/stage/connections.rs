//! Free connections of a server: checked before the first client of a load connects, and shared out to jobs of a restore.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, anyhow, bail};
use dataset::session;
use wire::Conninfo;
use wire::session::Session;

use super::pooler::Limits;

/// Connections of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Room {
    max: i64,
    /// Reserved for superusers, which our user is not.
    reserved: i64,
    in_use: i64,
    /// Limits of our role and of the database, which a superuser does not have.
    limits: Vec<Limit>,
}

/// A limit of connections that a role or a database has for itself.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Limit {
    /// `role "app"`.
    of: String,
    max: i64,
    in_use: i64,
}

/// The session that keeps another pgdyno away from an existing server's database while the load runs. It is not counted among those
/// of others, whether it is open yet or not, so that a plan and a run find the same number of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HoldingSession {
    /// There is none: the server is ours.
    Nobody,
    /// It will be opened, as before a run.
    Later,
    /// It is open; its server process.
    Open(i32),
}

impl HoldingSession {
    /// Connections that pgdyno needs during the load: one observes the server.
    fn n_own(self) -> i64 {
        if self == HoldingSession::Nobody { 1 } else { 2 }
    }

    /// Server processes that are not those of others: that of the session that asks, which ends before the load, and its own.
    fn excluded(self) -> String {
        match self {
            HoldingSession::Open(pid) => format!("pid not in (pg_catalog.pg_backend_pid(), {pid})"),
            HoldingSession::Nobody | HoldingSession::Later => {
                "pid <> pg_catalog.pg_backend_pid()".to_string()
            }
        }
    }
}

fn room_sql(keeper: HoldingSession) -> String {
    format!(
        "select current_setting('max_connections')::bigint, \
         case when (select rolsuper from pg_catalog.pg_roles where rolname = current_user) then 0 \
              else current_setting('superuser_reserved_connections')::bigint \
                 + coalesce(current_setting('reserved_connections', true), '0')::bigint end, \
         (select count(*) from pg_catalog.pg_stat_activity where datid is not null and {})",
        keeper.excluded()
    )
}

/// Limits are checked for ordinary roles only, and autovacuum workers, which have no user, do not count (`InitPostgres`, `CountDBConnections`).
fn limits_sql(keeper: HoldingSession) -> String {
    format!(
        "with me as (select r.oid, rolname, rolconnlimit from pg_catalog.pg_roles r \
           where rolname = session_user and not rolsuper), \
         others as (select datid, usesysid from pg_catalog.pg_stat_activity \
           where usesysid is not null and {}) \
         select 'role ' || pg_catalog.quote_ident(rolname), rolconnlimit, \
                (select count(*) from others where usesysid = me.oid) from me where rolconnlimit >= 0 \
         union all select 'database ' || pg_catalog.quote_ident(datname), datconnlimit, \
                (select count(*) from others where datid = d.oid) from me, pg_catalog.pg_database d \
           where datname = current_database() and datconnlimit >= 0",
        keeper.excluded()
    )
}

/// Connections that a restore leaves to the sessions that look after it.
const SPARED: i64 = 2;

/// Standard deviations by which the clients of one host may exceed its share: one load in 30,000 has more.
const DEVIATIONS: f64 = 4.0;

/// Fails if `n_clients` do not fit: on the server of `session` or its pooler, or, if the load is spread, on each host, as many as
/// chance may bring there. A server or a pooler that does not say is not checked; neither is a host that does not answer, because
/// clients take another one then.
///
/// # Errors
/// With the figures.
pub(crate) fn check(
    session: &mut Session,
    conninfo: &Conninfo,
    n_clients: u32,
    keeper: HoldingSession,
    stop: &'static AtomicBool,
) -> Result<()> {
    let hosts = conninfo.spread_hosts();
    if hosts.is_empty() {
        return check_one(session, conninfo, n_clients, keeper, stop);
    }
    let n_at_one = at_one_of(hosts.len(), n_clients);
    for host in &hosts {
        let Ok(mut session) = session::open(host, stop) else { continue };
        // Process ids of one server say nothing at another.
        check_one(&mut session, host, n_at_one, HoldingSession::Later, stop).with_context(|| {
            format!(
                "`{host}`, to which chance may bring {n_at_one} of {n_clients} clients that are spread over {} hosts",
                hosts.len()
            )
        })?;
    }
    Ok(())
}

fn check_one(
    session: &mut Session,
    conninfo: &Conninfo,
    n_clients: u32,
    keeper: HoldingSession,
    stop: &'static AtomicBool,
) -> Result<()> {
    let n_clients = i64::from(n_clients);
    if is_pooled(session)? {
        let limits = Limits::from_console(conninfo, stop);
        let refusal = limits.and_then(|limits| limits.refusal(n_clients, keeper.n_own()));
        return refusal.map_or(Ok(()), |why| Err(anyhow!(why)));
    }
    room(session, keeper)?.map_or(Ok(()), |room| judge(&room, n_clients, keeper.n_own()))
}

/// Whether another process serves the session than the one that it was said to have.
fn is_pooled(session: &mut Session) -> Result<bool> {
    let own_pid = session.query("select pg_catalog.pg_backend_pid()")?;
    Ok(own_pid.scalar() != Some(session.backend_pid().to_string().as_str()))
}

/// Clients that may come to one of so many hosts, each of which every client chooses with the same chance: the mean of a binomial
/// distribution and some standard deviations.
fn at_one_of(n_hosts: usize, n_clients: u32) -> u32 {
    let (n, share) = (f64::from(n_clients), 1.0 / n_hosts.max(1) as f64);
    let most = (n * share + DEVIATIONS * (n * share * (1.0 - share)).sqrt()).ceil();
    (most as u32).min(n_clients)
}

/// As many of `n_wanted` jobs, each with a connection, as the server has room for, at least one; all if it does not say.
///
/// # Errors
/// When the server does not answer.
pub(crate) fn jobs(session: &mut Session, n_wanted: usize) -> Result<usize> {
    if is_pooled(session)? {
        return Ok(n_wanted);
    }
    Ok(room(session, HoldingSession::Nobody)?.map_or(n_wanted, |room| fitting(&room, n_wanted)))
}

fn fitting(room: &Room, n_wanted: usize) -> usize {
    usize::try_from(room.least_free() - SPARED).unwrap_or(0).min(n_wanted).max(1)
}

fn room(session: &mut Session, keeper: HoldingSession) -> Result<Option<Room>> {
    let Ok(rows) = session.query(&room_sql(keeper)) else { return Ok(None) };
    let number = |column: usize| rows.rows.first()?.get(column)?.as_deref()?.parse().ok();
    let (Some(max), Some(reserved), Some(in_use)) = (number(0), number(1), number(2)) else {
        return Ok(None);
    };
    let limits = session.query(&limits_sql(keeper)).map(|rows| rows.rows).unwrap_or_default();
    let limits = limits.iter().filter_map(|row| limit(row)).collect();
    Ok(Some(Room { max, reserved, in_use, limits }))
}

fn limit(row: &[Option<String>]) -> Option<Limit> {
    let [Some(of), Some(max), Some(in_use)] = row else { return None };
    Some(Limit { of: of.clone(), max: max.parse().ok()?, in_use: in_use.parse().ok()? })
}

impl Room {
    fn free(&self) -> i64 {
        (self.max - self.reserved - self.in_use).max(0)
    }

    fn least_free(&self) -> i64 {
        self.limits.iter().map(Limit::free).fold(self.free(), i64::min)
    }
}

impl Limit {
    fn free(&self) -> i64 {
        (self.max - self.in_use).max(0)
    }
}

fn judge(room: &Room, n_clients: i64, n_own: i64) -> Result<()> {
    let needed = n_clients + n_own;
    let least = room.least_free();
    if needed <= least {
        return Ok(());
    }
    let Room { max, reserved, in_use, .. } = room;
    let (whose, raise) = match room.limits.iter().find(|limit| limit.free() == least) {
        Some(Limit { of, max, in_use }) => (
            format!("{of} has {least} free (connection limit {max}, {in_use} in use)"),
            format!("raise its limit (alter {of} connection limit ...)"),
        ),
        None => (
            format!(
                "the server has {least} free (max_connections {max}, {reserved} reserved, {in_use} in use)"
            ),
            "raise max_connections".to_string(),
        ),
    };
    let fitting = match least - n_own {
        n if n >= 1 => format!("at most {n} fit: lower workload.clients (--clients), or {raise}"),
        _ => format!("none fits: end other sessions, or {raise}"),
    };
    bail!("{n_clients} clients need {needed} connections; {whose}; {fitting}")
}

/// The `options` of a connection with these settings after those that it has.
pub(crate) fn options_with(options: Option<String>, settings: &BTreeMap<String, String>) -> Option<String> {
    settings.iter().fold(options, |options, (name, value)| {
        let options = options.map_or(String::new(), |options| format!("{options} "));
        // The server splits at spaces that no backslash precedes (pg_split_opts).
        let value = value.replace('\\', "\\\\").replace(' ', "\\ ");
        Some(format!("{options}-c {name}={value}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_that_do_not_fit_are_refused_with_the_figures_and_jobs_are_fewer() {
        let room = Room { max: 20, reserved: 3, in_use: 2, limits: Vec::new() };
        judge(&room, 14, 1).unwrap();
        assert_eq!(
            judge(&room, 15, 1).unwrap_err().to_string(),
            "15 clients need 16 connections; the server has 15 free (max_connections 20, 3 reserved, 2 in use); at most 14 fit: \
             lower workload.clients (--clients), or raise max_connections"
        );
        // Of 100 tosses of a coin, 70 heads are 4 standard deviations above the mean.
        for (n_hosts, n_clients, expected) in [(1, 8, 8), (2, 1, 1), (2, 16, 16), (2, 100, 70), (4, 400, 135)]
        {
            assert_eq!(at_one_of(n_hosts, n_clients), expected, "{n_hosts} {n_clients}");
        }
        for (n_wanted, expected) in [(4, 4), (128, 13), (0, 1)] {
            assert_eq!(fitting(&room, n_wanted), expected);
        }
        let full = Room { in_use: 40, ..room };
        assert_eq!(fitting(&full, 8), 1);
        assert!(judge(&full, 1, 1).unwrap_err().to_string().contains("none fits: end other"));
    }

    #[test]
    fn the_tightest_limit_counts_and_is_named() {
        let limit = |of: &str, max, in_use| Limit { of: of.to_string(), max, in_use };
        let limits = vec![limit("role low", 30, 1), limit("database \"Shop\"", 12, 2)];
        let room = Room { max: 100, reserved: 3, in_use: 2, limits };
        judge(&room, 9, 1).unwrap();
        assert_eq!(
            judge(&room, 10, 1).unwrap_err().to_string(),
            "10 clients need 11 connections; database \"Shop\" has 10 free (connection limit 12, 2 in use); at most 9 fit: lower \
             workload.clients (--clients), or raise its limit (alter database \"Shop\" connection limit ...)"
        );
        assert_eq!(fitting(&room, 64), 8);
        let none = Room { limits: vec![limit("role low", 1, 1)], ..room };
        assert!(
            judge(&none, 1, 1)
                .unwrap_err()
                .to_string()
                .contains("none fits: end other sessions, or raise its")
        );
    }
}
