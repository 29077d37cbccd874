//! Rows that neither a load nor a transaction of a workload makes: their keys lie outside the population. Other rows of a user, and
//! values that a user has changed, cannot be distinguished from what a workload writes.
//!
//! Asked before anything is announced, and not between the runs of an experiment, whose own scripts may have added such rows.

use anyhow::{Context, Result};
use wire::session::Session;
use workload::objects::marker::MarkerState;
use workload::{Schema, tpcb, tpcc};

use crate::kind::Dataset;
use crate::session::LIMIT_LOCK_WAITS;
use crate::state;

/// Names and numbers of a population: the keys of a table are 1 to `last`.
struct Keys {
    table: &'static str,
    /// The first column of its primary key, so that the search is short.
    column: &'static str,
    last: u64,
}

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
    let found = search(session, schema, &keys(dataset, marker.scale));
    session.execute("rollback")?;
    found.context("look for rows that pgdyno did not load")
}

fn search(session: &mut Session, schema: &Schema, keys: &[Keys]) -> Result<Vec<String>> {
    session.execute(LIMIT_LOCK_WAITS)?;
    let mut found = Vec::new();
    for Keys { table, column, last } in keys {
        let name = schema.sql_name(table);
        let indexed = format!(
            "select count(*) from pg_catalog.pg_index where indisprimary and indrelid = {}::pg_catalog.regclass",
            wire::quote_literal(&state::quoted_name(schema.name(), table))
        );
        // Without its key, the whole table would have to be read.
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

fn keys(dataset: Dataset, scale: u32) -> Vec<Keys> {
    let tpcb = |table: tpcb::Table, column| Keys {
        table: table.name(),
        column,
        last: tpcb::row_count(table, scale),
    };
    let warehouses =
        |table: tpcc::Table, column| Keys { table: table.name(), column, last: u64::from(scale) };
    let items = |table: tpcc::Table, column| Keys { table: table.name(), column, last: tpcc::ITEMS };
    let stock = match dataset {
        // HammerDB's key begins with the item.
        Dataset::TprocC => items(tpcc::Table::Stock, "s_i_id"),
        _ => warehouses(tpcc::Table::Stock, "s_w_id"),
    };
    match dataset {
        Dataset::Tpcb => vec![
            tpcb(tpcb::Table::Accounts, "aid"),
            tpcb(tpcb::Table::Branches, "bid"),
            tpcb(tpcb::Table::Tellers, "tid"),
        ],
        Dataset::Tpcc | Dataset::TprocC => vec![
            items(tpcc::Table::Item, "i_id"),
            warehouses(tpcc::Table::Warehouse, "w_id"),
            warehouses(tpcc::Table::District, "d_w_id"),
            warehouses(tpcc::Table::Customer, "c_w_id"),
            stock,
            warehouses(tpcc::Table::Orders, "o_w_id"),
            warehouses(tpcc::Table::NewOrder, "no_w_id"),
            warehouses(tpcc::Table::OrderLine, "ol_w_id"),
        ],
    }
}
