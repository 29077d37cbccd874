//! Loads the TPC-B-like tables as pgbench does.

use std::time::Instant;

use anyhow::{Result, bail, ensure};
use model::workload::Dataset;
use wire::session::Session;
use workload::objects::marker::{Marker, MarkerState};
use workload::tpcb::{self, TpcbOptions};

use crate::clearance::Clearance;
use crate::layout::{self, all_tables, lacks_partitions, layout_facts, partitioning, tablespace_fact};
use crate::load::{LoadProgress, LoadReport, LoadRequest, explained, finish, replace_by, stored_bytes};
use crate::loading::tpcb::copy::{TpcbLoad, default_streams, rows_total};
use crate::streams::tablespace;
use crate::streams::{SentTotal, Streams};

/// Loads the TPC-B-like tables as pgbench does.
///
/// # Errors
/// When there are tables that must not be dropped, when the server or one of the streams fails, or when `stop` is set.
pub(crate) fn load(
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
    if request.layout.partitions > 0
        && let Some(why) = lacks_partitions(session.server_version_num())
    {
        bail!(why);
    }
    let tables = all_tables(Dataset::Tpcb, request.scale, request.layout);
    let clearance = Clearance {
        dataset: Dataset::Tpcb,
        schema: request.schema,
        tables: &tables,
        consent: request.consent,
    };
    clearance.check(session)?;
    // Before anything is dropped: the server might not have enough connection slots.
    let mut others = connect_others(request)?;
    let n_streams = others.len() + 1;
    // In one transaction: the tables are the old ones, or new ones that are marked as unfinished.
    let created = layout::statements(request.layout, tpcb::create_tables(load.scale, &load.options));
    let statements = tablespace::first(request.tablespace, created);
    replace_by(session, &clearance, &statements, &marker(request, MarkerState::Loading))?;

    let rows_total = rows_total(load.scale);
    let mut told = |sent: SentTotal| {
        // The steps after a table's rows run concurrently with the rows of other tables.
        let step = if sent.n_rows < rows_total { "rows" } else { "primary keys" };
        progress(LoadProgress { step, rows_done: sent.n_rows, rows_total });
    };
    let sessions = std::iter::once(&mut *session).chain(&mut others).collect();
    let within = |jobs| tablespace::within(request.tablespace, jobs);
    let filled = Streams { sessions, stop: request.stop }.run(within(load.whole()), &mut told);
    let sent = filled.map_err(|error| explained(session, &clearance, error))?;
    let finished = Streams { sessions: vec![session], stop: request.stop }
        .run(within(load.finish()), &mut |_| told(sent));
    finished.map_err(|error| explained(session, &clearance, error))?;
    ensure!(sent.n_rows == rows_total, "{} rows were sent instead of {rows_total}; load again", sent.n_rows);
    let marker = |state| marker(request, state);
    finish(session, &clearance, &marker, sent.n_rows, (request.now)())?;
    let seconds = begun.elapsed().as_secs_f64();
    let stored_bytes = stored_bytes(session, request.schema, &tables);
    Ok(LoadReport { n_rows: sent.n_rows, stored_bytes, n_streams, seconds })
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

/// Contents of the tables' comments.
fn marker(request: &LoadRequest, state: MarkerState) -> Marker {
    Marker {
        workload: Dataset::Tpcb.name().to_string(),
        scale: request.scale,
        tool_version: env!("CARGO_PKG_VERSION").to_string(),
        state,
        oid: None,
        extra: layout_facts(request.layout).into_iter().chain(tablespace_fact(request.tablespace)).collect(),
    }
}
