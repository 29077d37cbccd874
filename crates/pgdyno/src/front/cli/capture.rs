//! Options of `capture`.

pub(crate) mod log;
pub(crate) mod plan;

use clap::Subcommand;

use self::log::{CaptureLogArgs, CaptureShowArgs};
use self::plan::CapturePlanArgs;

/// Subcommands of `pgdyno capture`.
#[derive(Debug, Subcommand)]
pub(crate) enum CaptureCommand {
    /// Say what to set on a server so that its log can be captured, what that writes per second, and how to undo it; change nothing.
    Plan(CapturePlanArgs),
    /// Make a workload directory of a server's logs: transactions as they were, with their values, rates, and what is left out.
    Log(CaptureLogArgs),
    /// Show what a captured workload directory has: transactions, rates, roles of values, what is left out, what is personal.
    Show(CaptureShowArgs),
}
