//! The pages of stored results for a server: read and explained as for the other commands.

use std::path::Path;

use analysis::history::{PastRun, joined};
use anyhow::Result;
use report::Input;
use report::site::{self, Link, Page, Several};
use serve::Makers;

use crate::commands::compare;
use crate::commands::compare::page;
use crate::commands::report::run_again;
use crate::commands::serve::{control, past};
use crate::commands::stored::explained::{Explained, Series};

const TOOL_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Everything is drawn in this process.
pub(crate) const DRAWN_HERE: Makers = Makers {
    result,
    comparison: compare::page_of,
    several,
    history,
    stop: control::stop,
    again: control::again,
};

/// The report; of an experiment that is being measured, of the runs that have ended.
fn result(dir: &Path, back: &[Link]) -> Result<Page> {
    let explained = match store::writer_of(dir) {
        Some(_) => Explained::read_so_far(dir, Series::Drawn, &[])?,
        None => Explained::read(dir, Series::Drawn)?,
    };
    let comparisons = page::own_comparisons(dir, &explained)?;
    if !comparisons.is_empty() {
        return page::with_own(dir, &explained, &comparisons, |input| site::comparison(input, back));
    }
    let Explained { data, study } = &explained;
    let commands = [run_again(dir)];
    Ok(site::result(&Input { study, data, commands: &commands, tool_version: TOOL_VERSION }, back))
}

pub(super) fn name(dir: &Path) -> String {
    let whole = dir.canonicalize().unwrap_or_else(|_| dir.to_path_buf());
    whole.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

fn several(dirs: &[&Path], back: &[Link]) -> Result<Page> {
    let read = |dir: &&Path| Ok((name(dir), Explained::read(dir, Series::No)?));
    let explained: Vec<(String, Explained)> = dirs.iter().map(read).collect::<Result<_>>()?;
    let machine = |one: &Explained| {
        let host = one.data.runs.iter().find_map(|run| run.record.host.as_ref());
        host.map_or_else(String::new, |host| host.hostname.clone())
    };
    let machines: Vec<String> = explained.iter().map(|(_, one)| machine(one)).collect();
    let results: Vec<Several> = explained
        .iter()
        .zip(&machines)
        .map(|((name, one), machine)| Several { name, machine, study: &one.study })
        .collect();
    Ok(site::several(&results, back, TOOL_VERSION))
}

fn history(experiment: &str, dirs: &[&Path], back: &[Link]) -> Result<Page> {
    let (runs, left_out) = past::of_all(dirs, past::of);
    Ok(history_of(experiment, runs, &left_out, back))
}

/// The page of the history of an experiment, from its runs, and what could not be read of it.
pub(super) fn history_of(experiment: &str, runs: Vec<PastRun>, left_out: &[String], back: &[Link]) -> Page {
    site::history(experiment, &joined(runs), left_out, back, TOOL_VERSION)
}
