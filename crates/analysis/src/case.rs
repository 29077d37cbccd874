//! One case over its runs.

use model::case::Case;
use model::plan::RunState;

use crate::capacity;
use crate::finding::{Finding, Grade};
use crate::findings::{self, CaseContext};
use crate::histogram::HistogramSum;
use crate::run::Explained;
use crate::seconds::Distributions;
use crate::summary::{CaseSummary, RunSummary};
use crate::{tpcc, variation};

/// Whether a run counts in its case: it could, and no other attempt at it does so in its place.
pub(crate) fn counts(run: &RunSummary) -> bool {
    completed(run) && run.replaced_by.is_none()
}

/// Whether a run went to its planned end, and no finding voids it.
pub(crate) fn completed(run: &RunSummary) -> bool {
    run.state == RunState::Completed && run.grade != Grade::Void && run.tps.is_some()
}

/// Summarizes a case; `runs` are all its runs that were begun, in the order of execution, and `data`
/// their records.
pub(crate) fn summarize(
    case: &Case,
    n_planned: usize,
    runs: &[(&model::run::RunData, &Explained)],
) -> CaseSummary {
    let counting: Vec<&Explained> =
        runs.iter().map(|(_, run)| *run).filter(|run| counts(&run.summary)).collect();
    let mut sums = Distributions::default();
    for run in &counting {
        sums.add(&run.distributions);
    }
    let summaries: Vec<&RunSummary> = counting.iter().map(|run| &run.summary).collect();
    let tps: Vec<f64> = counting.iter().filter_map(|run| run.summary.tps).collect();
    let is_searched =
        |run: &&RunSummary| counts(run) || (capacity::is_censored(run) && run.replaced_by.is_none());
    let searched: Vec<&RunSummary> = runs.iter().map(|(_, run)| &run.summary).filter(is_searched).collect();
    let capacity = capacity::of_case(&searched);
    let is_search = searched.iter().any(|run| run.capacity.is_some());
    // Of searches that found no number, and of probes that missed the target, latencies are those of another rate.
    let mut confirmed = HistogramSum::new();
    let confirming = counting.iter().filter(|run| capacity.is_some() && capacity::is_confirmed(&run.summary));
    confirming.for_each(|run| confirmed.add(&run.distributions.latency));
    let mut summary = CaseSummary {
        case: case.clone(),
        label: case.label(),
        n_runs: counting.len(),
        tps_median: match is_search {
            true => capacity.as_ref().map(|capacity| capacity.rate.point),
            false => stats::median(&tps),
        },
        // Of searches without a rate nobody knows how far from the others they are.
        tps_cv: stats::cv(&tps).filter(|_| counting.len() == searched.len()),
        tps,
        variation: variation::of_case(runs),
        latency: if is_search { confirmed.summary() } else { sums.latency.summary() },
        service: sums.service.summary(),
        scripts: sums.script_summaries(counting.iter().map(|run| run.summary.measured_s).sum()),
        statements: sums.statement_summaries(),
        tpcc: tpcc::summarize(case, &sums, tpcc::Known::of_runs(&summaries)),
        capacity,
        findings: Vec::new(),
        grade: Grade::Valid,
    };
    let context = CaseContext { case, summary: &summary, n_planned, runs };
    let findings = findings::of_case(&context);
    let of_runs = counting.iter().flat_map(|run| &run.summary.findings);
    summary.grade = Grade::of(of_runs.chain(&findings).collect::<Vec<&Finding>>());
    summary.findings = findings;
    summary
}
