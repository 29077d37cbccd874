//! The schema and its versions: each migration is applied once, in one transaction with its record.

use anyhow::{Context, Result, bail, ensure};
use wire::Session;

use crate::traps::{self, Purpose};
use crate::{SCHEMA, Shelf};

/// All migrations, in order; the number of each is its place, from 1. Those that were released never change.
const MIGRATIONS: [&str; 2] = [include_str!("schema/001.sql"), include_str!("schema/002.sql")];
/// The version of the schema that this pgdyno fills.
pub(crate) const VERSION: usize = MIGRATIONS.len();

/// Comment on the schema that says whose it is.
const MARK: &str = "results of pgdyno";
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
        let version = version(&mut self.session, Purpose::Read);
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
    let version = match version(session, Purpose::Write)? {
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

/// The mark of the schema, its owner, and whether this session may run the owner's triggers, defaults and views: it is the owner's, or
/// the owner is a superuser. Who is a member of the owner, or a superuser, has its rights, and trusts it with none. The session's role is the
/// one that logged in, whose rights code of any other one could take back.
const OWNER: &str = "SELECT coalesce(obj_description(n.oid, 'pg_namespace'), '') AS mark, o.rolname AS owner, me.rolsuper AS is_superuser, \
                            o.rolsuper OR o.oid = me.oid AS is_trusted \
                       FROM pg_namespace n JOIN pg_roles o ON o.oid = n.nspowner JOIN pg_roles me ON me.rolname = session_user \
                      WHERE n.nspname = $1";

/// The last migration that was applied; `None` without a schema.
///
/// # Errors
/// When the schema is not pgdyno's, or its owner could make this session do what it has not asked for.
fn version(session: &mut Session, purpose: Purpose) -> Result<Option<usize>> {
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

/// Whether there is a schema; it is pgdyno's, and belongs to somebody whose objects the session may use.
///
/// # Errors
/// Otherwise, or when the server fails.
pub(crate) fn expect_trusted(session: &mut Session, purpose: Purpose) -> Result<bool> {
    let found = session.query_params(OWNER, &[Some(SCHEMA)])?;
    let Some(mark) = found.get(0, "mark") else { return Ok(false) };
    ensure!(
        mark == MARK,
        "the store has a schema `{SCHEMA}` that pgdyno did not create (its comment is not `{MARK}`); use another database"
    );
    let holds = |column: &str| found.get(0, column) == Some("t");
    let owner = found.get(0, "owner").unwrap_or_default();
    ensure!(
        holds("is_trusted") || (purpose == Purpose::Read && !holds("is_superuser")),
        "the schema `{SCHEMA}` of the store belongs to the role `{owner}`, whose triggers and views would run with the rights of this \
         session; connect to the store as that role"
    );
    Ok(true)
}
