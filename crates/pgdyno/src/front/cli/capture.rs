//! Options of `capture`.

pub(crate) mod plan;

use clap::Subcommand;

use self::plan::CapturePlanArgs;

/// Subcommands of `pgdyno capture`.
#[derive(Debug, Subcommand)]
pub(crate) enum CaptureCommand {
    /// Say what to set on a server so that its log can be captured, what that writes per second, and how to undo it; change nothing.
    Plan(CapturePlanArgs),
}
