//! Loads tables of which each is filled by one stream, so that its rows are written frozen; the table that takes the longest
//! first.

use std::time::Instant;

use anyhow::{Context, Result};
use model::workload::Dataset;
use wire::session::Session;
use workload::Schema;
use workload::objects::filling::{Batch, ByTable, TableLoad};
use workload::objects::marker::{Marker, MarkerState};

use crate::clearance::Clearance;
use crate::kind;
use crate::layout;
use crate::load::{self, LoadProgress, LoadReport, LoadRequest};
use crate::loading::tpcb::copy::locking;
use crate::streams::marked;
use crate::streams::tablespace;
use crate::streams::{Copy, JobStep, StreamJob, Streams, TransactionPart};

/// Loads the tables, which are marked as unfinished until they are complete.
///
/// # Errors
/// When there are tables that must not be dropped, when the server fails, or when `stop` is set.
pub(crate) fn load(
    session: &mut Session,
    dataset: Dataset,
    tables: &ByTable,
    request: &LoadRequest<'_>,
    progress: &mut dyn FnMut(LoadProgress),
) -> Result<LoadReport> {
    let begun = Instant::now();
    let schema = request.schema;
    let names = layout::all_tables(dataset, request.scale, request.layout);
    let clearance = Clearance { dataset, schema, tables: &names, consent: request.consent };
    clearance.check(session)?;

    let at = session.query("select date_trunc('second', now())::text")?;
    let at = at.scalar().context("the server has a clock")?.to_string();
    let batch = Batch { scale: request.scale, at };
    let mut facts = (tables.facts)(&batch);
    facts.extend(layout::layout_facts(layout::of_dataset(dataset, request.layout)));
    facts.extend(layout::tablespace_fact(request.tablespace));
    let marker = |state| Marker {
        workload: dataset.name().to_string(),
        scale: request.scale,
        tool_version: env!("CARGO_PKG_VERSION").to_string(),
        state,
        oid: None,
        extra: facts.clone(),
    };

    // Before anything is dropped: the server might not have enough connection slots.
    let n_cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let n_streams = request.n_streams.map_or(n_cpus.min(tables.streams_max).max(1), |n| n as usize);
    let mut others: Vec<Session> = (1..n_streams).map(|_| (request.connect)()).collect::<Result<_>>()?;
    let created = layout::statements(request.layout, (tables.create_tables)(schema));
    let mut statements = tablespace::first(request.tablespace, created);
    let routines = kind::routines(dataset, schema, session.server_version_num());
    statements.extend(routines.into_iter().map(|(_, statement)| statement));
    load::replace_by(session, &clearance, &statements, &marker(MarkerState::Loading))?;

    let rows_total = (tables.rows_about)(request.scale);
    let streams =
        Streams { sessions: std::iter::once(&mut *session).chain(&mut others).collect(), stop: request.stop };
    let jobs = fill(schema, dataset, (tables.fill)(schema, &batch));
    let filled = streams.run(tablespace::within(request.tablespace, jobs), &mut |sent| {
        // The number of rows might be known only after they have been generated.
        let rows_done = sent.n_rows.min(rows_total);
        let step = if rows_done == rows_total { "indexes" } else { "rows" };
        progress(LoadProgress { step, rows_done, rows_total });
    });
    let sent = filled.map_err(|error| load::explained(session, &clearance, error))?;
    load::finish(session, &clearance, &marker, sent.n_rows, (request.now)())?;
    let seconds = begun.elapsed().as_secs_f64();
    let stored_bytes = load::stored_bytes(session, schema, &names);
    Ok(LoadReport { n_rows: sent.n_rows, stored_bytes, n_streams, seconds })
}

/// The jobs that fill, vacuum and index every table; they have to exist.
pub fn fill(schema: &Schema, dataset: Dataset, tables: Vec<TableLoad>) -> Vec<StreamJob> {
    tables.into_iter().map(|table| job(schema, dataset, table)).collect()
}

fn job(schema: &Schema, dataset: Dataset, table: TableLoad) -> StreamJob {
    let TableLoad { name, copy, keys, rows } = table;
    let copy = Copy { table: name.to_string(), sql: copy, rows };
    let mut filled = marked::truncate(schema, dataset, name, marked::RowsToRemove::Own);
    filled.push(TransactionPart::Copy(copy));
    let indexed = keys.into_iter().map(|sql| locking(marked::alter(schema, dataset, name, sql)));
    let vacuumed = JobStep::Alone(format!("vacuum analyze {}", schema.sql_name(name)));
    StreamJob::new(name, [locking(filled)].into_iter().chain(indexed).chain([vacuumed]).collect())
}

#[cfg(test)]
mod tests {
    use workload::tpcc::{self, Population, PopulationStyle};

    use super::*;

    #[test]
    fn every_index_is_created_by_the_job_of_its_table() {
        let population =
            Population { warehouses: 1, seed: 1, style: PopulationStyle::Spec, at: String::new() };
        // Without the rows and VACUUM.
        let indexes = |job: &StreamJob| job.steps.len() - 2;
        // A name that contains that of a table.
        let schema = Schema::named("a stock b");
        let jobs = fill(&schema, Dataset::Tpcc, tpcc::fill(&schema, &population));
        assert_eq!(jobs.len(), tpcc::TABLES.len());
        let n_indexes: usize = jobs.iter().map(indexes).sum();
        assert_eq!(n_indexes, tpcc::primary_keys(&schema).len() + tpcc::indexes(&schema).len());
    }
}
