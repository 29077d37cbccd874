//! Rows that neither a load nor a transaction of a workload makes: their keys lie outside the population. Other rows of a user, and
//! values that a user has changed, cannot be distinguished from what a workload writes.
//!
//! Asked before anything is announced, and not between the runs of an experiment, whose own scripts may have added such rows.

use anyhow::{Context, Result};
use model::workload::Dataset;
use model::workload::data::TableSpec;
use wire::session::Session;
use workload::Schema;
use workload::objects::marker::MarkerState;

use crate::session::LIMIT_LOCK_WAITS;
use crate::state;

/// Tables with such rows, if the tables are complete ones of a load. The caller knows that reading them runs nobody's code.
///
/// # Errors
/// When the server fails.
pub(super) fn added(session: &mut Session, dataset: Dataset, schema: &Schema) -> Result<Vec<String>> {
    let Some(marker) = state::marker(session, dataset, schema)? else { return Ok(Vec::new()) };
    if marker.state == MarkerState::Loading {
        return Ok(Vec::new());
    }
    session.execute("begin")?;
    let found = search(session, schema, dataset, marker.scale);
    session.execute("rollback")?;
    found.context("look for rows that pgdyno did not load")
}

fn search(session: &mut Session, schema: &Schema, dataset: Dataset, scale: u32) -> Result<Vec<String>> {
    session.execute(LIMIT_LOCK_WAITS)?;
    let mut found = Vec::new();
    for TableSpec { name: table, key } in dataset.row().tables {
        let Some((column, last)) = key else { continue };
        let last = last.at(scale);
        let name = schema.sql_name(table);
        let indexed = format!(
            "select count(*) from pg_catalog.pg_index where indisprimary and indrelid = pg_catalog.to_regclass({})",
            wire::quote_literal(&state::quoted_name(schema.name(), table))
        );
        // Without its key, the whole table would have to be read; somebody may have dropped it.
        if session.query(&indexed)?.scalar() != Some("1") {
            continue;
        }
        let sql = format!("select exists (select 1 from {name} where {column} < 1 or {column} > {last})");
        if session.query(&sql)?.scalar() == Some("t") {
            found.push(format!(
                "rows of `{}` with `{column}` below 1 or above {last}",
                schema.plain_name(table)
            ));
        }
    }
    Ok(found)
}
