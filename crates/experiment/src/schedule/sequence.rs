//! Runs that are made one after the other: all of a plan, or those of one lane.

use std::sync::atomic::Ordering;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use model::experiment::case::Case;
use model::experiment::plan::{RunSpec, RunState};
use model::experiment::repeat::Repeat;
use model::load::interval::Counts;
use model::run::RunRecord;
use model::run::hooks::HookRecord;
use model::run::profile::ProfileRecord;
use store::ExperimentDir;

use crate::run::hooks as user_hooks;
use crate::run::live::OneRun;
use crate::run::load::profile::Profiler;
use crate::schedule::agenda::{AfterRun, Agenda, NextRun, Repeats};
use crate::schedule::case_hooks::CaseHooks;
use crate::schedule::conduct::{Task, make_run, measured_tps};
use crate::schedule::in_time::{Decided, RunsInTime, TimeLeft};
use crate::schedule::resume;
use crate::schedule::stages::Stages;
use crate::schedule::unfinished::Past;
use crate::site::Callbacks;
use crate::site::keys::needs_restart;
use crate::site::lanes::Seat;
use crate::site::progress::{ProgressEvent, Watch};
use crate::site::referee::{RunFigures, RunJudgement};
use crate::stage::{Stage, os};

/// Consecutive failures after which continuing is pointless.
const FAILURES_MAX: u32 = 2;

/// What follows for other lanes when one cannot go on.
pub(crate) const OTHERS_END: &str = "this target cannot go on; others end with the runs that they have begun";

/// Runs that were made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RunTally {
    pub(crate) completed: u32,
    pub(crate) incomplete: u32,
    /// The runs so far suffice; the others are not needed.
    pub(crate) is_enough: bool,
}

/// Runs that are made one after the other on their stages.
pub(crate) struct Sequence<'a> {
    order: Task<'a>,
    /// Number of runs of the whole experiment.
    n_runs: u32,
    agenda: Agenda<'a>,
    in_time: RunsInTime,
    stages: Stages,
    hooks: CaseHooks<'a>,
    tally: RunTally,
    /// Planned runs that are still to be made; spare ones once it is decided that there is time for them.
    missing: u32,
    n_made: u32,
    n_failed_in_row: u32,
    spent_s: f64,
}

impl<'a> Sequence<'a> {
    /// The runs of the order's plan that are not done, of the `n_runs` of an experiment.
    pub(crate) fn new(order: Task<'a>, n_runs: u32, repeats: &'a Repeats) -> Sequence<'a> {
        let Task { plan, dir, site, done, .. } = order;
        Sequence {
            order,
            n_runs,
            agenda: Agenda::new(plan, done, repeats),
            in_time: RunsInTime::new(plan, done),
            stages: Stages::new(plan),
            hooks: CaseHooks::new(dir, site.environment.stop, site.changes.pending_undo),
            tally: RunTally::default(),
            missing: plan.without_spare().runs.iter().filter(|spec| !done.contains(&spec.run)).count() as u32,
            n_made: 0,
            n_failed_in_row: 0,
            spent_s: 0.0,
        }
    }

    /// Makes all runs, and stops the servers. The result is an error when continuing is pointless.
    pub(crate) fn conduct(mut self, watch: &mut Watch) -> (RunTally, Result<()>) {
        let result = self.take_up(watch).and_then(|()| self.make_all(watch));
        let result = result.and_then(|()| self.profile_all(watch));
        // Also after an error: pgdyno leaves none of its servers running. None uses what the last command puts back.
        let result = result.and(self.stages.stand_down());
        let result = result.and(self.hooks.leave(watch));
        (self.tally, result)
    }

    /// Makes the runs for profiles alone, where others have made the plan's runs, and stops the servers.
    pub(crate) fn conduct_profiles(mut self, watch: &mut Watch) -> Result<()> {
        let result = self.profile_all(watch);
        result.and(self.stages.stand_down())
    }

    /// Puts repeats that an interruption has cut off, or prevented, before all other runs.
    fn take_up(&mut self, watch: &mut Watch) -> Result<()> {
        let Task { plan, dir, done, site, .. } = self.order;
        let Some(referee) = site.callbacks.referee else { return Ok(()) };
        if done.is_empty() {
            return Ok(());
        }

        let records = store::read_records(dir.path())?;
        let journal = store::read_state(dir.path());
        let unfinished = Past { plan, done, records: &records, journal: &journal }.unfinished();
        let mut judge = |record: &RunRecord| judged(referee.recall(dir.path(), record), record, watch);
        // What a repeat is worth depends on the other runs of its case.
        if !unfinished.is_empty() {
            let is_ours = |record: &&RunRecord| plan.runs.contains(&resume::planned(record));
            let completed = records.iter().filter(|record| record.state == RunState::Completed);
            completed.filter(is_ours).for_each(|record| drop(judge(record)));
        }

        let mut repeated = Vec::new();
        for turn in unfinished {
            repeated.extend(self.agenda.take_up(turn, &mut judge, || referee.has_time(0.0)));
        }
        repeated.into_iter().for_each(|repeated| watch(ProgressEvent::RunRepeats(repeated)));
        Ok(())
    }

    fn make_all(&mut self, watch: &mut Watch) -> Result<()> {
        while !self.is_closing()
            && let Some(next) = self.agenda.take()
        {
            let plan = self.order.plan;
            let case = plan
                .case(next.spec.case)
                .with_context(|| format!("the plan has no case {}", next.spec.case))?;
            if self.is_left_out(&next, watch) {
                continue;
            }
            if !self.make(&next, case, watch)? {
                break;
            }
        }
        self.tally.is_enough |= self.in_time.is_whole_without();
        Ok(())
    }

    /// Whether a planned run is left out because the experiment was given a time. Runs of a turn belong together, and repeats have been
    /// decided about.
    fn is_left_out(&mut self, next: &NextRun, watch: &mut Watch) -> bool {
        let Task { plan, site, .. } = self.order;
        if next.repeat.is_some() {
            return false;
        }
        let is_spare = plan.is_spare(&next.spec);
        let of_run_s = self.spent_s / f64::from(self.n_made.max(1));
        let decided = match site.callbacks.referee {
            Some(referee) if !plan.is_comparison => {
                let has_time = |needed_s| referee.has_time(needed_s);
                let may_go_on = |needed_s| referee.may_go_on(needed_s);
                let time = TimeLeft { has_time: &has_time, may_go_on: &may_go_on };
                self.in_time.decide(&next.spec, plan, of_run_s, time)
            }
            _ => Decided::Made,
        };
        match decided {
            Decided::Made => {
                self.missing += u32::from(is_spare);
                false
            }
            Decided::LeftOut(words) => {
                self.missing -= u32::from(!is_spare);
                words.into_iter().for_each(|words| watch(ProgressEvent::Note(words)));
                true
            }
        }
    }

    /// Makes one more run of each case that asks for a profile, and has none. None of them counts.
    fn profile_all(&mut self, watch: &mut Watch) -> Result<()> {
        let Task { plan, dir, .. } = self.order;
        let profiled = store::profiled_cases(dir.path());
        for case in plan.profiled().filter(|case| !profiled.contains(&case.id)) {
            if self.is_closing() || self.is_stopped() || self.n_failed_in_row > 0 {
                break;
            }
            self.profile(case, watch)?;
        }
        Ok(())
    }

    /// Makes the run that profiles a case. That it fails is noted, and costs no result.
    fn profile(&mut self, case: &'a Case, watch: &mut Watch) -> Result<()> {
        let Task { plan, dir, site, .. } = self.order;
        let Some(spec) = plan.runs.iter().find(|spec| spec.case == case.id) else { return Ok(()) };
        let called = self.hooks.enter(case, spec.run, watch)?;
        if let Some(reason) = user_hooks::failure(&called) {
            watch(ProgressEvent::Note(format!("no profile of {}: {reason}", case.label())));
            return Ok(());
        }
        let stage = self.stages.for_case(case, site, watch)?;
        watch(ProgressEvent::Step(format!(
            "an extra run of {}, which does not count, for a profile",
            case.label()
        )));
        let profiler = Profiler::default();
        let run = OneRun { profiler: Some(&profiler), ..self.order.one_run(spec, case, called) };
        let writer = dir.begin_profile(case.id)?;
        let record = run.conduct(stage, &writer, watch);
        writer.finish(&record)?;
        writer.write_record(&record)?;
        let (profile, stacks) = profiler.into_profile();
        let reason = if record.reason.is_empty() { profile.reason } else { record.reason.clone() };
        let tps = measured_tps(&record);
        let profile = ProfileRecord { case: case.id, reason, tps, ..profile };
        if !profile.reason.is_empty() {
            watch(ProgressEvent::Note(format!("no profile of {}: {}", case.label(), profile.reason)));
        }
        writer.keep_profile(&profile, &stacks)?;
        self.clear_away(&record, case, watch)
    }

    /// Whether another lane has failed.
    fn is_closing(&self) -> bool {
        self.order.site.environment.seat.is_some_and(|seat| seat.is_closing())
    }

    fn is_stopped(&self) -> bool {
        self.order.site.environment.stop.load(Ordering::Relaxed)
    }

    /// Makes a run and what follows from it; returns whether to go on.
    fn make(&mut self, next: &NextRun, case: &'a Case, watch: &mut Watch) -> Result<bool> {
        let NextRun { spec, repeat } = next;
        let site = self.order.site;
        let entered = Instant::now();
        let called = self.hooks.enter(case, spec.run, watch)?;
        self.spent_s += entered.elapsed().as_secs_f64();
        // A command before the case may prepare what the server needs; without it there is nothing to set up.
        let stage = match user_hooks::failure(&called) {
            Some(_) => None,
            None => match self.stages.for_case(case, site, watch) {
                Err(_) if site.environment.stop.load(Ordering::Relaxed) => return Ok(false),
                other => Some(other?),
            },
        };
        // Setting up may have taken long.
        if site.environment.seat.is_some_and(|seat| seat.is_closing()) {
            return Ok(false);
        }
        let begun = Instant::now();
        let label = repeat.map_or(case.label(), |of| format!("{}, run {} again", case.label(), of.of));
        watch(ProgressEvent::RunBegins { run: spec.run, n_runs: self.n_runs.max(spec.run), label });
        let record = make_next(&self.order, spec, *repeat, case, called, stage, watch)?;
        self.hooks.made(&record);
        let judged = judge(&site.callbacks, self.order.dir, &record, watch);
        let is_stopped = self.is_stopped();
        let of_run_s = (self.spent_s + begun.elapsed().as_secs_f64()) / f64::from(self.n_made + 1);
        let n_planned = self.missing - u32::from(repeat.is_none());
        let needed_s = of_run_s * f64::from(n_planned + self.agenda.n_runs_of_turn());
        let has_time =
            || !is_stopped && site.callbacks.referee.is_some_and(|referee| referee.has_time(needed_s));
        let figures = judged.figures.clone();
        let after = self.agenda.made(&record, judged, has_time);
        // Reported below: a server that does not stop does not invalidate its run.
        let left = self.clear_away(&record, case, watch);
        if self.n_made == 0 && record.state == RunState::Failed && record.go_unix_ns.is_none() {
            return both(Err(anyhow!(record.reason)), left).map(|()| false);
        }
        self.spent_s += begun.elapsed().as_secs_f64();
        self.count(&record, *repeat);
        let n_left = self.missing + self.agenda.n_repeats_left();
        let left_s = left_s(self.spent_s / f64::from(self.n_made), n_left, self.is_stopped());
        watch(end_of(&record, figures, self.n_runs.max(spec.run), left_s));
        left?;
        match after {
            AfterRun::Within => {}
            AfterRun::Again(repeated) => watch(ProgressEvent::RunRepeats(repeated)),
            AfterRun::Over(records) => {
                let enough = |is_enough: &dyn Fn(&RunRecord) -> bool| records.iter().any(is_enough);
                self.tally.is_enough = site.callbacks.is_enough.is_some_and(|is_enough| enough(is_enough));
            }
        }
        let is_hopeless = self.n_failed_in_row >= FAILURES_MAX;
        if is_hopeless && let Some(seat) = site.environment.seat {
            seat.close();
            watch(ProgressEvent::Note(OTHERS_END.to_string()));
        }
        Ok(!self.tally.is_enough && !is_hopeless && !self.is_stopped())
    }

    /// Stops the server, and puts back values of the operating system, unless the next run wants them as they are.
    fn clear_away(&mut self, record: &RunRecord, case: &Case, watch: &mut Watch) -> Result<()> {
        let Task { plan, site, .. } = self.order;
        let is_well = record.state == RunState::Completed || self.is_stopped();
        let next = self.agenda.peek().and_then(|spec| plan.case(spec.case));
        let runs_on = is_well && next.is_some_and(|next| !needs_restart(case, next));
        let stopped = match (runs_on, is_well) {
            (true, _) => Ok(()),
            (false, true) => self.stages.stand_down(),
            (false, false) => self.stages.abandon(),
        };
        // A server that is not ours keeps running: operating system settings stay only if the next case asks for the
        // same.
        let keeps_values =
            runs_on && next.is_some_and(|next| next.os == case.os && is_on_its_host(case, next));
        let put_back = if keeps_values {
            Ok(())
        } else {
            both(os::put_back(site.changes.os, watch), site.changes.hands.put_back())
        };
        both(stopped.context("the server does not stop"), put_back)
    }

    fn count(&mut self, record: &RunRecord, repeat: Option<Repeat>) {
        self.n_made += 1;
        // A failed repeat does not invalidate the planned run that it was to replace.
        let counted = u32::from(repeat.is_none());
        self.missing -= counted;
        if record.state == RunState::Completed {
            self.tally.completed += counted;
            self.in_time.completed(record.spec.case);
            self.n_failed_in_row = 0;
        } else {
            self.tally.incomplete += counted;
            self.n_failed_in_row += 1;
        }
    }
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
    order: &Task,
    spec: &RunSpec,
    repeat: Option<Repeat>,
    case: &Case,
    called: Vec<HookRecord>,
    stage: Option<&mut Stage>,
    watch: &mut Watch,
) -> Result<RunRecord> {
    let run = OneRun { repeat, ..order.one_run(spec, case, called) };
    let seat: Option<Seat> = order.site.environment.seat;
    make_run(spec.run, order.dir, |writer| {
        seat.iter().for_each(|seat| seat.begin(spec, case));
        let mut record = match stage {
            Some(stage) => run.conduct(stage, writer, watch),
            None => run.unset(),
        };
        seat.iter().for_each(|seat| seat.end(&mut record));
        record
    })
}

/// Judges a run, if that is requested. A failure costs a repeat, not the experiment.
fn judge(callbacks: &Callbacks, dir: &ExperimentDir, record: &RunRecord, watch: &mut Watch) -> RunJudgement {
    if record.state != RunState::Completed {
        return RunJudgement::default();
    }
    let Some(referee) = callbacks.referee else {
        return RunJudgement::default();
    };
    judged(referee.judge(dir.path(), record), record, watch)
}

fn judged(judgement: Result<RunJudgement>, record: &RunRecord, watch: &mut Watch) -> RunJudgement {
    judgement.unwrap_or_else(|error| {
        watch(ProgressEvent::Note(format!("run {} cannot be judged: {error:#}", record.spec.run)));
        RunJudgement::default()
    })
}

/// Seconds for `n` more runs of so many seconds each. None of them is made after a stop was requested.
pub(super) fn left_s(of_run_s: f64, n: u32, is_stopped: bool) -> f64 {
    if is_stopped { 0.0 } else { of_run_s * f64::from(n) }
}

/// The end of a run, for whoever waits. The mean over the rates that a search tried means nothing.
fn end_of(record: &RunRecord, figures: RunFigures, n_runs: u32, left_s: f64) -> ProgressEvent {
    let tps = if record.search.is_none() { measured_tps(record) } else { None };
    run_ends(record, tps, figures, n_runs, left_s)
}

/// The end of a run with a throughput, and what is known of its figures.
pub(super) fn run_ends(
    record: &RunRecord,
    tps: Option<f64>,
    figures: RunFigures,
    n_runs: u32,
    left_s: f64,
) -> ProgressEvent {
    ProgressEvent::RunEnds {
        run: record.spec.run,
        n_runs,
        state: record.state,
        tps,
        figures,
        failed: record.done.as_ref().map_or(0.0, |done| failed_share(&done.counts)),
        reason: record.reason.clone(),
        left_s,
    }
}

fn failed_share(counts: &Counts) -> f64 {
    counts.failed as f64 / (counts.committed + counts.failed).max(1) as f64
}
