//! Options of the commands for the data of workloads.

pub(crate) mod capture;
pub(crate) mod name;
pub(crate) mod workloads;

use std::path::PathBuf;

use clap::Args;
use experiment::site::reach::trust::TrustedWorkload;
use model::experiment::keys::workload::{LOAD_STREAMS, PARTITIONS};
use model::workload::{Dataset, WorkloadKind, WorkloadName};

use self::name::workload_name;
use super::numbers::of_key;
use crate::front::cli::ServerArgs;

/// Options of `init`.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    #[arg(short, long, value_name = "NAME", default_value = "tpcb", help = whose_tables())]
    pub(crate) workload: String,
    /// Scale units of data: branches, warehouses, or a directory's own [default: 10; of a workload directory 1].
    #[arg(short, long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) scale: Option<String>,
    /// Schema to load the tables into [default: the first existing one of the search path].
    #[arg(long, value_name = "NAME")]
    pub(crate) schema: Option<String>,
    /// Tablespace of the server by URL for tables and indexes [default: its default_tablespace].
    #[arg(long, value_name = "NAME", requires = "server")]
    pub(crate) tablespace: Option<String>,
    /// Number of partitions of pgbench_accounts; 0: not partitioned.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = of_key(PARTITIONS, "--partitions 16"), allow_hyphen_values = true)]
    pub(crate) partitions: u32,
    /// Partition method: range, hash.
    #[arg(long, value_name = "METHOD", default_value = "range")]
    pub(crate) partition_method: String,
    /// Make the tables UNLOGGED: changing them writes no WAL, and a crash of the server empties them.
    #[arg(long)]
    pub(crate) unlogged: bool,
    /// Sessions that load data in parallel [default: one per partition, at most one per processor].
    #[arg(long, value_name = "N", value_parser = of_key(LOAD_STREAMS, "--streams 4"), allow_hyphen_values = true)]
    pub(crate) streams: Option<u32>,
    /// Drop tables and routines of the same names in that schema that pgdyno did not create.
    #[arg(long)]
    pub(crate) replace: bool,
    /// Load where a publication publishes all tables of the database or schema: a subscriber without the workload's tables stops, and its
    /// slot keeps WAL.
    #[arg(long)]
    pub(crate) allow_published: bool,
    /// Run the SQL of the workload directory with this hash with whatever rights the role on a server by URL has, in whatever database: the
    /// refusal names it.
    #[arg(long, value_name = "HASH", requires = "server")]
    pub(crate) trust_workload: Option<TrustedWorkload>,
    /// Create the database that --server names, which `run` may then replace by a copy of itself before each run.
    #[arg(long, requires = "server")]
    pub(crate) create_database: bool,
}

/// Options of `check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    #[arg(short, long, value_name = "NAME", value_parser = workload_name, help = which_workload())]
    pub(crate) workload: Option<WorkloadName>,
    /// Scale of the data [default: on the embedded server the one used last; of a workload directory 1].
    #[arg(short, long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) scale: Option<u32>,
    /// Schema of the tables [default: the first existing one of the search path].
    #[arg(long, value_name = "NAME")]
    pub(crate) schema: Option<String>,
    /// Also run TPC-C's tests of atomicity, consistency, isolation and durability, which change the tables.
    #[arg(long)]
    pub(crate) acid: bool,
    /// Run them also where a publication publishes all tables of the database or schema: they create tables that its subscriber lacks.
    #[arg(long, requires = "acid")]
    pub(crate) allow_published: bool,
    /// Run the checks of the workload directory with this hash with whatever rights the role on a server by URL has: the refusal names it.
    #[arg(long, value_name = "HASH", requires = "server")]
    pub(crate) trust_workload: Option<TrustedWorkload>,
    /// How long orders are entered before the embedded server is killed: 10s, 5min.
    #[arg(long, value_name = "TIME", default_value = "10s", requires = "acid", allow_hyphen_values = true)]
    pub(crate) acid_load: String,
    /// New file for the ledger of acknowledged orders [default: kept only if an order is lost].
    #[arg(long, value_name = "FILE", requires = "acid")]
    pub(crate) ledger: Option<PathBuf>,
    /// Setting of the embedded server for the check: synchronous_commit=off. Repeatable.
    #[arg(long = "setting", value_name = "NAME=VALUE", conflicts_with = "server")]
    pub(crate) settings: Vec<String>,
    /// Print as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The names of the workloads that fit.
fn names(fits: impl Fn(WorkloadKind) -> bool) -> Vec<&'static str> {
    let fit = WorkloadKind::ALL.into_iter().filter(|kind| !kind.is_own() && fits(*kind));
    fit.map(WorkloadKind::as_str).collect()
}

/// The workload directories that can be named.
const DIRECTORIES: &str =
    "a built-in directory (`pgdyno workload list`); your own directory by its path, which has a `/`";

fn whose_tables() -> String {
    let words = |dataset: Dataset| {
        let others = names(|kind| kind.row().data == dataset && kind.as_str() != dataset.name());
        let also = if others.is_empty() {
            String::new()
        } else {
            format!(" (also those of {})", others.join(" and "))
        };
        format!("{}{also}", dataset.name())
    };
    let sets = Dataset::ALL.map(words).join(", ");
    format!("Whose tables: {sets}; {DIRECTORIES}. Your own scripts have workload.data of the experiment file")
}

fn which_workload() -> String {
    let all = names(|_| true).join(", ");
    format!(
        "Which workload ran: {all}; {DIRECTORIES} [default: the last one on the embedded server, else tpcb]"
    )
}
