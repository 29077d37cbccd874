//! What pgdyno prints, without secrets, and its exit codes.

use std::io::{IsTerminal, Write};

use model::secret;
use model::text::visible::visible;
use nix::errno::Errno;
use nix::sys::stat::SFlag;

use crate::signals;

/// How pgdyno ends: its exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Done = 0,
    Failed = 1,
    Partial = 2,
    Void = 3,
    Different = 4,
}

/// All exit codes in words.
pub(crate) const EXITS: [(Exit, &str); 5] = [
    (Exit::Done, "done"),
    (Exit::Failed, "failed, bad usage, or no number that counts"),
    (
        Exit::Partial,
        "partial results: stopped, an error after some had been measured, or a limiter that nothing here can prove",
    ),
    (
        Exit::Void,
        "a finding voids a number and --strict was given, a throughput can be further off than --max-uncertainty, or a row of doctor voids every number",
    ),
    (Exit::Different, "a comparison found what --fail-on names"),
];

impl Exit {
    /// How a job ends whose comparisons end so: what was asked for was found, or a verdict is missing, before all is well.
    pub(crate) fn of_all(exits: impl IntoIterator<Item = Exit>) -> Exit {
        let weight = |exit: &Exit| match exit {
            Exit::Done => 0,
            Exit::Different => 2,
            Exit::Partial | Exit::Void | Exit::Failed => 1,
        };
        exits.into_iter().max_by_key(weight).unwrap_or(Exit::Done)
    }

    /// This exit code, but that of success only if values of operating systems are restored.
    pub(crate) fn unless_values_are_left(self, is_restored: bool) -> Exit {
        if self == Exit::Done && !is_restored { Exit::Partial } else { self }
    }
}

/// Prints a line for people on standard error, without secrets. Control characters from a server, a file or a label are
/// escaped.
pub(crate) fn say(line: &str) {
    // A closed standard error is no reason to stop measuring.
    writeln!(std::io::stderr().lock(), "{}", visible(&secret::hide_text(line))).ok();
}

/// Prints the result for people on standard output; see [`say`].
///
/// # Errors
/// As [`print_exact`].
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    write_out(&visible(&secret::hide_text(text)))
}

/// Prints pgbench's output without secrets; byte for byte, unless it goes to a terminal.
///
/// # Errors
/// As [`print_exact`].
pub(crate) fn print_as_pgbench(text: &str) -> anyhow::Result<()> {
    if std::io::stdout().is_terminal() { print(text) } else { print_exact(text) }
}

/// Prints the result for programs, or with our colours, without secrets.
///
/// # Errors
/// When standard output cannot be written, as on a full device: the result would be lost.
pub(crate) fn print_exact(text: &str) -> anyhow::Result<()> {
    let is_json = text.starts_with(['{', '[']);
    write_out(&if is_json { secret::hide_json(text) } else { secret::hide_text(text) })
}

/// Whether standard output is, or was, a terminal: one that has hung up is none any more, and nohup keeps the signal away.
fn is_device() -> bool {
    nix::sys::stat::fstat(std::io::stdout())
        .is_ok_and(|facts| SFlag::from_bits_truncate(facts.st_mode & SFlag::S_IFMT.bits()) == SFlag::S_IFCHR)
}

fn write_out(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // The reader has seen enough.
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        // Its terminal is gone: nobody reads any more, and the exit code says what became of it.
        Err(e) if e.raw_os_error() == Some(Errno::EIO as i32) && (signals::has_hung_up() || is_device()) => {
            Ok(())
        }
        other => Ok(other?),
    }
}
