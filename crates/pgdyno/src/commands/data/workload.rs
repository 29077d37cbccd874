//! `pgdyno workload`: what workloads there are, what one is, and what is wrong with a directory that says so.

mod cells;
mod found;
mod list;
mod native;
mod proof;
mod rows;
mod show;
mod template;
mod written;

use anyhow::Result;

use crate::Exit;
use crate::front::cli::data::workloads::WorkloadCommand;

/// Does what a subcommand asks for.
pub(crate) fn workload(command: &WorkloadCommand) -> Result<Exit> {
    match command {
        WorkloadCommand::List { json } => list::list(*json),
        WorkloadCommand::Show(args) => show::show(args),
        WorkloadCommand::New { dir } => template::write(dir),
        WorkloadCommand::Check(args) => proof::check(args),
        WorkloadCommand::Rows(args) => rows::rows(args),
    }
}

/// What `pgdyno workload check` says of a directory that was just written, without a server; empty if it is sound.
///
/// # Errors
/// When it cannot be read, or is beyond the bounds of such directories.
pub(crate) fn problems_of_written(place: &str) -> Result<String> {
    proof::of_written(place)
}
