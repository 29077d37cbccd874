//! Loads a workload's tables into a database, marked as unfinished until they are whole.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use loader::tpcb::{LIMIT_LOCK_WAITS, TpcbLoad, default_streams, rows_total};
use loader::{LoadError, Sent, Streams};
use model::case::{Layout, PartitionMethod, WorkloadSpec};
use wire::session::{Session, SessionError};
use workload::marker::{Marker, MarkerState};
use workload::tpcb::{self, Partitioning, TpcbOptions};

use crate::data::{DataState, TPCB_DATA, inspect};
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
    /// Scale units.
    pub scale: u32,
    /// How accounts are cut.
    pub layout: Layout,
    /// Sessions that load side by side; by default one for each partition, at most one for each processor.
    pub n_streams: Option<u32>,
    /// Makes another session to the same database.
    pub connect: &'a dyn Fn() -> Result<Session>,
    /// Drop tables of the same names that pgdyno did not make.
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
        options: TpcbOptions { partitioning: partitioning(request.layout), ..TpcbOptions::default() },
        index_tablespace: None,
        version_num: session.server_version_num(),
    };
    refuse(session, request)?;
    // Before anything is dropped: the server may have no room for them.
    let mut others = connect_others(request)?;
    let n_streams = others.len() + 1;
    // At once: there are the old tables, or new ones that are marked as unfinished.
    let mut statements = vec![tpcb::drop_tables()];
    statements.extend(tpcb::create_tables(load.scale, &load.options));
    statements.push(marker(request, MarkerState::Loading).comment_sql());
    change(session, Dataset::Tpcb, &statements)?;

    let rows_total = rows_total(load.scale);
    let mut told = |sent: Sent| {
        // What comes after a table's rows is done side by side with the rows of others.
        let step = if sent.n_rows < rows_total { "rows" } else { "primary keys" };
        progress(LoadProgress { step, rows_done: sent.n_rows, rows_total });
    };
    let sessions = std::iter::once(&mut *session).chain(&mut others).collect();
    let filled = Streams { sessions, stop: request.stop }.run(load.whole(), &mut told);
    let sent = filled.map_err(|error| explained(session, Dataset::Tpcb, error))?;
    let finished =
        Streams { sessions: vec![session], stop: request.stop }.run(load.finish(), &mut |_| told(sent));
    finished.map_err(|error| explained(session, Dataset::Tpcb, error))?;
    ensure!(sent.n_rows == rows_total, "{} rows were sent instead of {rows_total}; load again", sent.n_rows);
    session.execute(&marker(request, MarkerState::Finished { at: (request.now)() }).comment_sql())?;
    let seconds = begun.elapsed().as_secs_f64();
    Ok(LoadReport { n_rows: sent.n_rows, data_bytes: sent.data_bytes, n_streams, seconds })
}

/// What must be found out before anything is touched.
fn refuse(session: &mut Session, request: &LoadRequest) -> Result<()> {
    if !request.layout.is_plain()
        && let Some(why) = release::lacks_partitions(session.server_version_num())
    {
        bail!(why);
    }
    refuse_foreign(session, Dataset::Tpcb, request.replace)
}

/// Fails when tables of others would be dropped without consent.
pub(crate) fn refuse_foreign(session: &mut Session, dataset: Dataset, replace: bool) -> Result<()> {
    if let DataState::Foreign { tables, .. } = inspect(session, dataset)?
        && !replace
    {
        bail!(
            "the database has tables that pgdyno did not make ({}); use another database, or pass --replace to drop them",
            tables.join(", ")
        );
    }
    Ok(())
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

/// Runs statements that lock the tables, all or none.
pub(crate) fn change(session: &mut Session, dataset: Dataset, statements: &[String]) -> Result<()> {
    session.execute("begin")?;
    session.execute(LIMIT_LOCK_WAITS)?;
    for statement in statements {
        session.execute(statement).map_err(|error| locked_out(session, dataset, error))?;
    }
    Ok(session.execute("commit")?)
}

/// The error with what can be said about it.
pub(crate) fn explained(session: &mut Session, dataset: Dataset, error: LoadError) -> anyhow::Error {
    const HALF: &str = "the data is not whole, and marked so; load it again";
    match error {
        LoadError::Statement { job, error, .. } => {
            locked_out(session, dataset, *error).context(format!("loading `{job}`")).context(HALF)
        }
        error => anyhow::Error::new(error).context(HALF),
    }
}

/// The error with the names of those who hold the locks, if that is what it is about.
fn locked_out(session: &mut Session, dataset: Dataset, error: SessionError) -> anyhow::Error {
    const LOCK_NOT_AVAILABLE: &str = "55P03";
    if !matches!(&error, SessionError::Server(error) if error.sqlstate == LOCK_NOT_AVAILABLE)
        || session.execute("rollback").is_err()
    {
        return error.into();
    }
    let names: Vec<String> = dataset.tables().iter().map(|table| format!("'{table}'")).collect();
    // All that is held conflicts with the lock of DROP and TRUNCATE. `pg_blocking_pids` would have to be asked
    // while waiting.
    let sql = format!(
        "select distinct l.pid, coalesce(a.application_name, ''), coalesce(a.state, '') from pg_catalog.pg_locks l \
         left join pg_catalog.pg_stat_activity a on a.pid = l.pid \
         where l.granted and l.pid <> pg_catalog.pg_backend_pid() \
         and l.database = (select oid from pg_catalog.pg_database where datname = current_database()) \
         and l.relation in (select pg_catalog.to_regclass(n)::oid from pg_catalog.unnest(array[{}]::text[]) n) \
         order by 1 limit 10",
        names.join(",")
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
