//! Takes tables that somebody restored for those of a workload: after they were verified, they are marked as complete, and
//! routines that the workload calls and the tables came without are created.

use anyhow::{Context, Result, bail, ensure};
use model::experiment::case::{Layout, WorkloadKind};
use model::workload::Dataset;
use wire::quote_literal;
use wire::session::Session;
use workload::objects::marker::{Marker, MarkerState};

use crate::check::CheckReport;
use crate::state::{self, DataState, WorkloadTables};
use crate::{kind, layout, verify};

/// Properties that the tables must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableCriteria {
    /// Branches or warehouses.
    pub scale: u32,
    /// Partitioning of accounts, and whether the tables are UNLOGGED.
    pub layout: Layout,
    /// The current time, as written in the marker.
    pub at: String,
}

/// Verifies tables that pgdyno, pgbench or HammerDB made elsewhere, and marks them.
///
/// # Errors
/// When they are not complete, of another scale or layout, or violate an invariant; or when the server fails.
pub fn adopt(session: &mut Session, home: &WorkloadTables, wanted: &TableCriteria) -> Result<()> {
    let WorkloadTables { dataset, schema } = home;
    let marker = match state::inspect(session, *dataset, schema)? {
        DataState::Absent => bail!(state::absent(session, *dataset, schema)?),
        DataState::Half(_) => {
            bail!("the archive was made while pgdyno loaded the data, which is not complete")
        }
        DataState::Whole(marker) => marker,
        DataState::Foreign { scale, tables } => {
            ensure!(
                tables.len() == dataset.tables().len(),
                "of the {} tables, schema `{}` has only {}",
                dataset.title(),
                schema.name(),
                tables.join(", ")
            );
            expect_plain(session, home)?;
            foreign(*dataset, scale.context("the tables have no rows that can be counted")?)
        }
    };
    ensure!(
        marker.scale == wanted.scale,
        "the archive holds scale {0}, not {1}; give --scale {0}",
        marker.scale,
        wanted.scale
    );
    ensure!(
        layout::has_layout(&marker, *dataset, wanted.layout),
        "the archive holds tables in another layout; set workload.partitions = {}, workload.partition_method = \"{}\" and \
         workload.unlogged = {}",
        layout::layout_of(&marker).partitions,
        layout::layout_of(&marker).partition_method.as_str(),
        layout::layout_of(&marker).unlogged
    );
    expect_sound(session, home)?;
    create_routines(session, home)?;
    let oid = session.query(&format!(
        "select {}::pg_catalog.regclass::pg_catalog.oid",
        quote_literal(&schema.sql_name(dataset.marked_table()))
    ))?;
    let oid = oid.scalar().and_then(|oid| oid.parse().ok()).context("a table has an OID")?;
    let marker = layout::without_tablespace(marker);
    let marker = Marker { state: MarkerState::Finished { at: wanted.at.clone() }, ..marker }.on(oid);
    Ok(session.execute(&marker.comment_sql_on(&schema.sql_name(dataset.marked_table())))?)
}

/// The marker of tables that another program made.
fn foreign(dataset: Dataset, scale: u32) -> Marker {
    Marker {
        workload: dataset.name().to_string(),
        scale,
        tool_version: env!("CARGO_PKG_VERSION").to_string(),
        state: MarkerState::Loading,
        oid: None,
        extra: Default::default(),
    }
}

/// Fails for partitions that no marker describes: names and bounds are then unknown.
fn expect_plain(session: &mut Session, home: &WorkloadTables) -> Result<()> {
    let names: Vec<String> = home.dataset.tables().into_iter().map(quote_literal).collect();
    let sql = format!(
        "select p.relname from pg_catalog.pg_inherits i join pg_catalog.pg_class p on p.oid = i.inhparent \
         join pg_catalog.pg_namespace n on n.oid = p.relnamespace where n.nspname = {} and p.relname in ({}) limit 1",
        quote_literal(home.schema.name()),
        names.join(", ")
    );
    match session.query(&sql)?.scalar() {
        Some(table) => {
            bail!("table `{table}` has partitions that pgdyno did not make; use it with your own scripts")
        }
        None => Ok(()),
    }
}

/// Fails if an invariant is violated. Balances may be those that any of the workloads leaves that write to the tables.
fn expect_sound(session: &mut Session, home: &WorkloadTables) -> Result<()> {
    let writes = |kind: &WorkloadKind| {
        let row = kind.row();
        row.data == home.dataset && !kind.is_own() && !row.only_reads()
    };
    let mut broken: Option<CheckReport> = None;
    for kind in WorkloadKind::ALL.into_iter().filter(writes) {
        let report = verify::check(session, kind, Some(home.schema.name()))?;
        if report.is_sound() {
            return Ok(());
        }
        broken.get_or_insert(report);
    }
    let violated: Vec<String> = broken
        .into_iter()
        .flat_map(|report| report.results)
        .filter_map(|result| Some(format!("{} ({})", result.title, result.violations.first()?)))
        .collect();
    bail!("its tables are not consistent {} data: violated: {}", home.dataset.title(), violated.join("; "))
}

/// Creates the routines that the schema lacks. Existing ones stay: they belong to who made the tables.
fn create_routines(session: &mut Session, home: &WorkloadTables) -> Result<()> {
    for (signature, statement) in kind::routines(home.dataset, &home.schema, session.server_version_num()) {
        let sql = format!(
            "select 1 from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace \
             where n.nspname = {} and p.proname = {} and pg_catalog.oidvectortypes(p.proargtypes) = {}",
            quote_literal(home.schema.name()),
            quote_literal(&signature.name),
            quote_literal(&signature.types)
        );
        if session.query(&sql)?.is_empty() {
            session.execute(&statement)?;
        }
    }
    Ok(())
}
