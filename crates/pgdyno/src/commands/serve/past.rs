//! Runs of results for histories, kept in memory until their result changes: to explain a year of results takes minutes, the little
//! of them that a history shows does not change.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use analysis::history::{PastRun, past_runs};
use anyhow::Result;

use super::makers::name;
use crate::commands::stored::explained::Explained;

/// Most results whose runs are kept.
const KEPT_MAX: usize = 5_000;

/// Most runs that are kept, and most that the history of one experiment is made of: those of its newest results.
const RUNS_MAX: usize = 100_000;

/// Times and sizes of the files whose changes change a result.
type Stamp = [(i64, i64, u64); 2];

type Kept = HashMap<PathBuf, (Stamp, Vec<PastRun>)>;

static KEPT: Mutex<Option<Kept>> = Mutex::new(None);

/// The runs of the results in these directories, and in words which cannot be read: one broken result hides no other. What is not kept
/// from before is read by `read`, which gets the name that a result has on pages, too.
pub(super) fn of_all(
    dirs: &[&Path],
    read: impl Fn(&Path, &str) -> Result<Vec<PastRun>>,
) -> (Vec<PastRun>, Vec<String>) {
    let (mut all, mut left_out) = (Vec::new(), Vec::new());
    for (n, dir) in dirs.iter().enumerate() {
        if all.len() >= RUNS_MAX {
            let n_older = dirs.len() - n;
            left_out.push(format!(
                "{n_older} older results: the newer ones have {} runs, and a page shows about {RUNS_MAX}",
                all.len()
            ));
            break;
        }
        let name = name(dir);
        match kept_or(dir, || read(dir, &name)) {
            Ok(runs) => all.extend(runs),
            Err(error) => left_out.push(format!("{name}: {error:#}")),
        }
    }
    (all, left_out)
}

fn kept_or(dir: &Path, read: impl FnOnce() -> Result<Vec<PastRun>>) -> Result<Vec<PastRun>> {
    let stamp = [store::names::PLAN, store::names::STATE].map(|file| stamp(&dir.join(file)));
    let find = |kept: &Kept| kept.get(dir).filter(|(known, _)| *known == stamp).map(|(_, runs)| runs.clone());
    if let Some(runs) = lock(|kept| find(kept)) {
        return Ok(runs);
    }
    let runs = read()?;
    lock(|kept| {
        let n_runs: usize = kept.values().map(|(_, runs)| runs.len()).sum();
        if kept.len() >= KEPT_MAX || n_runs >= RUNS_MAX {
            kept.clear();
        }
        kept.insert(dir.to_path_buf(), (stamp, runs.clone()));
    });
    Ok(runs)
}

/// The runs of the result in a directory, which has this name on pages.
pub(super) fn read(dir: &Path, name: &str) -> Result<Vec<PastRun>> {
    let Explained { data, study } = Explained::read_for_figures(dir)?;
    Ok(past_runs(name, &data, &study))
}

fn lock<T>(with: impl FnOnce(&mut Kept) -> T) -> T {
    with(KEPT.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

fn stamp(path: &Path) -> (i64, i64, u64) {
    fs::symlink_metadata(path).map_or((0, 0, 0), |facts| (facts.mtime(), facts.mtime_nsec(), facts.size()))
}
