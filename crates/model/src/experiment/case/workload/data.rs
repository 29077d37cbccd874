//! The tables that workloads run on: one row for each set. Several workloads may share one.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::experiment::case::workload::WorkloadKind;
use crate::experiment::script::CaseData;
use crate::text::word_enum::words;

words! {
    /// A set of tables that pgdyno loads, by its name in load markers and on the command line.
    Dataset, "a set of tables" {
        /// pgbench's four tables: all TPC-B-like workloads. `pgdyno init` loads them by default.
        #[default]
        Tpcb = "tpcb",
        /// The nine tables of TPC-C.
        Tpcc = "tpcc",
        /// The same with HammerDB's types, names and functions.
        TprocC = "tproc-c",
    }
}

/// A set of tables.
#[derive(Debug)]
pub struct TableSet {
    /// Name in messages.
    pub title: &'static str,
    /// Name in reports.
    pub words: &'static str,
    /// The workload that loads them, if only the tables are asked for.
    pub workload: WorkloadKind,
    /// The tables, in the order of loading.
    pub tables: &'static [TableSpec],
    /// The table whose comment is the load marker. It has a key, and as many rows as its numbers say.
    pub marked_table: &'static str,
    /// The table that gains a row with each payment or transaction, and has no primary key; `None` if nothing is recorded.
    pub history_table: Option<&'static str>,
    /// Indexes other than primary keys.
    pub indexes: &'static [&'static str],
    /// Whether nobody else calls tables like this, so that tables of these names are known to be these.
    pub are_names_distinct: bool,
    /// Whether its largest table may be partitioned.
    pub can_be_partitioned: bool,
    /// Disk that a freshly loaded scale unit takes with its indexes.
    pub bytes_per_unit: u64,
    /// Disk that tables take which do not depend on the scale.
    pub bytes_fixed: u64,
    /// The scale of new data if the experiment asks for one that fits.
    pub fit_scale: FitScale,
    /// How the tables are filled.
    pub loader: Loader,
    /// Whether the load marker has constants on which those of a run depend (TPC-C 2.1.6.1).
    pub has_load_constants: bool,
}

/// A table, with the numbers that its rows have after a load.
#[derive(Debug)]
pub struct TableSpec {
    /// Name without the schema.
    pub name: &'static str,
    /// The first column of its primary key and the last number there: the numbers begin at 1.
    pub key: Option<(&'static str, Count)>,
}

/// A number that may grow with the scale.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    Fixed(u64),
    PerUnit(u64),
}

impl Count {
    /// The number at a scale.
    pub fn at(self, scale: u32) -> u64 {
        match self {
            Count::Fixed(n) => n,
            Count::PerUnit(n) => n * u64::from(scale),
        }
    }
}

/// What `fit` means as the scale of new data, in scale units.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FitScale {
    pub per_client: u64,
    pub least: u64,
}

/// How tables are filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loader {
    /// As pgbench does, with its partitions: several streams may fill one table.
    Pgbench,
    /// Each table by one stream, the largest first.
    ByTable,
}

impl Dataset {
    /// The row of these tables.
    pub fn row(self) -> &'static TableSet {
        match self {
            Dataset::Tpcb => &TPCB,
            Dataset::Tpcc => &TPCC,
            Dataset::TprocC => &TPROC_C,
        }
    }

    /// The dataset of a case, unless the database is used as it is, or its tables are the user's own.
    pub fn from_case_data(data: &CaseData) -> Option<Dataset> {
        match data {
            CaseData::Loaded(dataset) => Some(*dataset),
            CaseData::Archive(archive) => archive.tables_of.and_then(Dataset::of_kind),
            CaseData::None | CaseData::Files(_) | CaseData::Directory => None,
        }
    }

    /// The dataset of workloads of this kind, unless an experiment file says otherwise.
    pub fn of_kind(kind: WorkloadKind) -> Option<Dataset> {
        Dataset::from_case_data(&kind.data())
    }

    /// The dataset with that name.
    pub fn named(name: &str) -> Option<Dataset> {
        name.parse().ok()
    }

    /// Name in load markers and on the command line.
    pub fn name(self) -> &'static str {
        self.as_str()
    }

    /// Name in messages.
    pub fn title(self) -> &'static str {
        self.row().title
    }

    /// The table whose comment is the load marker.
    pub fn marked_table(self) -> &'static str {
        self.row().marked_table
    }

    /// All tables.
    pub fn tables(self) -> Vec<&'static str> {
        self.row().tables.iter().map(|table| table.name).collect()
    }

    /// The scale at which the marked table has so many rows; `None` if it has so many at none.
    pub fn scale_of(self, rows: u64) -> Option<u32> {
        let marked = self.row().tables.iter().find(|table| table.name == self.marked_table());
        match marked?.key? {
            (_, Count::PerUnit(n)) if rows.is_multiple_of(n) => u32::try_from(rows / n).ok(),
            _ => None,
        }
    }

    /// Approximate disk space of freshly loaded data with its indexes, bytes.
    pub fn estimated_bytes(self, scale: u32) -> u64 {
        self.row().bytes_per_unit * u64::from(scale) + self.row().bytes_fixed
    }
}

const TPCB: TableSet = TableSet {
    title: "TPC-B-like",
    words: "TPC-B-like tables",
    workload: WorkloadKind::Tpcb,
    tables: &[
        TableSpec { name: "pgbench_branches", key: Some(("bid", Count::PerUnit(1))) },
        TableSpec { name: "pgbench_tellers", key: Some(("tid", Count::PerUnit(10))) },
        TableSpec { name: "pgbench_accounts", key: Some(("aid", Count::PerUnit(100_000))) },
        TableSpec { name: "pgbench_history", key: None },
    ],
    marked_table: "pgbench_branches",
    history_table: Some("pgbench_history"),
    indexes: &[],
    are_names_distinct: true,
    can_be_partitioned: true,
    // Measured on PostgreSQL 15 at scale 10 and full fillfactor: 156,966,912 bytes in all.
    bytes_per_unit: 15_700_000,
    bytes_fixed: 0,
    // So that row locks on branches do not dominate; pgbench's documentation asks for at least one branch per client.
    fit_scale: FitScale { per_client: 2, least: 20 },
    loader: Loader::Pgbench,
    has_load_constants: false,
};

/// Rows of ITEM (TPC-C 4.3.3.1).
const ITEMS: Count = Count::Fixed(100_000);
const WAREHOUSES: Count = Count::PerUnit(1);

const TPCC: TableSet = TableSet {
    title: "TPC-C",
    words: "TPC-C tables",
    workload: WorkloadKind::Tpcc,
    tables: &of_tpcc(("s_w_id", WAREHOUSES)),
    marked_table: "warehouse",
    history_table: Some("history"),
    indexes: &["customer_name", "orders_customer"],
    are_names_distinct: false,
    can_be_partitioned: false,
    // Measured on PostgreSQL 15 at 10 warehouses.
    bytes_per_unit: 98_000_000,
    bytes_fixed: 12_000_000,
    // Each client has its own warehouse.
    fit_scale: FitScale { per_client: 1, least: 10 },
    loader: Loader::ByTable,
    has_load_constants: true,
};

const TPROC_C: TableSet = TableSet {
    title: "TPROC-C",
    words: "HammerDB's TPC-C tables",
    workload: WorkloadKind::TprocC,
    // HammerDB's key begins with the item.
    tables: &of_tpcc(("s_i_id", ITEMS)),
    indexes: &["customer_i2", "orders_i2"],
    has_load_constants: false,
    ..TPCC
};

/// The tables of TPC-C, which differ in the key of STOCK.
const fn of_tpcc(stock: (&'static str, Count)) -> [TableSpec; 9] {
    [
        TableSpec { name: "item", key: Some(("i_id", ITEMS)) },
        TableSpec { name: "warehouse", key: Some(("w_id", WAREHOUSES)) },
        TableSpec { name: "district", key: Some(("d_w_id", WAREHOUSES)) },
        TableSpec { name: "customer", key: Some(("c_w_id", WAREHOUSES)) },
        TableSpec { name: "history", key: None },
        TableSpec { name: "stock", key: Some(stock) },
        TableSpec { name: "orders", key: Some(("o_w_id", WAREHOUSES)) },
        TableSpec { name: "new_order", key: Some(("no_w_id", WAREHOUSES)) },
        TableSpec { name: "order_line", key: Some(("ol_w_id", WAREHOUSES)) },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_names_its_own_tables() {
        for dataset in Dataset::ALL {
            let (row, tables) = (dataset.row(), dataset.tables());
            assert!(tables.contains(&row.marked_table), "{dataset}");
            assert_eq!(
                (dataset.scale_of(0), dataset.scale_of(7_000_000).is_some()),
                (Some(0), true),
                "{dataset}"
            );
            let without_key = row.tables.iter().filter(|table| table.key.is_none()).map(|table| table.name);
            assert!(without_key.eq(row.history_table), "{dataset}");
            assert_eq!(row.workload.row().data, dataset);
        }
    }
}
