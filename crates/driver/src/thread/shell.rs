//! Runs the commands of `\shell` and `\setshell`.
//!
//! Their standard input is empty. pgbench passes its own on; the driver's carries orders.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

/// A command under way.
pub(crate) struct ShellCommand(Receiver<io::Result<Ran>>);

/// The result of a command.
pub(crate) struct Ran {
    /// Whether it ended with exit code 0.
    pub(crate) is_success: bool,
    /// What it wrote to its standard output. (Errors go where the driver's own go.)
    pub(crate) output: Vec<u8>,
}

impl ShellCommand {
    /// Starts a command line.
    pub(crate) fn start(line: String) -> ShellCommand {
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let output = Command::new("/bin/sh")
                // As system() calls it, because the shell puts this name in front of its complaints.
                .arg0("sh")
                .args(["-c", &line])
                .stdin(Stdio::null())
                .stderr(Stdio::inherit())
                .output()
                .map(|output| Ran { is_success: output.status.success(), output: output.stdout });
            // If the load is over, nobody waits for it.
            sender.send(output).ok();
        });
        ShellCommand(receiver)
    }

    /// The result, or `None` if the command has not ended after `timeout`.
    pub(crate) fn wait(&self, timeout: Duration) -> Option<io::Result<Ran>> {
        match self.0.recv_timeout(timeout) {
            Ok(ran) => Some(ran),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Err(io::Error::other("the thread that ran it died"))),
        }
    }
}
