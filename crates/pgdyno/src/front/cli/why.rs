//! Options of `why`.

use std::path::PathBuf;

use clap::Args;
use model::text::units::Span;

use crate::front::ask::AllowedCommands;
use crate::front::cli::RunArgs;
use crate::front::cli::changes::{ChangeArgs, RiskArgs};
use crate::front::cli::live::LiveArgs;
use crate::front::cli::numbers::some_time;

/// Options of `why`.
#[derive(Debug, Args)]
pub(crate) struct WhyArgs {
    /// Results, or one case of them (DIR:CASE) [default: that with the highest throughput]; or an experiment to measure first: a file, or a
    /// built-in one.
    #[arg(value_name = "DIR[:CASE]|EXPERIMENT")]
    pub(crate) of: String,
    /// How long the what-ifs may take; four pairs of each are measured in any case.
    #[arg(long, value_name = "TIME", default_value = "4min", value_parser = some_time, allow_hyphen_values = true)]
    pub(crate) time: Span,
    /// Length of the measurement window of each run.
    #[arg(long, value_name = "TIME", default_value = "6s", value_parser = some_time, allow_hyphen_values = true)]
    pub(crate) measure: Span,
    /// Execute what results that this pgdyno did not make bring with them, as for `repeat`.
    #[arg(long, value_name = "NUMBER", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub(crate) allow_commands: Option<AllowedCommands>,
    #[command(flatten)]
    pub(crate) changes: ChangeArgs,
    #[command(flatten)]
    pub(crate) risks: RiskArgs,
    /// Directory of the what-ifs' results, new or empty [default: results/DATE-why-NAME-XXXX].
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Ask nothing.
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Show no progress.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) live: LiveArgs,
    /// Print as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// How long what-ifs may take unless the command line says otherwise, milliseconds.
const TIME_MS: u64 = 240_000;
/// Length of a what-if's measurement window, milliseconds.
const MEASURE_MS: u64 = 6_000;

impl WhyArgs {
    /// The options that `run --why` implies.
    pub(crate) fn after(run: &RunArgs) -> WhyArgs {
        WhyArgs {
            of: String::new(),
            time: Span { ms: TIME_MS },
            measure: Span { ms: MEASURE_MS },
            allow_commands: run.experiment.allow_commands.clone(),
            changes: run.changes.clone(),
            risks: run.leave.risks,
            output: None,
            yes: run.yes,
            quiet: run.quiet,
            live: run.live.clone(),
            json: run.form.json,
        }
    }
}
