//! An experiment that is under way: its plan, how far it is, and the run that is measured.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use model::experiment::case::Case;
use model::experiment::plan::{Plan, RunSpec, RunState, StateLine};
use model::secret::hide_text;
use report::site::{self, ExperimentState, PlanInput, RunOfPlan, RunProgress};

use super::run::FollowedRun;
use super::{Shown, lock};
use crate::index;

/// Runs of the plan that the page shows.
const RUNS_SHOWN: usize = 15;
/// Most repeated runs whose records are looked at.
const REPEATS_MAX: usize = 1000;

/// Followed by one thread.
pub(super) struct FollowedExperiment {
    dir: PathBuf,
    /// Of hosts that are measured side by side, the one whose runs are shown.
    lane: usize,
    plan: Option<Plan>,
    /// Where the case of each planned run is among the cases: there may be 20,000 of both.
    cases: HashMap<u32, usize>,
    /// The lines of `state.jsonl`, and what that file was when they were read.
    state: Vec<StateLine>,
    stamp: (i64, i64, u64),
    /// What pgdyno said last: what it does besides loads, and how long it expects to take.
    said: Option<model::run::now::CurrentActivity>,
    /// The runs that others repeat, by their numbers.
    again: BTreeMap<u32, u32>,
    run: Option<FollowedRun>,
    /// How many attempts at runs were followed.
    n_attempts: u32,
    /// Looks at which nobody wrote to the directory, one after the other.
    n_unwritten: u32,
}

/// A directory is left by its writer for a moment between the parts of a command, such as a run and its what-ifs.
const UNWRITTEN_MAX: u32 = 3;

impl FollowedExperiment {
    pub(super) fn new(dir: PathBuf, lane: usize) -> FollowedExperiment {
        FollowedExperiment {
            dir,
            lane,
            plan: None,
            cases: HashMap::new(),
            state: Vec::new(),
            stamp: (0, 0, 0),
            said: None,
            again: BTreeMap::new(),
            run: None,
            n_attempts: 0,
            n_unwritten: 0,
        }
    }

    pub(super) fn plan(&self) -> Option<&Plan> {
        self.plan.as_ref()
    }

    /// Reads the plan, and how far it is.
    pub(super) fn read_plan(&mut self) -> Result<()> {
        if self.plan.is_none() {
            let plan = store::read_plan(&self.dir)?;
            let places: HashMap<u32, usize> =
                plan.cases.iter().enumerate().rev().map(|(at, case)| (case.id, at)).collect();
            let of_run = |spec: &RunSpec| Some((spec.run, *places.get(&spec.case)?));
            self.cases = plan.runs.iter().rev().filter_map(of_run).collect();
            self.plan = Some(plan);
        }
        self.said = store::read_now(&self.dir);
        let stamp = stamp(&self.dir.join(store::names::STATE));
        if stamp != self.stamp {
            self.state = store::read_state(&self.dir);
            self.stamp = stamp;
            self.look_for_repeats();
        }
        Ok(())
    }

    /// Looks at what came since the last time, and shows it. `is_over`: whether it is known to
    /// have ended. Returns whether it has.
    pub(super) fn look(&mut self, shown: &Mutex<Shown>, is_over: bool) -> bool {
        if let Err(error) = self.read_plan() {
            lock(shown).ended = Some(format!("It cannot be followed: {error:#}."));
            return true;
        }
        self.follow_run();
        let latest = self.run.as_mut().and_then(FollowedRun::look);
        let parts = self.parts();
        let is_written = store::writer_of(&self.dir).is_some();
        self.n_unwritten = if is_written { 0 } else { self.n_unwritten + 1 };
        let mut shown = lock(shown);
        shown.parts = parts;
        if let (Some(run), Some(latest)) = (&self.run, latest) {
            latest.draw(&mut shown, run);
        }
        if is_over || self.n_unwritten >= UNWRITTEN_MAX {
            shown.ended = Some(self.ending());
        }
        shown.ended.is_some()
    }

    fn ending(&self) -> String {
        let whole = self.state.iter().rev().find(|line| line.run == 0).map(|line| line.state);
        match whole {
            Some(RunState::Completed) => "The experiment is complete.".to_string(),
            Some(RunState::Partial) => "The experiment has ended early.".to_string(),
            Some(RunState::Failed) => "The experiment has failed.".to_string(),
            Some(RunState::Started) | None => "Nobody measures this experiment any more.".to_string(),
        }
    }

    /// Follows the run that was begun last, if it has not ended.
    fn follow_run(&mut self) {
        let Some(number) = self.current(self.lane) else { return };
        if self.run.as_ref().is_some_and(|run| run.number == number && run.is_latest()) {
            return;
        }
        self.n_attempts += 1;
        self.run = FollowedRun::new(&self.dir, number, self.label(number), self.n_attempts);
    }

    /// The run of a lane that was begun last and has not ended.
    fn current(&self, lane: usize) -> Option<u32> {
        let last = self.last_states();
        let begun = self.state.iter().rev().filter(|line| line.run > 0 && line.state == RunState::Started);
        begun
            .map(|line| line.run)
            .filter(|run| self.lane_of(*run) == lane)
            .find(|run| last.get(run).is_some_and(|line| line.state == RunState::Started))
    }

    /// Hosts that are measured side by side; one of a plan without.
    fn n_lanes(&self) -> usize {
        self.plan.as_ref().filter(|plan| plan.is_side_by_side()).map_or(1, |plan| plan.lanes.len())
    }

    /// The lane of a run; the first one in a plan without.
    fn lane_of(&self, run: u32) -> usize {
        let plan = self.plan.as_ref().filter(|plan| plan.is_side_by_side());
        let lane = plan
            .zip(self.case_of(run))
            .and_then(|(plan, case)| plan.lanes.iter().position(|lane| lane.has(case)));
        lane.unwrap_or(0)
    }

    /// The case of a run, or of the one that it repeats.
    fn case_of(&self, run: u32) -> Option<&Case> {
        let planned = self.again.get(&run).unwrap_or(&run);
        self.plan.as_ref()?.cases.get(*self.cases.get(planned)?)
    }

    fn last_states(&self) -> BTreeMap<u32, &StateLine> {
        self.state.iter().map(|line| (line.run, line)).collect()
    }

    fn label(&self, number: u32) -> String {
        let case = self.case_of(number).map(Case::label);
        match (case, self.again.get(&number)) {
            (Some(case), None) => case,
            (Some(case), Some(of)) => format!("{case}, run {of} again"),
            (None, _) => "a run again".to_string(),
        }
    }

    /// Finds out which runs those repeat that the plan does not have.
    fn look_for_repeats(&mut self) {
        let planned = self.plan.as_ref().map_or(0, |plan| plan.runs.len());
        let begun: Vec<u32> =
            self.state.iter().map(|line| line.run).filter(|run| *run as usize > planned).collect();
        for run in begun {
            if self.again.len() < REPEATS_MAX && !self.again.contains_key(&run) {
                self.again.extend(index::repeats(&self.dir, run).map(|of| (run, of)));
            }
        }
    }

    /// How long each run took that has ended, by its number, seconds.
    fn lengths(&self) -> BTreeMap<u32, f64> {
        let mut begun: BTreeMap<u32, u64> = BTreeMap::new();
        let mut lengths = BTreeMap::new();
        for line in self.state.iter().filter(|line| line.run > 0) {
            if line.state == RunState::Started {
                begun.insert(line.run, line.t_unix_ns);
            } else if let Some(from) = begun.get(&line.run) {
                lengths.insert(line.run, line.t_unix_ns.saturating_sub(*from) as f64 / 1e9);
            }
        }
        lengths
    }

    /// Seconds since a run was begun.
    fn since_begin_s(&self, number: u32) -> f64 {
        let line = self.state.iter().rev().find(|line| line.run == number && line.state == RunState::Started);
        line.map_or(0.0, |line| now_unix_ns().saturating_sub(line.t_unix_ns) as f64 / 1e9)
    }

    /// Seconds until the last run of the lane ends, as pgdyno estimates it on its line of progress.
    fn estimated_left_s(&self) -> Option<f64> {
        let end_unix_ns = *self.said.as_ref()?.ends_unix_ns.get(self.lane)?;
        Some(end_unix_ns.saturating_sub(now_unix_ns()) as f64 / 1e9)
    }

    /// What each run of the lane that has not ended takes by that estimate, with what precedes and follows its load.
    fn estimated_s(&self) -> Option<f64> {
        let last = self.last_states();
        let is_missing = |run: u32| last.get(&run).is_none_or(|line| line.state == RunState::Started);
        let runs = self.plan.iter().flat_map(|plan| &plan.runs).map(|spec| spec.run);
        let n = runs.filter(|run| is_missing(*run) && self.lane_of(*run) == self.lane).count();
        let since_s = self.current(self.lane).map_or(0.0, |run| self.since_begin_s(run));
        let of_each_s = (self.estimated_left_s()? + since_s) / n.max(1) as f64;
        (of_each_s > 0.0).then_some(of_each_s)
    }

    /// What a run is expected to take: as those that were completed, or as pgdyno estimates, or its load.
    fn expected_s(&self) -> f64 {
        let last = self.last_states();
        let is_completed = |run: &u32| last.get(run).is_some_and(|line| line.state == RunState::Completed);
        let lengths: Vec<f64> =
            self.lengths().into_iter().filter(|(run, _)| is_completed(run)).map(|(_, s)| s).collect();
        match lengths.len() {
            0 => self.estimated_s().unwrap_or_else(|| {
                let cases = self.plan.iter().flat_map(|plan| &plan.cases);
                cases.map(|case| f64::from(case.window.load_s())).fold(0.0, f64::max)
            }),
            n => lengths.iter().sum::<f64>() / n as f64,
        }
    }

    /// The runs of the plan, and those that repeat some, in the order of their numbers.
    pub(super) fn runs(&self) -> Vec<RunOfPlan> {
        let Some(plan) = &self.plan else { return Vec::new() };
        let (last, lengths, expected_s) = (self.last_states(), self.lengths(), self.expected_s());
        let is_written = store::writer_of(&self.dir).is_some();
        let of_current =
            |lane| self.current(lane).map_or(0.0, |run| (expected_s - self.since_begin_s(run)).max(0.0));
        let mut wait_s: Vec<f64> = (0..self.n_lanes()).map(of_current).collect();
        let blocks: BTreeMap<u32, u32> = plan.runs.iter().map(|spec| (spec.run, spec.block)).collect();
        let mut numbers: Vec<u32> =
            blocks.keys().copied().chain(last.keys().copied().filter(|run| *run > 0)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let mut runs = Vec::with_capacity(numbers.len());
        for run in numbers {
            let state = match last.get(&run) {
                Some(line) if line.state == RunState::Started && is_written => RunProgress::Running,
                Some(line) => RunProgress::Ended(lengths.get(&run).copied(), ended(line)),
                None if is_written && expected_s > 0.0 => {
                    let wait_s = &mut wait_s[self.lane_of(run)];
                    *wait_s += expected_s;
                    RunProgress::In(*wait_s - expected_s)
                }
                None => RunProgress::Waits,
            };
            let block = blocks.get(&run).copied().unwrap_or_default();
            runs.push(RunOfPlan { run, block, label: self.label(run), state });
        }
        runs
    }

    /// The parts of the page.
    fn parts(&self) -> Vec<(&'static str, String)> {
        let runs = self.runs();
        let plan = site::plan(&PlanInput { runs: &runs, n_shown: RUNS_SHOWN });
        let findings = match &self.run {
            Some(run) => site::findings_so_far(run.number, &run.label, run.findings()),
            None => "<p class=\"quiet\">No run has begun.</p>".to_string(),
        };
        vec![("now", site::now(&self.now(&runs))), ("findings", findings), ("plan", plan)]
    }

    fn now(&self, runs: &[RunOfPlan]) -> ExperimentState {
        let current = self.current(self.lane);
        let n_ended = runs.iter().filter(|run| matches!(run.state, RunProgress::Ended(..))).count();
        let expected_s = self.expected_s();
        let run = self.run.as_ref().filter(|run| Some(run.number) == current);
        let load_left_s = run.and_then(FollowedRun::load_left_s);
        let since_s = current.map_or(0.0, |number| self.since_begin_s(number));
        let of_current_s = (expected_s - since_s).max(load_left_s.unwrap_or(0.0)).max(0.0);
        let last_begins_s = runs.iter().filter_map(|run| match run.state {
            RunProgress::In(s) => Some(s + expected_s),
            _ => None,
        });
        // By the clock, a load may be late.
        let estimated_s = self.estimated_left_s().map(|s| s.max(load_left_s.unwrap_or(0.0)));
        let by_runs_s = (expected_s > 0.0).then_some(last_begins_s.fold(of_current_s, f64::max));
        let share_of_run = if expected_s > 0.0 { (since_s / expected_s).min(0.99) } else { 0.0 };
        let n_done = n_ended as f64 + if current.is_some() { share_of_run } else { 0.0 };
        ExperimentState {
            run: current,
            n_runs: runs.len(),
            n_ended,
            label: current.map_or(String::new(), |number| self.label(number)),
            doing: run.and_then(FollowedRun::doing).unwrap_or_else(|| self.besides()),
            load_left_s,
            left_s: estimated_s.or(by_runs_s),
            share: n_done / runs.len().max(1) as f64,
            figures: run.and_then(FollowedRun::figures),
        }
    }

    /// What happens besides a load, if pgdyno has said so since the last step.
    fn besides(&self) -> String {
        let last_step = self.state.last().map_or(0, |line| line.t_unix_ns);
        let said = self.said.as_ref().filter(|now| now.t_unix_ns >= last_step);
        said.map_or_else(|| "preparing".to_string(), |now| hide_text(&now.doing).into_owned())
    }
}

fn ended(line: &StateLine) -> String {
    let state = match line.state {
        RunState::Completed => "completed",
        RunState::Partial => "partial",
        RunState::Failed => "failed",
        RunState::Started => "cut off",
    };
    match line.reason.as_str() {
        "" => state.to_string(),
        reason => format!("{state}: {reason}"),
    }
}

pub(super) fn stamp(path: &Path) -> (i64, i64, u64) {
    std::fs::symlink_metadata(path)
        .map_or((0, 0, 0), |facts| (facts.mtime(), facts.mtime_nsec(), facts.size()))
}

pub(super) fn now_unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use model::experiment::case::{ServerSource, ServerSpec, WorkloadKind, WorkloadSpec};
    use model::experiment::target::TargetSpec;
    use model::experiment::target::lane::Lane;
    use model::load::Window;
    use model::run::RunRecord;
    use store::ExperimentDir;

    use super::*;

    #[test]
    fn a_run_that_is_measured_again_after_it_was_cut_off_is_followed_from_its_new_beginning() {
        let root = tempfile::tempdir().unwrap();
        let window = Window { ramp_up_s: 0, measure_s: 100, grace_s: 1 };
        let server = ServerSpec::new(ServerSource::Version("15".parse().unwrap()));
        let case = Case::new(server, WorkloadSpec::new(WorkloadKind::Tpcb, 1), window);
        let spec = RunSpec { run: 1, block: 1, case: case.id, seed: 1 };
        let plan = Plan {
            format: model::FORMAT,
            cases: vec![case.clone()],
            runs: vec![spec.clone()],
            ..Plan::default()
        };
        let path = root.path().join("resumed");
        let dir = ExperimentDir::create(&path, &plan, "").unwrap();
        let begin = || {
            let line = StateLine {
                t_unix_ns: now_unix_ns(),
                run: 1,
                state: RunState::Started,
                reason: String::new(),
            };
            dir.append_state(&line).unwrap();
        };
        let write = |go_unix_ns| {
            let record = RunRecord::new(spec.clone(), case.clone(), "0");
            let writer = dir.begin_run(1).unwrap();
            writer.write_record(&RunRecord { go_unix_ns: Some(go_unix_ns), ..record }).unwrap();
        };
        let (mut experiment, shown) = (FollowedExperiment::new(path, 0), Mutex::default());
        let mut left_s = || {
            experiment.look(&shown, false);
            experiment.now(&[]).load_left_s
        };
        begin();
        write(now_unix_ns() - 60 * 1_000_000_000);
        assert!(left_s().is_some_and(|s| s < 41.0));
        // The page may look before the new attempt has its directory.
        begin();
        assert!(left_s().is_some_and(|s| s < 41.0));
        write(now_unix_ns());
        assert!(left_s().is_some_and(|s| s > 90.0));
    }

    #[test]
    fn what_is_left_in_all_is_what_the_line_of_progress_says() {
        let root = tempfile::tempdir().unwrap();
        let window = Window { ramp_up_s: 1, measure_s: 10, grace_s: 1 };
        let server = ServerSpec::new(ServerSource::Version("15".parse().unwrap()));
        let case = Case::new(server, WorkloadSpec::new(WorkloadKind::Tpcb, 1), window);
        let runs = [1, 2].map(|run| RunSpec { run, block: run, case: case.id, seed: 1 }).to_vec();
        let plan = Plan { format: model::FORMAT, cases: vec![case], runs, ..Plan::default() };
        let path = root.path().join("estimated");
        let dir = ExperimentDir::create(&path, &plan, "").unwrap();
        // Seconds until the last run ends, and until each begins.
        let expected = || {
            let mut experiment = FollowedExperiment::new(path.clone(), 0);
            experiment.read_plan().unwrap();
            let runs = experiment.runs();
            let waits = runs.iter().filter_map(|run| match run.state {
                RunProgress::In(s) => Some(s.round()),
                _ => None,
            });
            (experiment.now(&runs).left_s.map(f64::round), waits.collect::<Vec<f64>>())
        };
        assert_eq!(expected(), (Some(22.0), vec![0.0, 11.0]), "nobody knows more than the loads");
        let t_unix_ns = now_unix_ns();
        let ends_unix_ns = vec![t_unix_ns + 340_000_000_000];
        let doing = "restore".to_string();
        dir.write_now(&model::run::now::CurrentActivity {
            format: model::FORMAT,
            t_unix_ns,
            doing,
            ends_unix_ns,
        })
        .unwrap();
        let (left_s, waits) = expected();
        assert!((330.0..=340.0).contains(&left_s.unwrap()), "{left_s:?}: with what precedes each load");
        assert!(waits[0] == 0.0 && (160.0..=170.0).contains(&waits[1]), "{waits:?}");
    }

    #[test]
    fn the_runs_of_twenty_thousand_cases_are_soon_found() {
        let root = tempfile::tempdir().unwrap();
        let server = ServerSpec::new(ServerSource::Version("15".parse().unwrap()));
        let window = Window { ramp_up_s: 1, measure_s: 9, grace_s: 1 };
        let case = Case::new(server, WorkloadSpec::new(WorkloadKind::Tpcb, 1), window);
        let plan = Plan {
            format: model::FORMAT,
            cases: (1..=20_000).map(|id| Case { id, ..case.clone() }).collect(),
            runs: (1..=20_000).map(|run| RunSpec { run, block: 1, case: run, seed: 1 }).collect(),
            ..Plan::default()
        };
        let path = root.path().join("many");
        ExperimentDir::create(&path, &plan, "").unwrap();
        let mut experiment = FollowedExperiment::new(path, 0);
        experiment.read_plan().unwrap();
        let begun = std::time::Instant::now();
        assert_eq!(experiment.runs().len(), 20_000);
        assert!(begun.elapsed().as_secs_f64() < 5.0, "{:?}", begun.elapsed());
    }

    #[test]
    fn hosts_side_by_side_have_their_own_current_runs_and_waits() {
        let root = tempfile::tempdir().unwrap();
        let window = Window { ramp_up_s: 1, measure_s: 9, grace_s: 1 };
        let case = |(id, name): (u32, &str)| {
            let server = ServerSpec {
                target: Some(TargetSpec { name: name.to_string(), ..TargetSpec::default() }),
                ..ServerSpec::new(ServerSource::Version("15".parse().unwrap()))
            };
            Case { id, ..Case::new(server, WorkloadSpec::new(WorkloadKind::Tpcb, 1), window) }
        };
        let lane = |name: &str| Lane { targets: vec![name.to_string()], addresses: Vec::new() };
        let plan = Plan {
            format: model::FORMAT,
            lanes: vec![lane("a"), lane("b")],
            cases: [(1, "a"), (2, "b")].map(case).to_vec(),
            runs: (1..=6).map(|run| RunSpec { run, block: 1, case: 2 - run % 2, seed: 1 }).collect(),
            ..Plan::default()
        };
        let path = root.path().join("lanes");
        let dir = ExperimentDir::create(&path, &plan, "").unwrap();
        for run in [0, 1, 2] {
            let t_unix_ns = now_unix_ns();
            dir.append_state(&StateLine { t_unix_ns, run, state: RunState::Started, reason: String::new() })
                .unwrap();
        }
        for (lane, current) in [(0, 1), (1, 2)] {
            let mut experiment = FollowedExperiment::new(path.clone(), lane);
            experiment.read_plan().unwrap();
            assert_eq!(experiment.current(lane), Some(current));
            let runs = experiment.runs();
            let waits: Vec<f64> = runs
                .iter()
                .filter_map(|run| match run.state {
                    RunProgress::In(s) => Some((s / 10.0).round()),
                    _ => None,
                })
                .collect();
            assert_eq!(waits, [1.0, 1.0, 2.0, 2.0], "each host takes its runs one after the other");
            assert_eq!(experiment.now(&runs).left_s.map(|s| (s / 10.0).round()), Some(3.0));
        }
    }
}
