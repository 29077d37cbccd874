//! Continues an interrupted experiment: determines which runs are done, and what is left of the one that is not.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Result, ensure};
use model::experiment::case::{Case, ServerSource, ServerSpec};
use model::experiment::plan::{Plan, RunSpec, RunState, StateLine};
use model::run::RunRecord;
use store::ExperimentDir;

use crate::schedule::unfinished::{Past, UnfinishedTurn};
use crate::site::clock::unix_now;

/// Reason for a run that was in progress when pgdyno was killed or the machine lost power.
const CUT_OFF: &str = "cut off: pgdyno was killed, or its machine went down";

/// How far an experiment got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResumeState {
    /// Completed runs, which are never repeated.
    pub done: BTreeSet<u32>,
    /// Runs that were begun but not completed, also as repeats of others; their files are set aside, and they are made again.
    pub again: BTreeSet<u32>,
}

/// Determines how far the experiment in `dir` got, and updates its records: an interrupted run becomes a partial one.
///
/// # Errors
/// When a run is not from this plan, or the directory is not readable and writable.
pub fn take_up(dir: &ExperimentDir, plan: &Plan) -> Result<ResumeState> {
    let records = store::read_records(dir.path())?;
    check_same(plan, &records)?;
    let journal = store::read_state(dir.path());
    let told: BTreeMap<u32, RunState> = journal.iter().map(|line| (line.run, line.state)).collect();
    let note = |run: u32, state: RunState, reason: &str| {
        dir.append_state(&StateLine { t_unix_ns: unix_now(), run, state, reason: reason.to_string() })
    };
    let mut standing = standing(dir.path(), plan, &records);
    standing.again.extend(interrupted_repeats(dir.path(), plan, &records));
    for record in &records {
        let run = record.spec.run;
        if record.state == RunState::Started {
            let partial =
                RunRecord { state: RunState::Partial, reason: CUT_OFF.to_string(), ..record.clone() };
            dir.amend_record(&partial)?;
            note(run, RunState::Partial, CUT_OFF)?;
        } else if told.get(&run) == Some(&RunState::Started) {
            // The record is written before the journal: this line was still missing.
            note(run, record.state, &record.reason)?;
        }
    }
    // Begun, and interrupted before it had a record.
    let recorded: BTreeSet<u32> = records.iter().map(|record| record.spec.run).collect();
    for (&run, _) in told.iter().filter(|(run, state)| **run != 0 && **state == RunState::Started) {
        if !recorded.contains(&run) {
            note(run, RunState::Partial, CUT_OFF)?;
            // Whether a repeat is worth its time is judged again.
            if is_planned(plan, run) {
                standing.again.insert(run);
            }
        }
    }
    // The experiment continues: one line each time. A finished one does not continue.
    let end = journal.iter().rev().find(|line| line.run == 0);
    if !(end.is_some_and(|line| line.state == RunState::Completed) && standing.again.is_empty()) {
        note(0, RunState::Started, "")?;
    }
    Ok(standing)
}

/// Whether a resumed experiment has nothing to do: all planned runs are done, and all repeats and profiles made. `path` is the directory that
/// `records` are from.
pub fn is_all_done(path: &Path, plan: &Plan, records: &[RunRecord]) -> bool {
    let profiled = store::profiled_cases(path);
    let done = standing(path, plan, records).done;
    plan.runs.iter().all(|spec| done.contains(&spec.run))
        && unfinished(path, plan, records).is_empty()
        && plan.profiled().all(|case| profiled.contains(&case.id))
}

/// Numbers of the repeats that were interrupted, and are made again.
fn interrupted_repeats(path: &Path, plan: &Plan, records: &[RunRecord]) -> BTreeSet<u32> {
    let turns = unfinished(path, plan, records).into_iter();
    turns.flat_map(|turn| turn.interrupted).map(|next| next.spec.run).collect()
}

fn unfinished(path: &Path, plan: &Plan, records: &[RunRecord]) -> Vec<UnfinishedTurn> {
    let (done, journal) = (standing(path, plan, records).done, store::read_state(path));
    Past { plan, done: &done, records, journal: &journal }.unfinished()
}

/// A run whose intervals were lost is made again: of it there is no number.
fn is_done(path: &Path, record: &RunRecord) -> bool {
    record.state == RunState::Completed && store::has_intervals(path, record.spec.run)
}

fn standing(path: &Path, plan: &Plan, records: &[RunRecord]) -> ResumeState {
    let numbers = |wanted: bool| {
        let of = |record: &&RunRecord| is_done(path, record) == wanted;
        let runs = records.iter().filter(of).map(|record| record.spec.run);
        runs.filter(|run| is_planned(plan, *run)).collect()
    };
    ResumeState { done: numbers(true), again: numbers(false) }
}

fn is_planned(plan: &Plan, run: u32) -> bool {
    plan.runs.iter().any(|spec| spec.run == run)
}

/// Refuses a directory with runs copied from another experiment: its numbers would not belong to the plan.
fn check_same(plan: &Plan, records: &[RunRecord]) -> Result<()> {
    for record in records {
        let run = record.spec.run;
        ensure!(
            plan.runs.contains(&planned(record))
                && plan.case(record.spec.case).is_some_and(|case| is_of(record, case)),
            "run {run} in the directory is not run {run} of its plan.json; give the directory as pgdyno left it"
        );
    }
    Ok(())
}

/// Whether a record is of this case. The server of a target may have moved since.
fn is_of(record: &RunRecord, case: &Case) -> bool {
    let (was, is) = (&record.case.server, &case.server);
    match (&was.source, &is.source) {
        (ServerSource::Url(_), ServerSource::Url(_)) if is.target.is_some() => {
            let server = ServerSpec { source: is.source.clone(), ..was.clone() };
            Case { server, ..record.case.clone() } == *case
        }
        _ => record.case == *case,
    }
}

/// The planned run for a record; a repeat has its own number, and is otherwise equal to the run that it repeats.
pub(crate) fn planned(record: &RunRecord) -> RunSpec {
    RunSpec { run: record.repeat.map_or(record.spec.run, |repeat| repeat.of), ..record.spec.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        crate::plan::sample::plan("repeats = 5\n[workload]\nscale = 1\n[run]\nmeasure = \"2s\"")
    }

    fn give_intervals(dir: &ExperimentDir, run: u32) {
        let of_run = dir.path().join(store::names::RUNS).join(store::names::run_dir(run));
        std::fs::write(of_run.join(store::names::INTERVALS), "{}\n").unwrap();
    }

    /// A directory in which run 1 completed, 2 failed, 3 was cut off, 4 was cut off before it had a record, and 5 completed
    /// and lost its intervals.
    fn cut_off(place: &std::path::Path, plan: &Plan) -> ExperimentDir {
        let dir = ExperimentDir::create(&place.join("out"), plan, "").unwrap();
        let started = |run| StateLine { t_unix_ns: 1, run, state: RunState::Started, reason: String::new() };
        for (run, state) in [(1, RunState::Completed), (2, RunState::Failed), (3, RunState::Started)] {
            dir.append_state(&started(run)).unwrap();
            let writer = dir.begin_run(run).unwrap();
            let spec = plan.runs[run as usize - 1].clone();
            let record = RunRecord { state, ..RunRecord::new(spec, plan.cases[0].clone(), "0") };
            writer.write_record(&record).unwrap();
        }
        give_intervals(&dir, 1);
        dir.append_state(&started(4)).unwrap();
        let lost = RunRecord::new(plan.runs[4].clone(), plan.cases[0].clone(), "0");
        let writer = dir.begin_run(5).unwrap();
        writer.write_record(&RunRecord { state: RunState::Completed, ..lost }).unwrap();
        dir
    }

    #[test]
    fn completed_runs_are_kept_and_all_others_are_repeated() {
        let (place, plan) = (tempfile::tempdir().unwrap(), plan());
        let dir = cut_off(place.path(), &plan);
        let standing = take_up(&dir, &plan).unwrap();
        assert_eq!(standing.done, BTreeSet::from([1]));
        assert_eq!(standing.again, BTreeSet::from([2, 3, 4, 5]));
        let records = store::read_records(dir.path()).unwrap();
        assert_eq!((records[2].state, records[2].reason.as_str()), (RunState::Partial, CUT_OFF));
        let told: BTreeMap<u32, RunState> =
            store::read_state(dir.path()).iter().map(|line| (line.run, line.state)).collect();
        use RunState::{Completed, Failed, Partial, Started};
        assert_eq!(
            told,
            BTreeMap::from([(0, Started), (1, Completed), (2, Failed), (3, Partial), (4, Partial)])
        );
        let again = take_up(&dir, &plan).unwrap();
        assert_eq!(again.done, standing.done, "taking it up twice changes nothing");
    }

    #[test]
    fn a_finished_experiment_is_not_resumed() {
        let (place, plan) = (tempfile::tempdir().unwrap(), plan());
        let dir = ExperimentDir::create(&place.path().join("out"), &plan, "").unwrap();
        let line = |run, state| StateLine { t_unix_ns: 1, run, state, reason: String::new() };
        for spec in &plan.runs {
            let writer = dir.begin_run(spec.run).unwrap();
            let record = RunRecord::new(spec.clone(), plan.cases[0].clone(), "0");
            writer.write_record(&RunRecord { state: RunState::Completed, ..record }).unwrap();
            give_intervals(&dir, spec.run);
            dir.append_state(&line(spec.run, RunState::Completed)).unwrap();
        }
        dir.append_state(&line(0, RunState::Partial)).unwrap();
        let n_begins = || {
            take_up(&dir, &plan).unwrap();
            let journal = store::read_state(dir.path());
            journal.iter().filter(|line| (line.run, line.state) == (0, RunState::Started)).count()
        };
        assert_eq!(n_begins(), 1, "the end was not written");
        dir.append_state(&line(0, RunState::Completed)).unwrap();
        assert_eq!((n_begins(), n_begins()), (1, 1));
        let is_all_done = |plan: &Plan| {
            let records = store::read_records(dir.path()).unwrap();
            super::is_all_done(dir.path(), plan, &records)
        };
        assert!(is_all_done(&plan));
        let mut with_profile = plan.clone();
        with_profile.cases[0].set(model::experiment::keys::run::PERF, true);
        assert!(!is_all_done(&with_profile), "its profile is still to be made");
        std::fs::write(dir.path().join("runs/0003/intervals.jsonl"), "").unwrap();
        assert!(!is_all_done(&plan), "3 is made again");
    }

    #[test]
    fn runs_of_another_plan_are_refused() {
        let (place, plan) = (tempfile::tempdir().unwrap(), plan());
        let dir = cut_off(place.path(), &plan);
        let mut other = plan.clone();
        other.runs[1].seed = 8;
        let message = take_up(&dir, &other).unwrap_err().to_string();
        assert!(message.contains("run 2 in the directory is not run 2 of its plan.json"), "{message}");
    }

    #[test]
    fn a_record_in_the_directory_of_another_run_is_refused_and_that_run_keeps_its_own() {
        let (place, plan) = (tempfile::tempdir().unwrap(), plan());
        let dir = cut_off(place.path(), &plan);
        let record = |run: u32| dir.path().join(format!("runs/{run:04}/run.json"));
        let kept = std::fs::read_to_string(record(1)).unwrap();
        let begun = kept.replace("\"completed\"", "\"started\"");
        assert_ne!(begun, kept);
        std::fs::write(record(3), begun).unwrap();
        let message = take_up(&dir, &plan).unwrap_err().to_string();
        assert_eq!(std::fs::read_to_string(record(1)).unwrap(), kept, "nothing is written in its place");
        assert!(message.contains("it is the record of run 1, in the directory of run 3"), "{message}");
    }
}
