//! A workload's tables in a database: what is there, and loading them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use wire::Conninfo;
use wire::session::Session;
use workload::marker::{Marker, MarkerState, READ_SQL};
use workload::tpcb::{self, TABLES, Table, TpcbOptions};

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
        /// Rows of `pgbench_branches`.
        scale: Option<u32>,
        /// The tables found.
        tables: Vec<String>,
    },
}

/// Looks at what is there.
///
/// # Errors
/// When the server fails, or a marker is not understood.
pub fn inspect(session: &mut Session) -> Result<DataState> {
    if let Some(comment) = session.query(READ_SQL)?.scalar()
        && let Some(marker) = Marker::parse(comment)?
    {
        return Ok(match marker.state {
            MarkerState::Finished { .. } => DataState::Whole(marker),
            MarkerState::Loading => DataState::Half(marker),
        });
    }
    let names: Vec<String> = TABLES.iter().map(|table| format!("'{}'", table.name())).collect();
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
    let scale = match session.query("select count(*) from pgbench_branches") {
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
    let begun = Instant::now();
    refuse_foreign(session, request.replace)?;
    let scale = request.scale;
    let marker = |state| Marker {
        workload: TPCB_DATA.to_string(),
        scale,
        tool_version: env!("CARGO_PKG_VERSION").to_string(),
        state,
        extra: Default::default(),
    };
    session.execute(&tpcb::drop_tables())?;
    for statement in tpcb::create_tables(scale, &TpcbOptions::default()) {
        session.execute(&statement)?;
    }
    session.execute(&marker(MarkerState::Loading).comment_sql())?;
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
        session.execute(&statement)?;
    }
    session.execute(&marker(MarkerState::Finished { at: (request.now)() }).comment_sql())?;
    Ok(LoadReport { n_rows, data_bytes, seconds: begun.elapsed().as_secs_f64() })
}

fn rows_total(scale: u32) -> u64 {
    TABLES.iter().map(|&table| tpcb::row_count(table, scale)).sum()
}

fn refuse_foreign(session: &mut Session, replace: bool) -> Result<()> {
    if let DataState::Foreign { tables, .. } = inspect(session)?
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
    session.execute(&tpcb::truncate_tables())?;
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
            .copy_in(&tpcb::copy_statement(table, true), |out| {
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
        bail!("stopped while loading; the tables are marked as unfinished");
    }
    Ok(())
}

/// How long a server may take to be reachable again after a load that ended well or in a crash.
const AGAIN_DEADLINE: Duration = Duration::from_secs(10);
/// Pause between two attempts to reach it.
const AGAIN_PAUSE: Duration = Duration::from_millis(100);
/// How long a count may take: somebody may hold a lock on a table.
const COUNT_TIMEOUT: Duration = Duration::from_secs(60);

/// Rows of each table after a load, waiting a moment for a server that recovers from a crash.
///
/// # Errors
/// When the server cannot be reached, fails, or takes too long.
pub fn count_rows_after(conninfo: &Conninfo, stop: &AtomicBool) -> Result<BTreeMap<String, u64>> {
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
    count_rows(&mut session)
}

/// A larger table is not counted: that would read it all, for longer than a run lasts, and push out of memory what
/// was put there before the load. The history, which proves the load, always is: it was written just now.
const COUNTED_BYTES_MAX: u64 = 1 << 30;

/// Rows of each table, by name, without the tables that are too large to be counted.
///
/// # Errors
/// When a table is missing or the server fails.
pub fn count_rows(session: &mut Session) -> Result<BTreeMap<String, u64>> {
    let mut counts = BTreeMap::new();
    for table in TABLES {
        let size = session.query(&format!("select pg_catalog.pg_relation_size('{}')", table.name()))?;
        let bytes: u64 = size.scalar().and_then(|n| n.parse().ok()).context("a relation has a size")?;
        if table != Table::History && bytes > COUNTED_BYTES_MAX {
            continue;
        }
        let rows = session.query(&format!("select count(*) from {}", table.name()))?;
        let n = rows.scalar().and_then(|n| n.parse().ok()).context("count(*) gives a number")?;
        counts.insert(table.name().to_string(), n);
    }
    Ok(counts)
}
