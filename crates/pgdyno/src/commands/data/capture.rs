//! `pgdyno capture`: from what a production server logs and counts to a workload of your own.

mod asked;
mod fidelity;
mod log;
mod plan;
mod show;
mod statements;
mod stats;
mod window;

use anyhow::Result;

use crate::Exit;
use crate::front::cli::data::capture::CaptureCommand;

/// Does what a subcommand asks for.
pub(crate) fn capture(command: &CaptureCommand) -> Result<Exit> {
    match command {
        CaptureCommand::Plan(args) => plan::plan(args),
        CaptureCommand::Stats(args) => stats::stats(args),
        CaptureCommand::Log(args) => log::log(args),
        CaptureCommand::Statements(args) => statements::statements(args),
        CaptureCommand::Show(args) => show::show(args),
        CaptureCommand::Fidelity(args) => fidelity::fidelity(args),
    }
}
