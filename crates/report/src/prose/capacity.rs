//! The result of a search for the highest rate, as text.

use analysis::summary::capacity::{CaseCapacity, Outcome};
use analysis::summary::{CaseSummary, RunSummary, Study};

use crate::prose::{format, phrases};

/// `highest rate with p99 <= 10ms: 2,340/s (interval 2,250 to 2,410, 3 runs)`; `None` for a case without such a rate.
pub(crate) fn words(case: &CaseSummary) -> Option<String> {
    let capacity = case.capacity.as_ref()?;
    let limit = match capacity.n_not_limiting {
        0 => "",
        n if n == capacity.n_runs => "; throughput is the limit, not the latency",
        _ => "; in some runs throughput was the limit, not the latency",
    };
    Some(format!(
        "highest rate with {}: {}/s ({}, {}){limit}",
        capacity.target,
        format::tps(capacity.rate.point),
        interval(capacity),
        phrases::plural(capacity.n_runs, "run")
    ))
}

/// `interval 2,250 to 2,410`.
pub(crate) fn interval(capacity: &CaseCapacity) -> String {
    format!("interval {} to {}", format::tps(capacity.rate.low), format::tps(capacity.rate.high))
}

/// A line for each searched case; also for one without a number because no rate met the target, in all runs or in too
/// many.
pub(crate) fn lines(study: &Study) -> Vec<String> {
    let of_case = |case: &CaseSummary| {
        let words = words(case).or_else(|| no_rate(study, case))?;
        Some(format!("{}: {words}", phrases::one_line(&case.label)))
    };
    study.cases.iter().filter_map(of_case).collect()
}

/// The lines below the table of cases; none if there is one case, because the headline says it.
pub(crate) fn below_table(study: &Study) -> Vec<String> {
    if study.cases.len() > 1 { lines(study) } else { Vec::new() }
}

/// `in 1 of 2 runs no rate met p99 <= 10ms; the other found 1,208/s`.
fn no_rate(study: &Study, case: &CaseSummary) -> Option<String> {
    let runs = || study.runs.iter().filter(|run| run.case == case.case.id && run.replaced_by.is_none());
    let never: Vec<&RunSummary> = runs().filter(|run| is_unreachable(run)).collect();
    let target = never.first()?.capacity.as_ref()?.target;
    let found: Vec<String> =
        runs().filter(|run| run.counts()).filter_map(|run| run.tps).map(format::tps).collect();
    let n = never.len() + found.len();
    let who = if found.len() == 1 { "the other" } else { "the others" };
    Some(match found.is_empty() {
        true => format!("no rate met {target}"),
        false => format!(
            "in {} of {} no rate met {target}; {who} found {}/s",
            never.len(),
            phrases::plural(n, "run"),
            found.join("/s, ")
        ),
    })
}

fn is_unreachable(run: &RunSummary) -> bool {
    run.capacity.as_ref().is_some_and(|capacity| capacity.outcome == Outcome::Unreachable)
}
