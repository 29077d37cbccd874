//! How far off the figures of runs and cases can be: an uncertainty budget as of JCGM 100:2008 (GUM).
//!
//! Each row of [`BUDGET`] is one kind of error, with the bounds in which the undisturbed figure lies because of it. A row exists if and
//! only if it is listed here. What a row bounds is no doubt any more: its findings become notes.

mod combine;
mod costs;
mod interruptions;
mod outlook;
mod processors;
mod repetition;
mod waits;

pub(crate) use combine::{good_to, of_case};
pub(crate) use costs::costs_of_case;
pub(crate) use outlook::{CaseSoFar, DecidingFigure, outlook, range_of_run};
pub use repetition::EarlierRuns;
pub(crate) use repetition::RunSpread;

use crate::finding::{Effect, Finding, Severity};
use crate::findings::{Rule, RunContext};
use crate::summary::uncertainty::DisturbanceBounds;

/// One kind of error.
#[derive(Debug, Clone, Copy)]
pub struct BudgetRow {
    /// Name: `steal`.
    pub id: &'static str,
    /// What it is in a few words, as in "mostly from steal".
    pub title: &'static str,
    /// How its bounds are computed.
    pub formula: &'static str,
    /// Where the formula comes from.
    pub source: &'static str,
    /// Change that makes it smaller.
    pub remedy: &'static str,
    /// The findings whose effect it bounds.
    pub findings: &'static [&'static str],
    pub(crate) bound: RowBound,
}

/// How a row gets its bounds.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RowBound {
    /// From the records of a run; `None` if there is nothing to bound, or no way to.
    Run(fn(&RunContext) -> Option<RowBounds>),
    /// From the runs of a case.
    Repetition,
}

/// Bounds of a row for one run, as logarithms of the undisturbed figure over the measured one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RowBounds {
    throughput: [f64; 2],
    p50: [f64; 2],
    p99: [f64; 2],
    evidence: String,
}

/// All rows.
pub const BUDGET: &[BudgetRow] = &[
    repetition::RUNS_DIFFER,
    processors::STEAL,
    processors::FOREIGN_CPU,
    processors::FOREIGN_SESSIONS,
    processors::QUOTA,
    interruptions::INTERRUPTED,
    interruptions::UNSTEADY,
    waits::DRIVER_PAUSED,
    waits::MEMORY,
    waits::EDGES,
];

/// The row of this name.
pub fn row(id: &str) -> Option<&'static BudgetRow> {
    BUDGET.iter().find(|row| row.id == id)
}

/// The row that bounds the effect of a finding, if one does.
pub fn row_of_finding(id: &str) -> Option<&'static BudgetRow> {
    BUDGET.iter().find(|row| row.findings.contains(&id))
}

impl RowBounds {
    /// Those of a disturbance that made transactions wait for this share of their time, 0 to 1. In a closed loop less waiting means more
    /// transactions; at a rate that was kept it only means shorter ones.
    fn of_waiting(context: &RunContext, share: f64, evidence: String) -> RowBounds {
        let gain = -(1.0 - share.clamp(0.0, WAIT_MAX)).ln();
        let is_kept = context.summary.sustains_its_rate(&context.data.record);
        let throughput = if is_kept { [0.0, 0.0] } else { [0.0, gain] };
        RowBounds { throughput, p50: [-gain, 0.0], p99: [-gain, 0.0], evidence }
    }

    /// The same with bounds of their own for the 99th percentile.
    fn with_tail(self, p99: [f64; 2]) -> RowBounds {
        RowBounds { p99: [self.p99[0].min(p99[0]), self.p99[1].max(p99[1])], ..self }
    }
}

/// The largest share of waiting that is bounded: beyond it, the figure says next to nothing.
const WAIT_MAX: f64 = 0.9;

/// Which row makes a note of a rule's doubt, as a sentence; `None` if none does.
pub fn bounded_by(rule: &Rule) -> Option<String> {
    let row = row_of_finding(rule.id)?;
    let is_doubt = rule.severity.contains("Doubt");
    is_doubt.then(|| format!("Note where the budget's row {} bounds its effect.", row.id))
}

/// What disturbances can have done to a run.
pub(crate) fn of_run(context: &RunContext) -> Vec<DisturbanceBounds> {
    let of_row = |row: &BudgetRow| match row.bound {
        RowBound::Run(bound) => {
            let RowBounds { throughput, p50, p99, evidence } = bound(context)?;
            Some(DisturbanceBounds { id: row.id, throughput, p50, p99, evidence })
        }
        RowBound::Repetition => None,
    };
    BUDGET.iter().filter_map(of_row).collect()
}

/// Turns doubts about a run into notes where its budget bounds what they can have done.
pub(crate) fn bound_findings(findings: &mut [Finding], bounds: &[DisturbanceBounds]) {
    for finding in findings.iter_mut().filter(|finding| finding.severity == Severity::Doubt) {
        let row = row_of_finding(finding.id);
        if let Some(bound) = row.and_then(|row| bounds.iter().find(|bound| bound.id == row.id)) {
            let [low, high] = bound.throughput.map(f64::exp);
            finding.severity = Severity::Note;
            finding.effect = Some(Effect { row: bound.id, low, high });
        }
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
}
