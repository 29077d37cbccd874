//! The SQL and the code of each workload and of its tables, by the keys of [`model::workload`]'s rows.

use model::workload::{Dataset, WorkloadKind};

use crate::objects::check::{Checks, Invariant};
use crate::objects::filling::{Batch, ByTable};
use crate::objects::schema::Schema;
use crate::objects::signature::Signature;
use crate::{tpcb, tpcc, tprocc};

/// A script of pgdyno, in pgbench's language.
#[derive(Clone, Copy, Debug)]
pub struct BuiltinScript {
    /// Name in reports, unique in the workload.
    pub name: &'static str,
    /// Weight, relative to the sum of all weights.
    pub weight: u32,
    /// The text, with `@.` for the schema.
    pub text: &'static str,
}

/// The scripts of a workload that consists of some.
pub fn scripts(kind: WorkloadKind) -> &'static [BuiltinScript] {
    match kind {
        WorkloadKind::Tpcb => &[BuiltinScript { name: "tpcb", weight: 1, text: tpcb::TPCB }],
        WorkloadKind::TpcbSimple => {
            &[BuiltinScript { name: "tpcb-simple", weight: 1, text: tpcb::TPCB_SIMPLE }]
        }
        WorkloadKind::TpcbSelect => {
            &[BuiltinScript { name: "tpcb-select", weight: 1, text: tpcb::TPCB_SELECT }]
        }
        WorkloadKind::Scripts | WorkloadKind::Tpcc | WorkloadKind::TprocC => &[],
    }
}

/// What holds in the tables of a workload after any number of its transactions.
pub fn checks(kind: WorkloadKind) -> Vec<&'static Invariant> {
    let is_kept = |check: &&Invariant| kept(kind).is_none_or(|names| names.contains(&check.id));
    maker(kind.row().data).checks.always.iter().filter(is_kept).collect()
}

/// Names of the checks that hold although this workload ran; `None` if all of its tables' do.
fn kept(kind: WorkloadKind) -> Option<&'static [&'static str]> {
    match kind {
        WorkloadKind::TpcbSimple => Some(tpcb::KEPT_BY_SIMPLE),
        WorkloadKind::TpcbSelect => Some(tpcb::KEPT_BY_SELECT),
        WorkloadKind::TprocC => Some(tprocc::KEPT),
        WorkloadKind::Tpcb | WorkloadKind::Tpcc | WorkloadKind::Scripts => None,
    }
}

/// How a set of tables is made.
pub struct Maker {
    /// The statements by which loads of any scale define tables and indexes, without a schema.
    pub definitions: fn() -> Vec<String>,
    /// Functions and procedures for a version of the server, with the statements that create them.
    pub routines: fn(&Schema, u32) -> Vec<(Signature, String)>,
    /// How they are filled.
    pub filling: Filling,
    /// The checks of what must hold in them.
    pub checks: Checks,
    /// A table whose rows another table counts: exact, and cheap at any size.
    pub counted: Option<CountedTable>,
}

/// How tables are filled.
pub enum Filling {
    /// As pgbench does, with its partitions: several streams may fill one table.
    Pgbench,
    /// Each table by one stream.
    ByTable(&'static ByTable),
}

/// A table whose rows another table counts.
#[allow(missing_docs, reason = "the names say it")]
pub struct CountedTable {
    pub table: &'static str,
    /// The table that counts them.
    pub by: &'static str,
    /// Returns their number.
    pub sql: &'static str,
}

/// How a set of tables is made.
pub fn maker(dataset: Dataset) -> &'static Maker {
    match dataset {
        Dataset::Tpcb => &TPCB,
        Dataset::Tpcc => &TPCC,
        Dataset::TprocC => &TPROC_C,
    }
}

const TPCB: Maker = Maker {
    definitions: tpcb::definitions,
    routines: |_, _| Vec::new(),
    filling: Filling::Pgbench,
    checks: tpcb::CHECKS,
    counted: None,
};

const TPCC: Maker = Maker {
    definitions: || of_tables(&tpcc::FILLING),
    routines: tpcc::create_routines,
    filling: Filling::ByTable(&tpcc::FILLING),
    checks: tpcc::CHECKS,
    // Each district counts its own orders.
    counted: Some(CountedTable {
        table: "orders",
        by: "district",
        sql: "select sum(d_next_o_id - 1) from @.district",
    }),
};

const TPROC_C: Maker = Maker {
    definitions: || of_tables(&tprocc::FILLING),
    routines: tprocc::create_routines,
    filling: Filling::ByTable(&tprocc::FILLING),
    // HammerDB loads other values than the specification's.
    checks: Checks { fresh: None, ..tpcc::CHECKS },
    ..TPCC
};

fn of_tables(tables: &ByTable) -> Vec<String> {
    let schema = Schema::searched();
    let batch = Batch { scale: 1, at: String::new() };
    let keys = (tables.fill)(&schema, &batch).into_iter().flat_map(|table| table.keys);
    (tables.create_tables)(&schema).into_iter().chain(keys).collect()
}

#[cfg(test)]
mod tests {
    use model::workload::Programs;
    use model::workload::data::Count;

    use super::*;

    #[test]
    fn each_workload_has_what_its_row_names() {
        for kind in WorkloadKind::ALL {
            let has_scripts = kind.row().programs == Programs::Scripts;
            assert_eq!(!scripts(kind).is_empty(), has_scripts, "{kind}");
        }
    }

    #[test]
    fn each_set_of_tables_is_defined_and_filled() {
        for dataset in Dataset::ALL {
            let maker = maker(dataset);
            let made = (maker.definitions)();
            for table in dataset.tables() {
                let create = format!("create table {table} ");
                let create_other = format!("create table {table}(");
                let is_made = |sql: &String| sql.starts_with(&create) || sql.starts_with(&create_other);
                assert!(made.iter().any(is_made), "{dataset}: {table}");
            }
            let row = dataset.row();
            for index in row.indexes {
                assert!(made.iter().any(|sql| sql.contains(&format!(" index {index} on "))), "{index}");
            }
            if let Filling::ByTable(tables) = &maker.filling {
                let batch = Batch { scale: 1, at: "2026-11-21 12:00:00+00".to_owned() };
                let mut filled: Vec<&str> =
                    (tables.fill)(&Schema::searched(), &batch).iter().map(|table| table.name).collect();
                let mut known = dataset.tables();
                filled.sort_unstable();
                known.sort_unstable();
                assert_eq!(filled, known, "{dataset}");
            }
        }
    }

    #[test]
    fn the_numbers_of_rows_are_those_of_the_rows() {
        for table in tpcb::TABLES {
            let known = Dataset::Tpcb.row().tables.iter().find(|known| known.name == table.name());
            let last = known.and_then(|known| known.key).map_or(0, |(_, last)| last.at(7));
            assert_eq!(last, tpcb::row_count(table, 7), "{}", table.name());
        }
        let item = Dataset::Tpcc.row().tables.iter().find(|table| table.name == "item");
        assert_eq!(item.and_then(|item| item.key), Some(("i_id", Count::Fixed(tpcc::ITEMS))));
    }
}
