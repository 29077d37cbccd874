//! How fast a machine is, as earlier experiments on it have shown: durations observed on one machine are no estimate for another. What the
//! machine does at the moment is no part of it: a probe of a tenth of a second took other work for a slow machine.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use model::experiment::plan::{Plan, RunState};
use model::run::RunRecord;
use model::run::phase::{Phase, PhaseRecord};
use serde::{Deserialize, Serialize};

use crate::forecast::outlook::expected_around_load_s;

/// Speed of a machine relative to the one on which the durations of `outlook.rs` were observed: 2 virtual processors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MachineSpeed(f64);

/// The durations of one experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Shown {
    t_unix_ns: u64,
    /// The time that the steps around loads took, over the time that `outlook.rs` expects: the median over runs.
    times: f64,
    n_runs: usize,
}

/// Bounds: a single experiment may have been disturbed in all its runs. Our convention.
const SLOWEST: f64 = 0.1;
const FASTEST: f64 = 3.0;
/// Experiments that count, the last ones. Of these the quickest does: other work lengthens the steps, and nothing shortens them.
const N_COUNT: usize = 5;
/// Many times the size that years of experiments reach.
const BYTES_MAX: u64 = 16 << 20;

impl Default for MachineSpeed {
    fn default() -> MachineSpeed {
        MachineSpeed(1.0)
    }
}

impl MachineSpeed {
    /// This speed, within bounds.
    pub fn new(relative: f64) -> MachineSpeed {
        MachineSpeed(relative.clamp(SLOWEST, FASTEST))
    }

    /// What the experiments have shown whose results are kept in the directory `cache`; the usual speed if there were none.
    pub fn known(cache: &Path) -> MachineSpeed {
        let read = || {
            let cache = files::trust::check_directory(cache).ok()?;
            String::from_utf8(files::trust::read(&path(&cache), BYTES_MAX).ok()?).ok()
        };
        // A later version may have written a line that we cannot read.
        let text = read().unwrap_or_default();
        let shown = text.lines().rev().filter_map(|line| serde_json::from_str::<Shown>(line).ok());
        let quickest = shown.take(N_COUNT).map(|shown| shown.times).reduce(f64::min);
        quickest
            .filter(|times| *times > 0.0)
            .map_or(MachineSpeed::default(), |times| MachineSpeed::new(1.0 / times))
    }

    /// Keeps in the directory `cache` what an experiment has shown, if it ran servers of our own.
    ///
    /// # Errors
    /// When somebody else could change the directory, or it cannot be written.
    pub fn keep(cache: &Path, plan: &Plan, records: &[RunRecord], t_unix_ns: u64) -> Result<()> {
        let shown = shown_by(plan, records);
        let Some(times) = stats::median(&shown) else { return Ok(()) };
        let line = serde_json::to_string(&Shown { t_unix_ns, times, n_runs: shown.len() })?;
        let path = path(cache);
        let context = || format!("cannot keep durations in `{}`", path.display());
        files::trust::make_directory(cache).with_context(context)?;
        let mut options = OpenOptions::new();
        let mut file =
            files::open_with(&path, options.create(true).append(true).mode(0o644)).with_context(context)?;
        writeln!(file, "{line}").with_context(context)
    }

    /// As a factor of how much is done in a second.
    pub fn relative(self) -> f64 {
        self.0
    }
}

/// File with one JSON object per line, the newest last.
fn path(cache: &Path) -> PathBuf {
    cache.join("durations.jsonl")
}

/// The time around the load of each complete run over the expected one, where the server is our own.
fn shown_by(plan: &Plan, records: &[RunRecord]) -> Vec<f64> {
    let of = |record: &RunRecord| {
        let case = plan.case(record.spec.case).filter(|case| case.server.source.is_embedded())?;
        let is_load = |phase: Phase| matches!(phase, Phase::RampUp | Phase::Measure);
        let took_s: f64 =
            record.phases.iter().filter(|phase| !is_load(phase.phase)).map(PhaseRecord::length_s).sum();
        (record.state == RunState::Completed && took_s > 0.0).then(|| took_s / expected_around_load_s(case))
    };
    records.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quickest_of_the_last_experiments_counts() {
        let cache = tempfile::tempdir().unwrap();
        let relative = || MachineSpeed::known(cache.path()).relative();
        assert_eq!(relative(), 1.0, "nothing is known");
        let write = |lines: &[&str]| std::fs::write(path(cache.path()), lines.join("\n")).unwrap();
        let shown = |times: &str| format!(r#"{{"t_unix_ns":1,"times":{times},"n_runs":3}}"#);
        write(&[&shown("0.5"), &shown("4"), &shown("2"), &shown("8"), &shown("3"), "{torn", &shown("2.5")]);
        assert_eq!(relative(), 0.5, "the first one is too old");
        write(&[&shown("1000")]);
        assert_eq!(relative(), SLOWEST);
        write(&[&shown("0")]);
        assert_eq!(relative(), 1.0, "no time is none that was measured");
    }

    #[test]
    fn what_runs_took_around_their_loads_is_kept_for_the_next_experiment() {
        let cache = tempfile::tempdir().unwrap();
        let plan = crate::plan::sample::plan("repeats = 1\n[workload]\nscale = 1\nclients = [1, 2]\n");
        let expected_s = expected_around_load_s(&plan.cases[0]);
        let phase = |phase, from_s: f64, to_s: f64| PhaseRecord {
            phase,
            start_unix_ns: (from_s * 1e9) as u64,
            end_unix_ns: (to_s * 1e9) as u64,
            detail: Default::default(),
        };
        let record = |n: usize| {
            let spec = plan.runs[n].clone();
            let mut record = RunRecord::new(spec, plan.cases[n].clone(), "0");
            record.state = RunState::Completed;
            record.phases = vec![
                phase(Phase::Restore, 0.0, 1.5 * expected_s),
                phase(Phase::Measure, 100.0, 900.0),
                phase(Phase::Drain, 900.0, 900.0 + 0.5 * expected_s),
            ];
            record
        };
        MachineSpeed::keep(cache.path(), &plan, &[], 1).unwrap();
        assert_eq!(MachineSpeed::known(cache.path()), MachineSpeed::default());
        MachineSpeed::keep(cache.path(), &plan, &[record(0), record(1)], 1).unwrap();
        assert!((MachineSpeed::known(cache.path()).relative() - 0.5).abs() < 1e-6);
    }
}
