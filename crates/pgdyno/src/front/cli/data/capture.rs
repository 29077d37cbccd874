//! Options of `capture`.

pub(crate) mod fidelity;
pub(crate) mod log;
pub(crate) mod plan;
pub(crate) mod statements;
pub(crate) mod stats;

use clap::Subcommand;

use self::fidelity::FidelityArgs;
use self::log::{CaptureLogArgs, CaptureShowArgs};
use self::plan::CapturePlanArgs;
use self::statements::CaptureStatementsArgs;
use self::stats::CaptureStatsArgs;

/// Subcommands of `pgdyno capture`.
#[derive(Debug, Subcommand)]
pub(crate) enum CaptureCommand {
    /// Say what to set on a server to capture its log, what that writes per second, and how to undo it; change nothing.
    Plan(CapturePlanArgs),
    /// Read a server's counters for some time: statements, tables, settings, sessions at work. Nothing is changed or reset.
    Stats(CaptureStatsArgs),
    /// Make a workload directory of a server's logs: transactions with their values and rates, and what is left out.
    Log(CaptureLogArgs),
    /// Make a workload directory of counters alone: each statement is a transaction, with values as pg_stats describes them. Approximate at
    /// best.
    Statements(CaptureStatementsArgs),
    /// Show what a captured workload directory has: transactions, rates, roles of values, what is left out, what is personal.
    Show(CaptureShowArgs),
    /// Say how faithful a replay is to the source of its workload, measure by measure.
    Fidelity(FidelityArgs),
}
