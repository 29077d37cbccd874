//! Sessions for preparing and inspecting, not for load: they end when the user wants to stop.

pub mod limit;
pub mod lock;

use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, anyhow, ensure};
use model::release::Release;
use wire::session::{Session, SessionError};
use wire::{ConnectError, Conninfo, ServerError};
use workload::Statement;

/// Reason of whatever was stopped: by Ctrl-C, a signal, or a notice that the machine will be taken away.
pub const STOPPED: &str = "stopped on request";

/// For the rest of the transaction, waits at most half a minute for a lock that others hold, or as long as the user has
/// set.
pub const LIMIT_LOCK_WAITS: &str = "select pg_catalog.set_config('lock_timeout', '30s', true) \
     where pg_catalog.current_setting('lock_timeout') = '0'";

/// Connects. Whatever the session waits for ends soon after `stop` is set, at the end of the phase's time, or when a
/// lock or a silent server makes waiting pointless ([`Session::administer`]).
///
/// # Errors
/// As [`wire::connect`], or when `stop` is set; when a superuser would administer with the role of somebody else. For a database that
/// does not exist, the error lists those that do.
pub fn open(conninfo: &Conninfo, stop: &'static AtomicBool) -> Result<Session> {
    match Session::connect_unless(conninfo, stop) {
        Ok(session) => {
            let mut session = session.context(STOPPED)?;
            begin(&mut session, conninfo)?;
            Ok(session)
        }
        Err(error @ ConnectError::NoSuchDatabase { .. }) => {
            let names = databases(conninfo, stop).unwrap_or_default();
            Err(if names.is_empty() {
                error.into()
            } else {
                anyhow!("{error}; existing databases: {}", names.join(", "))
            })
        }
        Err(error) => Err(error.into()),
    }
}

/// Refuses a server that lacks what pgdyno relies on, by its version.
fn expect_supported(version_num: u32) -> Result<()> {
    ensure!(
        Release::new(version_num).is_supported(),
        "the server is PostgreSQL {}.{}.{}, older than 9.4, the oldest that pgdyno measures: it has neither ALTER SYSTEM nor \
         replication slots, and pg_stat_activity does not show which session keeps old rows (backend_xmin)",
        version_num / 10_000,
        version_num / 100 % 100,
        version_num % 100
    );
    Ok(())
}

/// Whether it is PgBouncer's console, which speaks the protocol and is no server.
pub fn is_console(session: &Session) -> bool {
    session.parameter("server_version").is_some_and(|version| version.ends_with("/bouncer"))
}

/// Makes a new session fit to administer.
///
/// # Errors
/// When a superuser would administer with the role of somebody else, or the server fails.
pub(crate) fn begin(session: &mut Session, conninfo: &Conninfo) -> Result<()> {
    ensure!(
        !is_console(session),
        "{conninfo} is the console of PgBouncer, not a server; name a database that it leads to"
    );
    expect_supported(session.server_version_num()).with_context(|| conninfo.to_string())?;
    session.administer().with_context(|| format!("begin a session on {conninfo}"))
}

/// The databases of a server that accept connections, seen from the one that every server has.
fn databases(conninfo: &Conninfo, stop: &'static AtomicBool) -> Option<Vec<String>> {
    let maintenance = Conninfo { dbname: "postgres".to_string(), ..conninfo.clone() };
    let mut session = Session::connect_unless(&maintenance, stop).ok()??;
    let sql = "select datname from pg_catalog.pg_database \
               where datallowconn and not datistemplate order by 1 limit 20";
    let rows = session.query(sql).ok()?;
    Some(rows.rows.into_iter().filter_map(|row| row.into_iter().next().flatten()).collect())
}

/// Takes a step of a transaction; what the server refuses leaves the transaction as it was.
///
/// # Errors
/// When the session fails.
pub(crate) fn undone_if_failed<T>(
    session: &mut Session,
    step: impl FnOnce(&mut Session) -> std::result::Result<T, SessionError>,
) -> Result<std::result::Result<T, ServerError>> {
    session.execute("savepoint pgdyno_step")?;
    match step(session) {
        Ok(done) => {
            session.execute("release savepoint pgdyno_step")?;
            Ok(Ok(done))
        }
        Err(SessionError::Server(error)) if !error.is_fatal() => {
            session.execute("rollback to savepoint pgdyno_step; release savepoint pgdyno_step")?;
            Ok(Err(error))
        }
        Err(error) => Err(error.into()),
    }
}

/// Has the server parse a statement of a script. A COPY is only looked at when it runs, which it does without rows, unless it has
/// parameters.
///
/// # Errors
/// When the server refuses it, or fails.
pub fn parse(session: &mut Session, statement: &Statement) -> std::result::Result<(), SessionError> {
    match &statement.copy_data {
        Some(_) if statement.parameters.is_empty() => session.copy_in(&statement.text, |_| false).map(drop),
        _ => session.prepare("", &statement.text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_too_old_is_refused_by_name() {
        let why = expect_supported(90_224).unwrap_err().to_string();
        assert!(why.starts_with("the server is PostgreSQL 9.2.24, older than 9.4"), "{why}");
        assert!(expect_supported(90_400).is_ok() && expect_supported(180_006).is_ok());
    }
}
