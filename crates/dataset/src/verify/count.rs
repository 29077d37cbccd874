//! Row counts of the tables after a run, to compare with the driver's counts.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use model::workload::Dataset;
use wire::Conninfo;
use wire::session::{Rows, Session, SessionError, quote_ident, quote_literal};
use workload::catalogue::{self, CountedTable};

use crate::session::{self, limit};
use crate::state::{WorkloadTables, expect_safe, is_filtered, quoted_name};
use crate::verify::quick_check;

/// Limit for a server to be reachable again after a load that ended normally or in a crash.
const AGAIN_DEADLINE: Duration = Duration::from_secs(10);

const AGAIN_PAUSE: Duration = Duration::from_millis(100);

/// Limit for a count: somebody may hold a lock on a table.
const COUNT_TIMEOUT: Duration = Duration::from_secs(60);

/// Limit in a run that was stopped: shorter than the time in which a stopped pgdyno ends.
const STOPPED_COUNT_TIMEOUT: Duration = Duration::from_secs(10);

/// Rows of each table after a load, and violations; waits a moment for a server that recovers from a crash.
///
/// # Errors
/// When the server cannot be reached, fails, or takes too long.
pub fn count_rows_after(
    conninfo: &Conninfo,
    home: Option<&WorkloadTables>,
    tables: &[String],
    stop: &'static AtomicBool,
) -> Result<StateAfterLoad> {
    let count = || count_when_reachable(conninfo, home, tables, stop);
    // A user who stops a run wants it to end soon, and still wants to know that the rows add up.
    let most = if stop.load(Ordering::Relaxed) { STOPPED_COUNT_TIMEOUT } else { COUNT_TIMEOUT };
    limit::within("count rows", most, count)
}

fn count_when_reachable(
    conninfo: &Conninfo,
    home: Option<&WorkloadTables>,
    tables: &[String],
    stop: &'static AtomicBool,
) -> Result<StateAfterLoad> {
    let begun = Instant::now();
    let mut session = loop {
        match Session::connect(conninfo) {
            Ok(session) => break session,
            Err(error) => {
                let is_late = begun.elapsed() >= AGAIN_DEADLINE || stop.load(Ordering::Relaxed);
                // A server in recovery answers, and says so; one that is gone does not answer.
                if is_late || error.server_error().is_none() || !error.is_temporary() {
                    return Err(error.into());
                }
                std::thread::sleep(AGAIN_PAUSE);
            }
        }
    };
    session::begin(&mut session, conninfo)?;
    // Somebody may have put other tables there during the load.
    home.iter().try_for_each(|home| expect_safe(&mut session, home))?;
    let rows = count_rows(&mut session, home, tables)?;
    Ok(StateAfterLoad { rows, violations: quick_check(&mut session, home)?, unfinished: BTreeMap::new() })
}

/// State of the data after a load.
pub struct StateAfterLoad {
    /// From [`count_rows`].
    pub rows: BTreeMap<String, u64>,
    /// From [`quick_check`], and checks of a workload directory.
    pub violations: BTreeMap<String, String>,
    /// Checks that were not made, with the reason.
    pub unfinished: BTreeMap<String, String>,
}

/// Larger tables are not counted: reading them could take longer than a run, and would evict from memory what was
/// cached before the load. The history, which proves the load, is always counted: it was written just now.
const COUNTED_BYTES_MAX: u64 = 1 << 30;

/// Rows of each table (`table` or `schema.table`), without those too large to be counted and those of which policies of
/// row security show the user only some. The workload's own tables are named without the schema.
///
/// # Errors
/// When a table is missing or the server fails.
pub fn count_rows(
    session: &mut Session,
    home: Option<&WorkloadTables>,
    tables: &[String],
) -> Result<BTreeMap<String, u64>> {
    let mut counts = BTreeMap::new();
    for table in tables {
        let (of_schema, plain) = table.rsplit_once('.').unwrap_or(("", table));
        let name = match of_schema {
            "" => quote_ident(plain),
            of_schema => quoted_name(of_schema, plain),
        };
        let key = home.map_or(table.as_str(), |home| home.recorded(table));
        // Including its partitions, if it has any.
        let sql = format!(
            "with recursive t(oid) as (select {}::pg_catalog.regclass::oid union all \
             select i.inhrelid from pg_catalog.pg_inherits i join t on i.inhparent = t.oid) \
             select sum(pg_catalog.pg_relation_size(oid)) from t",
            quote_literal(&name)
        );
        let size = session.query(&sql)?;
        let bytes: u64 = size.scalar().and_then(|n| n.parse().ok()).context("a relation has a size")?;
        let is_known = |dataset: &Dataset| {
            dataset.row().are_names_distinct || home.is_some_and(|home| home.dataset == *dataset)
        };
        let is_history =
            Dataset::ALL.iter().any(|dataset| is_known(dataset) && dataset.row().history_table == Some(key));
        if !is_history && bytes > COUNTED_BYTES_MAX {
            continue;
        }
        let Some(rows) = unless_filtered(session, &format!("select count(*) from {name}"), &name)? else {
            continue;
        };
        let n = rows.scalar().and_then(|n| n.parse().ok()).context("count(*) gives a number")?;
        counts.insert(key.to_string(), n);
    }
    if let Some(WorkloadTables { dataset, schema }) = home
        && let Some(CountedTable { table, by, sql }) = &catalogue::maker(*dataset).counted
        && let Some(rows) = unless_filtered(session, &schema.fill(sql), &quoted_name(schema.name(), by))?
    {
        let n = rows.scalar().and_then(|n| n.parse().ok());
        counts.insert(table.to_string(), n.with_context(|| format!("`{by}` counts the rows of `{table}`"))?);
    }
    Ok(counts)
}

/// The answer to a query that reads `table`; `None` if the server refuses because policies of row security apply to the
/// user, as it does in a session that administers.
fn unless_filtered(session: &mut Session, sql: &str, table: &str) -> Result<Option<Rows>> {
    match session.query(sql) {
        Ok(rows) => Ok(Some(rows)),
        Err(SessionError::Server(error)) if error.is_denied() => {
            if is_filtered(session, &[table.to_string()])? {
                Ok(None)
            } else {
                Err(SessionError::Server(error).into())
            }
        }
        Err(error) => Err(error.into()),
    }
}
