//! Running the commands of `\shell` and `\setshell`. The thread waits for them, as in pgbench.

use std::process::{Command, Stdio};

/// What a command did.
pub(crate) struct Ran {
    /// Whether it ended with exit code 0.
    pub(crate) is_success: bool,
    /// What it wrote to its standard output. (Errors go where the driver's own go.)
    pub(crate) output: Vec<u8>,
}

/// Runs a command line.
pub(crate) fn run(line: &str) -> std::io::Result<Ran> {
    let output =
        Command::new("/bin/sh").args(["-c", line]).stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    Ok(Ran { is_success: output.status.success(), output: output.stdout })
}
