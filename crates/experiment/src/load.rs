//! Loads a workload's tables into a database, marked as unfinished until they are whole.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use loader::tpcb::{TpcbLoad, default_streams, rows_total};
use loader::{LoadError, Sent, Streams};
use model::experiment::case::{Layout, PartitionMethod, WorkloadSpec};
use wire::quote_literal;
use wire::session::{Session, SessionError};
use workload::objects::marker::{Marker, MarkerState, comment_literal, part_mark};
use workload::tpcb::{self, Partitioning, TpcbOptions};
use workload::{Schema, Signature};

use crate::clearance::Clearance;
use crate::data::TPCB_DATA;
use crate::dataset::Dataset;
use crate::release;

/// What is told of a load that the user stopped. It may have had no time to touch anything.
pub(crate) const STOPPED_LOADING: &str =
    "stopped while loading; `pgdyno check` tells whether the data is whole";

/// How far a load is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadProgress {
    /// What is being done: `rows`, `primary keys`.
    pub step: &'static str,
    /// Rows sent, by all streams together.
    pub rows_done: u64,
    /// Rows in all.
    pub rows_total: u64,
}

/// What a load did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadReport {
    /// Rows loaded.
    pub n_rows: u64,
    /// Bytes of COPY data sent.
    pub data_bytes: u64,
    /// Sessions that loaded side by side.
    pub n_streams: usize,
    /// Seconds in all.
    pub seconds: f64,
}

/// What to load and what may be lost by it.
#[derive(Clone, Copy)]
pub struct LoadRequest<'a> {
    /// Where the tables go.
    pub schema: &'a Schema,
    /// Scale units.
    pub scale: u32,
    /// How accounts are cut.
    pub layout: Layout,
    /// Sessions that load side by side; by default one for each partition, at most one for each processor.
    pub n_streams: Option<u32>,
    /// Makes another session to the same database.
    pub connect: &'a dyn Fn() -> Result<Session>,
    /// Drop tables and routines of the same names in the schema that pgdyno did not make.
    pub replace: bool,
    /// When the load is finished, as written in the marker.
    pub now: &'a dyn Fn() -> String,
    /// Raised when the user wants to stop.
    pub stop: &'a AtomicBool,
}

/// Loads the TPC-B-like tables as pgbench makes them.
///
/// # Errors
/// When tables are there that must not be dropped, when the server or one of the streams fails, or when `stop` is
/// raised.
pub fn load(
    session: &mut Session,
    request: &LoadRequest<'_>,
    progress: &mut dyn FnMut(LoadProgress),
) -> Result<LoadReport> {
    let result = load_all(session, request, progress);
    if result.is_err() && request.stop.load(Ordering::Relaxed) {
        // Whatever the statement that was cancelled says of it.
        bail!(STOPPED_LOADING);
    }
    result
}

fn load_all(
    session: &mut Session,
    request: &LoadRequest<'_>,
    progress: &mut dyn FnMut(LoadProgress),
) -> Result<LoadReport> {
    let begun = Instant::now();
    let load = TpcbLoad {
        scale: request.scale,
        options: TpcbOptions {
            schema: request.schema.clone(),
            partitioning: partitioning(request.layout),
            ..TpcbOptions::default()
        },
        index_tablespace: None,
        version_num: session.server_version_num(),
    };
    if !request.layout.is_plain()
        && let Some(why) = release::lacks_partitions(session.server_version_num())
    {
        bail!(why);
    }
    let tables = all_tables(Dataset::Tpcb, request.scale, request.layout);
    let clearance = Clearance {
        dataset: Dataset::Tpcb,
        schema: request.schema,
        tables: &tables,
        replace: request.replace,
    };
    clearance.check(session)?;
    // Before anything is dropped: the server may have no room for them.
    let mut others = connect_others(request)?;
    let n_streams = others.len() + 1;
    // At once: there are the old tables, or new ones that are marked as unfinished.
    let mut statements = tpcb::create_tables(load.scale, &load.options);
    statements.extend(mark_parts(Dataset::Tpcb, request.schema, &tables, &[]));
    statements.push(marker_sql(Dataset::Tpcb, request.schema, &marker(request, MarkerState::Loading)));
    replace_by(session, &clearance, &statements)?;

    let rows_total = rows_total(load.scale);
    let mut told = |sent: Sent| {
        // What comes after a table's rows is done side by side with the rows of others.
        let step = if sent.n_rows < rows_total { "rows" } else { "primary keys" };
        progress(LoadProgress { step, rows_done: sent.n_rows, rows_total });
    };
    let sessions = std::iter::once(&mut *session).chain(&mut others).collect();
    let filled = Streams { sessions, stop: request.stop }.run(load.whole(), &mut told);
    let sent = filled.map_err(|error| explained(session, &clearance, error))?;
    let finished =
        Streams { sessions: vec![session], stop: request.stop }.run(load.finish(), &mut |_| told(sent));
    finished.map_err(|error| explained(session, &clearance, error))?;
    ensure!(sent.n_rows == rows_total, "{} rows were sent instead of {rows_total}; load again", sent.n_rows);
    let marker = |state| marker(request, state);
    finish(session, &clearance, &marker, (request.now)())?;
    let seconds = begun.elapsed().as_secs_f64();
    Ok(LoadReport { n_rows: sent.n_rows, data_bytes: sent.data_bytes, n_streams, seconds })
}

/// The tables and the partitions that a load makes.
pub(crate) fn all_tables(dataset: Dataset, scale: u32, layout: Layout) -> Vec<String> {
    let partitions = match (dataset, partitioning(layout)) {
        (Dataset::Tpcb, Some(partitioning)) => tpcb::partitions(scale, partitioning),
        _ => Vec::new(),
    };
    let tables = dataset.tables().into_iter().map(str::to_string);
    tables.chain(partitions.into_iter().map(|partition| partition.name)).collect()
}

/// Fails when loading a workload's data would drop what it may not; changes nothing.
///
/// # Errors
/// As [`Clearance::check`].
pub(crate) fn expect_clear(
    session: &mut Session,
    workload: &WorkloadSpec,
    schema: &Schema,
    replace: bool,
) -> Result<()> {
    let Some(dataset) = Dataset::of(&workload.data) else { return Ok(()) };
    let tables = all_tables(dataset, workload.scale, workload.layout);
    Clearance { dataset, schema, tables: &tables, replace }.check(session)
}

/// The statement that says on the marked table what was loaded.
pub(crate) fn marker_sql(dataset: Dataset, schema: &Schema, marker: &Marker) -> String {
    marker.comment_sql_on(&schema.sql_name(dataset.marked_table()))
}

/// Says on the marked table that all tables are whole: those that this load made, and no other's.
pub(crate) fn finish(
    session: &mut Session,
    clearance: &Clearance,
    marker: &dyn Fn(MarkerState) -> Marker,
    at: String,
) -> Result<()> {
    session.execute("begin")?;
    let sql = marker_sql(clearance.dataset, clearance.schema, &marker(MarkerState::Finished { at }));
    let done = clearance
        .expect_own(session, &marker(MarkerState::Loading))
        .and_then(|()| Ok(session.execute(&sql)?));
    let ended = session.execute(if done.is_ok() { "commit" } else { "rollback" });
    // Why it was rolled back comes first.
    done.and_then(|()| Ok(ended?))
}

/// The statements that mark every other table, and every routine, as pgdyno's.
pub(crate) fn mark_parts(
    dataset: Dataset,
    schema: &Schema,
    tables: &[String],
    routines: &[Signature],
) -> Vec<String> {
    let comment = |what: String, part: &str| {
        format!("comment on {what} is {}", comment_literal(&part_mark(dataset.name(), part)))
    };
    let tables = tables.iter().filter(|table| *table != dataset.marked_table());
    let tables = tables.map(|table| comment(format!("table {}", schema.sql_name(table)), table));
    let routines = routines.iter().map(|routine| comment(routine.sql(schema), &routine.text()));
    tables.chain(routines).collect()
}

fn connect_others(request: &LoadRequest) -> Result<Vec<Session>> {
    let n_cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let n_streams = request
        .n_streams
        .map_or_else(|| default_streams(partitioning(request.layout), n_cpus), |n| n as usize);
    (1..n_streams)
        .map(|n| {
            (request.connect)()
                .map_err(|error| error.context(format!("stream {} of {n_streams}; take fewer", n + 1)))
        })
        .collect()
}

/// What the comment on the tables says.
fn marker(request: &LoadRequest, state: MarkerState) -> Marker {
    Marker {
        workload: TPCB_DATA.to_string(),
        scale: request.scale,
        tool_version: env!("CARGO_PKG_VERSION").to_string(),
        state,
        extra: layout_facts(request.layout),
    }
}

/// How accounts are cut in a layout.
pub fn partitioning(layout: Layout) -> Option<Partitioning> {
    let n = layout.partitions;
    (n > 0).then_some(match layout.partition_method {
        PartitionMethod::Range => Partitioning::Range(n),
        PartitionMethod::Hash => Partitioning::Hash(n),
    })
}

/// A layout as in a load marker and a cluster's key; nothing for pgbench's plain one.
pub fn layout_facts(layout: Layout) -> BTreeMap<String, String> {
    if layout.is_plain() {
        return BTreeMap::new();
    }
    let pairs = [
        ("partition_method", layout.partition_method.as_str().to_string()),
        ("partitions", layout.partitions.to_string()),
    ];
    pairs.map(|(key, value)| (key.to_string(), value)).into()
}

/// How a marker's data lies. What a newer version wrote and this one does not know is pgbench's plain layout.
pub(crate) fn layout_of(marker: &Marker) -> Layout {
    let fact = |key: &str| marker.extra.get(key);
    Layout {
        partitions: fact("partitions").and_then(|n| n.parse().ok()).unwrap_or(0),
        partition_method: fact("partition_method").and_then(|word| word.parse().ok()).unwrap_or_default(),
    }
}

/// Whether a marker's data lies as the layout says; only TPC-B-like tables have several.
pub(crate) fn has_layout(marker: &Marker, dataset: Dataset, layout: Layout) -> bool {
    dataset != Dataset::Tpcb || marker.extra == layout_facts(layout)
}

/// The data of a workload in words.
pub fn words(workload: &WorkloadSpec) -> String {
    let WorkloadSpec { scale, layout, .. } = workload;
    if layout.is_plain() { format!("scale {scale}") } else { format!("scale {scale} in {layout}") }
}

/// Drops what may be dropped and runs `statements`, all or none.
pub(crate) fn replace_by(session: &mut Session, clearance: &Clearance, statements: &[String]) -> Result<()> {
    clearance.replace_by(session, statements).map_err(|error| match error.downcast::<SessionError>() {
        Ok(error) => locked_out(session, clearance, error),
        Err(error) => error,
    })
}

/// The error with what can be said about it.
pub(crate) fn explained(session: &mut Session, clearance: &Clearance, error: LoadError) -> anyhow::Error {
    const HALF: &str = "the data is not whole, and marked so; load it again";
    match error {
        LoadError::Statement { job, error, .. } => {
            locked_out(session, clearance, *error).context(format!("loading `{job}`")).context(HALF)
        }
        error => anyhow::Error::new(error).context(HALF),
    }
}

/// The error with the names of those who hold the locks, if that is what it is about.
fn locked_out(session: &mut Session, clearance: &Clearance, error: SessionError) -> anyhow::Error {
    const LOCK_NOT_AVAILABLE: &str = "55P03";
    if !matches!(&error, SessionError::Server(error) if error.sqlstate == LOCK_NOT_AVAILABLE)
        || session.execute("rollback").is_err()
    {
        return error.into();
    }
    let names: Vec<String> = clearance.tables.iter().map(|table| quote_literal(table)).collect();
    // All that is held conflicts with the lock of DROP and TRUNCATE. `pg_blocking_pids` would have to be asked
    // while waiting.
    let sql = format!(
        "select distinct l.pid, coalesce(a.application_name, ''), coalesce(a.state, '') from pg_catalog.pg_locks l \
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
    anyhow::Error::new(error).context(format!("the tables are locked by {who}; end that, or wait for it"))
}
