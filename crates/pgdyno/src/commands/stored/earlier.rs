//! What earlier experiments say about how much runs differ: those next to a result, with its workload and on its machine.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use analysis::budget::EarlierRuns;
use experiment::schedule::conduct::measured_tps;
use model::experiment::case::Case;
use model::experiment::plan::RunState;
use model::run::{ExperimentData, RunRecord};
use store::Stored;

/// From this number of runs of each case on, nobody needs to be asked.
const RUNS_ENOUGH: u32 = 3;
/// Most neighbours that are looked at: those whose names, which begin with the date, come last before the result's own.
const NEIGHBOURS_MAX: usize = 40;
/// From so many earlier runs on, no older ones are looked for: what is known beforehand counts as two runs, and lists and histories ask for each
/// of their results.
const FOUND_ENOUGH: usize = 20;
/// Most runs of a neighbour whose records are read.
const RUNS_MAX: usize = 60;

/// Earlier runs of the workload of an experiment's first case on its machine; `None` without any, and where its own runs are enough.
pub(super) fn runs(dir: &Path, data: &ExperimentData) -> Option<EarlierRuns> {
    if data.plan.repeats >= RUNS_ENOUGH {
        return None;
    }
    let first = data.plan.cases.first()?;
    let machine = data.runs.iter().find_map(|run| machine(&run.record))?;
    let mut found = EarlierRuns { cases: Vec::new(), n_experiments: 0, measure_s: 0.0 };
    let (mut length_s, mut n_runs) = (0.0, 0_usize);
    for neighbour in neighbours(dir)? {
        if n_runs >= FOUND_ENOUGH {
            break;
        }
        let Ok(stored) = Stored::open(&neighbour) else { continue };
        if stored.plan().made_unix_ns >= data.plan.made_unix_ns {
            continue;
        }
        let cases = of_one(&stored, first, machine, |record| {
            length_s += f64::from(record.window().measure_s);
            n_runs += 1;
        });
        found.n_experiments += usize::from(!cases.is_empty());
        found.cases.extend(cases);
    }
    found.measure_s = length_s / n_runs.max(1) as f64;
    (n_runs > 0).then_some(found)
}

/// The throughputs of a result's runs by case.
fn of_one(stored: &Stored, first: &Case, machine: &str, mut see: impl FnMut(&RunRecord)) -> Vec<Vec<f64>> {
    let is_alike = |case: &Case| {
        let (own, other) = (&first.workload, &case.workload);
        (own.kind, own.scale, own.pace.is_open()) == (other.kind, other.scale, other.pace.is_open())
    };
    if !stored.plan().cases.iter().any(is_alike) {
        return Vec::new();
    }
    let mut cases: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for index in 0..stored.n_runs().min(RUNS_MAX) {
        let Ok(Some(record)) = stored.record(index) else { continue };
        // What was repeated was disturbed, and so may be its repeats.
        let is_plain = record.state == RunState::Completed
            && record.repeat.is_none()
            && record.search.is_none()
            && !record.took_turns();
        let is_wanted = is_plain && is_alike(&record.case) && self::machine(&record) == Some(machine);
        if let Some(tps) = measured_tps(&record)
            && is_wanted
        {
            see(&record);
            cases.entry(record.spec.case).or_default().push(tps);
        }
    }
    cases.into_values().collect()
}

fn machine(record: &RunRecord) -> Option<&str> {
    record.host.as_ref().map(|host| host.hostname.as_str())
}

/// The results next to this one, by name.
fn neighbours(dir: &Path) -> Option<Vec<PathBuf>> {
    let own = dir.canonicalize().ok()?;
    let all = fs::read_dir(own.parent()?).ok()?.flatten().map(|entry| entry.path());
    let is_result = |path: &PathBuf| {
        *path != own && !path.is_symlink() && !store::is_hidden(path) && store::is_experiment_dir(path)
    };
    let mut all: Vec<PathBuf> = all.filter(is_result).collect();
    // Those before it, the last one first; then those whose names say nothing of their time.
    all.sort_by_key(|path| (*path > own, std::cmp::Reverse(path.clone())));
    all.truncate(NEIGHBOURS_MAX);
    Some(all)
}
