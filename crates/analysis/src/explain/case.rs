//! One case over its runs.

use model::experiment::case::Case;

use crate::budget;
use crate::case::capacity;
use crate::case::variation;
use crate::finding::{Finding, Grade};
use crate::findings::{self, CaseContext};
use crate::run::ExplainedRun;
use crate::run::analytical;
use crate::run::counters;
use crate::run::limiter;
use crate::run::seconds::Distributions;
use crate::run::timeline::outage;
use crate::run::top_statements;
use crate::run::tpcc;
use crate::summary::{CaseSummary, LatencySummary, RunSummary};
use model::load::histogram::HistogramSum;

/// Summarizes a case; `runs` are all of its runs that were started, in the order of execution, and `data` their
/// records.
pub(crate) fn summarize(case: &Case, runs: &[(&model::run::RunData, &ExplainedRun)]) -> CaseSummary {
    let counting: Vec<&ExplainedRun> =
        runs.iter().map(|(_, run)| *run).filter(|run| run.summary.counts()).collect();
    let mut sums = Distributions::default();
    for run in &counting {
        sums.add(&run.distributions);
    }
    sums.settle();
    let summaries: Vec<&RunSummary> = counting.iter().map(|run| &run.summary).collect();
    let tps: Vec<f64> = counting.iter().filter_map(|run| run.summary.tps).collect();
    let is_searched = |run: &&RunSummary| run.counts() || (run.is_censored() && run.replaced_by.is_none());
    let searched: Vec<&RunSummary> = runs.iter().map(|(_, run)| &run.summary).filter(is_searched).collect();
    let capacity = capacity::of_case(&searched);
    let is_search = searched.iter().any(|run| run.capacity.is_some());
    // For searches without a number, and for probes that missed the target, the latencies belong to another rate.
    let mut confirmed = HistogramSum::new();
    let confirming = counting.iter().filter(|run| capacity.is_some() && run.summary.is_confirmed());
    confirming.for_each(|run| confirmed.add(&run.distributions.latency));
    let analytical = analytical::of_case(&summaries);
    let mut summary = CaseSummary {
        case: case.clone(),
        label: case.label(),
        n_started: runs.len(),
        n_runs: counting.len(),
        tps_median: if is_search {
            capacity.as_ref().map(|capacity| capacity.rate.point)
        } else {
            stats::median(&tps)
        },
        // It is not known how far searches without a rate are from the others.
        tps_cv: stats::cv(&tps).filter(|_| counting.len() == searched.len()),
        tps,
        uncertainty: None,
        variation: variation::of_case(runs),
        // A few executions of different queries have no percentiles.
        latency: if analytical.is_some() {
            None
        } else if is_search {
            LatencySummary::from_histogram(&confirmed)
        } else {
            LatencySummary::from_histogram(&sums.latency)
        },
        service: LatencySummary::from_histogram(&sums.service),
        scripts: sums.script_summaries(counting.iter().map(|run| run.summary.measured_s).sum()),
        measures: sums.measure_summaries(),
        statements: sums.statement_summaries(),
        analytical,
        outages: outage::of_case(&summaries),
        tpcc: tpcc::summarize(case, &sums, tpcc::TpccFacts::of_runs(&summaries)),
        capacity,
        limiter: limiter::of_case(
            &summaries.iter().filter_map(|run| run.limiter.as_ref()).collect::<Vec<_>>(),
        ),
        counters: counters::of_case(
            &summaries.iter().filter_map(|run| run.counters.as_ref()).collect::<Vec<_>>(),
        ),
        costs: budget::costs_of_case(&summaries),
        top_statements: top_statements::of_case(
            &summaries.iter().map(|run| run.top_statements.as_slice()).collect::<Vec<_>>(),
        ),
        findings: Vec::new(),
        grade: Grade::Valid,
    };
    let context = CaseContext { case, summary: &summary, runs };
    let findings = findings::of_case(&context);
    let of_runs = counting.iter().flat_map(|run| &run.summary.findings);
    summary.grade = if runs.is_empty() {
        Grade::Void
    } else {
        Grade::from_findings(of_runs.chain(&findings).collect::<Vec<&Finding>>())
    };
    summary.findings = findings;
    summary
}
