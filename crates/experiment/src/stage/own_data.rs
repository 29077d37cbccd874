//! Data from the user's own SQL files, which run once, statement by statement.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::{Result, anyhow};
use dataset::sql_files;
use model::experiment::script::SqlFile;
use wire::session::Session;

use crate::plan::scripts;
use crate::site::progress::{Progress, Watch};

/// Runs the files in their order in one session. The setting `pgdyno.scale` has the scale.
///
/// # Errors
/// With file, line and column of the failed statement; those before it have been executed.
pub(crate) fn run_files(
    session: &mut Session,
    files: &[SqlFile],
    scale: u32,
    stop: &AtomicBool,
    watch: &mut Watch,
) -> Result<String> {
    let begun = Instant::now();
    session.execute(&format!("select pg_catalog.set_config('pgdyno.scale', '{scale}', false)"))?;
    // Their statements are the user's, and name tables as the user's sessions would.
    session.restore_for_user()?;
    let mut n_statements = 0;
    for file in files {
        watch(Progress::Step(format!("running `{}`", file.name)));
        let text = scripts::text_of(file, stop).map_err(|message| anyhow!(message))?;
        n_statements += sql_files::run(session, &file.name, &text, stop)?;
    }
    // The files' settings are theirs and may not persist: `pg_dump` empties the search path.
    session.execute("reset all")?;
    session.administer()?;
    let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    Ok(format!("{}: {n_statements} statements in {:.3} s", names.join(", "), begun.elapsed().as_secs_f64()))
}
