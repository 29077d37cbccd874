//! What disturbed a run, how much, and which of several attempts at a run counts.

use std::collections::BTreeMap;

use model::experiment::plan::Plan;
use model::experiment::repeat::that_counts;
use model::run::RunData;

use crate::finding::{Finding, Severity};
use crate::findings::{self, RunContext};
use crate::run::ExplainedRun;
use crate::summary::{Disturbance, RunSummary};

/// Void findings that a disturbance may have caused: with less of the machine, fewer transactions end.
const MAY_FOLLOW: [&str; 1] = ["too-few-transactions"];
/// Errors that a disturbance may have caused: a statement was cancelled (`statement_timeout`), or waited too long for a
/// lock (PostgreSQL documentation, errcodes-appendix).
const TIMEOUTS: [&str; 2] = ["57014", "55P03"];

/// Scores how much a run was disturbed, as `model::experiment::repeat` requires, and finds what did: why the run should be repeated. There
/// is none for a run that is void for a reason of its own, which a repeat would have again.
pub fn judge(run: &RunSummary) -> (f64, Option<&Disturbance>) {
    (score(run), run.disturbance.as_ref().filter(|_| !is_void_by_itself(run)))
}

/// Whether a void finding of the run has another cause than its disturbance.
fn is_void_by_itself(run: &RunSummary) -> bool {
    let timed_out = || {
        let n_of = |errors: &dyn Fn(&str) -> bool| -> u64 {
            run.errors.iter().filter(|error| errors(&error.sqlstate)).map(|error| error.n).sum()
        };
        2 * n_of(&|sqlstate| TIMEOUTS.contains(&sqlstate)) > n_of(&|_| true)
    };
    let mut voids = run.findings.iter().filter(|finding| finding.severity == Severity::Void);
    let may_follow = |finding: &Finding| {
        MAY_FOLLOW.contains(&finding.id) || (finding.id == "transactions-failed" && timed_out())
    };
    !run.is_censored() && voids.any(|finding| !may_follow(finding))
}

fn score(run: &RunSummary) -> f64 {
    // That no rate met the target is a result, and results choose no attempt.
    let counts = run.is_completed() || run.is_censored();
    if counts { run.disturbance.as_ref().map_or(0.0, |found| found.score) } else { f64::INFINITY }
}

/// The disturbance that the findings of a run report.
pub(crate) fn find(context: &RunContext, found: &[Finding]) -> Option<Disturbance> {
    let told = found.iter().filter_map(|finding| {
        let (_, excess) = findings::DISTURBANCES.iter().find(|(id, _)| *id == finding.id)?;
        // Beyond its threshold, or there would be no finding; 0 where a repeat would have it again.
        let excess = excess(context).unwrap_or(1.0);
        (excess > 0.0).then_some((finding, excess.max(1.0)))
    });
    let told: Vec<_> = told.collect();
    let score = told.iter().map(|(_, excess)| *excess).max_by(f64::total_cmp)?;
    let evidence: Vec<&str> = told.iter().map(|(finding, _)| finding.evidence.as_str()).collect();
    let rules = told.iter().map(|(finding, _)| finding.id).collect();
    Some(Disturbance { score, rules, evidence: evidence.join("; ") })
}

/// Sorts runs in the order of execution, and excludes all attempts but the one that counts from the numbers.
pub(crate) fn settle(plan: &Plan, runs: &mut [(&RunData, ExplainedRun)]) {
    let turn = |data: &RunData| plan.turn_of(&data.record.spec, data.record.repeat);
    let attempt = |data: &RunData| data.record.repeat.map_or(0, |repeat| repeat.attempt);
    runs.sort_by_key(|(data, _)| (turn(data), attempt(data), data.record.spec.run));
    let mut n_planned: BTreeMap<u32, usize> = BTreeMap::new();
    for spec in &plan.runs {
        *n_planned.entry(plan.turn_of(spec, None)).or_default() += 1;
    }
    for attempts in runs.chunk_by_mut(|(a, _), (b, _)| turn(a) == turn(b)) {
        let n_of_turn = n_planned.get(&turn(attempts[0].0)).copied().unwrap_or(1);
        leave_out(attempts, n_of_turn, attempt);
    }
}

fn leave_out(runs: &mut [(&RunData, ExplainedRun)], n_of_turn: usize, attempt: impl Fn(&RunData) -> u32) {
    let last = runs.iter().map(|(data, _)| attempt(data)).max().unwrap_or(0);
    let scores: Vec<f64> = (0..=last)
        .map(|n| {
            let of_attempt = runs.iter().filter(|(data, _)| attempt(data) == n);
            let scores: Vec<f64> = of_attempt.map(|(_, run)| score(&run.summary)).collect();
            // A run that was cut off within its pair is not an attempt.
            if scores.len() < n_of_turn { f64::INFINITY } else { scores.into_iter().fold(0.0, f64::max) }
        })
        .collect();
    let Some(chosen) = that_counts(&scores).filter(|_| last > 0) else { return };
    let is_chosen = |data: &RunData| attempt(data) as usize == chosen;
    let counting: BTreeMap<u32, u32> = runs
        .iter()
        .filter(|(data, _)| is_chosen(data))
        .map(|(_, run)| (run.summary.case, run.summary.run))
        .collect();
    for (_, run) in runs.iter_mut().filter(|(data, _)| !is_chosen(data)) {
        run.summary.replaced_by = counting.get(&run.summary.case).copied();
    }
}
