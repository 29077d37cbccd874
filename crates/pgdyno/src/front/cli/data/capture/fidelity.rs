//! Options of `capture fidelity`.

use std::path::PathBuf;

use clap::Args;

/// Options of `capture fidelity`.
#[derive(Debug, Args)]
#[command(after_help = FIDELITY_HELP)]
pub(crate) struct FidelityArgs {
    /// Results of a captured workload; or a file of `capture stats` at the source, and then one of the replay.
    #[arg(value_name = "RESULTS", required = true, num_args = 1..=2)]
    pub(crate) results: Vec<PathBuf>,
    /// Print as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

const FIDELITY_HELP: &str = "\
Grades: faithful, approximate, not your workload, unknown. A constant factor between all times is a faster or slower machine, not infidelity.

Examples:
  pgdyno capture fidelity results/shop
  pgdyno capture fidelity production.jsonl.zst replay.jsonl.zst";
