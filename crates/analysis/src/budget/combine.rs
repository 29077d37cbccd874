//! From the rows of runs to the uncertainty of a case's figures.

use stats::RepetitionSpread;

use super::repetition::{RUNS_DIFFER, RunSpread, SpreadError};
use super::row;
use crate::findings::format::percent;
use crate::summary::uncertainty::{
    CaseUncertainty, Contribution, DisturbanceBounds, Uncertainty, larger_side,
};
use crate::summary::{CaseSummary, RunSummary};

/// Chance that the answer lies in the range.
const LEVEL: f64 = 0.95;

/// Bounds of one row over the runs of a case, as logarithms.
struct CaseBounds {
    id: &'static str,
    bounds: [f64; 2],
    evidence: String,
}

/// The uncertainties of a case's figures; `runs` are those that count. `None` without one, and without a throughput.
pub(crate) fn of_case(
    summary: &CaseSummary,
    runs: &[&RunSummary],
    spread: &RunSpread,
) -> Option<CaseUncertainty> {
    summary.tps_median?;
    let of_latency =
        |of: fn(&RunSummary) -> Option<u64>, bound: fn(&DisturbanceBounds) -> [f64; 2], is_tail| {
            let values: Vec<f64> = runs.iter().filter_map(|run| Some(of(run)? as f64)).collect();
            let is_known = summary.latency.is_some() && !values.is_empty();
            is_known.then(|| combine(&spread.error_of(&values, is_tail), &rows(runs, bound)))?
        };
    let searched = searched_interval(summary);
    let throughput: Vec<CaseBounds> =
        rows(runs, |bound| bound.throughput).into_iter().chain(searched).collect();
    Some(CaseUncertainty {
        throughput: combine(&spread.error_of(&summary.tps, false), &throughput)?,
        p50: of_latency(|run| Some(run.latency?.p50_ns), |bound| bound.p50, false),
        p99: of_latency(|run| Some(run.latency?.p99_ns), |bound| bound.p99, true),
    })
}

/// The range of 95 % that repetition alone leaves of the median of these values, as ratios to it; `assumed_sd` is what is known of the spread
/// of logarithms before. `None` if a value is not above zero.
pub(super) fn range_of_repetition(values: &[f64], assumed_sd: f64) -> Option<[f64; 2]> {
    let is_positive = values.iter().all(|value| *value > 0.0);
    let spread = RunSpread::new(assumed_sd, "").error_of(values, false);
    is_positive.then(|| ratios(&RepetitionSpread::new(spread.with_more(0))?, std::iter::empty()))?
}

/// What a search itself leaves open of the rate.
fn searched_interval(summary: &CaseSummary) -> Option<CaseBounds> {
    let rate = summary.capacity.as_ref()?.rate;
    let bound = |end: f64| (end / rate.point).ln();
    let bounds = [bound(rate.low).min(0.0), bound(rate.high).max(0.0)];
    let is_known = bounds.iter().all(|bound| bound.is_finite());
    let evidence = "the interval of the rate that was searched for".to_string();
    is_known.then_some(CaseBounds { id: "search", bounds, evidence })
}

/// Each row that any of the runs has: the means of its bounds over all runs, as the median run has about the mean's disturbance.
fn rows(runs: &[&RunSummary], bound: impl Fn(&DisturbanceBounds) -> [f64; 2]) -> Vec<CaseBounds> {
    let mut rows: Vec<CaseBounds> = Vec::new();
    for found in runs.iter().flat_map(|run| &run.bounds) {
        let [low, high] = bound(found).map(|end| end / runs.len() as f64);
        match rows.iter_mut().find(|row| row.id == found.id) {
            Some(row) => row.bounds = [row.bounds[0] + low, row.bounds[1] + high],
            None => {
                rows.push(CaseBounds { id: found.id, bounds: [low, high], evidence: found.evidence.clone() })
            }
        }
    }
    rows
}

fn combine(spread: &SpreadError, rows: &[CaseBounds]) -> Option<Uncertainty> {
    // Once for all sums: it takes most of their time.
    let own = RepetitionSpread::new(spread.with_more(0))?;
    let whole = ratios(&own, rows.iter().map(|row| row.bounds))?;
    let mut budget: Vec<Contribution> = rows.iter().filter_map(|row| of_row(&own, rows, row)).collect();
    budget.extend(of_spread(spread, &own, rows));
    budget.sort_by(|a, b| b.good_to().total_cmp(&a.good_to()));
    Some(Uncertainty { low: whole[0], high: whole[1], budget })
}

/// The ends of the range as ratios to the figure.
pub(super) fn ratios(spread: &RepetitionSpread, bounds: impl Iterator<Item = [f64; 2]>) -> Option<[f64; 2]> {
    let sum = spread.sum_interval(&bounds.collect::<Vec<[f64; 2]>>(), LEVEL)?;
    Some([sum.low.exp().min(1.0), sum.high.exp().max(1.0)])
}

/// `±5 %`; from 100 % on, only that is known.
pub(crate) fn good_to(share: f64) -> String {
    if share < 1.0 { format!("±{}", percent(share)) } else { "over ±100 %".to_string() }
}

/// A row that has an effect, and what the figure would be good to without it.
fn of_row(spread: &RepetitionSpread, rows: &[CaseBounds], one: &CaseBounds) -> Option<Contribution> {
    let [low, high] = one.bounds;
    if low == 0.0 && high == 0.0 {
        return None;
    }
    let others = rows.iter().filter(|row| row.id != one.id).map(|row| row.bounds);
    let without = ratios(spread, others)?;
    let remedy = row(one.id).map_or("a longer search", |row| row.remedy);
    let remedy = format!("{remedy}: {}", good_to(larger_side(without)));
    Some(Contribution {
        id: one.id,
        low: low.exp(),
        high: high.exp(),
        evidence: one.evidence.clone(),
        remedy,
    })
}

fn of_spread(spread: &SpreadError, own: &RepetitionSpread, rows: &[CaseBounds]) -> Option<Contribution> {
    let alone = ratios(own, std::iter::empty())?;
    let more = spread.proposed();
    let with_more = RepetitionSpread::new(spread.with_more(more))?;
    let with_more = ratios(&with_more, rows.iter().map(|row| row.bounds))?;
    Some(Contribution {
        id: RUNS_DIFFER.id,
        low: alone[0],
        high: alone[1],
        evidence: spread.evidence.clone(),
        remedy: format!("{more} more runs: {}", good_to(larger_side(with_more))),
    })
}
