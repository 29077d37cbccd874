//! Data that the user's own SQL files make: run once, statement by statement.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Result, anyhow, bail};
use model::experiment::script::SqlFile;
use wire::session::{Session, SessionError};
use workload::script::sqlfile::{self, SqlStep, line_and_column};

use crate::conduct::STOPPED;
use crate::progress::{Progress, Watch};
use crate::scripts;

/// Size of one piece of COPY data.
const PIECE_BYTES: usize = 64 * 1024;

/// Runs the files in their order in one session. The scale is there as the setting `pgdyno.scale`.
///
/// # Errors
/// With file, line and column of the statement that failed; those before it are done.
pub(crate) fn run_files(
    session: &mut Session,
    files: &[SqlFile],
    scale: u32,
    stop: &AtomicBool,
    watch: &mut Watch,
) -> Result<String> {
    let begun = Instant::now();
    session.execute(&format!("select pg_catalog.set_config('pgdyno.scale', '{scale}', false)"))?;
    let mut n_statements = 0;
    for file in files {
        watch(Progress::Step(format!("running `{}`", file.name)));
        let text = scripts::text_of(file).map_err(|message| anyhow!(message))?;
        for step in sqlfile::steps(&text) {
            if stop.load(Ordering::Relaxed) {
                bail!(STOPPED);
            }
            let step = step.map_err(|error| {
                let (line, column) = line_and_column(&text, error.start);
                anyhow!("{}:{line}:{column}: {}", file.name, error.message)
            })?;
            if let Err(error) = run(session, &step) {
                let (line, column) = line_and_column(&text, step.start + offset(&step, &error));
                return Err(anyhow::Error::new(error).context(format!("{}:{line}:{column}", file.name)));
            }
            n_statements += 1;
        }
    }
    // What the files set is theirs, and must not stay on: `pg_dump` empties the search path.
    session.execute("reset all")?;
    let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    Ok(format!("{}: {n_statements} statements in {:.3} s", names.join(", "), begun.elapsed().as_secs_f64()))
}

/// Where in the statement the server found the error, in bytes.
fn offset(step: &SqlStep, error: &SessionError) -> usize {
    let SessionError::Server(error) = error else { return 0 };
    let n_chars = error.position.map_or(0, |position| position as usize - 1);
    step.text.chars().take(n_chars).map(char::len_utf8).sum()
}

fn run(session: &mut Session, step: &SqlStep) -> std::result::Result<(), SessionError> {
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
