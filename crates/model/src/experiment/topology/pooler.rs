//! A pooler between the load and a server that pgdyno runs.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::experiment::case::Case;
use crate::experiment::keys;
pub use crate::experiment::keys::pooler::PoolerSection;
use crate::text::word_enum::words;

/// Connections of a pool, unless others are asked for: `default_pool_size` of pgbouncer.
pub const POOL_SIZE: u32 = 20;

/// Most connections of a pool. Our convention: PostgreSQL takes no more (`MAX_BACKENDS` is 2^18 − 1).
pub const SIZE_MAX: u32 = 10_000;

/// Most processes of a pooler. Our convention.
pub const PROCESSES_MAX: u32 = 64;

/// The database of PgBouncer's console (its manual, "Admin console"), which has a pool, too.
pub const CONSOLE: &str = "pgbouncer";

impl PoolerSection {
    /// Whether it is that of an experiment that says nothing.
    pub fn is_default(&self) -> bool {
        *self == PoolerSection::default()
    }
}

words! {
    /// What stands between the load and the server.
    PoolerKind, "a kind of pooler" {
        /// Nothing: clients connect to the server itself.
        #[default]
        None = "none",
        /// PgBouncer, which pgdyno configures.
        Pgbouncer = "pgbouncer",
        /// Whatever the user's command starts.
        Command = "command",
    }
}

words! {
    /// For how long a client has a connection of the pool.
    PoolMode, "a mode of a pool" {
        /// For a transaction.
        #[default]
        Transaction = "transaction",
        /// Until it leaves.
        Session = "session",
        /// For a statement; transactions of several are refused.
        Statement = "statement",
    }
}

words! {
    /// Who is asked about the queue of a pooler.
    PoolerAdmin, "a way to ask a pooler" {
        /// PgBouncer's console.
        #[default]
        Pgbouncer = "pgbouncer",
        /// Nobody.
        None = "none",
    }
}

/// The pooler that a case asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolerSpec {
    /// Kind of pooler.
    pub kind: PoolerKind,
    /// For how long a client has a connection.
    pub mode: PoolMode,
    /// Connections of each process.
    pub size: u32,
    /// Number of processes.
    pub n_processes: u32,
    /// Whether its console is asked about the queue.
    pub is_asked: bool,
}

impl PoolerSpec {
    /// That of a case; `None` if its clients connect to the server itself.
    pub fn from_case(case: &Case) -> Option<PoolerSpec> {
        let kind = case.get(keys::pooler::KIND);
        let admin = case.get(keys::pooler::ADMIN).unwrap_or(match kind {
            PoolerKind::Pgbouncer => PoolerAdmin::Pgbouncer,
            PoolerKind::None | PoolerKind::Command => PoolerAdmin::None,
        });
        (kind != PoolerKind::None).then(|| PoolerSpec {
            kind,
            mode: case.get(keys::pooler::MODE),
            size: case.get(keys::pooler::SIZE),
            n_processes: case.get(keys::pooler::PROCESSES),
            is_asked: admin == PoolerAdmin::Pgbouncer,
        })
    }

    /// Connections to the server that all of its processes have at most.
    pub fn n_connections(&self) -> u32 {
        self.size * self.n_processes
    }

    /// Whether another client may have the connection at the next transaction.
    pub fn shares_sessions(&self) -> bool {
        self.mode != PoolMode::Session
    }
}

impl fmt::Display for PoolerSpec {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let what = match self.kind {
            PoolerKind::Command => "a pooler",
            PoolerKind::None | PoolerKind::Pgbouncer => self.kind.as_str(),
        };
        write!(f, "{what} in {} mode with {} connections", self.mode, self.size)?;
        if self.n_processes > 1 {
            write!(f, " in each of {} processes", self.n_processes)?;
        }
        Ok(())
    }
}
