//! The experiments below one directory, without reading their runs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use model::plan::RunState;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::load::{is_experiment_dir, read_state};
use crate::names;

/// One experiment, in brief.
#[derive(Debug, Clone, PartialEq)]
pub struct Listing {
    /// Its directory.
    pub path: PathBuf,
    /// Its name.
    pub name: String,
    /// When its plan was made, nanoseconds since the Unix epoch.
    pub made_unix_ns: u64,
    /// Runs in the plan.
    pub n_runs_planned: usize,
    /// Runs that ended as planned.
    pub n_runs_completed: usize,
    /// How far the whole got: the last line of `state.jsonl` about the experiment, `Started` without one.
    pub state: RunState,
}

/// What is needed of a plan; read also from plans of newer formats, as far as they have it.
#[derive(Deserialize)]
struct PlanHead {
    name: String,
    made_unix_ns: u64,
    runs: Vec<IgnoredAny>,
}

/// The experiments in the directories directly below `results_root`, oldest first. Empty when there is
/// no such directory. Directories whose plan cannot be read are left out.
pub fn list(results_root: &Path) -> Result<Vec<Listing>> {
    let context = || format!("cannot read the directory `{}`", results_root.display());
    let entries = match fs::read_dir(results_root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(context),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.with_context(context)?.path();
        found.extend(listing(path));
    }
    found.sort_by(|a, b| (a.made_unix_ns, &a.path).cmp(&(b.made_unix_ns, &b.path)));
    Ok(found)
}

fn listing(path: PathBuf) -> Option<Listing> {
    if !is_experiment_dir(&path) {
        return None;
    }
    let plan: PlanHead = serde_json::from_slice(&fs::read(path.join(names::PLAN)).ok()?).ok()?;
    let last: BTreeMap<u32, RunState> =
        read_state(&path).into_iter().map(|line| (line.run, line.state)).collect();
    Some(Listing {
        name: plan.name,
        made_unix_ns: plan.made_unix_ns,
        n_runs_planned: plan.runs.len(),
        n_runs_completed: last
            .iter()
            .filter(|&(&run, &state)| run != 0 && state == RunState::Completed)
            .count(),
        state: last.get(&0).copied().unwrap_or(RunState::Started),
        path,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ExperimentDir, sample};
    use model::plan::StateLine;

    #[test]
    fn experiments_are_listed_oldest_first_and_others_left_out() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(list(&root.path().join("none")).unwrap(), []);
        fs::create_dir(root.path().join("other")).unwrap();
        fs::write(root.path().join("file"), "").unwrap();
        for (name, made_unix_ns) in [("a", 2), ("b", 1)] {
            let mut plan = sample::plan();
            plan.name = name.to_string();
            plan.made_unix_ns = made_unix_ns;
            let dir = ExperimentDir::create(&root.path().join(name), &plan, "").unwrap();
            let line = |run, state| StateLine { t_unix_ns: 1, run, state, reason: String::new() };
            dir.append_state(&line(1, RunState::Started)).unwrap();
            dir.append_state(&line(1, RunState::Completed)).unwrap();
            dir.append_state(&line(2, RunState::Failed)).unwrap();
            if name == "b" {
                dir.append_state(&line(0, RunState::Partial)).unwrap();
            }
        }
        let found: Vec<_> = list(root.path())
            .unwrap()
            .into_iter()
            .map(|l| (l.name, l.n_runs_planned, l.n_runs_completed, l.state))
            .collect();
        assert_eq!(
            found,
            [("b".to_string(), 2, 1, RunState::Partial), ("a".to_string(), 2, 1, RunState::Started)]
        );
    }
}
