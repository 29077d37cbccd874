//! A workload's tables in a database: what is there, and loading them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use wire::Conninfo;
use wire::session::{Session, SessionError};
use workload::marker::{Marker, MarkerState, read_sql_on};
use workload::tpcb::{self, TABLES, Table, TpcbOptions};
use workload::tpcc;

use crate::dataset::Dataset;

/// The workload named in markers: all three TPC-B-like kinds share one set of tables.
pub const TPCB_DATA: &str = "tpcb";

/// What a database holds of a workload's tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DataState {
    /// None of the tables.
    Absent,
    /// Whole, loaded by pgdyno.
    Whole(Marker),
    /// Begun by pgdyno and not finished.
    Half(Marker),
    /// Tables of these names that pgdyno did not make; with their scale, if it can be told.
    Foreign {
        /// Rows of the table that has one for each scale unit.
        scale: Option<u32>,
        /// The tables found.
        tables: Vec<String>,
    },
}

/// Looks at what is there.
///
/// # Errors
/// When the server fails, or a marker is not understood.
pub fn inspect(session: &mut Session, dataset: Dataset) -> Result<DataState> {
    if let Some(comment) = session.query(&read_sql_on(dataset.marked_table()))?.scalar()
        && let Some(marker) = Marker::parse(comment)?
        && marker.workload == dataset.name()
    {
        return Ok(match marker.state {
            MarkerState::Finished { .. } => DataState::Whole(marker),
            MarkerState::Loading => DataState::Half(marker),
        });
    }
    let names: Vec<String> = dataset.tables().iter().map(|table| format!("'{table}'")).collect();
    let sql = format!(
        "select c.oid::regclass::text as name from pg_catalog.pg_class c \
         where c.oid in (select pg_catalog.to_regclass(n)::oid from pg_catalog.unnest(array[{}]::text[]) n) order by 1",
        names.join(",")
    );
    let found = session.query(&sql_for_version(&sql, session.server_version_num()))?;
    let tables: Vec<String> =
        (0..found.len()).filter_map(|i| found.get(i, "name").map(str::to_string)).collect();
    if tables.is_empty() {
        return Ok(DataState::Absent);
    }
    let scale = match session.query(&format!("select count(*) from {}", dataset.marked_table())) {
        Ok(rows) => rows.scalar().and_then(|n| n.parse().ok()),
        Err(_) => None,
    };
    Ok(DataState::Foreign { scale, tables })
}

/// `to_regclass` takes `cstring` before 9.6 and text since; kept in one place should it change again.
fn sql_for_version(sql: &str, version_num: u32) -> String {
    if version_num < 90_600 {
        sql.replace("to_regclass(n)", "to_regclass(n::cstring)")
    } else {
        sql.to_string()
    }
}

/// How far a load is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadProgress {
    /// What is being done: `rows`, `primary keys`, `vacuum`.
    pub step: &'static str,
    /// Rows sent.
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
    /// Seconds in all.
    pub seconds: f64,
}

/// What to load and what may be lost by it.
#[derive(Clone, Copy)]
pub struct LoadRequest<'a> {
    /// Scale units.
    pub scale: u32,
    /// Drop tables of the same names that pgdyno did not make.
    pub replace: bool,
    /// When the load is finished, as written in the marker.
    pub now: &'a dyn Fn() -> String,
    /// Raised when the user wants to stop.
    pub stop: &'a AtomicBool,
}

/// Size of one piece of COPY data.
const PIECE_BYTES: usize = 64 * 1024;

/// Loads the TPC-B-like tables as pgbench makes them, marked as unfinished until they are whole.
///
/// # Errors
/// When tables are there that must not be dropped, when the server fails, or when `stop` is raised.
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

/// What is told of a load that the user stopped. It may have had no time to touch anything.
pub(crate) const STOPPED_LOADING: &str =
    "stopped while loading; `pgdyno check` tells whether the data is whole";

fn load_all(
    session: &mut Session,
    request: &LoadRequest<'_>,
    progress: &mut dyn FnMut(LoadProgress),
) -> Result<LoadReport> {
    let begun = Instant::now();
    refuse_foreign(session, Dataset::Tpcb, request.replace)?;
    let scale = request.scale;
    let marker = |state| Marker {
        workload: TPCB_DATA.to_string(),
        scale,
        tool_version: env!("CARGO_PKG_VERSION").to_string(),
        state,
        extra: Default::default(),
    };
    // At once: there are the old tables, or new ones that are marked as unfinished.
    let mut statements = vec![tpcb::drop_tables()];
    statements.extend(tpcb::create_tables(scale, &TpcbOptions::default()));
    statements.push(marker(MarkerState::Loading).comment_sql());
    change(session, &statements)?;
    let data_bytes = copy_rows(session, request, progress)?;

    let n_rows = rows_total(scale);
    let mut step = |name| progress(LoadProgress { step: name, rows_done: n_rows, rows_total: n_rows });
    step("vacuum");
    for table in TABLES {
        stop_if_asked(request.stop)?;
        session.execute(&format!("vacuum analyze {}", table.name()))?;
    }
    step("primary keys");
    for statement in tpcb::primary_keys() {
        stop_if_asked(request.stop)?;
        change(session, &[statement])?;
    }
    session.execute(&marker(MarkerState::Finished { at: (request.now)() }).comment_sql())?;
    Ok(LoadReport { n_rows, data_bytes, seconds: begun.elapsed().as_secs_f64() })
}

/// For the rest of the transaction: a lock that others do not give up is waited for at most half a minute, or as
/// long as the user set.
const LIMIT_LOCK_WAITS: &str = "select pg_catalog.set_config('lock_timeout', '30s', true) \
     where pg_catalog.current_setting('lock_timeout') = '0'";

/// Runs statements that lock the tables, all or none.
pub(crate) fn change(session: &mut Session, statements: &[String]) -> Result<()> {
    session.execute("begin")?;
    session.execute(LIMIT_LOCK_WAITS)?;
    for statement in statements {
        session.execute(statement).map_err(|error| locked_out(session, error))?;
    }
    Ok(session.execute("commit")?)
}

/// The error with the names of those who hold the locks, if that is what it is about.
fn locked_out(session: &mut Session, error: SessionError) -> anyhow::Error {
    const LOCK_NOT_AVAILABLE: &str = "55P03";
    if !matches!(&error, SessionError::Server(error) if error.sqlstate == LOCK_NOT_AVAILABLE)
        || session.execute("rollback").is_err()
    {
        return error.into();
    }
    let names: Vec<String> = TABLES.iter().map(|table| format!("'{}'", table.name())).collect();
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

fn rows_total(scale: u32) -> u64 {
    TABLES.iter().map(|&table| tpcb::row_count(table, scale)).sum()
}

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

/// One transaction truncates and fills all tables, so that rows can be written frozen.
fn copy_rows(
    session: &mut Session,
    request: &LoadRequest,
    progress: &mut dyn FnMut(LoadProgress),
) -> Result<u64> {
    session.execute("begin")?;
    session.execute(LIMIT_LOCK_WAITS)?;
    session.execute(&tpcb::truncate_tables()).map_err(|error| locked_out(session, error))?;
    let mut data_bytes = 0;
    let rows_total = rows_total(request.scale);
    let mut rows_done = 0;
    for table in TABLES {
        let n_rows = tpcb::row_count(table, request.scale);
        if table == Table::History {
            continue;
        }
        let mut rows = tpcb::Rows::new(table, request.scale, 0..n_rows);
        let copied = session
            .copy_in(&tpcb::copy_statement(table.name(), true), |out| {
                rows_done += rows.fill(out, PIECE_BYTES) as u64;
                progress(LoadProgress { step: "rows", rows_done, rows_total });
                rows.n_left() > 0 && !request.stop.load(Ordering::Relaxed)
            })
            .with_context(|| format!("loading `{}`", table.name()))?;
        // A stopped load must not pass for a whole one: the transaction is left open and rolls back.
        stop_if_asked(request.stop)?;
        if copied.n_rows != n_rows {
            bail!("the server took {} rows of `{}` instead of {n_rows}", copied.n_rows, table.name());
        }
        data_bytes += copied.data_bytes;
    }
    session.execute("commit")?;
    Ok(data_bytes)
}

fn stop_if_asked(stop: &AtomicBool) -> Result<()> {
    if stop.load(Ordering::Relaxed) {
        bail!(STOPPED_LOADING);
    }
    Ok(())
}

/// How long a server may take to be reachable again after a load that ended well or in a crash.
const AGAIN_DEADLINE: Duration = Duration::from_secs(10);
/// Pause between two attempts to reach it.
const AGAIN_PAUSE: Duration = Duration::from_millis(100);
/// How long a count may take: somebody may hold a lock on a table.
const COUNT_TIMEOUT: Duration = Duration::from_secs(60);

/// Rows of each table after a load, and what is wrong with them, waiting a moment for a server that recovers from a crash.
///
/// # Errors
/// When the server cannot be reached, fails, or takes too long.
pub fn count_rows_after(conninfo: &Conninfo, dataset: Dataset, stop: &AtomicBool) -> Result<After> {
    let begun = Instant::now();
    let mut session = loop {
        match Session::connect(conninfo) {
            Ok(session) => break session,
            Err(error) => {
                let is_late = begun.elapsed() >= AGAIN_DEADLINE || stop.load(Ordering::Relaxed);
                // A server that recovers answers, and says so; one that is gone does not answer.
                if is_late || error.server_error().is_none() || !error.is_temporary() {
                    return Err(error.into());
                }
                std::thread::sleep(AGAIN_PAUSE);
            }
        }
    };
    session.set_timeout(Some(COUNT_TIMEOUT));
    let rows = count_rows(&mut session, dataset)?;
    Ok(After { rows, violations: quick_check(&mut session, dataset)? })
}

/// The state of the data after a load.
pub struct After {
    /// As [`count_rows`] gives them.
    pub rows: BTreeMap<String, u64>,
    /// As [`quick_check`] gives them.
    pub violations: BTreeMap<String, String>,
}

/// Consistency conditions that are cheap to verify and broken, with an example of each.
///
/// # Errors
/// When the server fails.
pub fn quick_check(session: &mut Session, dataset: Dataset) -> Result<BTreeMap<String, String>> {
    match dataset {
        Dataset::Tpcb => Ok(BTreeMap::new()),
        Dataset::Tpcc | Dataset::TprocC => crate::tpcc::quick_check(session),
    }
}

/// A larger table is not counted: that would read it all, for longer than a run lasts, and push out of memory what
/// was put there before the load. The history, which proves the load, always is: it was written just now.
const COUNTED_BYTES_MAX: u64 = 1 << 30;

/// Rows of each table, by name, without the tables that are too large to be counted.
///
/// # Errors
/// When a table is missing or the server fails.
pub fn count_rows(session: &mut Session, dataset: Dataset) -> Result<BTreeMap<String, u64>> {
    let mut counts = BTreeMap::new();
    for table in dataset.tables() {
        let size = session.query(&format!("select pg_catalog.pg_relation_size('{table}')"))?;
        let bytes: u64 = size.scalar().and_then(|n| n.parse().ok()).context("a relation has a size")?;
        if table != dataset.history_table() && bytes > COUNTED_BYTES_MAX {
            continue;
        }
        let rows = session.query(&format!("select count(*) from {table}"))?;
        let n = rows.scalar().and_then(|n| n.parse().ok()).context("count(*) gives a number")?;
        counts.insert(table.to_string(), n);
    }
    if dataset != Dataset::Tpcb {
        // Each district counts its own orders: exact, and cheap at any size.
        let rows = session.query("select sum(d_next_o_id - 1) from district")?;
        let n = rows.scalar().and_then(|n| n.parse().ok()).context("districts count their orders")?;
        counts.insert(tpcc::Table::Orders.name().to_string(), n);
    }
    Ok(counts)
}
