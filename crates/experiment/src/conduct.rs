//! The whole experiment: every run of the plan in its order, on the stage that its case needs.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use model::case::Case;
use model::plan::{Plan, RunState, StateLine};
use model::run::RunRecord;
use store::{ExperimentDir, RunWriter};

use crate::one_run::{OneRun, unix_now};
use crate::os;
use crate::progress::{Progress, Watch};
use crate::stage::{Found, Site, Stage, StageKey};

/// How an experiment ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Runs that completed.
    pub completed: u32,
    /// Runs that were cut short or failed.
    pub incomplete: u32,
    /// Runs that were never begun.
    pub missing: u32,
    /// The user stopped it.
    pub stopped: bool,
}

/// The reason of what the user stopped.
pub(crate) const STOPPED: &str = "stopped by the user";

/// Failed runs in a row after which going on is pointless.
const FAILURES_MAX: u32 = 2;

/// Makes every run of `plan`, writing into `dir`. A run that fails is recorded, and the next one begins; but when
/// the first one fails before its load, the experiment cannot take place as it was asked, and ends with that error.
///
/// The result is an error when going on makes no sense: the server or its data cannot be had, results cannot be
/// written. The outcome beside it says what was measured before.
pub fn conduct(
    plan: &Plan,
    dir: &ExperimentDir,
    site: &Site,
    program: &Path,
    watch: &mut Watch,
) -> (Outcome, Result<()>) {
    let mut stages = Stages::default();
    let missing = plan.runs.len() as u32;
    let mut outcome = Outcome { completed: 0, incomplete: 0, missing, stopped: false };
    let result = conduct_all(&Order { plan, dir, site, program }, &mut stages, &mut outcome, watch);
    // Also after an error: no server of ours is left behind.
    let result = result.and(stages.stand_down());
    outcome.stopped = site.stop.load(Ordering::Relaxed);
    let (state, reason) = match &result {
        Err(error) => (RunState::Failed, format!("{error:#}")),
        Ok(()) if outcome.completed == plan.runs.len() as u32 => (RunState::Completed, String::new()),
        Ok(()) if outcome.stopped => (RunState::Partial, STOPPED.to_string()),
        Ok(()) => (RunState::Partial, String::new()),
    };
    let noted = dir.append_state(&StateLine { t_unix_ns: unix_now(), run: 0, state, reason });
    (outcome, result.and(noted))
}

/// What is to be done.
struct Order<'a> {
    plan: &'a Plan,
    dir: &'a ExperimentDir,
    site: &'a Site<'a>,
    program: &'a Path,
}

fn conduct_all(order: &Order, stages: &mut Stages, outcome: &mut Outcome, watch: &mut Watch) -> Result<()> {
    let Order { plan, dir, site, program } = *order;
    let n_runs = plan.runs.len() as u32;
    let (mut n_failed_in_row, mut spent_s) = (0, 0.0);
    for spec in &plan.runs {
        let case = plan.case(spec.case).with_context(|| format!("the plan has no case {}", spec.case))?;
        let stage = match stages.for_case(case, site, watch) {
            Err(_) if site.stop.load(Ordering::Relaxed) => break,
            other => other?,
        };
        let begun = Instant::now();
        watch(Progress::RunBegins { run: spec.run, n_runs, label: case.label() });
        let run = OneRun {
            spec,
            case,
            site,
            program,
            results_dir: dir.path().to_path_buf(),
            tool_version: &plan.tool_version,
        };
        let record = make_run(run.spec.run, dir, |writer| run.conduct(stage, writer, watch))?;
        let is_well = record.state == RunState::Completed || site.stop.load(Ordering::Relaxed);
        // Told below: a server that does not stop takes nothing from the run that it has served.
        let stopped = if is_well { stage.stand_down() } else { stage.abandon() };
        // No server needs them any more.
        let put_back = os::put_back(site.os.as_ref());
        let is_first = outcome.missing == n_runs;
        if is_first && record.state == RunState::Failed && record.go_unix_ns.is_none() {
            bail!(record.reason);
        }
        spent_s += begun.elapsed().as_secs_f64();
        outcome.missing -= 1;
        let n_done = n_runs - outcome.missing;
        let left_s = spent_s / f64::from(n_done) * f64::from(outcome.missing);
        if record.state == RunState::Completed {
            outcome.completed += 1;
            n_failed_in_row = 0;
        } else {
            outcome.incomplete += 1;
            n_failed_in_row += 1;
        }
        watch(Progress::RunEnds {
            run: spec.run,
            n_runs,
            state: record.state,
            tps: measured_tps(&record),
            reason: record.reason.clone(),
            left_s,
        });
        stopped.context("the server does not stop")?;
        put_back?;
        if n_failed_in_row >= FAILURES_MAX || site.stop.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(())
}

/// One run, its state written before and after. Its record is whole before anything else can fail.
fn make_run(
    run: u32,
    dir: &ExperimentDir,
    conduct: impl FnOnce(&RunWriter) -> RunRecord,
) -> Result<RunRecord> {
    let state = |state, reason: &str| {
        dir.append_state(&StateLine { t_unix_ns: unix_now(), run, state, reason: reason.to_string() })
    };
    state(RunState::Started, "")?;
    let writer = dir.begin_run(run)?;
    let record = conduct(&writer);
    writer.finish()?;
    writer.write_record(&record)?;
    state(record.state, &record.reason)?;
    Ok(record)
}

/// Committed transactions per second of the measure, for progress; reports compute theirs from the intervals.
fn measured_tps(record: &RunRecord) -> Option<f64> {
    let done = record.done.as_ref()?;
    let measured_s = record.phase(model::phase::Phase::Measure)?.length_s();
    let committed: u64 = done.measured_by_client.iter().sum();
    (measured_s > 0.0).then(|| committed as f64 / measured_s)
}

/// The stages made so far; each is kept, so that its data is loaded once.
#[derive(Default)]
struct Stages {
    open: Vec<Stage>,
    /// Which of them serves what was asked for.
    asked: Vec<(StageKey, usize)>,
}

impl Stages {
    fn for_case(&mut self, case: &Case, site: &Site, watch: &mut Watch) -> Result<&mut Stage> {
        let key = StageKey::of(case);
        let index = match self.asked.iter().find(|(known, _)| *known == key) {
            Some((_, index)) => *index,
            None => {
                let found = Found::of(case, site, watch)?;
                let index = match self.open.iter().position(|stage| stage.is_of(&found)) {
                    Some(index) => index,
                    None => {
                        self.open.push(Stage::set_up(found, case, site, watch)?);
                        self.open.len() - 1
                    }
                };
                self.asked.push((key, index));
                index
            }
        };
        Ok(&mut self.open[index])
    }

    fn stand_down(&mut self) -> Result<()> {
        self.open.iter_mut().try_for_each(Stage::stand_down)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use model::case::{ServerSource, ServerSpec, WorkloadKind, WorkloadSpec};
    use model::load::Window;
    use model::plan::RunSpec;

    use super::*;

    #[test]
    fn the_record_of_a_run_is_whole_before_its_server_is_stopped() {
        let case = Case {
            id: 1,
            levels: BTreeMap::new(),
            server: ServerSpec {
                source: ServerSource::Version("18".parse().unwrap()),
                settings: BTreeMap::new(),
                wal_directory: None,
            },
            workload: WorkloadSpec::of(WorkloadKind::Tpcb, 1),
            window: Window { ramp_up_s: 0, measure_s: 1, grace_s: 0 },
            prepare: Default::default(),
            os: Default::default(),
            wal: Default::default(),
        };
        let spec = RunSpec { run: 1, block: 1, case: 1, seed: 1 };
        let plan = Plan {
            format: model::FORMAT,
            name: "x".to_string(),
            title: String::new(),
            description: String::new(),
            seed: 1,
            repeats: 1,
            tool_version: "0".to_string(),
            made_unix_ns: 1,
            factors: Vec::new(),
            cases: vec![case.clone()],
            runs: vec![spec.clone()],
        };
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("out");
        let dir = ExperimentDir::create(&path, &plan, "").unwrap();
        let completed = RunRecord { state: RunState::Completed, ..RunRecord::new(spec, case, "0") };
        // There is no server that it could have stopped.
        make_run(1, &dir, |_| completed.clone()).unwrap();
        let data = store::load_experiment(&path).unwrap();
        assert_eq!(data.runs[0].record, completed);
        assert_eq!(data.state.last().unwrap().state, RunState::Completed);
    }
}
