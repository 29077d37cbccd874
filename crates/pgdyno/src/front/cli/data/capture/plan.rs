//! Options of `capture plan`.

use clap::Args;
use model::text::units::Span;

use crate::front::cli::numbers::some_time;

/// Options of `capture plan`.
#[derive(Debug, Args)]
#[command(after_help = PLAN_HELP)]
pub(crate) struct CapturePlanArgs {
    /// The server and database: URL, key=value, database name, or "" for the PG* environment.
    #[arg(long, value_name = "TARGET")]
    pub(crate) server: String,
    /// How long to count transactions and statements, to estimate bytes of log per second.
    #[arg(long = "for", value_name = "TIME", default_value = "5s", value_parser = some_time, allow_hyphen_values = true)]
    pub(crate) length: Span,
    /// Print as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

const PLAN_HELP: &str = "\
Ways, in the order in which to prefer them: whole transactions at random, for at most 1 MB of log per second (12 or later); everything
for minutes; statistics alone.

Examples:
  pgdyno capture plan --server postgres://postgres@db1/shop
  pgdyno capture plan --server 'host=/run/postgresql dbname=shop' --for 1min --json";
