//! Lists the experiments below a directory without reading their runs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result};
use model::experiment::plan::{RunState, n_sure_blocks};
use serde::Deserialize;

use crate::load::{is_experiment_dir, read_state, read_whole};
use crate::lock::writer_of;
use crate::{names, parse};

/// Summary of one experiment.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Debug, Clone, PartialEq)]
pub struct Listing {
    pub path: PathBuf,
    pub name: String,
    /// Creation time of the plan, nanoseconds since the Unix epoch.
    pub made_unix_ns: u64,
    /// Without runs that only spare time would have made.
    pub n_runs_planned: usize,
    /// Planned runs that were measured completely and have a record.
    pub n_runs_completed: usize,
    /// The last line of `state.jsonl` about the experiment; `Started` without one.
    pub state: RunState,
    /// Whether a process is writing to it now.
    pub is_running: bool,
}

/// The part of a plan that a listing needs. Plans of newer formats are read too, as far as they have it.
#[derive(Deserialize)]
struct PlanHead {
    name: String,
    made_unix_ns: u64,
    #[serde(flatten)]
    runs: ListedRuns,
}

/// The runs of a plan, as far as a list counts them.
#[derive(Debug, Deserialize)]
pub struct ListedRuns {
    #[serde(default)]
    repeats: u32,
    #[serde(default)]
    spare_blocks: u32,
    runs: Vec<RunHead>,
}

#[derive(Debug, Deserialize)]
struct RunHead {
    run: u32,
    #[serde(default)]
    block: u32,
}

impl ListedRuns {
    /// Numbers of the planned runs. One that only spare time makes is planned once it has begun.
    pub fn planned(&self, states: &BTreeMap<u32, RunState>) -> BTreeSet<u32> {
        let n_sure = n_sure_blocks(self.repeats, self.spare_blocks);
        let is_planned = |head: &&RunHead| {
            self.spare_blocks == 0 || head.block <= n_sure || states.contains_key(&head.run)
        };
        self.runs.iter().filter(is_planned).map(|head| head.run).collect()
    }
}

/// Contents of a directory of results.
#[derive(Debug, Default)]
pub struct Listings {
    /// Oldest first.
    pub experiments: Vec<Listing>,
    /// Unreadable plans, sorted by path, each with the reason.
    pub damaged: Vec<anyhow::Error>,
}

/// Lists the experiments directly below `results_root`, or `results_root` itself if it is an experiment.
///
/// # Errors
/// When the directory does not exist or is not readable.
pub fn list(results_root: &Path) -> Result<Listings> {
    let context = || format!("cannot read directory `{}`", results_root.display());
    let mut paths = vec![results_root.to_path_buf()];
    if !is_experiment_dir(results_root) {
        let entries = fs::read_dir(results_root).and_then(|entries| {
            entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<PathBuf>, std::io::Error>>()
        });
        paths = entries.with_context(context)?;
        paths.retain(|path| !is_hidden(path));
        paths.sort();
    }
    let mut found = Listings::default();
    for path in paths.into_iter().filter(|path| is_experiment_dir(path)) {
        match listing(path) {
            Ok(listing) => found.experiments.push(listing),
            Err(error) => found.damaged.push(error),
        }
    }
    // A stable sort: experiments of the same moment stay sorted by path.
    found.experiments.sort_by_key(|listing| listing.made_unix_ns);
    Ok(found)
}

/// Whether a directory begins with a dot: it is no result of its own. Commands unpack into such for the time being.
pub fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

fn listing(path: PathBuf) -> Result<Listing> {
    let file = path.join(names::PLAN);
    let context = || format!("cannot read `{}`", file.display());
    let plan: PlanHead =
        parse::record(&read_whole(&file).with_context(context)?).map_err(Error::msg).with_context(context)?;
    let last: BTreeMap<u32, RunState> =
        read_state(&path).into_iter().map(|line| (line.run, line.state)).collect();
    // Attempts that repeat a disturbed run have numbers of their own; in a merged study, those of the next origin follow.
    let planned = plan.runs.planned(&last);
    Ok(Listing {
        name: plan.name,
        made_unix_ns: plan.made_unix_ns,
        n_runs_planned: planned.len(),
        n_runs_completed: last
            .iter()
            .filter(|&(&run, &state)| planned.contains(&run) && state == RunState::Completed)
            .filter(|&(&run, _)| has_record(&path, run))
            .count(),
        state: last.get(&0).copied().unwrap_or(RunState::Started),
        is_running: writer_of(&path).is_some(),
        path,
    })
}

/// Whether a run has a record. Only reports find out whether it is damaged: to read those of a thousand results takes seconds.
fn has_record(path: &Path, run: u32) -> bool {
    let file = path.join(names::RUNS).join(names::run_dir(run)).join(names::RUN);
    fs::symlink_metadata(file).is_ok_and(|facts| facts.is_file() && facts.len() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ExperimentDir, sample};
    use model::experiment::plan::StateLine;

    #[test]
    fn experiments_are_listed_oldest_first_and_others_left_out() {
        let root = tempfile::tempdir().unwrap();
        assert!(list(&root.path().join("none")).is_err());
        fs::create_dir(root.path().join("other")).unwrap();
        fs::write(root.path().join("file"), "").unwrap();
        for (name, made_unix_ns) in [("a", 2), ("b", 1)] {
            let mut plan = sample::plan();
            plan.name = name.to_string();
            plan.made_unix_ns = made_unix_ns;
            // Merged: 3 is a repeat of the first origin.
            plan.runs[1].run = if name == "a" { 4 } else { 2 };
            let dir = ExperimentDir::create(&root.path().join(name), &plan, "").unwrap();
            let line = |run, state| StateLine { t_unix_ns: 1, run, state, reason: String::new() };
            for run in [1, 3, 4] {
                dir.begin_run(run).unwrap().write_record(&sample::record(run)).unwrap();
            }
            dir.append_state(&line(1, RunState::Started)).unwrap();
            dir.append_state(&line(1, RunState::Completed)).unwrap();
            dir.append_state(&line(2, RunState::Failed)).unwrap();
            dir.append_state(&line(3, RunState::Completed)).unwrap();
            dir.append_state(&line(4, RunState::Completed)).unwrap();
            if name == "b" {
                dir.append_state(&line(0, RunState::Partial)).unwrap();
            }
        }
        // What `repeat` unpacks is somebody else's, for the time being.
        ExperimentDir::create(&root.path().join(".unpacked-1"), &sample::plan(), "").unwrap();
        fs::create_dir(root.path().join("damaged")).unwrap();
        fs::write(root.path().join("damaged").join(names::PLAN), "{").unwrap();
        let listings = list(root.path()).unwrap();
        let [damaged] = &listings.damaged[..] else { panic!("{listings:?}") };
        assert!(format!("{damaged:#}").contains("damaged/plan.json"), "{damaged:#}");
        let itself = list(&root.path().join("a")).unwrap();
        assert_eq!(itself.experiments[..], listings.experiments[1..]);
        fs::remove_dir_all(root.path().join("a").join(names::RUNS).join(names::run_dir(4))).unwrap();
        let lost = list(&root.path().join("a")).unwrap();
        assert_eq!(lost.experiments[0].n_runs_completed, 1, "a run without a record is not counted");
        let found: Vec<_> = listings
            .experiments
            .into_iter()
            .map(|l| (l.name, l.n_runs_planned, l.n_runs_completed, l.state))
            .collect();
        assert_eq!(
            found,
            [("b".to_string(), 2, 1, RunState::Partial), ("a".to_string(), 2, 2, RunState::Started)]
        );
    }

    #[test]
    fn runs_of_spare_time_are_planned_once_they_have_begun() {
        let json = |spare: &str| {
            format!(
                r#"{{"repeats": 2{spare}, "runs": [{{"run": 1, "block": 1}}, {{"run": 2, "block": 2}}, {{"run": 3, "block": 2}}]}}"#
            )
        };
        let planned = |text: &str, begun: &[u32]| -> Vec<u32> {
            let runs: ListedRuns = serde_json::from_str(text).unwrap();
            let states = begun.iter().map(|run| (*run, RunState::Completed)).collect();
            runs.planned(&states).into_iter().collect()
        };
        let with_spare = json(r#", "spare_blocks": 1"#);
        assert_eq!(planned(&with_spare, &[1]), [1]);
        assert_eq!(planned(&with_spare, &[1, 3]), [1, 3]);
        assert_eq!(planned(&json(""), &[1]), [1, 2, 3]);
        assert_eq!(planned(r#"{"runs": [{"run": 1}, {"run": 2}]}"#, &[]), [1, 2], "an older plan");
    }
}
