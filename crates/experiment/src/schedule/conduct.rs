//! Conducts the whole experiment: every run of the plan in its order, on the stage that its case needs.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use dataset::session::STOPPED;
use model::experiment::case::Case;
use model::experiment::plan::{Plan, RunSpec, RunState, StateLine};
use model::experiment::repeat::Repeat;
use model::load::interval::Counts;
use model::run::RunRecord;
use model::run::hooks::HookRecord;
use store::{ExperimentDir, RunWriter};

use crate::run::hooks as user_hooks;
use crate::run::live::OneRun;
use crate::schedule::agenda::{After, Agenda, Next};
use crate::schedule::case_hooks::CaseHooks;
use crate::site::Site;
use crate::site::clock::unix_now;
use crate::site::keys::{StageKey, needs_restart};
use crate::site::progress::{Progress, Watch};
use crate::site::referee::{Judged, Referee};
use crate::stage::{Found, Stage};
use crate::stage::{disk, os};

/// Outcome of an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Number of completed runs.
    pub completed: u32,
    /// Number of runs that were cut short or failed.
    pub incomplete: u32,
    /// Number of runs that were never begun.
    pub missing: u32,
    /// The user stopped it.
    pub stopped: bool,
    /// The runs so far suffice; the others are not needed.
    pub is_enough: bool,
}

/// Consecutive failures after which continuing is pointless.
const FAILURES_MAX: u32 = 2;

/// The task.
#[derive(Clone, Copy)]
pub struct Order<'a> {
    /// The runs in their order.
    pub plan: &'a Plan,
    /// Directory for the records.
    pub dir: &'a ExperimentDir,
    /// Environment of the stages.
    pub site: &'a Site<'a>,
    /// The program whose `drive` command is the driver: pgdyno itself.
    pub program: &'a Path,
    /// Runs that were completed before and are not repeated.
    pub done: &'a BTreeSet<u32>,
    /// Version of this pgdyno; the plan may be from another one.
    pub tool_version: &'a str,
}

/// Makes every run of the plan that is not done yet. A failed run is recorded, and the next one begins; but if the
/// first one fails before its load, the experiment is impossible as requested, and ends with that error.
///
/// The result is an error when continuing is pointless: the server or its data is not available, or results cannot be
/// written. The outcome next to it describes the runs made before.
pub fn conduct(order: &Order, watch: &mut Watch) -> (Outcome, Result<()>) {
    let Order { plan, dir, site, done, .. } = *order;
    let mut stages = Stages::new(plan);
    disk::touch(plan, site);
    let (n_runs, n_done) = (plan.runs.len() as u32, done.len() as u32);
    let mut outcome = Outcome {
        completed: n_done,
        incomplete: 0,
        missing: n_runs - n_done,
        stopped: false,
        is_enough: false,
    };
    let mut hooks = CaseHooks::new(dir, site.stop, site.dues);
    let result = conduct_all(order, &mut stages, &mut hooks, &mut outcome, watch);
    // Also after an error: pgdyno leaves none of its servers running. None uses what the last command puts back.
    let result = result.and(stages.stand_down());
    let result = result.and(hooks.leave(watch));
    // Releases their clusters, so that they may be removed.
    drop(stages);
    if plan.cases.iter().any(|case| case.server.source.is_embedded()) {
        disk::keep_to_budget(site.cache, watch);
    }
    outcome.stopped = site.stop.load(Ordering::Relaxed);
    let (state, reason) = match &result {
        Err(error) => (RunState::Failed, format!("{error:#}")),
        Ok(()) if outcome.completed == n_runs => (RunState::Completed, String::new()),
        Ok(()) if outcome.is_enough && outcome.incomplete == 0 => {
            (RunState::Completed, "the runs so far suffice".to_string())
        }
        Ok(()) if outcome.stopped => (RunState::Partial, STOPPED.to_string()),
        Ok(()) => (RunState::Partial, String::new()),
    };
    let noted = dir.append_state(&StateLine { t_unix_ns: unix_now(), run: 0, state, reason });
    (outcome, result.and(noted))
}

fn conduct_all<'a>(
    order: &Order<'a>,
    stages: &mut Stages,
    hooks: &mut CaseHooks<'a>,
    outcome: &mut Outcome,
    watch: &mut Watch,
) -> Result<()> {
    let Order { plan, dir, site, done, .. } = *order;
    let n_runs = plan.runs.len() as u32;
    let (mut n_made, mut n_failed_in_row, mut spent_s) = (0, 0, 0.0);
    let made_before = store::read_records(dir.path())?;
    let mut agenda = Agenda::new(plan, done, &made_before);
    while let Some(Next { spec, repeat }) = agenda.take() {
        let case = plan.case(spec.case).with_context(|| format!("the plan has no case {}", spec.case))?;
        let entered = Instant::now();
        let called = hooks.enter(case, spec.run, watch)?;
        spent_s += entered.elapsed().as_secs_f64();
        // A command before the case may prepare what the server needs; without it there is nothing to set up.
        let stage = match user_hooks::failure(&called) {
            Some(_) => None,
            None => match stages.for_case(case, site, watch) {
                Err(_) if site.stop.load(Ordering::Relaxed) => break,
                other => Some(other?),
            },
        };
        let begun = Instant::now();
        let label = repeat.map_or(case.label(), |of| format!("{}, run {} again", case.label(), of.of));
        watch(Progress::RunBegins { run: spec.run, n_runs: n_runs.max(spec.run), label });
        let record = make_next(order, (&spec, repeat), case, called, stage, watch)?;
        hooks.made(&record);
        let is_well = record.state == RunState::Completed || site.stop.load(Ordering::Relaxed);
        let judged = judge(site, dir, &record, watch);
        let is_stopped = site.stop.load(Ordering::Relaxed);
        let has_time = || !is_stopped && site.referee.is_some_and(Referee::has_time);
        let after = agenda.made(&record, judged, has_time);
        // Reported below: a server that does not stop does not invalidate its run.
        let next = agenda.peek().and_then(|spec| plan.case(spec.case));
        let runs_on = is_well && next.is_some_and(|next| !needs_restart(case, next));
        let stopped = match (runs_on, is_well) {
            (true, _) => Ok(()),
            (false, true) => stages.stand_down(),
            (false, false) => stages.abandon(),
        };
        // A server that is not ours keeps running: operating system settings stay only if the next case asks for the
        // same.
        let keeps_values =
            runs_on && next.is_some_and(|next| next.os == case.os && is_on_its_host(case, next));
        let put_back =
            if keeps_values { Ok(()) } else { both(os::put_back(site.os.as_ref()), site.hands.put_back()) };
        let left = both(stopped.context("the server does not stop"), put_back);
        if n_made == 0 && record.state == RunState::Failed && record.go_unix_ns.is_none() {
            return both(Err(anyhow!(record.reason)), left);
        }
        spent_s += begun.elapsed().as_secs_f64();
        n_made += 1;
        // A failed repeat does not invalidate the planned run that it was to replace.
        let counted = u32::from(repeat.is_none());
        outcome.missing -= counted;
        let left_s = spent_s / f64::from(n_made) * f64::from(outcome.missing);
        if record.state == RunState::Completed {
            outcome.completed += counted;
            n_failed_in_row = 0;
        } else {
            outcome.incomplete += counted;
            n_failed_in_row += 1;
        }
        watch(end_of(&record, n_runs.max(spec.run), left_s));
        left?;
        match after {
            After::Within => {}
            After::Again(reason) => watch(Progress::RunRepeats { run: spec.run, n: agenda.n_left(), reason }),
            After::Over(records) => {
                let enough = |is_enough: &dyn Fn(&RunRecord) -> bool| records.iter().any(is_enough);
                outcome.is_enough = site.is_enough.is_some_and(|is_enough| enough(is_enough));
            }
        }
        let is_hopeless = n_failed_in_row >= FAILURES_MAX;
        if outcome.is_enough || is_hopeless || site.stop.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(())
}

/// The error of one of the two, or those of both.
fn both(one: Result<()>, other: Result<()>) -> Result<()> {
    match (one, other) {
        (Err(one), Err(other)) => Err(anyhow!("{one:#}; {other:#}")),
        (one, other) => one.and(other),
    }
}

/// Whether both cases have the same server, and the same way to its host.
fn is_on_its_host(case: &Case, next: &Case) -> bool {
    case.server.source == next.server.source && case.server.host == next.server.host
}

/// Makes a run on its stage; without one, the command before its case has failed, which is recorded.
fn make_next(
    order: &Order,
    (spec, repeat): (&RunSpec, Option<Repeat>),
    case: &Case,
    called: Vec<HookRecord>,
    stage: Option<&mut Stage>,
    watch: &mut Watch,
) -> Result<RunRecord> {
    let Order { dir, site, program, tool_version, .. } = *order;
    let results_dir = dir.path().to_path_buf();
    let run =
        OneRun { spec, repeat, case, site, program, results_dir, tool_version, side: None, hooks: called };
    make_run(spec.run, dir, |writer| match stage {
        Some(stage) => run.conduct(stage, writer, watch),
        None => run.unset(),
    })
}

/// Judges a run, if that is requested. A failure costs a repeat, not the experiment.
fn judge(site: &Site, dir: &ExperimentDir, record: &RunRecord, watch: &mut Watch) -> Judged {
    let Some(referee) = site.referee.filter(|_| record.state == RunState::Completed) else {
        return Judged::default();
    };
    referee.judge(dir.path(), record).unwrap_or_else(|error| {
        watch(Progress::Note(format!("run {} cannot be judged: {error:#}", record.spec.run)));
        Judged::default()
    })
}

/// Makes one run, and journals its state before and after. Its record is complete before anything else can fail.
pub(crate) fn make_run(
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

/// Committed transactions per second of the measurement, for progress and for the decision to stop; reports compute
/// theirs from the intervals.
pub fn measured_tps(record: &RunRecord) -> Option<f64> {
    let done = record.done.as_ref()?;
    let measured_s = record.phase(model::run::phase::Phase::Measure)?.length_s();
    let committed: u64 = done.measured_by_client.iter().sum();
    (measured_s > 0.0).then(|| committed as f64 / measured_s)
}

fn end_of(record: &RunRecord, n_runs: u32, left_s: f64) -> Progress {
    Progress::RunEnds {
        run: record.spec.run,
        n_runs,
        state: record.state,
        // The mean over the rates that a search tried means nothing.
        tps: measured_tps(record).filter(|_| record.search.is_none()),
        failed: record.done.as_ref().map_or(0.0, |done| failed_share(&done.counts)),
        reason: record.reason.clone(),
        left_s,
    }
}

fn failed_share(counts: &Counts) -> f64 {
    counts.failed as f64 / (counts.committed + counts.failed).max(1) as f64
}

/// Stages set up so far; each is kept, so that its data is loaded once, unless only one may be on disk.
struct Stages {
    is_one_at_a_time: bool,
    open: Vec<Stage>,
    /// Index of the stage for each key.
    asked: Vec<(StageKey, usize)>,
}

impl Stages {
    fn new(plan: &Plan) -> Stages {
        Stages { is_one_at_a_time: plan.servers_at_a_time.is_some(), open: Vec::new(), asked: Vec::new() }
    }

    fn for_case(&mut self, case: &Case, site: &Site, watch: &mut Watch) -> Result<&mut Stage> {
        let key = StageKey::of(case);
        let index = match self.asked.iter().find(|(known, _)| *known == key) {
            Some((_, index)) => *index,
            None => {
                let found = Found::of(case, site, watch)?;
                let index = match self.open.iter().position(|stage| stage.is_of(&found)) {
                    Some(index) => index,
                    None => {
                        if self.is_one_at_a_time {
                            self.retire()?;
                        }
                        let stage = Stage::set_up_next_to(&self.open, found, case, site, watch)?;
                        self.open.push(stage);
                        self.open.len() - 1
                    }
                };
                self.asked.push((key, index));
                index
            }
        };
        Ok(&mut self.open[index])
    }

    /// Frees the space for the next stage.
    fn retire(&mut self) -> Result<()> {
        self.asked.clear();
        self.open.drain(..).try_for_each(Stage::retire)
    }

    /// Stops the server that runs, if one does.
    fn stand_down(&mut self) -> Result<()> {
        self.open.iter_mut().try_for_each(Stage::stand_down)
    }

    /// Stops it at once.
    fn abandon(&mut self) -> Result<()> {
        self.open.iter_mut().try_for_each(Stage::abandon)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::site::dues::Dues;
    use crate::site::settings::ServerSettings;

    #[test]
    fn the_record_of_a_run_is_complete_before_its_server_is_stopped() {
        let plan = crate::plan::sample::plan("repeats = 1\n[workload]\nscale = 1\n[run]\nmeasure = \"2s\"");
        let (case, spec) = (plan.cases[0].clone(), plan.runs[0].clone());
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
    #[test]
    fn hooks_surround_a_case_whose_server_cannot_be_set_up() {
        static GO_ON: AtomicBool = AtomicBool::new(false);
        static DUES: Dues = Dues::new();
        static SETTINGS: ServerSettings = ServerSettings::new();
        let place = tempfile::tempdir().unwrap();
        let log = place.path().join("log");
        let say =
            |hook: &str| format!("{hook} = [\"sh\", \"-c\", \"echo $PGDYNO_HOOK >> {}\"]\n", log.display());
        let plan = crate::plan::sample::plan(&format!(
            "repeats = 1\n[server]\nbin_dir = \"/nonexistent\"\n[hooks]\n{}{}",
            say("before_case"),
            say("after_case")
        ));
        let cache = server::Cache::at(place.path().join("cache"));
        let dir = ExperimentDir::create(&place.path().join("out"), &plan, "").unwrap();
        let site = Site {
            cache: &cache,
            n_servers: 1,
            memory_bytes: 1 << 30,
            most_clients: 1,
            servers: &[],
            replace: false,
            replace_databases: &[],
            runs_by_data: BTreeMap::new(),
            os: None,
            hands: crate::site::hands::HostHands::new("/nonexistent".into()),
            settings: &SETTINGS,
            allow_changes: false,
            stop: &GO_ON,
            dues: &DUES,
            now: &String::new,
            is_enough: None,
            referee: None,
        };
        let (program, done) = (Path::new("/nonexistent"), &BTreeSet::new());
        let order = Order { plan: &plan, dir: &dir, site: &site, program, done, tool_version: "0" };
        let error = conduct(&order, &mut |_| {}).1.unwrap_err();
        assert!(format!("{error:#}").contains("/nonexistent"), "{error:#}");
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "before_case\nafter_case\n");
    }
}
