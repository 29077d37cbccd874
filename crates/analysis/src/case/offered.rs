//! Whether a rate that was asked for was sustained: the verdict of an open loop.

use model::load::Pace;
use model::load::capacity::LatencyTarget;
use serde::Serialize;

use crate::summary::uncertainty::Uncertainty;
use crate::summary::{CaseSummary, LatencySummary, RunSummary, Study};

/// How much the latency of the last third of a measurement exceeds that of the first where it grows. Our convention.
const GROWS: f64 = 1.2;

/// What became of the rate of a case over its runs that count.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct OfferedRate {
    /// Transactions per second that were due.
    pub rate_per_s: f64,
    /// Transactions per second that ended, the median of the runs.
    pub achieved_per_s: f64,
    /// Runs that count.
    pub n_runs: usize,
    /// Runs of which fewer than 99 % of the offered transactions ended, beyond chance.
    pub n_missed: usize,
    /// 99th percentile of latency, nanoseconds.
    pub p99_ns: Option<u64>,
    /// The latency that the pace asks to keep, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<LatencyLimit>,
    /// How long half of the transactions waited for a free client, nanoseconds, where they queued: the longest of the runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queued_ns: Option<u64>,
    /// Whether latency grew within a run that did not sustain it: it then says how long the run was.
    pub is_growing: bool,
}

/// A latency that was to be kept, nanoseconds, and what was measured over all runs.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LatencyLimit {
    pub percentile: f64,
    pub limit_ns: u64,
    pub measured_ns: u64,
    pub is_kept: bool,
    /// How far off the measured one can be, as a share, where the limit is within that: then nobody knows whether it is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open: Option<f64>,
    /// Disturbed attempts that were replaced, and were beyond the limit.
    pub n_replaced_beyond: usize,
}

/// What became of a case's rate; `None` for a closed loop, a search, or without a run that counts.
pub fn offered_rate(study: &Study, case: &CaseSummary) -> Option<OfferedRate> {
    let pace = case.case.workload.pace;
    let rate_per_s = pace.rate_per_s()?;
    let runs: Vec<&RunSummary> = study
        .runs
        .iter()
        .filter(|run| run.case == case.case.id && run.counts() && run.measured_s > 0.0)
        .collect();
    let achieved: Vec<f64> = runs.iter().map(|run| run.counts.ended() as f64 / run.measured_s).collect();
    let missed: Vec<&&RunSummary> = runs.iter().filter(|run| !run.sustains(rate_per_s)).collect();
    Some(OfferedRate {
        rate_per_s,
        achieved_per_s: stats::median(&achieved)?,
        n_runs: runs.len(),
        n_missed: missed.len(),
        p99_ns: case.latency.map(|latency| latency.p99_ns),
        kept: case.latency.and_then(|latency| kept(study, case, &latency)),
        queued_ns: runs.iter().filter_map(|run| run.queued_ns()).max(),
        is_growing: missed.iter().any(|run| grows(run)),
    })
}

/// The target of the pace, and the latency of its percentile.
fn kept(study: &Study, case: &CaseSummary, latency: &LatencySummary) -> Option<LatencyLimit> {
    let Pace::Kept { target: LatencyTarget { percentile, limit_ns }, .. } = case.case.workload.pace else {
        return None;
    };
    let measured_ns = of_percentile(latency, percentile)?;
    let is_kept = measured_ns <= limit_ns;

    let known = case.uncertainty.as_ref();
    let range = known.and_then(|known| match percentile {
        99.0 => known.p99.as_ref(),
        50.0 => known.p50.as_ref(),
        _ => None,
    });
    let is_open = |range: &&Uncertainty| {
        let end = if is_kept { range.high } else { range.low };
        (measured_ns as f64 * end <= limit_ns as f64) != is_kept
    };

    let replaced = study.runs.iter().filter(|run| run.case == case.case.id && run.replaced_by.is_some());
    let is_beyond = |latency: LatencySummary| of_percentile(&latency, percentile) > Some(limit_ns);
    Some(LatencyLimit {
        percentile,
        limit_ns,
        measured_ns,
        is_kept,
        open: range.filter(is_open).map(Uncertainty::good_to),
        n_replaced_beyond: replaced
            .filter_map(|run| run.latency)
            .filter(|latency| is_beyond(*latency))
            .count(),
    })
}

fn of_percentile(latency: &LatencySummary, percentile: f64) -> Option<u64> {
    let LatencySummary { p50_ns, p90_ns, p95_ns, p99_ns, p999_ns, .. } = *latency;
    let measured = Pace::PERCENTILES.into_iter().zip([p50_ns, p90_ns, p95_ns, p99_ns, p999_ns]);
    measured.into_iter().find(|(of, _)| *of == percentile).map(|(_, ns)| ns)
}

fn grows(run: &RunSummary) -> bool {
    let seconds: Vec<f64> = run
        .seconds
        .iter()
        .filter(|second| second.measured)
        .filter_map(|second| Some(second.p99_ns? as f64))
        .collect();
    let third = seconds.len() / 3;
    let (first, last) = (&seconds[..third], &seconds[seconds.len() - third..]);
    stats::median(first).zip(stats::median(last)).is_some_and(|(first, last)| last > GROWS * first)
}
