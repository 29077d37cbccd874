//! Which tables a workload uses: several workloads may share a dataset.

use model::experiment::case::{WorkloadKind, WorkloadSpec};
use model::experiment::script::archive::Archive;
use model::experiment::script::{CaseData, SqlFile};
use workload::objects::marker::{Identity, Marker, is_part_mark};
use workload::tpcc::Style;
use workload::{Builtin, Schema, Signature, tpcb, tpcc, tprocc};

/// A set of tables. All that distinguishes one from another is in its [`Facts`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dataset {
    /// pgbench's four tables: all TPC-B-like workloads. `pgdyno init` loads them by default.
    #[default]
    Tpcb,
    /// The nine tables of TPC-C.
    Tpcc,
    /// The same with HammerDB's types, names and functions.
    TprocC,
}

/// The facts about a dataset.
pub(crate) struct Facts {
    name: &'static str,
    title: &'static str,
    workload: WorkloadKind,
    marked_table: &'static str,
    history_table: &'static str,
    tables: fn() -> Vec<&'static str>,
    can_be_partitioned: bool,
    estimated_bytes: fn(u32) -> u64,
    fit_scale: FitScale,
    create_routines: fn(&Schema, u32) -> Vec<(Signature, String)>,
    pub(crate) family: Family,
}

/// What `fit` means as the scale of new data, in scale units.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FitScale {
    pub per_client: u64,
    pub least: u64,
}

/// The code that loads and verifies the tables.
#[derive(Clone, Copy)]
pub(crate) enum Family {
    Tpcb,
    Tpcc(&'static TpccVariant),
}

/// The differences between datasets that have the tables of TPC-C.
pub(crate) struct TpccVariant {
    pub(crate) dataset: Dataset,
    pub(crate) style: Style,
    pub(crate) create_tables: fn(&Schema) -> Vec<String>,
    /// The only consistency conditions that the transactions preserve. Without them all conditions hold, and those of
    /// a fresh population until the first transaction.
    pub(crate) kept_checks: Option<&'static [&'static str]>,
}

const TPCB: Facts = Facts {
    name: "tpcb",
    title: "TPC-B-like",
    workload: WorkloadKind::Tpcb,
    marked_table: tpcb::Table::Branches.name(),
    history_table: tpcb::Table::History.name(),
    tables: || tpcb::TABLES.iter().map(|table| table.name()).collect(),
    can_be_partitioned: true,
    estimated_bytes: tpcb::estimated_bytes,
    // So that row locks on branches do not dominate; pgbench's documentation asks for at least one branch per client.
    fit_scale: FitScale { per_client: 2, least: 20 },
    create_routines: |_, _| Vec::new(),
    family: Family::Tpcb,
};

const TPCC: Facts = Facts {
    name: "tpcc",
    title: "TPC-C",
    workload: WorkloadKind::Tpcc,
    marked_table: tpcc::Table::Warehouse.name(),
    history_table: tpcc::Table::History.name(),
    tables: || tpcc::TABLES.iter().map(|table| table.name()).collect(),
    can_be_partitioned: false,
    estimated_bytes: tpcc::estimated_bytes,
    // Each client has its own warehouse.
    fit_scale: FitScale { per_client: 1, least: 10 },
    create_routines: tpcc::create_routines,
    family: Family::Tpcc(&SPECIFIED),
};

const TPROC_C: Facts = Facts {
    name: "tproc-c",
    title: "TPROC-C",
    workload: WorkloadKind::TprocC,
    create_routines: tprocc::create_routines,
    family: Family::Tpcc(&HAMMERDB),
    ..TPCC
};

/// TPC-C as specified.
pub(crate) const SPECIFIED: TpccVariant = TpccVariant {
    dataset: Dataset::Tpcc,
    style: Style::Spec,
    create_tables: tpcc::create_tables,
    kept_checks: None,
};

const HAMMERDB: TpccVariant = TpccVariant {
    dataset: Dataset::TprocC,
    style: Style::HammerDb,
    create_tables: tprocc::create_tables,
    kept_checks: Some(&KEPT_BY_HAMMERDB),
};

/// Conditions that HammerDB's transactions preserve.
const KEPT_BY_HAMMERDB: [&str; 12] = [
    "row-counts",
    "3.3.2.1",
    "3.3.2.2",
    "3.3.2.3",
    "3.3.2.4",
    "3.3.2.5",
    "3.3.2.6",
    "3.3.2.7",
    "3.3.2.8",
    "3.3.2.9",
    "3.3.2.11",
    "lines",
];

impl Dataset {
    /// All datasets.
    pub const ALL: [Dataset; 3] = [Dataset::Tpcb, Dataset::Tpcc, Dataset::TprocC];

    pub(crate) fn facts(self) -> &'static Facts {
        match self {
            Dataset::Tpcb => &TPCB,
            Dataset::Tpcc => &TPCC,
            Dataset::TprocC => &TPROC_C,
        }
    }

    /// The dataset of a case, unless the database is used as it is, or its tables are the user's own.
    pub fn of(data: &CaseData) -> Option<Dataset> {
        match DataSource::of(data) {
            DataSource::Loaded(dataset) => Some(dataset),
            DataSource::Archive(archive) => archive.tables_of.and_then(Dataset::of_kind),
            DataSource::Existing | DataSource::Files(_) => None,
        }
    }

    /// The dataset of workloads of this kind, unless an experiment file says otherwise.
    pub fn of_kind(kind: WorkloadKind) -> Option<Dataset> {
        Dataset::of(&kind.data())
    }

    /// The dataset with that name.
    pub fn named(name: &str) -> Option<Dataset> {
        Dataset::ALL.into_iter().find(|dataset| dataset.name() == name)
    }

    /// Name in load markers and on the command line.
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// Name in messages.
    pub fn title(self) -> &'static str {
        self.facts().title
    }

    /// The workload that loads it, if only the tables are asked for.
    pub fn workload(self) -> WorkloadKind {
        self.facts().workload
    }

    /// Whether its tables may be partitioned.
    pub fn can_be_partitioned(self) -> bool {
        self.facts().can_be_partitioned
    }

    /// The table whose comment is the load marker; it has one row per scale unit.
    pub fn marked_table(self) -> &'static str {
        self.facts().marked_table
    }

    /// The table that gains a row with each payment or transaction.
    pub fn history_table(self) -> &'static str {
        self.facts().history_table
    }

    /// Whether the comment on a table is its mark: that of this table, with this OID unless an older version wrote it.
    pub(crate) fn is_mark(self, comment: &str, table: &str, oid: u32) -> bool {
        if table == self.marked_table() {
            return matches!(Marker::parse(comment), Ok(Some(marker)) if marker.workload == self.name() && marker.is_on(oid));
        }
        is_part_mark(comment, self.name(), table, Identity::Oid(oid))
    }

    /// All tables.
    pub fn tables(self) -> Vec<&'static str> {
        (self.facts().tables)()
    }

    /// All tables as `schema.table`.
    pub fn tables_in(self, schema: &Schema) -> Vec<String> {
        self.tables().into_iter().map(|table| schema.plain_name(table)).collect()
    }

    /// Functions and procedures with the statements that create them.
    pub(crate) fn routines(self, schema: &Schema, version_num: u32) -> Vec<(Signature, String)> {
        (self.facts().create_routines)(schema, version_num)
    }

    /// Approximate disk space of freshly loaded data with its indexes, bytes.
    pub fn estimated_bytes(self, scale: u32) -> u64 {
        (self.facts().estimated_bytes)(scale)
    }

    /// The scale of new data if the experiment asks for one that fits.
    pub fn fit_scale(self) -> FitScale {
        self.facts().fit_scale
    }
}

/// Where the tables of a case come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataSource<'a> {
    /// pgdyno loads them.
    Loaded(Dataset),
    /// The database is used as it is.
    Existing,
    /// The user's SQL files create them.
    Files(&'a [SqlFile]),
    /// The user's archive contains them.
    Archive(&'a Archive),
}

impl DataSource<'_> {
    /// The source of a case's data.
    pub fn of(data: &CaseData) -> DataSource<'_> {
        match data {
            CaseData::Tpcb => DataSource::Loaded(Dataset::Tpcb),
            CaseData::Tpcc => DataSource::Loaded(Dataset::Tpcc),
            CaseData::TprocC => DataSource::Loaded(Dataset::TprocC),
            CaseData::None => DataSource::Existing,
            CaseData::Files(files) => DataSource::Files(files),
            CaseData::Archive(archive) => DataSource::Archive(archive),
        }
    }
}

/// Approximate disk space of the data, bytes.
pub fn data_bytes(workload: &WorkloadSpec) -> u64 {
    match DataSource::of(&workload.data) {
        DataSource::Loaded(dataset) => dataset.estimated_bytes(workload.scale),
        DataSource::Existing => 0,
        // The output of a statement cannot be derived from its length; rows of COPY double with their headers and
        // indexes.
        DataSource::Files(files) => 2 * files.iter().map(|file| file.bytes).sum::<u64>(),
        DataSource::Archive(archive) if archive.tables_of.is_some() => {
            Dataset::of(&workload.data).map_or(0, |dataset| dataset.estimated_bytes(workload.scale))
        }
        // Rows double as above; compression by gzip, pg_dump's default, makes text a third to a tenth (our convention).
        DataSource::Archive(archive) => {
            archive.bytes.saturating_mul(if archive.is_compressed { 8 } else { 2 })
        }
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
