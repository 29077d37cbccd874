//! The workloads: one row for each. The SQL and the code that belong to a row are in the catalogue of crate `workload`.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::experiment::case::Calls;
use crate::experiment::case::workload::{
    Access, Dataset, Growth, MainFigure, NO_OPTIONS, Programs, SharedRows, TryLimit, Workload,
    WorkloadOptions,
};
use crate::experiment::script::CaseData;
use crate::load::Profiles;
use crate::text::word_enum::words;

words! {
    /// A workload: built in, also by pgbench's name, or the user's own scripts.
    WorkloadKind, "a workload" {
        /// pgbench's TPC-B-like transaction: three updates, one select, one insert.
        #[default]
        Tpcb = "tpcb" | "tpcb-like",
        /// TPC-B-like without the contended updates of tellers and branches.
        TpcbSimple = "tpcb-simple" | "simple-update",
        /// The select alone.
        TpcbSelect = "tpcb-select" | "select-only",
        /// The user's own scripts.
        Scripts = "scripts",
        /// TPC-C-like: five transactions of a wholesale supplier.
        Tpcc = "tpcc",
        /// HammerDB's TPROC-C, by its stored functions.
        TprocC = "tproc-c",
    }
}

impl WorkloadKind {
    /// The kind of scripts that this program does not have, also of those of a workload directory.
    pub const OWN: WorkloadKind = WorkloadKind::Scripts;

    /// The row of this workload.
    pub fn row(self) -> &'static Workload {
        match self {
            WorkloadKind::Tpcb => &TPCB,
            WorkloadKind::TpcbSimple => &TPCB_SIMPLE,
            WorkloadKind::TpcbSelect => &TPCB_SELECT,
            WorkloadKind::Scripts => &SCRIPTS,
            WorkloadKind::Tpcc => &TPCC,
            WorkloadKind::TprocC => &TPROC_C,
        }
    }

    /// Whether the user's own scripts are the workload.
    pub fn is_own(self) -> bool {
        self.row().programs == Programs::Own
    }

    /// The data that it runs on. For the user's own scripts, the experiment file may name other data.
    pub fn data(self) -> CaseData {
        CaseData::Loaded(self.row().data)
    }

    /// The workloads that fit, as a message lists them: `"tpcc" or "tproc-c"`.
    pub fn listed(fits: impl Fn(&Workload) -> bool) -> String {
        let of = |kind: &WorkloadKind| format!("\"{kind}\"");
        let kinds: Vec<String> = WorkloadKind::ALL.iter().filter(|kind| fits(kind.row())).map(of).collect();
        kinds.join(" or ")
    }
}

/// Low estimates for pgbench's transactions: a virtual machine with 2 processors commits about 3,000 TPC-B-like ones for each, and
/// reads 15,000 accounts, with all clients busy and data in memory.
const TPS_OF_UPDATES: f64 = 1500.0;
const TPS_OF_SELECTS: f64 = 5000.0;
/// The same for any other workload, whose transactions may be long.
const TPS_OF_OTHERS: f64 = 500.0;

const HISTORY_OF_TPCB: &[Growth] =
    &[Growth { table: "pgbench_history", script: None, what: "transactions", less: None }];

const TPCB: Workload = Workload {
    title: "TPC-B-like",
    data: Dataset::Tpcb,
    programs: Programs::Scripts,
    options: NO_OPTIONS,
    access: &[
        ("pgbench_accounts", &["SELECT", "UPDATE"]),
        ("pgbench_tellers", &["SELECT", "UPDATE"]),
        ("pgbench_branches", &["SELECT", "UPDATE"]),
        ("pgbench_history", &["INSERT"]),
    ],
    reads: &[],
    growth: HISTORY_OF_TPCB,
    figure: MainFigure::Throughput,
    shared: Some(SharedRows {
        nouns: ["branch", "branches"],
        also: "and ten times as many tellers",
        by: "each transaction updates one",
    }),
    tps_per_cpu: TPS_OF_UPDATES,
};

const TPCB_SIMPLE: Workload = Workload {
    title: "simple TPC-B-like updates",
    access: &[("pgbench_accounts", &["SELECT", "UPDATE"]), ("pgbench_history", &["INSERT"])],
    shared: None,
    ..TPCB
};

const TPCB_SELECT: Workload = Workload {
    title: "TPC-B-like selects",
    access: &[("pgbench_accounts", &["SELECT"])],
    growth: &[],
    shared: None,
    tps_per_cpu: TPS_OF_SELECTS,
    ..TPCB
};

/// What scripts do, only the user knows.
const SCRIPTS: Workload = Workload {
    title: "scripts",
    data: Dataset::Tpcb,
    programs: Programs::Own,
    options: NO_OPTIONS,
    access: &[],
    reads: &[],
    growth: &[],
    figure: MainFigure::Throughput,
    shared: None,
    tps_per_cpu: TPS_OF_OTHERS,
};

const ACCESS_OF_TPCC: &[Access] = &[
    ("warehouse", &["SELECT", "UPDATE"]),
    ("district", &["SELECT", "UPDATE"]),
    ("customer", &["SELECT", "UPDATE"]),
    ("history", &["INSERT"]),
    ("new_order", &["SELECT", "INSERT", "DELETE"]),
    ("orders", &["SELECT", "INSERT", "UPDATE"]),
    ("order_line", &["SELECT", "INSERT", "UPDATE"]),
    ("item", &["SELECT"]),
    ("stock", &["SELECT", "UPDATE"]),
];

const TPCC: Workload = Workload {
    title: "TPC-C-like",
    data: Dataset::Tpcc,
    programs: Programs::Native(Profiles::Tpcc),
    options: WorkloadOptions {
        calls: &Calls::ALL,
        caller: "",
        terminals: true,
        all_warehouses: false,
        // As the application of the specification does.
        tries: TryLimit::Endless,
    },
    access: ACCESS_OF_TPCC,
    reads: &["order-status", "stock-level"],
    growth: &[
        Growth { table: "history", script: Some("payment"), what: "payments", less: None },
        Growth { table: "orders", script: Some("new-order"), what: "New-Orders", less: Some("rolled_back") },
    ],
    figure: MainFigure::NewOrders,
    shared: Some(SharedRows {
        nouns: ["warehouse", "warehouses"],
        also: "with ten districts each",
        by: "each Payment updates one, and each New-Order a district",
    }),
    tps_per_cpu: TPS_OF_OTHERS,
};

const TPROC_C: Workload = Workload {
    title: "TPROC-C",
    data: Dataset::TprocC,
    programs: Programs::Native(Profiles::TprocC),
    options: WorkloadOptions {
        calls: &[Calls::Functions, Calls::Procedures],
        caller: "HammerDB",
        terminals: false,
        all_warehouses: true,
        // HammerDB continues with the next transaction.
        tries: TryLimit::Once,
    },
    figure: MainFigure::HammerDb,
    ..TPCC
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_names_tables_of_its_data() {
        for kind in WorkloadKind::ALL {
            let row = kind.row();
            let tables = row.data.tables();
            let named = row.access.iter().map(|(table, _)| *table).chain(row.growth.iter().map(|g| g.table));
            for table in named {
                assert!(tables.contains(&table), "{kind}: {table}");
            }
            assert_eq!(row.access.is_empty(), kind.is_own(), "{kind}");
            assert_eq!(row.only_reads(), kind == WorkloadKind::TpcbSelect, "{kind}");
        }
    }

    #[test]
    fn workloads_are_known_by_the_names_of_pgbench_and_written_by_their_own() {
        for (name, kind) in [
            ("tpcb-like", WorkloadKind::Tpcb),
            ("simple-update", WorkloadKind::TpcbSimple),
            ("select-only", WorkloadKind::TpcbSelect),
        ] {
            assert_eq!(name.parse(), Ok(kind));
            let read: WorkloadKind = serde_json::from_str(&format!("\"{name}\"")).unwrap();
            assert_eq!((read, serde_json::to_string(&read).unwrap()), (kind, format!("\"{kind}\"")));
        }
        let unknown = "select".parse::<WorkloadKind>().unwrap_err();
        assert!(unknown.contains("use one of: tpcb, tpcb-simple, tpcb-select"), "{unknown}");
    }

    #[test]
    fn messages_list_the_workloads_that_have_an_option() {
        assert_eq!(WorkloadKind::listed(|row| !row.options.calls.is_empty()), "\"tpcc\" or \"tproc-c\"");
        assert_eq!(WorkloadKind::listed(|row| row.options.terminals), "\"tpcc\"");
        assert_eq!(WorkloadKind::listed(|row| row.options.all_warehouses), "\"tproc-c\"");
    }
}
