//! Runs a file of SQL that creates a user's own data, statement by statement.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, anyhow, bail};
use wire::session::{Session, SessionError};
use workload::script::sqlfile::{self, SqlStep, line_and_column};

use crate::session::STOPPED;

/// Size of one piece of COPY data.
const PIECE_BYTES: usize = 64 * 1024;

/// Runs the statements of a file; returns how many there were.
///
/// # Errors
/// With file, line and column of the failed statement; those before it have been executed.
pub fn run(session: &mut Session, name: &str, text: &str, stop: &AtomicBool) -> Result<u64> {
    let mut n_statements = 0;
    for step in sqlfile::steps(text) {
        if stop.load(Ordering::Relaxed) {
            bail!(STOPPED);
        }
        let step = step.map_err(|error| {
            let (line, column) = line_and_column(text, error.start);
            anyhow!("{name}:{line}:{column}: {}", error.message)
        })?;
        if let Err(error) = run_step(session, &step) {
            let (line, column) = line_and_column(text, step.start + offset(&step, &error));
            return Err(anyhow::Error::new(error).context(format!("{name}:{line}:{column}")));
        }
        n_statements += 1;
    }
    Ok(n_statements)
}

/// Position of the error in the statement according to the server, in bytes.
fn offset(step: &SqlStep, error: &SessionError) -> usize {
    let SessionError::Server(error) = error else { return 0 };
    let n_chars = error.position.map_or(0, |position| position as usize - 1);
    step.text.chars().take(n_chars).map(char::len_utf8).sum()
}

fn run_step(session: &mut Session, step: &SqlStep) -> std::result::Result<(), SessionError> {
    let Some(mut rows) = step.rows else { return session.execute(&step.text) };
    let copied = session.copy_in(&step.text, |out| {
        let mut end = rows.len().min(PIECE_BYTES);
        while !rows.is_char_boundary(end) {
            end += 1;
        }
        out.extend_from_slice(&rows.as_bytes()[..end]);
        rows = &rows[end..];
        !rows.is_empty()
    });
    copied.map(drop)
}
