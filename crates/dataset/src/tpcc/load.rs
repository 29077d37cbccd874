//! Loads the tables of TPC-C.

use std::time::Instant;

use anyhow::{Context, Result};
use wire::session::Session;
use workload::objects::marker::{Marker, MarkerState};
use workload::tpcc::{self, Population, TABLES};

use crate::clearance::Clearance;
use crate::kind::TpccVariant;
use crate::layout;
use crate::load::{self, LoadProgress, LoadReport, LoadRequest};
use crate::streams::Streams;

/// Seed of the rows: a constant, so that all databases of a scale are equal.
const POPULATION_SEED: u64 = 1;
/// Key in the load marker for C-Load of last names (clause 2.1.6.1).
pub const C_LOAD: &str = "c_load";
/// Streams that find work at the same time: there are three large tables.
const STREAMS_MAX: usize = 3;
/// Mean number of lines per order.
const LINES_PER_ORDER: u64 = 10;

/// Loads the tables, which are marked as unfinished until they are complete.
///
/// # Errors
/// When there are tables that must not be dropped, when the server fails, or when `stop` is set.
pub(crate) fn load(
    session: &mut Session,
    variant: &TpccVariant,
    request: &LoadRequest<'_>,
    progress: &mut dyn FnMut(LoadProgress),
) -> Result<LoadReport> {
    let begun = Instant::now();
    let TpccVariant { dataset, style, create_tables, .. } = *variant;
    let schema = request.schema;
    let tables = layout::all_tables(dataset, request.scale, request.layout);
    let clearance = Clearance { dataset, schema, tables: &tables, consent: request.consent };
    clearance.check(session)?;
    let at = session.query("select date_trunc('second', now())::text")?;
    let at = at.scalar().context("the server has a clock")?.to_string();
    let population = Population { warehouses: request.scale, seed: POPULATION_SEED, style, at };
    let marker = |state| {
        let c_load = population.constants().c_last.to_string();
        Marker {
            workload: dataset.name().to_string(),
            scale: request.scale,
            tool_version: env!("CARGO_PKG_VERSION").to_string(),
            state,
            oid: None,
            extra: [(C_LOAD.to_string(), c_load)].into(),
        }
    };
    // Before anything is dropped: the server might not have enough connection slots.
    let n_cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let n_streams = request.n_streams.map_or(n_cpus.clamp(1, STREAMS_MAX), |n| n as usize);
    let mut others: Vec<Session> = (1..n_streams).map(|_| (request.connect)()).collect::<Result<_>>()?;
    let mut statements = create_tables(schema);
    let routines = dataset.routines(schema, session.server_version_num());
    statements.extend(routines.into_iter().map(|(_, statement)| statement));
    load::replace_by(session, &clearance, &statements, &marker(MarkerState::Loading))?;

    let rows_total = rows_about(request.scale);
    let streams =
        Streams { sessions: std::iter::once(&mut *session).chain(&mut others).collect(), stop: request.stop };
    let filled = streams.run(crate::tpcc::copy::fill(schema, &population), &mut |sent| {
        // The number of order lines is known only after they have been generated.
        let rows_done = sent.n_rows.min(rows_total);
        let step = if rows_done == rows_total { "indexes" } else { "rows" };
        progress(LoadProgress { step, rows_done, rows_total });
    });
    let sent = filled.map_err(|error| load::explained(session, &clearance, error))?;
    load::finish(session, &clearance, &marker, (sent.n_rows, (request.now)()))?;
    let seconds = begun.elapsed().as_secs_f64();
    let stored_bytes = load::stored_bytes(session, schema, &tables);
    Ok(LoadReport { n_rows: sent.n_rows, stored_bytes, n_streams, seconds })
}

fn rows_about(warehouses: u32) -> u64 {
    let rows = |table: tpcc::Table| match table {
        tpcc::Table::OrderLine => table.units(warehouses) * LINES_PER_ORDER,
        _ => table.units(warehouses),
    };
    TABLES.into_iter().map(rows).sum()
}
