//! Options of `capture statements`.

use std::path::PathBuf;

use clap::Args;

use super::log::PrivacyChoice;

/// Options of `capture statements`.
#[derive(Debug, Args)]
#[command(after_help = STATEMENTS_HELP)]
pub(crate) struct CaptureStatementsArgs {
    /// File of `pgdyno capture stats`.
    #[arg(value_name = "FILE")]
    pub(crate) stats: PathBuf,
    /// A copy of the source to ask for types, columns and their values (pg_stats), as `run --server` takes it. Nothing is executed or
    /// changed there.
    #[arg(long, value_name = "TARGET")]
    pub(crate) server: String,
    /// How much of the values is written. Hashed values find no rows in a real copy of the data.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) privacy: PrivacyChoice,
    /// The workload directory, new or empty.
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: PathBuf,
    /// Print the summary as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

const STATEMENTS_HELP: &str = "\
Without a log nobody knows which statements belonged together, or their values. `pgdyno capture plan` says what a log would take.

Exit codes: 0 done; 1 failed, or no statement can be run.

Examples:
  pgdyno capture stats --server postgres://monitor@db1/shop --for 1h -o shop.jsonl.zst
  pgdyno capture statements shop.jsonl.zst --server 'host=/run/postgresql dbname=shop_copy' --privacy values -o ./shop
  pgdyno run -w ./shop --server 'host=/run/postgresql dbname=shop_copy'";
