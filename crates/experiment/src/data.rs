//! A workload's tables in a database: what is there. Loading them is `load.rs`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use model::experiment::case::WorkloadSpec;
use wire::session::{Session, SessionError, quote_ident, quote_literal};
use wire::{Conninfo, ServerError};
use workload::objects::marker::{Marker, MarkerState};
use workload::{Schema, tpcb, tpcc};

use crate::dataset::Dataset;
use crate::limit;
use crate::schema;

/// The workload named in markers: all three TPC-B-like kinds share one set of tables.
pub const TPCB_DATA: &str = "tpcb";

/// A workload's tables, and the schema that has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    /// Which tables.
    pub dataset: Dataset,
    /// Where.
    pub schema: Schema,
}

impl Home {
    /// The tables that a case runs on, if they are pgdyno's, in the schema that it names or that is the first searched.
    ///
    /// # Errors
    /// As [`schema::find`].
    pub fn of(session: &mut Session, workload: &WorkloadSpec) -> Result<Option<Home>> {
        let Some(dataset) = Dataset::of(&workload.data) else { return Ok(None) };
        Ok(Some(Home { dataset, schema: schema::find(session, workload.schema.as_deref())? }))
    }

    /// A table's name in records: those of the workload go without the schema, so that runs in two schemas compare.
    pub fn recorded<'a>(&self, table: &'a str) -> &'a str {
        let plain = table.strip_prefix(self.schema.name()).and_then(|rest| rest.strip_prefix('.'));
        plain.unwrap_or(table)
    }

    /// As `schema.table`.
    pub fn tables(&self) -> Vec<String> {
        self.dataset.tables_in(&self.schema)
    }
}

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

/// Looks at what is there in a schema.
///
/// # Errors
/// When the server fails, or a marker is not understood.
pub fn inspect(session: &mut Session, dataset: Dataset, schema: &Schema) -> Result<DataState> {
    let names: Vec<String> = dataset.tables().into_iter().map(quote_literal).collect();
    let sql = format!(
        "select c.relname as name, pg_catalog.obj_description(c.oid, 'pg_class') as comment \
         from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
         where n.nspname = {} and c.relname in ({}) order by 1",
        quote_literal(schema.name()),
        names.join(", ")
    );
    let found = session.query(&sql)?;
    let marked = (0..found.len()).find(|row| found.get(*row, "name") == Some(dataset.marked_table()));
    if let Some(comment) = marked.and_then(|row| found.get(row, "comment"))
        && let Some(marker) = Marker::parse(comment)?
        && marker.workload == dataset.name()
    {
        return Ok(match marker.state {
            MarkerState::Finished { .. } => DataState::Whole(marker),
            MarkerState::Loading => DataState::Half(marker),
        });
    }
    let tables: Vec<String> =
        (0..found.len()).filter_map(|row| Some(schema.plain_name(found.get(row, "name")?))).collect();
    if tables.is_empty() {
        return Ok(DataState::Absent);
    }
    let scale =
        match session.query(&format!("select count(*) from {}", schema.sql_name(dataset.marked_table()))) {
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

/// Says that a schema has no tables of the workload, and where else there are some.
///
/// # Errors
/// When the server fails.
pub(crate) fn absent(session: &mut Session, dataset: Dataset, schema: &Schema) -> Result<String> {
    let sql = format!(
        "select n.nspname from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace \
         where c.relname = {} and c.relkind in ('r', 'p') and n.nspname !~ '^pg_' order by 1 limit 1",
        quote_literal(dataset.marked_table())
    );
    let elsewhere = match session.query(&sql)?.scalar() {
        Some(other) => format!(", but schema `{other}` has: give --schema"),
        None if dataset == Dataset::Tpcb => "; load them with pgdyno init".to_string(),
        None => format!("; load them with pgdyno init -w {}", dataset.name()),
    };
    Ok(format!("schema `{}` has no {} tables{elsewhere}", schema.name(), dataset.title()))
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

/// How long a server may take to be reachable again after a load that ended well or in a crash.
const AGAIN_DEADLINE: Duration = Duration::from_secs(10);
/// Pause between two attempts to reach it.
const AGAIN_PAUSE: Duration = Duration::from_millis(100);
/// How long a count may take: somebody may hold a lock on a table.
const COUNT_TIMEOUT: Duration = Duration::from_secs(60);
/// The same for a run that was stopped: less than the time in which a stopped pgdyno ends.
const STOPPED_COUNT_TIMEOUT: Duration = Duration::from_secs(10);

/// Rows of each table after a load, and what is wrong with them, waiting a moment for a server that recovers from a crash.
///
/// # Errors
/// When the server cannot be reached, fails, or takes too long.
pub fn count_rows_after(
    conninfo: &Conninfo,
    home: Option<&Home>,
    tables: &[String],
    stop: &'static AtomicBool,
) -> Result<After> {
    let count = || count_when_reachable(conninfo, home, tables, stop);
    // Whoever stops a run wants its end soon, and still wants to know that the rows add up.
    let most = if stop.load(Ordering::Relaxed) { STOPPED_COUNT_TIMEOUT } else { COUNT_TIMEOUT };
    limit::within("count rows", most, count)
}

fn count_when_reachable(
    conninfo: &Conninfo,
    home: Option<&Home>,
    tables: &[String],
    stop: &'static AtomicBool,
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
    session.administer()?;
    let rows = count_rows(&mut session, home, tables)?;
    Ok(After { rows, violations: quick_check(&mut session, home)? })
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
pub fn quick_check(session: &mut Session, home: Option<&Home>) -> Result<BTreeMap<String, String>> {
    match home {
        Some(Home { dataset: Dataset::Tpcc | Dataset::TprocC, schema }) => {
            crate::tpcc::quick_check(session, schema)
        }
        Some(Home { dataset: Dataset::Tpcb, .. }) | None => Ok(BTreeMap::new()),
    }
}

/// A larger table is not counted: that would read it all, for longer than a run lasts, and push out of memory what
/// was put there before the load. The history, which proves the load, always is: it was written just now.
const COUNTED_BYTES_MAX: u64 = 1 << 30;

/// Rows of each table (`table` or `schema.table`), without the tables that are too large to be counted. Those of the
/// workload's own go by their names without the schema.
///
/// # Errors
/// When a table is missing or the server fails.
pub fn count_rows(
    session: &mut Session,
    home: Option<&Home>,
    tables: &[String],
) -> Result<BTreeMap<String, u64>> {
    let mut counts = BTreeMap::new();
    for table in tables {
        let (of_schema, plain) = table.rsplit_once('.').unwrap_or(("", table));
        let name = match of_schema {
            "" => quote_ident(plain),
            of_schema => format!("{}.{}", quote_ident(of_schema), quote_ident(plain)),
        };
        let key = home.map_or(table.as_str(), |home| home.recorded(table));
        // With its partitions, if it has any.
        let sql = format!(
            "with recursive t(oid) as (select {}::pg_catalog.regclass::oid union all \
             select i.inhrelid from pg_catalog.pg_inherits i join t on i.inhparent = t.oid) \
             select sum(pg_catalog.pg_relation_size(oid)) from t",
            quote_literal(&name)
        );
        let size = session.query(&sql)?;
        let bytes: u64 = size.scalar().and_then(|n| n.parse().ok()).context("a relation has a size")?;
        let is_history = key == tpcb::Table::History.name()
            || home.is_some_and(|home| key == home.dataset.history_table());
        if !is_history && bytes > COUNTED_BYTES_MAX {
            continue;
        }
        let rows = session.query(&format!("select count(*) from {name}"))?;
        let n = rows.scalar().and_then(|n| n.parse().ok()).context("count(*) gives a number")?;
        counts.insert(key.to_string(), n);
    }
    if let Some(Home { dataset: Dataset::Tpcc | Dataset::TprocC, schema }) = home {
        // Each district counts its own orders: exact, and cheap at any size.
        let rows = session.query(&schema.fill("select sum(d_next_o_id - 1) from @.district"))?;
        let n = rows.scalar().and_then(|n| n.parse().ok()).context("districts count their orders")?;
        counts.insert(tpcc::Table::Orders.name().to_string(), n);
    }
    Ok(counts)
}
