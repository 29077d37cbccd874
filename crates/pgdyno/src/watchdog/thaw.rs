//! A process that outlives pgdyno for as long as it takes to let a server go on that an outage has stopped.
//!
//! It is this program (`pgdyno thaw`) in a session of its own, and reads a pipe whose other end only pgdyno has. A pgdyno that has let
//! the processes go on says so. The end of the pipe without that word means that it was killed: then they go on, and hear the signal
//! that ends a server whose pgdyno has ended.

use anyhow::{Error, Result};
use clap::Args;
use server::running::processes::Held;

use super::hears_farewell;
use crate::{Exit, guard, signals};

/// Arguments of `pgdyno thaw`.
#[derive(Debug, Args)]
pub(crate) struct ThawArgs {
    /// Id of the server's postmaster.
    postmaster: i32,
}

/// The process itself.
///
/// # Errors
/// When it cannot leave the terminal.
pub(crate) fn thaw(args: &ThawArgs) -> Result<Exit> {
    signals::ignore();
    // One that has ended already needs it no more.
    let server = Held::find(args.postmaster).ok();
    guard::leave_terminal().map_err(Error::msg)?;

    if !hears_farewell() {
        server.iter().for_each(Held::go_on_with_children);
    }
    Ok(Exit::Done)
}
