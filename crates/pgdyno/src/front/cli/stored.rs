//! Options of the commands that read stored results.

use std::path::PathBuf;

use clap::Args;
use model::text::share::Share;

use crate::front::cli::compare::failing::FailTerms;
use crate::front::cli::compare::share_of_figure;
use crate::front::cli::trust::TrustArgs;

/// Default directory of results.
pub(crate) const RESULTS: &str = "results";

/// Options that choose how results are printed.
#[derive(Debug, Args)]
pub(crate) struct FormArgs {
    /// Print the whole study (`plan`: the plan) as JSON instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the cases as CSV instead of a table.
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
    /// Print all findings in full, and where the variation comes from.
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

/// Options of `report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Results directories; with --store, names of results there.
    #[arg(value_name = "DIR", required = true)]
    pub(crate) dirs: Vec<PathBuf>,
    /// Take the results from a PostgreSQL database that `pgdyno push` filled, into `results`.
    #[arg(long, value_name = "TARGET")]
    pub(crate) store: Option<String>,
    #[command(flatten)]
    pub(crate) form: FormArgs,
    /// Report, in their own files, only the cases with this level of a factor or label of a target: provider=aws, clients=16,64.
    /// Repeatable.
    #[arg(long = "where", value_name = "KEY=LEVEL")]
    pub(crate) conditions: Vec<String>,
    /// How far off a figure may be, instead of what the experiment says: 5%, 5, or 0.05.
    #[arg(long, value_name = "PERCENT", value_parser = share_of_figure, allow_hyphen_values = true)]
    pub(crate) precision: Option<Share>,
    #[command(flatten)]
    pub(crate) trust: TrustArgs,
}

/// Options of `merge`.
#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    /// Results directories, each with its name in reports if that is not the last part of its path.
    #[arg(value_name = "[NAME=]DIR", required = true, num_args = 2..)]
    pub(crate) dirs: Vec<String>,
    /// Directory of the merged study; new or empty.
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Keep the cases of each directory apart by a factor `origin`.
    #[arg(long)]
    pub(crate) by_origin: bool,
}

/// Options of `export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Results directory.
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Only this run.
    #[arg(long, value_name = "N")]
    pub(crate) run: Option<u32>,
    /// Which rows.
    #[arg(long, value_enum, value_name = "TABLE", default_value = "seconds")]
    pub(crate) table: ExportedTable,
    /// How they are written; `json` is one object per line, and seconds are CSV only.
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "csv")]
    pub(crate) format: FileFormat,
    /// New file [default: standard output].
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Tables of `export`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ExportedTable {
    /// One row per second, with throughput, latency, host and server next to each other; CSV only.
    Seconds,
    /// One row per script and second: counts and percentiles of latency.
    Intervals,
    /// One row per value of a metric.
    Readings,
}

/// Formats of `export`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum FileFormat {
    Csv,
    Json,
    Parquet,
}

/// Options of `history`.
#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    /// Name of the experiment, as `list` shows it, or the directory of one of its results.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Directory of results [default: results].
    #[arg(value_name = "DIR")]
    pub(crate) place: Option<PathBuf>,
    /// The same directory as an option.
    #[arg(long, value_name = "DIR", conflicts_with = "place")]
    pub(crate) dir: Option<PathBuf>,
    /// Take the results from a PostgreSQL database that `pgdyno push` filled, into `results`.
    #[arg(long, value_name = "TARGET", conflicts_with_all = ["place", "dir"])]
    pub(crate) store: Option<String>,
    /// Exit with 4 if the last change of level is downwards (slower) or either way (different), or if transactions cost more since the last
    /// change of a cost (cost:blocks=1%); with 2 if the runs since suggest a change of level and are too few.
    #[arg(long, value_name = "WHAT")]
    pub(crate) fail_on: Option<FailTerms>,
    /// Print as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Directory of results.
    #[arg(value_name = "DIR", default_value = RESULTS)]
    pub(crate) dir: PathBuf,
    /// Print as JSON, one object per line.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `push`.
#[derive(Debug, Args)]
pub(crate) struct PushArgs {
    /// The database: URL, key=value pairs, or a database name.
    #[arg(value_name = "TARGET")]
    pub(crate) store: String,
    /// Results directories, or directories of such.
    #[arg(value_name = "DIR", default_value = RESULTS)]
    pub(crate) dirs: Vec<PathBuf>,
    /// Replace stored results that have completed runs which the directory lacks.
    #[arg(long)]
    pub(crate) replace: bool,
    /// Store them also where a publication publishes all tables of the database: a subscriber without these tables stops.
    #[arg(long)]
    pub(crate) allow_published: bool,
}
