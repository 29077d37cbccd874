//! The schema and its versions: each migration is applied once, in one transaction with its record.

use anyhow::{Context, Result, bail, ensure};
use wire::Session;

use crate::traps::{self, MARK, SessionPurpose, expect_trusted};
use crate::{SCHEMA, Shelf};

/// All migrations, in order; the number of each is its place, from 1. Those that were released never change.
const MIGRATIONS: [&str; 5] = [
    include_str!("schema/001.sql"),
    include_str!("schema/002.sql"),
    include_str!("schema/003.sql"),
    include_str!("schema/004.sql"),
    include_str!("schema/005.sql"),
];
/// The version of the schema that this pgdyno fills.
pub(crate) const VERSION: usize = MIGRATIONS.len();

/// Keeps two pgdynos from migrating at once; any constant does.
const LOCK: i64 = 0x7067_6479_6e6f;

impl Shelf {
    /// Creates the schema, or brings it to this version. Returns the migrations that were applied.
    ///
    /// # Errors
    /// When a schema of this name is not pgdyno's, is of a newer version, or cannot be changed.
    pub fn migrate(&mut self, tool_version: &str) -> Result<Vec<usize>> {
        let session = &mut self.session;
        session.execute("BEGIN")?;
        let applied = apply(session, tool_version);
        match &applied {
            Ok(_) => session.execute("COMMIT").context("cannot create the schema")?,
            Err(_) => session.execute("ROLLBACK")?,
        }
        applied
    }

    /// Makes sure that results can be read.
    ///
    /// # Errors
    /// When there is no schema of pgdyno's, or its version is another one.
    pub fn expect_schema(&mut self) -> Result<()> {
        self.session.execute("BEGIN")?;
        let version = version(&mut self.session, SessionPurpose::Read);
        self.session.execute("ROLLBACK")?;
        let version = version?;
        let own = VERSION;
        match version {
            None => {
                bail!("the store has no results: there is no schema `{SCHEMA}`; `pgdyno push` creates it")
            }
            // Later versions only add, and what reads results needs nothing of them.
            Some(version) if (1..=own).contains(&version) => Ok(()),
            Some(version) if version > own => bail!(newer(version)),
            Some(version) => bail!(
                "the schema `{SCHEMA}` of the store has version {version}, and this pgdyno needs {own}; `pgdyno push` migrates it"
            ),
        }
    }
}

fn newer(version: usize) -> String {
    format!(
        "the schema `{SCHEMA}` of the store has version {version}, and this pgdyno knows up to {VERSION}; use a newer pgdyno"
    )
}

fn apply(session: &mut Session, tool_version: &str) -> Result<Vec<usize>> {
    session.execute(&format!("SELECT pg_advisory_xact_lock({LOCK})"))?;
    let version = match version(session, SessionPurpose::Write)? {
        Some(version) => version,
        None => {
            create(session).with_context(|| format!("cannot create the schema `{SCHEMA}` in the store"))?;
            0
        }
    };
    ensure!(version <= VERSION, newer(version));
    let mut applied = Vec::new();
    for (number, sql) in (1..).zip(MIGRATIONS).skip(version) {
        session.execute(&format!("SET LOCAL search_path = {SCHEMA}, pg_catalog"))?;
        session
            .execute(sql)
            .with_context(|| format!("cannot apply migration {number} of the schema `{SCHEMA}`"))?;
        session.execute("SET LOCAL search_path = pg_catalog")?;
        session.query_params(
            &format!("INSERT INTO {SCHEMA}.migration (version, tool_version) VALUES ($1::int, $2)"),
            &[Some(&number.to_string()), Some(tool_version)],
        )?;
        applied.push(number);
    }
    Ok(applied)
}

fn create(session: &mut Session) -> Result<()> {
    session.execute(&format!(
        "CREATE SCHEMA {SCHEMA}; COMMENT ON SCHEMA {SCHEMA} IS '{MARK}'; \
         CREATE TABLE {SCHEMA}.migration (version int PRIMARY KEY, tool_version text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())"
    ))?;
    Ok(())
}

/// The last migration that was applied; `None` without a schema.
///
/// # Errors
/// When the schema is not pgdyno's, or its owner could make this session do what it has not asked for.
fn version(session: &mut Session, purpose: SessionPurpose) -> Result<Option<usize>> {
    if !expect_trusted(session, purpose)? {
        return Ok(None);
    }
    // First without locks: where a table should be, there may be something that cannot be locked.
    traps::expect_none(session, purpose)?;
    traps::hold(session, purpose)?;
    let found =
        session.query(&format!("SELECT coalesce(max(version), 0) AS version FROM {SCHEMA}.migration"))?;
    Ok(Some(found.parse(0, "version").context("the schema has no version")?))
}
