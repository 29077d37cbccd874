//! The highest rate of a case, from those of its runs.

use crate::summary::RunSummary;
use crate::summary::capacity::{
    CENTRE_MIN, Capacity, CaseCapacity, ProbeVerdict, RateEstimate, SearchOutcome,
};

/// Level of the interval.
const LEVEL: f64 = 0.95;

/// The median of the runs' rates, `None` if in half of them or more no rate met the target. A run without such a rate
/// counts as a rate of 0, below all others: leaving it out would give the median of successes. The interval of one run
/// is its own; from six runs on it is that of the signed rank test (`stats::centre`, of logarithms); in between, or if
/// a run counts as 0, it spans the runs' own from the lowest lower end to the highest upper end, because so few runs
/// have no 95 % interval between them.
pub(crate) fn of_case(runs: &[&RunSummary]) -> Option<CaseCapacity> {
    let searched: Vec<&Capacity> = runs.iter().filter_map(|run| run.capacity.as_ref()).collect();
    let nothing = RateEstimate { point: 0.0, low: 0.0, high: 0.0 };
    let found: Vec<RateEstimate> = searched.iter().map(|one| one.rate.unwrap_or(nothing)).collect();
    let n_of = |outcome: SearchOutcome| searched.iter().filter(|one| one.outcome == outcome).count();
    let n_unreachable = n_of(SearchOutcome::Unreachable);
    if 2 * n_unreachable >= found.len() {
        return None;
    }
    let rates: Vec<f64> = found.iter().map(|rate| rate.point).collect();
    let logs: Vec<f64> = rates.iter().map(|rate| rate.ln()).collect();
    let centre = Some(&logs)
        .filter(|logs| logs.len() >= CENTRE_MIN && n_unreachable == 0)
        .and_then(|logs| stats::centre(logs, LEVEL));
    let ends = match centre.map(|estimate| estimate.map(f64::exp)) {
        Some(estimate) => (estimate.low, estimate.high),
        None => (
            found.iter().map(|rate| rate.low).fold(f64::INFINITY, f64::min),
            found.iter().map(|rate| rate.high).fold(0.0, f64::max),
        ),
    };
    let probes = searched.iter().flat_map(|one| &one.probes);
    let held = probes.filter(|probe| probe.verdict == ProbeVerdict::Holds);
    let is_unconfirmed = |one: &&&Capacity| {
        one.probes.iter().any(|probe| probe.confirms && probe.verdict != ProbeVerdict::Holds)
    };
    Some(CaseCapacity {
        target: searched.first()?.target,
        rate: RateEstimate { point: stats::median(&rates)?, low: ends.0, high: ends.1 },
        n_runs: found.len(),
        n_unreachable,
        n_not_limiting: n_of(SearchOutcome::NotLimiting),
        n_unconfirmed: searched.iter().filter(is_unconfirmed).count(),
        held_per_s: held.map(|probe| probe.rate_per_s).reduce(f64::max),
    })
}
