//! Somebody who lets stopped processes go on if this process is killed: a stopped server does not hear that we have ended.

use std::io::Write;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::{Context, Result};

/// The command of the program that does it.
pub const COMMAND: &str = "thaw";
/// What a pgdyno says to a process that stands by for its end, and is needed no more.
pub const FAREWELL: &[u8] = b"done\n";

/// A process at the end of a pipe. Dropping it says that nothing is stopped any more.
pub(super) struct Thaw {
    child: Child,
    pipe: Option<ChildStdin>,
}

impl Thaw {
    /// Starts it for the server of a postmaster, whichever of its processes are stopped.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(super) fn start(program: &Path, postmaster: u32) -> Result<Thaw> {
        let mut command = Command::new(program);
        command.arg(COMMAND).arg(postmaster.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().context("start the process that lets a stopped server go on")?;
        let pipe = child.stdin.take();
        Ok(Thaw { child, pipe })
    }
}

impl Drop for Thaw {
    fn drop(&mut self) {
        if let Some(mut pipe) = self.pipe.take() {
            // One that is gone needs no farewell.
            pipe.write_all(FAREWELL).ok();
        }
        self.child.wait().ok();
    }
}
