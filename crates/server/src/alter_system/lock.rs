//! One pgdyno at a time that changes settings of a server: an advisory lock of a session, looked for in all databases.

use std::time::{Duration, Instant};

use anyhow::Result;
use wire::Session;

/// Key of the advisory lock: `pgdy` in ASCII, and what it protects (2: the settings of the server; 1 are a workload's tables).
const KEY: &str = "1885824121, 2";
/// How long a pgdyno that has just ended may keep its lock: its server process has to notice that it is gone.
const PATIENCE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(100);

/// Another session has the lock; in words, which one.
#[derive(Debug, thiserror::Error)]
#[error("another pgdyno changes settings of this server: {0}; wait until it ends")]
pub struct SettingsLockTaken(pub String);

/// Takes the lock for `session`, which has it until it ends.
///
/// # Errors
/// When another session has it, in any database; the error names its server process.
pub(super) fn take(session: &mut Session) -> Result<()> {
    let begun = Instant::now();
    loop {
        // Advisory locks belong to a database. Of two that take theirs at once, each sees the other.
        let rows = session.query(&format!("select pg_catalog.pg_try_advisory_lock({KEY})"))?;
        let is_ours = rows.scalar() == Some("t");
        let holder = holder(session)?;
        if is_ours && holder.is_none() {
            return Ok(());
        }
        session.query("select pg_catalog.pg_advisory_unlock_all()")?;
        if begun.elapsed() >= PATIENCE {
            return Err(SettingsLockTaken(
                holder.unwrap_or_else(|| "a session that has just ended".to_string()),
            )
            .into());
        }
        std::thread::sleep(PAUSE);
    }
}

/// Another session that has the lock, in words.
pub(super) fn holder(session: &mut Session) -> Result<Option<String>> {
    let sql = format!(
        "select l.pid, coalesce(a.application_name, '') as name, coalesce(d.datname, '') as database \
         from pg_catalog.pg_locks l left join pg_catalog.pg_stat_activity a on a.pid = l.pid \
         left join pg_catalog.pg_database d on d.oid = l.database \
         where l.locktype = 'advisory' and l.granted and l.objsubid = 2 and (l.classid, l.objid) = ({KEY}) \
         and l.pid <> pg_catalog.pg_backend_pid() limit 1"
    );
    let rows = session.query(&sql)?;
    let text = |column: &str| rows.get(0, column).unwrap_or_default();
    Ok((!rows.is_empty()).then(|| {
        format!(
            "server process {}, application_name `{}`, database `{}`",
            text("pid"),
            text("name"),
            text("database")
        )
    }))
}
