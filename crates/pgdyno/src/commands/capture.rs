//! `pgdyno capture`: from what a server logs and counts to a workload directory.

mod plan;

use anyhow::Result;

use crate::Exit;
use crate::front::cli::capture::CaptureCommand;

/// Does what a subcommand asks for.
pub(crate) fn capture(command: &CaptureCommand) -> Result<Exit> {
    match command {
        CaptureCommand::Plan(args) => plan::plan(args),
    }
}
