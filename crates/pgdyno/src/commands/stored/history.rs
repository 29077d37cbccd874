//! `pgdyno history`: stored runs of the same case over time, and where their level changed.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use analysis::history::{Change, History, histories};
use anyhow::{Result, bail};
use model::text::prose::plural;

use crate::commands::stored::explained::{Explained, Series};
use crate::commands::stored::shelf;
use crate::front::cli::stored::{HistoryArgs, RESULTS};
use crate::{Exit, print, print_exact, say};

/// Prints the histories of all experiments with one name.
pub(crate) fn history(args: &HistoryArgs) -> Result<Exit> {
    if let Some(store) = &args.store {
        shelf::fetch_all(store, &args.name)?;
    }
    let is_local = args.store.is_none();
    let given = args.place.as_deref().or(args.dir.as_deref());
    let of_one = if given.is_none() && is_local { results_of_one(Path::new(&args.name)) } else { None };
    let (name, dir) =
        of_one.unwrap_or_else(|| (args.name.clone(), given.unwrap_or(Path::new(RESULTS)).to_path_buf()));
    let listings = crate::commands::stored::list::listings(&dir)?;
    let mut names: Vec<&str> = listings.iter().map(|listing| listing.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let mut experiments = Vec::new();
    for listing in listings.iter().filter(|listing| listing.name == name) {
        match Explained::read(&listing.path, Series::No) {
            Ok(Explained { data, study }) => {
                experiments.push((listing.path.display().to_string(), data, study));
            }
            // One broken result hides no other.
            Err(error) => say(&format!("skipped damaged results: {error:#}")),
        }
    }
    if experiments.is_empty() {
        let dir = dir.display();
        match names.as_slice() {
            [] => bail!("no results in `{dir}`"),
            known if Path::new(&name).is_dir() => {
                bail!("`{name}` is a directory: name the experiment first, of {}", known.join(", "))
            }
            known => bail!("no experiment `{name}` in `{dir}`; it has {}", known.join(", ")),
        }
    }
    let found = histories(&experiments);
    if args.json {
        print_exact(&format!("{}\n", serde_json::to_string_pretty(&found)?))?;
    } else {
        print(&found.iter().map(text).collect::<Vec<String>>().join("\n"))?;
    }
    Ok(Exit::Done)
}

/// The name of the experiment whose results are in this directory, and the directory with all its results.
fn results_of_one(path: &Path) -> Option<(String, PathBuf)> {
    if !path.is_dir() {
        return None;
    }
    let all = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let listings = crate::commands::stored::list::listings(all).ok()?;
    let is_it = |listing: &&store::Listing| listing.path.file_name() == path.file_name();
    let name = listings.iter().find(is_it)?.name.clone();
    Some((name, all.to_path_buf()))
}

pub(super) fn text(history: &History) -> String {
    let mut text =
        format!("{} on {}: {}\n", history.label, history.hostname, plural(history.points.len(), "run"));
    for point in &history.points {
        let change = history.changes.iter().find(|change| change.first_after == *point);
        text.push_str(&change.map(words).unwrap_or_default());
        let when = jiff::Timestamp::from_nanosecond(point.t_unix_ns.into()).unwrap_or_default();
        let when = when.strftime("%Y-%m-%d %H:%MZ");
        writeln!(
            text,
            "  {when}  {:>10.0} tps  {:<16}  {} run {}",
            point.tps, point.revision, point.experiment, point.run
        )
        .expect("a string takes any text");
    }
    if history.changes.is_empty() {
        text.push_str(no_change(history.points.len()));
    }
    text
}

/// Fewest runs among which a change of level can be found: four on each side.
const RUNS_MIN: usize = 8;

fn no_change(n_runs: usize) -> &'static str {
    match n_runs < RUNS_MIN {
        true => "  too few runs to tell whether the level changed (four are needed on each side)\n",
        false => "  no level change (at least 2 %, p below 0.001, four runs on each side)\n",
    }
}

fn words(change: &Change) -> String {
    let percent = 100.0 * (change.after / change.before - 1.0);
    let revisions = match change.last_before.revision == change.first_after.revision {
        true => String::new(),
        false => format!(", {} to {}", change.last_before.revision, change.first_after.revision),
    };
    let (before, after, p) = (change.before, change.after, change.p);
    format!("  -- change: median {before:.0} to {after:.0} tps ({percent:+.1} %, p = {p:.1e}{revisions})\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_runs_are_too_few_to_deny_a_change() {
        for n_runs in [1, 2, 7] {
            assert!(no_change(n_runs).contains("too few runs to tell"), "{n_runs}");
        }
        assert!(no_change(8).contains("no level change"));
    }
}
