//! A workload's tables in a database: what is there. Loading them is `load.rs`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use wire::session::{Session, SessionError, quote_ident, quote_literal};
use wire::{Conninfo, ServerError};
use workload::marker::{Marker, MarkerState, read_sql_on};
use workload::{tpcb, tpcc};

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
        Err(SessionError::Server(error)) if error.sqlstate == INSUFFICIENT_PRIVILEGE => {
            return Err(unreadable(session, &tables, &error));
        }
        // A table of that name may be missing among the others, or be something else.
        Err(SessionError::Server(_)) => None,
        Err(error) => return Err(error.into()),
    };
    Ok(DataState::Foreign { scale, tables })
}

/// PostgreSQL's code of a permission that is lacking.
const INSUFFICIENT_PRIVILEGE: &str = "42501";

/// Tables that are there and must not be read are neither whole nor half loaded: nobody can tell.
fn unreadable(session: &Session, tables: &[String], error: &ServerError) -> anyhow::Error {
    let user = session.parameter("session_authorization").unwrap_or("the user");
    anyhow!(
        "`{user}` may not read what the database has ({}): {}; grant select on it, connect as its owner, or use another \
         database",
        tables.join(", "),
        error.message
    )
}

/// `to_regclass` takes `cstring` before 9.6 and text since; kept in one place should it change again.
fn sql_for_version(sql: &str, version_num: u32) -> String {
    if version_num < 90_600 {
        sql.replace("to_regclass(n)", "to_regclass(n::cstring)")
    } else {
        sql.to_string()
    }
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
pub fn count_rows_after(
    conninfo: &Conninfo,
    dataset: Option<Dataset>,
    tables: &[String],
    stop: &AtomicBool,
) -> Result<After> {
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
    let rows = count_rows(&mut session, dataset, tables)?;
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
pub fn quick_check(session: &mut Session, dataset: Option<Dataset>) -> Result<BTreeMap<String, String>> {
    match dataset {
        Some(Dataset::Tpcc | Dataset::TprocC) => crate::tpcc::quick_check(session),
        Some(Dataset::Tpcb) | None => Ok(BTreeMap::new()),
    }
}

/// A larger table is not counted: that would read it all, for longer than a run lasts, and push out of memory what
/// was put there before the load. The history, which proves the load, always is: it was written just now.
const COUNTED_BYTES_MAX: u64 = 1 << 30;

/// Rows of each table, by name, without the tables that are too large to be counted.
///
/// # Errors
/// When a table is missing or the server fails.
pub fn count_rows(
    session: &mut Session,
    dataset: Option<Dataset>,
    tables: &[String],
) -> Result<BTreeMap<String, u64>> {
    let mut counts = BTreeMap::new();
    for table in tables {
        let name = table.split('.').map(quote_ident).collect::<Vec<_>>().join(".");
        // With its partitions, if it has any.
        let sql = format!(
            "with recursive t(oid) as (select {}::pg_catalog.regclass::oid union all \
             select i.inhrelid from pg_catalog.pg_inherits i join t on i.inhparent = t.oid) \
             select sum(pg_catalog.pg_relation_size(oid)) from t",
            quote_literal(&name)
        );
        let size = session.query(&sql)?;
        let bytes: u64 = size.scalar().and_then(|n| n.parse().ok()).context("a relation has a size")?;
        let is_history = table == tpcb::Table::History.name()
            || dataset.is_some_and(|dataset| table == dataset.history_table());
        if !is_history && bytes > COUNTED_BYTES_MAX {
            continue;
        }
        let rows = session.query(&format!("select count(*) from {name}"))?;
        let n = rows.scalar().and_then(|n| n.parse().ok()).context("count(*) gives a number")?;
        counts.insert(table.clone(), n);
    }
    if matches!(dataset, Some(Dataset::Tpcc | Dataset::TprocC)) {
        // Each district counts its own orders: exact, and cheap at any size.
        let rows = session.query("select sum(d_next_o_id - 1) from district")?;
        let n = rows.scalar().and_then(|n| n.parse().ok()).context("districts count their orders")?;
        counts.insert(tpcc::Table::Orders.name().to_string(), n);
    }
    Ok(counts)
}
