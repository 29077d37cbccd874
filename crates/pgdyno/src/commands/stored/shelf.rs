//! `pgdyno push`, and `--store` of the commands that read results: results in a PostgreSQL schema, and back from there.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use anyhow::{Context, Result, bail, ensure};
use dataset::clearance::published::{self, Creator};
use dataset::session;
use model::text::prose::plural;
use shelf::{Pushed, PushedResult, Shelf, StoredResult};
use workload::Schema;

use crate::commands::compare::page;
use crate::commands::stored::explained::{Explained, KeptTelemetry};
use crate::commands::stored::list;
use crate::front::cli::stored::{PushArgs, RESULTS};
use crate::front::setup;
use crate::{Exit, say, signals};

/// Stores results.
pub(crate) fn push(args: &PushArgs) -> Result<Exit> {
    let (mut dirs, mut exit) = (Vec::new(), Exit::Done);
    for dir in &args.dirs {
        if store::is_experiment_dir(dir) {
            dirs.push(dir.clone());
            continue;
        }
        let found = list::found(dir)?;
        if !found.damaged.is_empty() {
            exit = Exit::Partial;
        }
        dirs.extend(found.experiments.into_iter().map(|listing| listing.path));
    }
    ensure!(!dirs.is_empty(), "no results to push: name a results directory, or a directory of such");
    if !args.allow_published {
        expect_unpublished(&args.store)?;
    }
    let mut shelf = open(&args.store)?;
    for number in shelf.migrate(env!("CARGO_PKG_VERSION"))? {
        say(&format!("schema `{}`: applied migration {number}", shelf::SCHEMA));
    }
    for dir in &dirs {
        if signals::stop_flag().load(Ordering::Relaxed) {
            bail!("stopped; what was pushed before is complete");
        }
        match one(&mut shelf, dir, args.replace) {
            Ok(pushed) => say(&format!("{}: {}", dir.display(), words(pushed))),
            // Others may still be pushed, unless the server is gone.
            Err(error) if dirs.len() > 1 && !shelf.is_lost() => {
                say(&format!("pgdyno: error: {}: {error:#}", dir.display()));
                exit = Exit::Partial;
            }
            Err(error) => return Err(error.context(format!("cannot push `{}`", dir.display()))),
        }
    }
    Ok(exit)
}

fn words(pushed: Pushed) -> String {
    match pushed {
        Pushed::New(id) => format!("stored as #{id}"),
        Pushed::Replaced(id) => format!("replaced #{id}"),
        Pushed::Unchanged(id) => format!("is there already, as #{id}"),
    }
}

fn one(shelf: &mut Shelf, dir: &Path, replace: bool) -> Result<Pushed> {
    let explained = Explained::read(dir, KeptTelemetry::No)?;
    let comparisons = page::own_comparisons(dir, &explained)?;
    let Explained { data, study } = &explained;
    let tool_version = env!("CARGO_PKG_VERSION");
    let is_ours = store::read_sealed(dir)?.author.is_us();
    shelf.push(&PushedResult { dir, data, study, comparisons: &comparisons, tool_version, is_ours, replace })
}

/// Fails if a publication publishes the tables of the store.
fn expect_unpublished(target: &str) -> Result<()> {
    let mut session = session::open(&setup::resolve_to_change(target)?, signals::stop_flag())?;
    published::expect_none(&mut session, Some(&Schema::named(shelf::SCHEMA)), Creator::Store)
}

fn open(target: &str) -> Result<Shelf> {
    // From here on a signal ends the wait for the server.
    let stop = signals::stop_flag();
    Shelf::open(&setup::resolve_to_change(target)?, stop)
}

/// The directories of these results of a store, which are fetched unless they are here already. Without a store, the names as they
/// are.
///
/// # Errors
/// When the store has no such result, or something else is in the place of its directory.
pub(crate) fn fetched(store: Option<&str>, names: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let Some(target) = store else { return Ok(names.to_vec()) };
    let mut shelf = open(target)?;
    shelf.expect_schema()?;
    let find = |name: &PathBuf| {
        let kept = shelf.find(&name.to_string_lossy())?;
        fetch(&mut shelf, &kept)
    };
    names.iter().map(find).collect()
}

/// Fetches all results of one experiment that are not here.
///
/// # Errors
/// When the store has none.
pub(crate) fn fetch_all(target: &str, name: &str) -> Result<()> {
    let mut shelf = open(target)?;
    shelf.expect_schema()?;
    let all = shelf.list(Some(name))?;
    ensure!(!all.is_empty(), "the store has no results of an experiment `{name}`");
    say(&format!("the store has {} of `{name}`", plural(all.len(), "result")));
    for kept in &all {
        fetch(&mut shelf, kept)?;
    }
    Ok(())
}

/// The directory of a stored result, which has its name and, where another result has that name here, its number too.
fn fetch(shelf: &mut Shelf, kept: &StoredResult) -> Result<PathBuf> {
    let name = plain(&kept.directory);
    let numbered = format!("{name}-{}", kept.experiment_id);
    for dir in [name, numbered].map(|name| Path::new(RESULTS).join(name)) {
        if !dir.exists() {
            shelf.fetch(kept, &dir)?;
            say(&format!("fetched `{}`", dir.display()));
            return Ok(dir);
        }
        let plan = store::read_plan(&dir).with_context(|| format!("`{}` is in the way", dir.display()))?;
        if (&plan.name, plan.seed, plan.made_unix_ns) == (&kept.name, kept.seed, kept.made_unix_ns) {
            ensure!(
                kept.is_in(&dir)?,
                "`{}` and #{} of the store are different states of one result: remove the directory to fetch it again, or push it",
                dir.display(),
                kept.experiment_id
            );
            return Ok(dir);
        }
    }
    bail!(
        "other results are in the places of #{} of the store, `{}`; move them",
        kept.experiment_id,
        kept.directory.escape_debug()
    )
}

/// The name of a directory for what the store calls so. It comes from a database: it leads nowhere else, and is no option.
fn plain(name: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_.+ ".contains(c);
    let plain: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    if plain.is_empty() || plain.starts_with(['.', '-']) { format!("_{plain}") } else { plain }
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn no_name_of_a_store_leads_elsewhere() {
        for (name, expected) in [
            ("2026-11-26-versions-a1b2", "2026-11-26-versions-a1b2"),
            ("pg17,pg18", "pg17_pg18"),
            ("../../evil", "_.._.._evil"),
            ("/etc", "_etc"),
            ("a\0b\n", "a_b_"),
            ("--force", "_--force"),
            ("", "_"),
            ("..", "_.."),
        ] {
            assert_eq!(plain(name), expected);
        }
    }
}
