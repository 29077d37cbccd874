//! The result of a search for the highest rate, as text.

pub(crate) mod offered;

use analysis::summary::capacity::{CaseCapacity, ProbeSummary, ProbeVerdict, SearchOutcome};
use analysis::summary::{CaseSummary, RunSummary, Study};

use crate::prose::{format, phrases};

/// Tables of rates that a terminal shows; the page has all.
const TABLES_MAX: usize = 3;

/// `highest rate with p99 <= 10ms: 2,340/s (interval 2,250 to 2,410/s, 3 runs; of the rates tried, 2,300/s held)`; `None` for a case
/// without such a rate.
pub(crate) fn words(case: &CaseSummary) -> Option<String> {
    let capacity = case.capacity.as_ref()?;
    let limit = match capacity.n_not_limiting {
        0 => "",
        n if n == capacity.n_runs => "; throughput is the limit, not the latency",
        _ => "; in some runs throughput was the limit, not the latency",
    };
    let held = capacity
        .held_per_s
        .map_or(String::new(), |rate| format!("; of the rates tried, {}/s held", format::tps(rate)));
    let n_confirmed = capacity.n_runs.saturating_sub(capacity.n_unconfirmed + capacity.n_unreachable);
    let confirmed = match capacity.n_unconfirmed {
        0 => String::new(),
        _ if n_confirmed == 0 => ", not confirmed".to_string(),
        _ => format!(", confirmed in {n_confirmed} of {}", phrases::plural(capacity.n_runs, "run")),
    };
    Some(format!(
        "highest rate with {}: {}/s{confirmed} ({}, {}{held}){limit}",
        capacity.target,
        format::tps(capacity.rate.point),
        interval(capacity),
        phrases::plural(capacity.n_runs, "run")
    ))
}

/// `interval 2,250 to 2,410/s`.
pub(crate) fn interval(capacity: &CaseCapacity) -> String {
    format!("interval {} to {}/s", format::tps(capacity.rate.low), format::tps(capacity.rate.high))
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

/// The rates that a run tried: what was offered, what was achieved, the percentile, and the verdict.
pub(crate) struct Tried {
    pub(crate) title: String,
    pub(crate) heads: [String; 4],
    pub(crate) rows: Vec<[String; 4]>,
}

/// The rates that searches tried, of the first runs.
pub(crate) fn tried(study: &Study) -> Vec<Tried> {
    searched(study).take(TABLES_MAX).filter_map(of_run).collect()
}

/// That more runs searched than [`tried`] has.
pub(crate) fn not_shown(study: &Study) -> Option<String> {
    let n @ 1.. = searched(study).count().saturating_sub(TABLES_MAX) else { return None };
    Some(format!("the page has the rates that {} tried", phrases::plural(n, "more run")))
}

fn searched(study: &Study) -> impl Iterator<Item = &RunSummary> {
    study.runs.iter().filter(|run| run.capacity.is_some() && run.replaced_by.is_none())
}

fn of_run(run: &RunSummary) -> Option<Tried> {
    let capacity = run.capacity.as_ref()?;
    let row = |probe: &ProbeSummary| {
        let per_s = |rate: f64| format!("{}/s", format::tps(rate));
        let latency = probe.latency_ns.map_or("-".to_string(), |ns| format!("{} ms", format::ms(ns as f64)));
        [per_s(probe.rate_per_s), per_s(probe.achieved_per_s), latency, verdict(probe)]
    };
    let percentile = format!("p{}", capacity.target.percentile);
    Some(Tried {
        title: format!("rates that run {} tried for {}", run.run, capacity.target),
        heads: ["offered".to_string(), "achieved".to_string(), percentile, "verdict".to_string()],
        rows: capacity.probes.iter().map(row).collect(),
    })
}

/// `misses: transactions pile up`, `holds (confirms)`.
pub(crate) fn verdict(probe: &ProbeSummary) -> String {
    let verdict = match probe.verdict {
        ProbeVerdict::Misses if probe.piles_up => "misses: transactions pile up",
        verdict => verdict.as_str(),
    };
    match (probe.confirms, probe.verdict) {
        (false, _) => verdict.to_string(),
        (true, ProbeVerdict::Holds) => format!("{verdict} (confirms)"),
        (true, _) => format!("{verdict} (was to confirm)"),
    }
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
    Some(if found.is_empty() {
        format!("no rate met {target}")
    } else {
        format!(
            "in {} of {} no rate met {target}; {who} found {}/s",
            never.len(),
            phrases::plural(n, "run"),
            found.join("/s, ")
        )
    })
}

fn is_unreachable(run: &RunSummary) -> bool {
    run.capacity.as_ref().is_some_and(|capacity| capacity.outcome == SearchOutcome::Unreachable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_that_piles_up_says_so_and_the_last_one_confirms() {
        let probe = |verdict, piles_up, confirms| ProbeSummary {
            from_s: 1.0,
            to_s: 3.0,
            rate_per_s: 2400.0,
            achieved_per_s: 2390.0,
            late: 0.0,
            latency_ns: Some(8_100_000),
            latency_low_ns: None,
            latency_high_ns: None,
            verdict,
            piles_up,
            confirms,
        };
        for (verdict, piles_up, confirms, expected) in [
            (ProbeVerdict::Misses, true, false, "misses: transactions pile up"),
            (ProbeVerdict::Misses, false, false, "misses"),
            (ProbeVerdict::Holds, false, true, "holds (confirms)"),
        ] {
            let said = super::verdict(&probe(verdict, piles_up, confirms));
            assert!(said.starts_with(expected.split(' ').next().unwrap()) || said == expected, "{said}");
            assert_eq!(said.contains("confirms"), confirms, "{said}");
            assert_eq!(said.contains("pile up"), piles_up, "{said}");
        }
    }
}
