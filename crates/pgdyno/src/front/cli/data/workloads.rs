//! Options of the commands for workloads, also those that are directories.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use experiment::site::reach::trust::TrustedWorkload;
use model::workload::WorkloadName;

use super::name::workload_name;
use crate::front::cli::ServerArgs;

/// Subcommands of `pgdyno workload`.
#[derive(Debug, Subcommand)]
pub(crate) enum WorkloadCommand {
    /// List pgdyno's workloads: titles, variants, and their unit of scale.
    List {
        /// Print as JSON, one object per line.
        #[arg(long)]
        json: bool,
    },
    /// Show a workload's tables with their rows, transactions with their weights, options and checks.
    Show(ShowArgs),
    /// Write a small commented workload, which runs as it is, into a new directory: pgdyno workload new shop.
    New {
        /// The directory, new or empty. Its name becomes the name of the workload.
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
    /// Find all that is wrong with a workload directory, each with its place in the files.
    #[command(disable_version_flag = true)]
    Check(ProofArgs),
    /// Print rows of a table of a workload directory, as they would be loaded.
    Rows(RowsArgs),
}

/// A workload at a scale, with values of its options.
#[derive(Debug, Args)]
pub(crate) struct ChosenArgs {
    /// A name that `list` prints, or a directory by its path, which has a `/`; with a variant: `ycsb:b`, `./shop:buying`.
    #[arg(value_name = "NAME|DIR", value_parser = workload_name)]
    pub(crate) workload: WorkloadName,
    /// Scale units of data.
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) scale: u32,
    /// An option of the workload directory (workload.options.NAME of experiments). Repeatable.
    #[arg(long = "option", value_name = "NAME=VALUE")]
    pub(crate) options: Vec<String>,
    /// Seed of the data of a workload directory [default: 1].
    #[arg(long, value_name = "N")]
    pub(crate) data_seed: Option<u64>,
}

/// Options of `workload show`.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    pub(crate) chosen: ChosenArgs,
    /// Instead, copy a built-in workload directory into this one, which must be new or empty.
    #[arg(long, value_name = "DIR", conflicts_with = "json")]
    pub(crate) to: Option<PathBuf>,
    /// Print as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `workload check`.
#[derive(Debug, Args)]
pub(crate) struct ProofArgs {
    #[command(flatten)]
    pub(crate) chosen: ChosenArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Ask no server: types and lengths of columns, constraints, and the SQL of tables and checks are not checked.
    #[arg(long, conflicts_with_all = ["server", "versions", "bin_dir"])]
    pub(crate) offline: bool,
    /// Schema of the tables on the server [default: the first existing one of the search path].
    #[arg(long, value_name = "NAME", conflicts_with = "offline")]
    pub(crate) schema: Option<String>,
    /// Ask in this database of a server by URL although it holds what pgdyno did not make: the directory's SQL runs there in a transaction
    /// that is rolled back. Repeatable.
    #[arg(long = "replace-database", value_name = "NAME", requires = "server")]
    pub(crate) replace_databases: Vec<String>,
    /// Run the SQL of the directory with this hash with whatever rights the role has, in whatever database: the refusal names it.
    #[arg(long, value_name = "HASH", requires = "server")]
    pub(crate) trust_workload: Option<TrustedWorkload>,
    /// Print as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `workload rows`.
#[derive(Debug, Args)]
pub(crate) struct RowsArgs {
    #[command(flatten)]
    pub(crate) chosen: ChosenArgs,
    /// The table.
    #[arg(value_name = "TABLE")]
    pub(crate) table: String,
    /// How many rows; of a table with lines for each row of another, of how many of those.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 5)]
    pub(crate) limit: u64,
    /// The first row, from 0.
    #[arg(long, value_name = "ROW", default_value_t = 0)]
    pub(crate) from: u64,
    /// Print as CSV, with NULL as nothing and empty texts in quotes.
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
    /// Print as JSON, one object per row, with all values as texts.
    #[arg(long)]
    pub(crate) json: bool,
}
