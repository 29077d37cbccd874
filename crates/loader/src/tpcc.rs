//! Which work the TPC-C tables are: a job for each table, the largest first.
//!
//! One stream fills a table, so that its rows are written frozen; the three large tables (stock, order lines,
//! customers) have about the same size, so three streams are busy to the end and more find nothing to do.

use workload::tpcc::{self, Population, Style, Table};
use workload::tprocc;

use crate::streams::{Copy, Job, Part, Step};
use crate::tpcb::LIMIT_LOCK_WAITS;

/// Tables by the time that loading them takes.
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

/// Fills, vacuums and indexes every table; they must exist.
pub fn fill(population: &Population) -> Vec<Job> {
    ORDER.into_iter().map(|table| job(table, population)).collect()
}

fn job(table: Table, population: &Population) -> Job {
    let name = table.name();
    let mut rows = tpcc::Rows::new(table, population, 0..u64::MAX);
    let copy = Copy {
        table: name.to_string(),
        sql: match population.style {
            Style::Spec => tpcc::copy_statement(table, true),
            Style::HammerDb => tprocc::copy_statement(table),
        },
        rows: Box::new(move |out, max_bytes| rows.fill(out, max_bytes)),
    };
    let filled = Step::Transaction(vec![
        Part::Execute(LIMIT_LOCK_WAITS.to_string()),
        Part::Execute(format!("truncate table {name}")),
        Part::Copy(copy),
    ]);
    let is_of = |sql: &&String| sql.contains(&format!(" {name} "));
    let indexed = match population.style {
        Style::Spec => [tpcc::primary_keys(), tpcc::indexes()].concat(),
        Style::HammerDb => [tprocc::primary_keys(), tprocc::indexes()].concat(),
    };
    let indexed = indexed.iter().filter(is_of).map(|sql| Step::Alone(sql.clone()));
    let vacuumed = Step::Alone(format!("vacuum analyze {name}"));
    Job::of(name, [filled].into_iter().chain(indexed).chain([vacuumed]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_is_made_by_the_job_of_its_table() {
        let population = Population { warehouses: 1, seed: 1, style: Style::Spec, at: String::new() };
        let alone = |job: &Job| job.steps.iter().filter(|step| matches!(step, Step::Alone(_))).count() - 1;
        let jobs = fill(&population);
        assert_eq!(jobs.len(), tpcc::TABLES.len());
        let n_indexes: usize = jobs.iter().map(alone).sum();
        assert_eq!(n_indexes, tpcc::primary_keys().len() + tpcc::indexes().len());
    }
}
