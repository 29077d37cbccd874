//! An experiment: its runs, its cases, and the whole.

use model::experiment::plan::{RunSpec, RunState, StateLine};
use model::run::{ExperimentData, RunData, RunRecord};

use super::run;
use crate::budget::{self, EarlierRuns, RunSpread};
use crate::case::scalability;
use crate::explain::case;
use crate::explain::disturbance;
use crate::explain::encryption::encryption;
use crate::explain::fetched::fetched_servers;
use crate::findings::{self, StudyContext};
use crate::run::ExplainedRun;
use crate::summary::{CaseSummary, RunSummary, Study};

/// Explains an experiment in any state: nothing completed, nothing started, runs cut short.
pub fn study(data: &ExperimentData) -> Study {
    let records: Vec<&RunRecord> = data.runs.iter().map(|run| &run.record).collect();
    let partner = |index| partner_of(index, &records).map(|partner| &data.runs[partner]);
    let explained = data.runs.iter().enumerate().map(|(index, run)| run::explain(run, partner(index), true));
    study_of(data, explained.collect())
}

/// Explains an experiment whose runs were explained one by one, in the order of `data.runs`. Of those only the records and the
/// damage are needed.
pub fn study_of(data: &ExperimentData, explained: Vec<ExplainedRun>) -> Study {
    study_after(data, explained, None)
}

/// [`study_of`] an experiment of which earlier ones on its machine are known.
pub fn study_after(
    data: &ExperimentData,
    explained: Vec<ExplainedRun>,
    earlier: Option<&EarlierRuns>,
) -> Study {
    let mut runs: Vec<(&RunData, ExplainedRun)> = data.runs.iter().zip(explained).collect();
    disturbance::settle(&data.plan, &mut runs);
    let cases = data.plan.cases.iter().map(|case| {
        let begun = runs.iter().filter(|(_, run)| run.summary.case == case.id);
        let begun: Vec<(&RunData, &ExplainedRun)> = begun.map(|(data, run)| (*data, run)).collect();
        case::summarize(case, &begun)
    });
    let mut cases: Vec<CaseSummary> = cases.collect();
    state_uncertainties(&mut cases, &runs, earlier);
    let partial = partial(data);
    Study {
        findings: findings::of_study(&StudyContext { data, partial: partial.as_deref() }),
        plan: data.plan.clone(),
        scalability: scalability::of_cases(&cases),
        cases,
        runs: runs.into_iter().map(|(_, run)| run.summary).collect(),
        fetched: fetched_servers(data),
        encryption: encryption(data),
        partial,
    }
}

/// How far off the figures of each case can be, which the other cases help to know.
fn state_uncertainties(
    cases: &mut [CaseSummary],
    runs: &[(&RunData, ExplainedRun)],
    earlier: Option<&EarlierRuns>,
) {
    let stated: Vec<_> = cases
        .iter()
        .enumerate()
        .map(|(index, case)| {
            let counting =
                runs.iter().filter(|(_, run)| run.summary.case == case.case.id && run.summary.counts());
            let (records, summaries): (Vec<&RunData>, Vec<&RunSummary>) =
                counting.map(|(data, run)| (*data, &run.summary)).unzip();
            let spread = RunSpread::for_case(index, cases, earlier, &records);
            budget::of_case(case, &summaries, &spread)
        })
        .collect();
    for (case, uncertainty) in cases.iter_mut().zip(stated) {
        case.uncertainty = uncertainty;
    }
}

/// The index of the other side of a duet's round: of its attempts, the one that ran at the same time. `None` if the run is no
/// side of a duet.
pub fn partner_of(index: usize, records: &[&RunRecord]) -> Option<usize> {
    let run = records[index];
    if !run.took_turns() {
        return None;
    }
    let go = run.go_unix_ns?;
    let others = records.iter().enumerate().filter(|(_, other)| {
        other.took_turns() && other.spec.block == run.spec.block && other.spec.case != run.spec.case
    });
    others
        .filter_map(|(index, other)| Some((other.go_unix_ns?.abs_diff(go), index)))
        .min_by_key(|(apart, _)| *apart)
        .map(|(_, index)| index)
}

/// Why the experiment is incomplete; `None` if every planned run completed.
fn partial(data: &ExperimentData) -> Option<String> {
    let plan = data.plan.without_spare();
    let n_planned = plan.runs.len();
    // By the plan, which contains no repeats: none of those is missing.
    let state_of = |spec: &RunSpec| {
        let record = data.runs.iter().map(|run| &run.record).find(|record| record.spec.run == spec.run)?;
        Some(record.state)
    };
    let missing: Vec<Option<RunState>> =
        plan.runs.iter().map(state_of).filter(|state| *state != Some(RunState::Completed)).collect();
    let n_missing = missing.len();
    // A comparison ends before its last planned block when it is precise enough; then it is marked as complete.
    let is_enough = data.plan.precision.is_some()
        && data.state.last().is_some_and(|line| line.run == 0 && line.state == RunState::Completed);
    if n_missing == 0 || is_enough {
        return None;
    }
    let n_failed = missing.iter().filter(|state| **state == Some(RunState::Failed)).count();
    let n_never = missing.iter().filter(|state| state.is_none()).count();
    let n_early = n_missing - n_failed - n_never;
    let parts = [(n_early, "ended early"), (n_failed, "failed"), (n_never, "not started")];
    let parts: Vec<String> =
        parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    let verb = if n_missing == 1 { "is" } else { "are" };
    let mut sentence = format!("{n_missing} of {n_planned} runs {verb} missing ({})", parts.join(", "));
    if let Some(reason) = last_reason(data) {
        sentence.push_str(": ");
        sentence.push_str(&reason);
    }
    Some(sentence)
}

/// The reason written last, in the journal or in a run.
fn last_reason(data: &ExperimentData) -> Option<String> {
    // The reason why the experiment ended before it was resumed no longer counts.
    let is_begin = |line: &StateLine| line.run == 0 && line.state == RunState::Started;
    let since = data.state.iter().rposition(is_begin).map_or(0, |begin| begin + 1);
    let journal = &data.state[since..];
    if since > 0 && !journal.iter().any(|line| line.run == 0) {
        return Some("it was cut off, or has not ended yet".to_string());
    }
    let journal = journal.iter().rev().map(|line| &line.reason);
    let runs = data.runs.iter().rev().map(|run| &run.record.reason);
    journal.chain(runs).find(|reason| !reason.is_empty()).cloned()
}
