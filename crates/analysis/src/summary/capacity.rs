//! The highest rate that holds a latency target, of a run and of a case.

use model::load::capacity::LatencyTarget;
use serde::Serialize;
use stats::Estimate;

/// What a search of one run found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Capacity {
    /// What was to be held.
    pub target: LatencyTarget,
    /// How it ended.
    pub outcome: Outcome,
    /// The highest rate that holds the target, transactions per second; none where no rate does.
    pub rate: Option<Rate>,
    /// Transactions per second of the closed loop, in its best second.
    pub ceiling_per_s: f64,
    /// The probes in their order.
    pub probes: Vec<ProbeSummary>,
}

/// How a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// There is such a rate.
    Found,
    /// Also the lowest rate missed the target.
    Unreachable,
    /// The target is held up to what the closed loop reached: throughput limits, not latency.
    NotLimiting,
}

impl Outcome {
    /// The word in tables for programs; `--json` has the same.
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Found => "found",
            Outcome::Unreachable => "unreachable",
            Outcome::NotLimiting => "not_limiting",
        }
    }
}

/// A rate with the interval that holds the true one with 95 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Rate {
    /// Transactions per second.
    pub point: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Rate {
    pub(crate) fn of(estimate: Estimate) -> Rate {
        Rate { point: estimate.point, low: estimate.low, high: estimate.high }
    }
}

/// One probe.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProbeSummary {
    /// First second that was judged, since `go`.
    pub from_s: f64,
    /// End of the last one.
    pub to_s: f64,
    /// Transactions per second that were offered.
    pub rate_per_s: f64,
    /// Those that ended.
    pub achieved_per_s: f64,
    /// Share that was late or not committed.
    pub late: f64,
    /// The target's percentile of latency, nanoseconds, with its interval where there are enough transactions.
    pub latency_ns: Option<u64>,
    /// Lower end.
    pub latency_low_ns: Option<u64>,
    /// Upper end.
    pub latency_high_ns: Option<u64>,
    /// What it shows.
    pub verdict: ProbeVerdict,
    /// Whether fewer ended than were offered, beyond chance.
    pub piles_up: bool,
    /// Whether it confirmed the rate that was found.
    pub confirms: bool,
}

/// What a probe shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeVerdict {
    /// The target was held, beyond chance.
    Holds,
    /// It was missed, beyond chance, or transactions piled up.
    Misses,
    /// The interval of the late share has the allowed one inside.
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

/// What the searches of a case found together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CaseCapacity {
    /// What was to be held.
    pub target: LatencyTarget,
    /// Median of the runs' rates, with an interval.
    pub rate: Rate,
    /// Runs that count, and those in which no rate held.
    pub n_runs: usize,
    /// Runs in which no rate held: each is a rate below all others.
    pub n_unreachable: usize,
    /// Runs in which throughput was the limit, not the latency.
    pub n_not_limiting: usize,
}
