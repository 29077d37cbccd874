//! How the tables of TPC-C are filled: each by one stream, so that its rows are written frozen.

use std::collections::BTreeMap;

use super::{
    Population, PopulationStyle, TABLES, TpccRows, TpccTable, copy_statement, create_tables, indexes,
    primary_keys,
};
use crate::objects::filling::{Batch, ByTable, TableLoad};
use crate::objects::schema::Schema;

/// Seed of the rows: a constant, so that all databases of a scale are equal.
const SEED: u64 = 1;
/// Key in the load marker for C-Load of last names (clause 2.1.6.1).
pub const C_LOAD: &str = "c_load";
/// Streams that find work at the same time: stock, order lines and customers have about the same size.
const STREAMS_MAX: usize = 3;
/// Mean number of lines per order.
const LINES_PER_ORDER: u64 = 10;

/// Tables in descending order of loading time.
const ORDER: [TpccTable; 9] = [
    TpccTable::OrderLine,
    TpccTable::Stock,
    TpccTable::Customer,
    TpccTable::Orders,
    TpccTable::History,
    TpccTable::NewOrder,
    TpccTable::Item,
    TpccTable::District,
    TpccTable::Warehouse,
];

/// The tables as specified.
pub(crate) const FILLING: ByTable = ByTable {
    create_tables,
    fill: |schema, batch| fill(schema, &population(batch, PopulationStyle::Spec)),
    facts: |batch| facts(&population(batch, PopulationStyle::Spec)),
    rows_about,
    streams_max: STREAMS_MAX,
};

/// The population of a load.
pub(crate) fn population(batch: &Batch, style: PopulationStyle) -> Population {
    Population { warehouses: batch.scale, seed: SEED, style, at: batch.at.clone() }
}

/// The tables with their rows and keys.
pub fn fill(schema: &Schema, population: &Population) -> Vec<TableLoad> {
    let keys = [primary_keys(schema), indexes(schema)].concat();
    tables(population, |table| copy_statement(schema, table, true), &keys)
}

/// The tables with their rows, the COPY of each, and those of these keys that are theirs.
pub(crate) fn tables(
    population: &Population,
    copy: impl Fn(TpccTable) -> String,
    keys: &[(TpccTable, String)],
) -> Vec<TableLoad> {
    let load = |table: TpccTable| {
        let mut rows = TpccRows::new(table, population, 0..u64::MAX);
        TableLoad {
            name: table.name(),
            copy: copy(table),
            keys: keys.iter().filter(|(of, _)| *of == table).map(|(_, sql)| sql.clone()).collect(),
            rows: Box::new(move |out, max_bytes| rows.fill(out, max_bytes)),
        }
    };
    ORDER.map(load).into()
}

/// What the load marker notes about a population.
pub(crate) fn facts(population: &Population) -> BTreeMap<String, String> {
    [(C_LOAD.to_owned(), population.constants().c_last.to_string())].into()
}

fn rows_about(warehouses: u32) -> u64 {
    let rows = |table: TpccTable| match table {
        TpccTable::OrderLine => table.units(warehouses) * LINES_PER_ORDER,
        _ => table.units(warehouses),
    };
    TABLES.into_iter().map(rows).sum()
}
