//! One pgdyno at a time on a database that somebody else runs: an advisory lock, held as long as a session lives.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use wire::session::Session;

/// Key of the advisory lock: `pgdy` in ASCII, and what is locked (1: the workload's tables).
const KEY: &str = "1885824121, 1";

/// How long a pgdyno that ended just now may keep its lock: its server process must notice that it is gone.
const PATIENCE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(100);

/// Takes the lock for `session`, which has it until it ends. A pgdyno that puts the database back by copies has let go of the
/// lock only for as long as nobody may be in the database; `keeper` looks for it and gives its server process.
///
/// # Errors
/// When another session has it, or will take it again: its process is named.
pub fn take(session: &mut Session, keeper: impl Fn(&mut Session) -> Result<Option<String>>) -> Result<()> {
    let begun = Instant::now();
    loop {
        take_again(session)?;
        let Some(keeper) = keeper(session)? else { return Ok(()) };
        session.query(&format!("select pg_catalog.pg_advisory_unlock({KEY})"))?;
        if begun.elapsed() >= PATIENCE {
            bail!(
                "another pgdyno puts this database back by copies: server process {keeper}; wait for its end, or use another \
                 database"
            );
        }
        std::thread::sleep(PAUSE);
    }
}

/// Takes the lock again, after this pgdyno let go of it for a copy.
///
/// # Errors
/// When another session has it: its process is named.
pub fn take_again(session: &mut Session) -> Result<()> {
    match try_lock(session, "pg_try_advisory_lock")? {
        true => Ok(()),
        false => bail!("{}; wait for its end, or use another database", holder(session)),
    }
}

/// For those who only read: a note when another pgdyno may be changing what they read. Others who read go ahead.
///
/// # Errors
/// When the server fails.
pub fn note(session: &mut Session) -> Result<Option<String>> {
    let is_free = try_lock(session, "pg_try_advisory_lock_shared")?;
    Ok((!is_free).then(|| format!("{}: what is read here may change meanwhile", holder(session))))
}

fn try_lock(session: &mut Session, function: &str) -> Result<bool> {
    let begun = Instant::now();
    loop {
        let rows = session.query(&format!("select pg_catalog.{function}({KEY})"))?;
        if rows.scalar() == Some("t") {
            return Ok(true);
        }
        if begun.elapsed() >= PATIENCE {
            return Ok(false);
        }
        std::thread::sleep(PAUSE);
    }
}

fn holder(session: &mut Session) -> String {
    let sql = format!(
        "select l.pid, coalesce(a.application_name, '') from pg_catalog.pg_locks l \
         left join pg_catalog.pg_stat_activity a on a.pid = l.pid \
         where l.locktype = 'advisory' and l.granted and l.objsubid = 2 and (l.classid, l.objid) = ({KEY}) \
         and l.database = (select oid from pg_catalog.pg_database where datname = current_database()) limit 1"
    );
    let rows = session.query(&sql).unwrap_or_default();
    match rows.rows.first().map(Vec::as_slice) {
        Some([Some(pid), Some(name)]) => {
            format!("another pgdyno uses this database: server process {pid}, application_name `{name}`")
        }
        _ => "another pgdyno uses this database".to_string(),
    }
}
