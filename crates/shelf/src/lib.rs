//! Results in a PostgreSQL schema: for SQL, dashboards and tools that look for changes, and to be read back as they were.
//!
//! Each file that a report is made from is kept byte for byte, and next to it the figures as rows. The files are the truth: a
//! result that is read back is explained again. What a database holds is believed no more than an archive of a stranger.

mod copy;
mod fetch;
mod migrate;
mod push;
mod rows;
mod traps;

use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, ensure};
use model::release::{Release, catalogs};
use wire::{Conninfo, Session};

pub use fetch::StoredResult;
pub use push::{Pushed, PushedResult};

/// The schema of all tables and views.
pub const SCHEMA: &str = "pgdyno";

/// A session with a database that keeps results.
#[derive(Debug)]
pub struct Shelf {
    session: Session,
}

impl Shelf {
    /// Connects, unless `stop` is raised.
    ///
    /// # Errors
    /// When the server cannot be reached, or is older than 10; when the database gives a superuser the role of somebody else.
    pub fn open(conninfo: &Conninfo, stop: &'static AtomicBool) -> Result<Shelf> {
        let within = || format!("cannot connect to the store `{conninfo}`");
        let mut session =
            Session::connect_unless(conninfo, stop).with_context(within)?.context("stopped on request")?;
        ensure!(
            Release::new(session.server_version_num()).has(catalogs::IDENTITY_COLUMNS),
            "the store `{conninfo}` is a PostgreSQL before 10, which has no identity columns"
        );
        // Our names are always qualified; nobody else's functions and operators are in the way.
        session.execute("SET search_path = pg_catalog").with_context(within)?;
        session.execute("SET timezone = 'UTC'").with_context(within)?;
        // The server refuses to read a table with policies for this role, instead of calling their functions.
        session.execute("SET row_security = off").with_context(within)?;
        session.expect_own_role().with_context(within)?;
        Ok(Shelf { session })
    }

    /// Whether the session can no longer be used.
    pub fn is_lost(&self) -> bool {
        self.session.is_lost()
    }
}
