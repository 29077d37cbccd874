//! What a search for the highest rate found, in words.

use analysis::capacity::{CaseCapacity, Outcome};
use analysis::summary::{CaseSummary, RunSummary, Study};

use crate::{format, words};

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
        words::plural(capacity.n_runs, "run")
    ))
}

/// `interval 2,250 to 2,410`.
pub(crate) fn interval(capacity: &CaseCapacity) -> String {
    format!("interval {} to {}", format::tps(capacity.rate.low), format::tps(capacity.rate.high))
}

/// A line for each case that was searched; also for one in which no rate held.
pub(crate) fn lines(study: &Study) -> Vec<String> {
    let of_case = |case: &CaseSummary| {
        let words = words(case).or_else(|| {
            let run = study.runs.iter().find(|run| run.case == case.case.id && is_unreachable(run))?;
            Some(format!("no rate held {}", run.capacity.as_ref()?.target))
        })?;
        Some(format!("{}: {words}", words::one_line(&case.label)))
    };
    study.cases.iter().filter_map(of_case).collect()
}

fn is_unreachable(run: &RunSummary) -> bool {
    run.capacity.as_ref().is_some_and(|capacity| capacity.outcome == Outcome::Unreachable)
}
