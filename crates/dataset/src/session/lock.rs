//! One pgdyno at a time on a database that somebody else runs: an advisory lock of a session.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use wire::session::Session;

/// Key of the advisory lock: `pgdy` in ASCII, and what it protects (1: the workload's tables).
const KEY: &str = "1885824121, 1";

/// How long a pgdyno that has just ended may keep its lock: its server process has to notice that it is gone.
const PATIENCE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(100);

/// Another session has the lock.
#[derive(Debug)]
pub struct LoadLockTaken {
    /// Its server process, if the server says so.
    pub pid: Option<i32>,
    /// The name of its application, if the server says so.
    name: Option<String>,
}

impl fmt::Display for LoadLockTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("another pgdyno uses this database")?;
        match (self.pid, &self.name) {
            (Some(pid), Some(name)) => write!(f, ": server process {pid}, application_name `{name}`"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for LoadLockTaken {}

/// Takes the lock for `session`, which has it until it ends. A pgdyno that restores the database by copies has released
/// the lock only for as long as nobody may be connected to the database; `keeper` finds such a pgdyno and returns its
/// server process.
///
/// # Errors
/// When another session has it, or will take it again; the error names its process.
pub fn take(session: &mut Session, keeper: impl Fn(&mut Session) -> Result<Option<String>>) -> Result<()> {
    let begun = Instant::now();
    loop {
        take_again(session)?;
        let Some(keeper) = keeper(session)? else { return Ok(()) };
        session.query(&format!("select pg_catalog.pg_advisory_unlock({KEY})"))?;
        if begun.elapsed() >= PATIENCE {
            bail!(
                "another pgdyno restores this database by copies: server process {keeper}; wait until it ends, or use another \
                 database"
            );
        }
        std::thread::sleep(PAUSE);
    }
}

/// Takes the lock again, after this pgdyno released it for a copy.
///
/// # Errors
/// When another session has it; the error names its process.
pub fn take_again(session: &mut Session) -> Result<()> {
    if try_lock(session, "pg_try_advisory_lock")? {
        Ok(())
    } else {
        let taken = holder(session);
        let advice = format!("{taken}; wait until it ends, or use another database");
        Err(anyhow::Error::new(taken).context(advice))
    }
}

/// Returns a note for readers if another pgdyno may be changing the data. Other readers do not matter.
///
/// # Errors
/// When the server fails.
pub fn note(session: &mut Session) -> Result<Option<String>> {
    let is_free = try_lock(session, "pg_try_advisory_lock_shared")?;
    Ok((!is_free).then(|| format!("{}: the data may change while pgdyno reads it", holder(session))))
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

fn holder(session: &mut Session) -> LoadLockTaken {
    let sql = format!(
        "select l.pid, coalesce(a.application_name, '') from pg_catalog.pg_locks l \
         left join pg_catalog.pg_stat_activity a on a.pid = l.pid \
         where l.locktype = 'advisory' and l.granted and l.objsubid = 2 and (l.classid, l.objid) = ({KEY}) \
         and l.database = (select oid from pg_catalog.pg_database where datname = current_database()) limit 1"
    );
    let rows = session.query(&sql).unwrap_or_default();
    match rows.rows.first().map(Vec::as_slice) {
        Some([Some(pid), Some(name)]) => LoadLockTaken { pid: pid.parse().ok(), name: Some(name.clone()) },
        _ => LoadLockTaken { pid: None, name: None },
    }
}
