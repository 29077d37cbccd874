//! Connecting to databases, and closing one to everybody else before it is inspected for the last time.

use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use wire::{Conninfo, Session, quote_ident};

use super::inventory::Inventory;

/// The database from which the others are administered.
pub const MAINTENANCE: &str = "postgres";

/// How long somebody else's session may take to leave a database: as long as `DROP DATABASE` waits.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(50);
/// How long each statement may take once the experiment is over.
const AFTERWARDS_MAX: Duration = Duration::from_secs(60);

/// Connects to the databases of one server.
#[derive(Debug, Clone)]
pub struct Doors {
    conninfo: Conninfo,
    stop: &'static AtomicBool,
}

impl Doors {
    /// The databases of the server of `conninfo`. Waits end when `stop` is raised.
    pub fn new(conninfo: &Conninfo, stop: &'static AtomicBool) -> Doors {
        Doors { conninfo: conninfo.clone(), stop }
    }

    /// A session in a database.
    ///
    /// # Errors
    /// When the server cannot be reached, or the user wants to stop.
    pub fn open(&self, database: &str) -> Result<Session> {
        let session = Session::connect_unless(&self.of(database), self.stop)?;
        let mut session = session.context("stopped while connecting")?;
        session.administer()?;
        Ok(session)
    }

    /// A session in the database that the connection settings name.
    ///
    /// # Errors
    /// As [`Doors::open`].
    pub(crate) fn open_own(&self) -> Result<Session> {
        self.open(&self.conninfo.dbname)
    }

    /// A session for cleaning up, which works for a limited time even if the user wants to stop.
    pub(crate) fn open_afterwards(&self, database: &str) -> Result<Session> {
        let mut session = Session::connect(&self.of(database))?;
        session.set_timeout(Some(AFTERWARDS_MAX));
        session.administer()?;
        Ok(session)
    }

    fn of(&self, database: &str) -> Conninfo {
        Conninfo { dbname: database.to_string(), ..self.conninfo.clone() }
    }
}

/// The contents of a database once nobody else is or can get connected to it. It stays closed.
///
/// A new session reads whether connections are allowed while it holds a lock on the database, and is shown as active
/// before it releases that (`InitPostgres`): a session that is neither among the locks nor, read after them, among the
/// active ones cannot be connected.
///
/// # Errors
/// When somebody else stays connected.
pub(crate) fn closed_inventory(
    maintenance: &mut Session,
    inside: &mut Session,
    name: &str,
    oid: u32,
) -> Result<Inventory> {
    let database = quote_ident(name);
    maintenance
        .execute(&format!("alter database {database} with allow_connections false"))
        .with_context(|| format!("close database `{name}`"))?;
    let own = inside.backend_pid();
    // Autovacuum, which has no user, creates nothing.
    let queries = [
        format!(
            "select pid from pg_catalog.pg_locks where locktype = 'object' and classid = 'pg_catalog.pg_database'::regclass \
             and objid = {oid} and pid <> {own} limit 1"
        ),
        format!(
            "select pid from pg_catalog.pg_stat_activity where datid = {oid} and pid <> {own} and usesysid is not null limit 1"
        ),
    ];
    let begun = Instant::now();
    'again: loop {
        for sql in &queries {
            let rows = maintenance.query(sql)?;
            let Some(pid) = rows.scalar() else { continue };
            if begun.elapsed() >= PATIENCE {
                bail!("server process {pid} is connected to database `{name}`");
            }
            thread::sleep(PAUSE);
            continue 'again;
        }
        break;
    }
    Inventory::take(inside)
}
