//! What a workload is: one row that says everything about it which other crates ask by name.
//!
//! The rows are in [`catalogue`]. A row holds words and numbers, and names a kind of behaviour where code is needed:
//! how transactions are made ([`Programs`]), what a run is measured by ([`MainFigure`]), how tables are filled
//! ([`data::Loader`]). Crate `workload` has the SQL and the code of each key in its own catalogue.

pub mod catalogue;
pub mod data;
pub mod directories;
pub mod name;

use crate::experiment::case::Calls;
use crate::load::Profiles;

pub use catalogue::WorkloadKind;
pub use data::Dataset;
pub use name::{DirectoryName, WorkloadName};

/// A workload.
#[derive(Debug)]
pub struct Workload {
    /// What the title of an experiment calls it; own scripts are called by their names.
    pub title: &'static str,
    /// The tables that it runs on. For the user's own scripts, the experiment file may name other data.
    pub data: Dataset,
    /// How its transactions are made.
    pub programs: Programs,
    /// The keys of the experiment file that only some workloads have.
    pub options: WorkloadOptions,
    /// The rights that its transactions need on each table. Statements of own scripts are not known.
    pub access: &'static [Access],
    /// Names of the transactions that only read, of those that are made by code.
    pub reads: &'static [&'static str],
    /// The tables that grow by the transactions that were committed.
    pub growth: &'static [Growth],
    /// The figure that a run is measured by.
    pub figure: MainFigure,
    /// The rows that all clients share, if each transaction of some kind updates one.
    pub shared: Option<SharedRows>,
    /// Committed transactions per second and processor, a low estimate.
    pub tps_per_cpu: f64,
}

/// Rights on a table.
pub type Access = (&'static str, &'static [&'static str]);

/// How the transactions of a workload are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Programs {
    /// Scripts of the user, which the experiment file names.
    Own,
    /// Scripts of pgdyno.
    Scripts,
    /// Code, because no script could express them.
    Native(Profiles),
}

/// The keys of the experiment file that only some workloads have.
#[derive(Debug)]
pub struct WorkloadOptions {
    /// Ways in which a transaction's SQL may be sent: `workload.calls`; none where there is no choice.
    pub calls: &'static [Calls],
    /// Who calls the transactions in this way alone, for a message that refuses others.
    pub caller: &'static str,
    /// Whether clients may think and choose their isolation level: `workload.think` and `workload.isolation`.
    pub terminals: bool,
    /// Whether clients may cycle through the warehouses: `workload.all_warehouses`.
    pub all_warehouses: bool,
    /// How often it tries a transaction that fails with 40001 or 40P01.
    pub tries: TryLimit,
}

/// The options of a workload that has none of its own.
pub const NO_OPTIONS: WorkloadOptions = WorkloadOptions {
    calls: &[],
    caller: "",
    terminals: false,
    all_warehouses: false,
    tries: TryLimit::AsAsked,
};

/// How often a transaction that fails with 40001 or 40P01 is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TryLimit {
    /// As often as `workload.max_tries` says, by default once.
    AsAsked,
    /// Without a limit.
    Endless,
    /// Once.
    Once,
}

impl TryLimit {
    /// What the workload does, for a message; `None` if the experiment decides.
    pub fn words(self) -> Option<&'static str> {
        match self {
            TryLimit::AsAsked => None,
            TryLimit::Endless => Some("tries again without a limit"),
            TryLimit::Once => Some("never"),
        }
    }
}

/// A table that gains a row with each transaction of some kind.
#[derive(Debug)]
pub struct Growth {
    /// The table.
    pub table: &'static str,
    /// The script whose transactions add the rows; none: all of them.
    pub script: Option<&'static str>,
    /// What these transactions are called.
    pub what: &'static str,
    /// The count of transactions of this script that are committed and add no row.
    pub less: Option<&'static str>,
}

/// The figure that a run is measured by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MainFigure {
    /// Transactions per second.
    Throughput,
    /// New-Orders per minute, judged by the requirements of TPC-C.
    NewOrders,
    /// New-Orders per minute as HammerDB counts them, which says how it differs from TPC-C.
    HammerDb,
}

impl MainFigure {
    /// The word for it in titles.
    pub fn word(self) -> &'static str {
        match self {
            MainFigure::Throughput => "throughput",
            MainFigure::NewOrders | MainFigure::HammerDb => "NOPM",
        }
    }
}

/// Rows that every transaction of some kind updates, one for each scale unit.
#[derive(Debug)]
pub struct SharedRows {
    /// One and several of the rows of which there are the fewest.
    pub nouns: [&'static str; 2],
    /// What else is shared, for each scale unit.
    pub also: &'static str,
    /// Which transactions.
    pub by: &'static str,
}

impl Workload {
    /// Whether its transactions are known to change nothing.
    pub fn only_reads(&self) -> bool {
        !self.access.is_empty() && self.access.iter().all(|(_, rights)| *rights == ["SELECT"])
    }
}
