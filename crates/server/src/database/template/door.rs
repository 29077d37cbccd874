//! Ways into databases, and how one is closed to everybody else before it is looked at for the last time.

use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use wire::{Conninfo, Session, quote_ident};

use super::inventory::Inventory;

/// The database from which the others are seen.
pub const MAINTENANCE: &str = "postgres";

/// How long a session of somebody else may take to leave a database, as `DROP DATABASE` waits.
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
    /// Of the server of `conninfo`, whatever its database. Waits end when `stop` is raised.
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

    /// A session that works on when the user wants to stop, for a limited time: to clean up.
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

/// What a database holds once nobody but us can be in it or get into it. It stays closed.
///
/// A session that begins reads whether connections are allowed while it holds a lock on the database, and is shown as
/// active before it lets go of that (`InitPostgres`): who is neither among the locks nor, looked at after that, among the
/// sessions, cannot have come in.
///
/// # Errors
/// When somebody else is in it and stays.
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
    // Autovacuum, which has no user, makes nothing.
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
