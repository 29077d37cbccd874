//! Which tables a workload uses: several workloads may share a dataset.

use model::experiment::case::{WorkloadKind, WorkloadSpec};
use model::experiment::script::CaseData;
use workload::{Builtin, Schema, Signature, tpcb, tpcc, tprocc};

/// A set of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dataset {
    /// pgbench's four tables: all TPC-B-like workloads.
    Tpcb,
    /// The nine tables of TPC-C.
    Tpcc,
    /// The same with HammerDB's types, names and functions.
    TprocC,
}

impl Dataset {
    /// All datasets.
    pub const ALL: [Dataset; 3] = [Dataset::Tpcb, Dataset::Tpcc, Dataset::TprocC];

    /// The dataset of a case, if it is one of these.
    pub fn of(data: &CaseData) -> Option<Dataset> {
        match data {
            CaseData::Tpcb => Some(Dataset::Tpcb),
            CaseData::Tpcc => Some(Dataset::Tpcc),
            CaseData::TprocC => Some(Dataset::TprocC),
            CaseData::None | CaseData::Files(_) => None,
        }
    }

    /// The dataset of workloads of this kind, unless an experiment file says otherwise.
    pub fn of_kind(kind: WorkloadKind) -> Option<Dataset> {
        Dataset::of(&WorkloadSpec::of(kind, 1).data)
    }

    /// The dataset with that name.
    pub fn named(name: &str) -> Option<Dataset> {
        Dataset::ALL.into_iter().find(|dataset| dataset.name() == name)
    }

    /// Name in load markers and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Dataset::Tpcb => "tpcb",
            Dataset::Tpcc => "tpcc",
            Dataset::TprocC => "tproc-c",
        }
    }

    /// Name in messages.
    pub fn title(self) -> &'static str {
        match self {
            Dataset::Tpcb => "TPC-B-like",
            Dataset::Tpcc => "TPC-C",
            Dataset::TprocC => "TPROC-C",
        }
    }

    /// The workload that loads it, if only the tables are asked for.
    pub fn workload(self) -> WorkloadKind {
        match self {
            Dataset::Tpcb => WorkloadKind::Tpcb,
            Dataset::Tpcc => WorkloadKind::Tpcc,
            Dataset::TprocC => WorkloadKind::TprocC,
        }
    }

    /// The table whose comment is the load marker; it has one row per scale unit.
    pub fn marked_table(self) -> &'static str {
        match self {
            Dataset::Tpcb => tpcb::Table::Branches.name(),
            Dataset::Tpcc | Dataset::TprocC => tpcc::Table::Warehouse.name(),
        }
    }

    /// The table that gains a row with each payment or transaction.
    pub fn history_table(self) -> &'static str {
        match self {
            Dataset::Tpcb => tpcb::Table::History.name(),
            Dataset::Tpcc | Dataset::TprocC => tpcc::Table::History.name(),
        }
    }

    /// All tables.
    pub fn tables(self) -> Vec<&'static str> {
        match self {
            Dataset::Tpcb => tpcb::TABLES.iter().map(|table| table.name()).collect(),
            Dataset::Tpcc | Dataset::TprocC => tpcc::TABLES.iter().map(|table| table.name()).collect(),
        }
    }

    /// All tables as `schema.table`.
    pub fn tables_in(self, schema: &Schema) -> Vec<String> {
        self.tables().into_iter().map(|table| schema.plain_name(table)).collect()
    }

    /// Functions and procedures with the statements that create them.
    pub(crate) fn routines(self, schema: &Schema, version_num: u32) -> Vec<(Signature, String)> {
        match self {
            Dataset::Tpcb => Vec::new(),
            Dataset::Tpcc => tpcc::create_routines(schema, version_num),
            Dataset::TprocC => tprocc::create_routines(schema, version_num),
        }
    }

    /// Approximate disk space of freshly loaded data with its indexes, bytes.
    pub fn estimated_bytes(self, scale: u32) -> u64 {
        match self {
            Dataset::Tpcb => tpcb::estimated_bytes(scale),
            Dataset::Tpcc | Dataset::TprocC => tpcc::estimated_bytes(scale),
        }
    }
}

/// Approximate disk space of the data.
pub fn data_bytes(workload: &WorkloadSpec) -> u64 {
    match &workload.data {
        CaseData::Tpcb => workload::tpcb::estimated_bytes(workload.scale),
        CaseData::Tpcc | CaseData::TprocC => workload::tpcc::estimated_bytes(workload.scale),
        CaseData::None => 0,
        // The output of a statement cannot be derived from its length; rows of COPY double with their headers and
        // indexes.
        CaseData::Files(files) => 2 * files.iter().map(|file| file.bytes).sum::<u64>(),
    }
}

/// The script of a built-in workload.
pub fn builtin(kind: WorkloadKind) -> Option<Builtin> {
    match kind {
        WorkloadKind::Tpcb => Some(Builtin::Tpcb),
        WorkloadKind::TpcbSimple => Some(Builtin::TpcbSimple),
        WorkloadKind::TpcbSelect => Some(Builtin::TpcbSelect),
        WorkloadKind::Scripts | WorkloadKind::Tpcc | WorkloadKind::TprocC => None,
    }
}
