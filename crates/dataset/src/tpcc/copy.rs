//! The jobs that load the TPC-C tables: one per table, the largest first.
//!
//! One stream fills a table, so that its rows are written frozen. The three large tables (stock, order lines,
//! customers) have about the same size, so three streams are busy to the end and more would be idle.

use workload::Schema;
use workload::tpcc::{self, Population, Style, Table};
use workload::tprocc;

use crate::kind::Dataset;
use crate::streams::marked;
use crate::streams::{Copy, Job, Part, Step};
use crate::tpcb::copy::locking;

/// Tables in descending order of loading time.
const ORDER: [Table; 9] = [
    Table::OrderLine,
    Table::Stock,
    Table::Customer,
    Table::Orders,
    Table::History,
    Table::NewOrder,
    Table::Item,
    Table::District,
    Table::Warehouse,
];

/// Fills, vacuums and indexes every table; they have to exist.
pub fn fill(schema: &Schema, population: &Population) -> Vec<Job> {
    ORDER.into_iter().map(|table| job(table, schema, population)).collect()
}

fn job(table: Table, schema: &Schema, population: &Population) -> Job {
    let name = table.name();
    let mut rows = tpcc::Rows::new(table, population, 0..u64::MAX);
    let (dataset, sql, keys) = match population.style {
        Style::Spec => (
            Dataset::Tpcc,
            tpcc::copy_statement(schema, table, true),
            [tpcc::primary_keys(schema), tpcc::indexes(schema)].concat(),
        ),
        Style::HammerDb => (
            Dataset::TprocC,
            tprocc::copy_statement(schema, table),
            [tprocc::primary_keys(schema), tprocc::indexes(schema)].concat(),
        ),
    };
    let copy = Copy {
        table: name.to_string(),
        sql,
        rows: Box::new(move |out, max_bytes| rows.fill(out, max_bytes)),
    };
    let mut filled = marked::truncate(schema, dataset, name, marked::Rows::Own);
    filled.push(Part::Copy(copy));
    let keys = keys.into_iter().filter(|(of, _)| *of == table);
    let indexed = keys.map(|(_, sql)| locking(marked::alter(schema, dataset, name, sql)));
    let vacuumed = Step::Alone(format!("vacuum analyze {}", schema.sql_name(name)));
    Job::of(name, [locking(filled)].into_iter().chain(indexed).chain([vacuumed]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_is_created_by_the_job_of_its_table() {
        let population = Population { warehouses: 1, seed: 1, style: Style::Spec, at: String::new() };
        // Without the rows and VACUUM.
        let indexes = |job: &Job| job.steps.len() - 2;
        // A name that contains that of a table.
        let schema = Schema::named("a stock b");
        let jobs = fill(&schema, &population);
        assert_eq!(jobs.len(), tpcc::TABLES.len());
        let n_indexes: usize = jobs.iter().map(indexes).sum();
        assert_eq!(n_indexes, tpcc::primary_keys(&schema).len() + tpcc::indexes(&schema).len());
    }
}
