//! Common parts of loading data: the request, the result, and marks that say how far it got.

use std::sync::atomic::AtomicBool;

use anyhow::Result;
use model::experiment::case::{Layout, WorkloadSpec};
use model::workload::Dataset;
use wire::quote_literal;
use wire::session::{Session, SessionError};
use workload::Schema;
use workload::objects::marker::{Marker, MarkerState};

use crate::clearance::{Clearance, LoadConsent};
use crate::layout::all_tables;
use crate::state::untouched;
use crate::streams::StreamError;
use crate::streams::tablespace;

/// Message after the user stopped loading. Loading must not have changed anything by then.
pub(crate) const STOPPED_LOADING: &str =
    "stopped while loading; `pgdyno check` says whether the data is complete";

/// Progress of loading.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadProgress {
    /// Current step: `rows`, `primary keys`.
    pub step: &'static str,
    /// Rows sent so far by all streams.
    pub rows_done: u64,
    pub rows_total: u64,
}

/// Result of loading.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadReport {
    pub n_rows: u64,
    /// Bytes of the tables in the server, with their indexes, if it says so. What was sent differs: fixed-length columns are padded there.
    pub stored_bytes: Option<u64>,
    /// Number of concurrent sessions.
    pub n_streams: usize,
    pub seconds: f64,
}

/// What to load, and what loading may drop.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Clone, Copy)]
pub struct LoadRequest<'a> {
    /// Schema of the tables.
    pub schema: &'a Schema,
    pub scale: u32,
    /// Partitioning of accounts, and whether the tables are UNLOGGED.
    pub layout: Layout,
    /// Tablespace of tables and indexes; by default the one that the session's settings name.
    pub tablespace: Option<&'a str>,
    /// Number of concurrent sessions; by default one per partition, at most one per processor.
    pub n_streams: Option<u32>,
    /// Opens another session on the same database.
    pub connect: &'a dyn Fn() -> Result<Session>,
    pub consent: LoadConsent,
    /// Returns the current time, as written in the marker when loading is finished.
    pub now: &'a dyn Fn() -> String,
    /// Set when the user wants to stop.
    pub stop: &'a AtomicBool,
}

/// What would keep a workload's data from being loaded: objects that must not be dropped, owners whose rights the user
/// lacks, what depends on the tables. Changes nothing.
///
/// # Errors
/// When the server fails.
pub fn problems(
    session: &mut Session,
    workload: &WorkloadSpec,
    schema: &Schema,
    consent: LoadConsent,
) -> Result<Vec<String>> {
    let Some(dataset) = Dataset::from_case_data(&workload.data) else { return Ok(Vec::new()) };
    let tables = all_tables(dataset, workload.scale, workload.layout);
    let mut problems = Clearance { dataset, schema, tables: &tables, consent }.problems(session)?;
    if let Some(name) = &workload.tablespace {
        problems.extend(tablespace::problem(session, name)?);
    }
    Ok(problems)
}

/// Marks all tables as complete, with proofs of the state they are in: those that this load created, and nobody else's.
pub(crate) fn finish(
    session: &mut Session,
    clearance: &Clearance,
    marker: &dyn Fn(MarkerState) -> Marker,
    n_rows: u64,
    at: String,
) -> Result<()> {
    session.execute("begin")?;
    let done = clearance.expect_own(session, &marker(MarkerState::Loading)).and_then(|oid| {
        let mut finished = marker(MarkerState::Finished { at }).on(oid);
        finished.extra.extend(untouched::proofs(session, clearance.schema, clearance.tables, n_rows)?);
        let marked = clearance.schema.sql_name(clearance.dataset.marked_table());
        Ok(session.execute(&finished.comment_sql_on(&marked))?)
    });
    let ended = session.execute(if done.is_ok() { "commit" } else { "rollback" });
    // The reason for the rollback comes first.
    done.and_then(|()| Ok(ended?))
}

/// Bytes of tables with their indexes, partitions included; `None` if the server does not say.
pub(crate) fn stored_bytes(session: &mut Session, schema: &Schema, tables: &[String]) -> Option<u64> {
    let names: Vec<String> = tables.iter().map(|table| quote_literal(table)).collect();
    let sql = format!(
        "select sum(pg_catalog.pg_total_relation_size(c.oid))::bigint from pg_catalog.pg_class c \
         join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
         where n.nspname = {} and c.relname in ({}) and c.relkind in ('r', 'p')",
        quote_literal(schema.name()),
        names.join(", ")
    );
    // Derivatives may lack the function; the data is loaded all the same.
    session.query(&sql).ok()?.scalar()?.parse().ok()
}

/// Drops what may be dropped, runs `statements`, and marks what they have made: everything or nothing.
pub(crate) fn replace_by(
    session: &mut Session,
    clearance: &Clearance,
    statements: &[String],
    loading: &Marker,
) -> Result<()> {
    clearance.replace_by(session, statements, loading).map_err(|error| {
        match error.downcast::<SessionError>() {
            Ok(error) => locked_out(session, clearance, error),
            Err(error) => error,
        }
    })
}

/// Adds an explanation to the error.
pub(crate) fn explained(session: &mut Session, clearance: &Clearance, error: StreamError) -> anyhow::Error {
    const HALF: &str = "the data is not complete, and marked as such; load it again";
    match error {
        StreamError::Statement { job, error, .. } => {
            locked_out(session, clearance, *error).context(format!("loading `{job}`")).context(HALF)
        }
        error => anyhow::Error::new(error).context(HALF),
    }
}

/// Adds the names of the sessions that hold the locks, if the error is about locks.
fn locked_out(session: &mut Session, clearance: &Clearance, error: SessionError) -> anyhow::Error {
    const LOCK_NOT_AVAILABLE: &str = "55P03";
    if !matches!(&error, SessionError::Server(error) if error.sqlstate == LOCK_NOT_AVAILABLE)
        || session.execute("rollback").is_err()
    {
        return error.into();
    }
    let names: Vec<String> = clearance.tables.iter().map(|table| quote_literal(table)).collect();
    // All locks conflict with that of DROP and TRUNCATE. `pg_blocking_pids` would have to be called during the wait.
    let sql = format!(
        "select distinct l.pid, coalesce(a.application_name, ''), coalesce(a.state, 'state hidden') from pg_catalog.pg_locks l \
         left join pg_catalog.pg_stat_activity a on a.pid = l.pid \
         where l.granted and l.pid <> pg_catalog.pg_backend_pid() \
         and l.database = (select oid from pg_catalog.pg_database where datname = current_database()) \
         and l.relation in (select c.oid from pg_catalog.pg_class c join pg_catalog.pg_namespace n \
           on n.oid = c.relnamespace where n.nspname = {} and c.relname in ({})) order by 1 limit 10",
        quote_literal(clearance.schema.name()),
        names.join(", ")
    );
    let holders = session.query(&sql).unwrap_or_default().rows.into_iter().map(|row| {
        let mut values = row.into_iter().map(Option::unwrap_or_default);
        let mut next = || values.next().unwrap_or_default();
        format!("server process {} (application_name `{}`, {})", next(), next(), next())
    });
    let holders: Vec<String> = holders.collect();
    let who = if holders.is_empty() { "others".to_string() } else { holders.join(", ") };
    anyhow::Error::new(error)
        .context(format!("the tables are locked by {who}; terminate that, or wait until it ends"))
}
