//! Bounds of the SQL of a directory that is not pgdyno's own, while its data is loaded into a server of our own: it may neither run for
//! ever nor fill the disk. Rows that pgdyno makes are planned; what `schema.sql` and `after.sql` do is not.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow};
use model::text::prose::bytes;
use wire::session::Session;

use super::guest::GUEST;
use crate::session::limit;

/// Room beyond what is planned, for small directories.
const LEAST_BYTES: u64 = 1 << 30;
/// How many times the planned bytes of the tables they may become with their indexes.
const TIMES_PLANNED: u64 = 4;
/// Pause between two looks at the size.
const LOOK: Duration = Duration::from_millis(500);

/// Most bytes and longest statements of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadBounds {
    /// Growth of the database, and temporary files of each session.
    pub bytes_max: u64,
    /// Time of one statement.
    pub statement_max: Duration,
}

impl LoadBounds {
    /// The bounds of a directory whose tables are planned to have so many bytes without indexes.
    pub fn from_planned(planned_bytes: u64) -> LoadBounds {
        let bytes_max = planned_bytes.saturating_mul(TIMES_PLANNED).max(LEAST_BYTES);
        LoadBounds { bytes_max, statement_max: limit::for_bytes(bytes_max) }
    }

    /// Loads while `owner`, a session of the server's owner in the same database, looks at its size. When it is too large, the sessions of
    /// the role without rights are ended.
    ///
    /// # Errors
    /// Those of `load`; that it was stopped.
    pub fn keep<T>(self, owner: &mut Session, load: impl FnOnce() -> Result<T>) -> Result<T> {
        let limit_kb = self.bytes_max / 1024;
        owner.execute(&format!("alter role {GUEST} set temp_file_limit = '{limit_kb}kB'"))?;
        let before = limit::database_bytes(owner)?;
        let (end, ended) = mpsc::channel::<()>();
        let (loaded, watched) = thread::scope(|scope| {
            let watching = scope.spawn(move || -> Result<Option<u64>> {
                let mut beyond = None;
                while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                    let grown = limit::database_bytes(owner)?.saturating_sub(before);
                    if grown > self.bytes_max {
                        beyond.get_or_insert(grown);
                        owner.query(&format!(
                            "select pg_catalog.pg_terminate_backend(pid) from pg_catalog.pg_stat_activity where usename = '{GUEST}'"
                        ))?;
                    }
                }
                owner.execute(&format!("alter role {GUEST} reset temp_file_limit"))?;
                Ok(beyond)
            });
            let loaded = load();
            drop(end);
            (loaded, watching.join())
        });
        let beyond = watched.map_err(|_| anyhow!("the thread that watches the size of the data panicked"))?;
        match (loaded, beyond) {
            (Ok(loaded), Ok(_)) => Ok(loaded),
            (Err(_), Ok(Some(grown))) => Err(anyhow!(
                "stopped: the SQL of the directory made {} of data, more than {}, which is {TIMES_PLANNED} times what its tables are planned \
                 to have (at least {})",
                bytes(grown as f64),
                bytes(self.bytes_max as f64),
                bytes(LEAST_BYTES as f64)
            )),
            (Err(error), _) | (Ok(_), Err(error)) => Err(error),
        }
    }
}
