//! The highest rate that meets a latency target, for a run and for a case.

use model::load::capacity::LatencyTarget;
use serde::Serialize;
use stats::Estimate;

/// The result of one run's search.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Capacity {
    /// The target to meet.
    pub target: LatencyTarget,
    /// Outcome of the search.
    pub outcome: SearchOutcome,
    /// The highest rate that meets the target, transactions per second; none if no rate does.
    pub rate: Option<RateEstimate>,
    /// Throughput of the closed loop in its best second, transactions per second.
    pub ceiling_per_s: f64,
    /// The probes in order.
    pub probes: Vec<ProbeSummary>,
}

/// How a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchOutcome {
    /// A rate was found.
    Found,
    /// Even the lowest rate missed the target.
    Unreachable,
    /// The target is met up to the closed loop's throughput: throughput is the limit, not latency.
    NotLimiting,
}

impl SearchOutcome {
    /// The word in tables for programs; `--json` has the same.
    pub fn as_str(self) -> &'static str {
        match self {
            SearchOutcome::Found => "found",
            SearchOutcome::Unreachable => "unreachable",
            SearchOutcome::NotLimiting => "not_limiting",
        }
    }
}

/// A rate with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RateEstimate {
    /// Transactions per second.
    pub point: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl RateEstimate {
    pub(crate) fn new(estimate: Estimate) -> RateEstimate {
        RateEstimate { point: estimate.point, low: estimate.low, high: estimate.high }
    }
}

/// One probe.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProbeSummary {
    /// First judged second, since `go`.
    pub from_s: f64,
    /// End of the last judged second.
    pub to_s: f64,
    /// Offered transactions per second.
    pub rate_per_s: f64,
    /// Transactions per second that ended.
    pub achieved_per_s: f64,
    /// Share of transactions that were late or not committed.
    pub late: f64,
    /// The target's percentile of latency, nanoseconds, with its interval if there are enough transactions.
    pub latency_ns: Option<u64>,
    /// Lower end of the interval.
    pub latency_low_ns: Option<u64>,
    /// Upper end of the interval.
    pub latency_high_ns: Option<u64>,
    /// The verdict.
    pub verdict: ProbeVerdict,
    /// Whether fewer transactions ended than were offered, beyond chance.
    pub piles_up: bool,
    /// Whether it was the probe that confirms the rate found.
    pub confirms: bool,
}

/// The verdict on a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeVerdict {
    /// The target was met, beyond chance.
    Holds,
    /// The target was missed, beyond chance, or transactions piled up.
    Misses,
    /// The interval of the late share includes the allowed share.
    Undecided,
}

impl ProbeVerdict {
    /// The word for people.
    pub fn as_str(self) -> &'static str {
        match self {
            ProbeVerdict::Holds => "holds",
            ProbeVerdict::Misses => "misses",
            ProbeVerdict::Undecided => "undecided",
        }
    }
}

/// Runs from which on the interval of a case is that of their centre.
pub const CENTRE_MIN: usize = 6;

/// The combined result of a case's searches.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CaseCapacity {
    /// The target to meet.
    pub target: LatencyTarget,
    /// Median of the runs' rates, with an interval.
    pub rate: RateEstimate,
    /// Runs that count, including those in which no rate met the target.
    pub n_runs: usize,
    /// Runs in which no rate met the target: each counts as a rate below all others.
    pub n_unreachable: usize,
    /// Runs in which throughput was the limit, not latency.
    pub n_not_limiting: usize,
    /// Runs whose confirming probe did not hold: their rate is an estimate between rates that were tried.
    pub n_unconfirmed: usize,
    /// The highest rate that a run tried and that met the target beyond chance: `rate` lies between those that were tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_per_s: Option<f64>,
}

impl CaseCapacity {
    /// Whether the interval spans those of several runs, which have no 95 % interval between them: they are too few, or in one
    /// of them no rate met the target.
    pub fn is_envelope(&self) -> bool {
        self.n_runs > 1 && (self.n_runs < CENTRE_MIN || self.n_unreachable > 0)
    }
}
