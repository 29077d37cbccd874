//! What pgdyno prints, without what is secret in it, and how it ends.

use std::io::{IsTerminal, Write};

use model::secret;
use model::text::visible::visible;

/// How pgdyno ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// Failed, bad usage, or no number at all.
    Failed = 1,
    /// Errors during the run; the results are partial.
    Partial = 2,
    /// Done, but a finding voids a number, and `--strict` was given.
    Void = 3,
    /// A comparison found what `--fail-on` names.
    Different = 4,
}

/// A line for people, on standard error, without what is secret in it. What a server, a file or a label would do to a
/// terminal is shown instead.
pub(crate) fn say(line: &str) {
    // A closed standard error is no reason to stop measuring.
    writeln!(std::io::stderr().lock(), "{}", visible(&secret::hide_text(line))).ok();
}

/// The result for people, on standard output; see [`say`].
///
/// # Errors
/// As [`print_exact`].
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    write_out(&visible(&secret::hide_text(text)))
}

/// What pgbench prints, without what is secret in it; byte for byte, unless it goes to a terminal.
///
/// # Errors
/// As [`print_exact`].
pub(crate) fn print_as_pgbench(text: &str) -> anyhow::Result<()> {
    if std::io::stdout().is_terminal() { print(text) } else { print_exact(text) }
}

/// The result for programs, or with colours of our own, without what is secret in it.
///
/// # Errors
/// When standard output cannot be written, such as a full device: the result would be lost.
pub(crate) fn print_exact(text: &str) -> anyhow::Result<()> {
    let is_json = text.starts_with(['{', '[']);
    write_out(&if is_json { secret::hide_json(text) } else { secret::hide_text(text) })
}

fn write_out(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // The reader has seen enough.
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}
