//! Conducts the whole experiment: every run of the plan in its order, on the stage that its case needs.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::Ordering;

use anyhow::Result;
use dataset::session::STOPPED;
use model::experiment::case::Case;
use model::experiment::plan::{Plan, RunSpec, RunState, StateLine};
use model::run::RunRecord;
use model::run::hooks::HookRecord;
use store::{ExperimentDir, RunWriter};

use crate::run::live::OneRun;
use crate::schedule::agenda::Repeats;
use crate::schedule::lanes;
use crate::schedule::sequence::{RunTally, Sequence};
use crate::site::Site;
use crate::site::clock::unix_now;
use crate::site::progress::Watch;
use crate::stage::disk;

/// Outcome of an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExperimentOutcome {
    /// Number of completed runs.
    pub completed: u32,
    /// Number of runs that were cut short or failed.
    pub incomplete: u32,
    /// Number of runs that were never begun; of those that only spare time makes, if no other is missing.
    pub missing: u32,
    /// The user stopped it.
    pub stopped: bool,
    /// The runs so far suffice; the others are not needed.
    pub is_enough: bool,
}

/// The task.
#[derive(Clone, Copy)]
pub struct Task<'a> {
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

impl<'a> Task<'a> {
    /// A run of a case for the first time, alone, and not for a profile.
    pub(crate) fn one_run<'b>(&self, spec: &'b RunSpec, case: &'b Case, hooks: Vec<HookRecord>) -> OneRun<'b>
    where
        'a: 'b,
    {
        let Task { dir, site, program, tool_version, .. } = *self;
        let results_dir = dir.path().to_path_buf();
        OneRun {
            spec,
            repeat: None,
            case,
            site,
            program,
            results_dir,
            tool_version,
            side: None,
            profiler: None,
            hooks,
        }
    }
}

/// Makes every run of the plan that is not done yet. A failed run is recorded, and the next one begins; but if the
/// first one fails before its load, the experiment is impossible as requested, and ends with that error.
///
/// The result is an error when continuing is pointless: the server or its data is not available, or results cannot be
/// written. The outcome next to it describes the runs made before.
pub fn conduct(order: &Task, watch: &mut Watch) -> (ExperimentOutcome, Result<()>) {
    let Task { plan, dir, site, done, .. } = *order;
    disk::touch(plan, &site.environment);
    let (n_runs, n_done) = (plan.runs.len() as u32, done.len() as u32);
    let (tally, result) = make_all(order, watch);
    if plan.cases.iter().any(|case| case.server.source.is_embedded()) {
        disk::keep_to_budget(site.environment.cache, watch);
    }
    let begun: BTreeSet<u32> = store::read_state(dir.path()).iter().map(|line| line.run).collect();
    let has_begun = |run: u32| done.contains(&run) || begun.contains(&run);
    let n_planned = if tally.is_enough { n_runs } else { plan.planned(has_begun).count() as u32 };
    let outcome = ExperimentOutcome {
        completed: n_done + tally.completed,
        incomplete: tally.incomplete,
        missing: n_planned - n_done - tally.completed - tally.incomplete,
        stopped: site.environment.stop.load(Ordering::Relaxed),
        is_enough: tally.is_enough,
    };
    let (state, reason) = match &result {
        Err(error) => (RunState::Failed, format!("{error:#}")),
        Ok(()) if outcome.completed == n_runs => (RunState::Completed, String::new()),
        Ok(()) if outcome.is_enough && outcome.incomplete == 0 => {
            let suffices = "the runs so far suffice";
            let reason = if plan.spare_blocks > 0 { "no time for more blocks" } else { suffices };
            (RunState::Completed, reason.to_string())
        }
        Ok(()) if outcome.stopped => (RunState::Partial, STOPPED.to_string()),
        Ok(()) => (RunState::Partial, String::new()),
    };
    let noted = dir.append_state(&StateLine { t_unix_ns: unix_now(), run: 0, state, reason });
    (outcome, result.and(noted))
}

/// Makes the runs, and releases their clusters, so that they may be removed.
fn make_all(order: &Task, watch: &mut Watch) -> (RunTally, Result<()>) {
    let made_before = match store::read_records(order.dir.path()) {
        Ok(records) => records,
        Err(error) => return (RunTally::default(), Err(error.into())),
    };
    let repeats = Repeats::new(order.plan, &made_before);
    if order.plan.is_side_by_side() {
        return lanes::conduct(order, &repeats, watch);
    }
    Sequence::new(*order, order.plan.runs.len() as u32, &repeats).conduct(watch)
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
    writer.finish(&record)?;
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

#[cfg(test)]
mod tests {
    use super::*;

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
        let site = Site::bare(&cache);
        let (program, done) = (Path::new("/nonexistent"), &BTreeSet::new());
        let order = Task { plan: &plan, dir: &dir, site: &site, program, done, tool_version: "0" };
        let error = conduct(&order, &mut |_| {}).1.unwrap_err();
        assert!(format!("{error:#}").contains("/nonexistent"), "{error:#}");
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "before_case\nafter_case\n");
    }
}
