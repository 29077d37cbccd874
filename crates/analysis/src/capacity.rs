//! The highest rate that holds a latency target: what a search found, probe by probe.

use model::capacity::{HIGHEST_SHARE, LOWEST_SHARE, LatencyTarget, Probe, SearchRecord};
use model::interval::Counts;
use model::plan::RunState;
use model::run::RunData;
use serde::Serialize;
use stats::{Estimate, Judged, ProbeSecond, Threshold};

use crate::finding::Severity;
use crate::histogram::HistogramSum;
use crate::summary::RunSummary;

/// Level of all intervals.
const LEVEL: f64 = 0.95;
/// Runs from which the interval of a case is that of their centre.
pub const CENTRE_MIN: usize = 6;
/// From this share of the closed loop's throughput on, what limits is the throughput and not the latency.
const NOT_LIMITING_SHARE: f64 = 0.97;

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
    fn of(estimate: Estimate) -> Rate {
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

/// What the search of a run found; `None` for a run without one.
pub(crate) fn of_run(data: &RunData) -> Option<Capacity> {
    let search = data.record.search.as_ref()?;
    let allowed = search.target.late_share();
    let ceiling = search.ceiling_per_s;
    let mut known = Threshold::between(LOWEST_SHARE * ceiling, HIGHEST_SHARE * ceiling, allowed)?;
    let mut probes = Vec::new();
    for probe in &search.probes {
        let seconds = seconds(data, probe);
        let Some(judged) = stats::judge(&seconds, probe.rate_per_s, allowed, LEVEL) else { continue };
        known.see(probe.rate_per_s, &judged);
        probes.push(summary(data, search, probe, &judged));
    }
    let rate = known.estimate(LEVEL).filter(|_| !probes.is_empty()).map(Rate::of);
    let outcome = match rate {
        _ if known.below(LOWEST_SHARE * ceiling) > 0.5 => Outcome::Unreachable,
        Some(rate) if rate.point >= NOT_LIMITING_SHARE * ceiling => Outcome::NotLimiting,
        _ => Outcome::Found,
    };
    // Beyond what was offered, the distribution is a guess: the rate is at least so much.
    let offered = |rate: f64| rate.min(HIGHEST_SHARE * ceiling);
    let within =
        |rate: Rate| Rate { point: offered(rate.point), low: offered(rate.low), high: offered(rate.high) };
    let rate = rate.filter(|_| outcome != Outcome::Unreachable).map(within);
    Some(Capacity { target: search.target, outcome, rate, ceiling_per_s: ceiling, probes })
}

/// The seconds of the probe that confirmed what was found: the measure of such a run.
pub(crate) fn confirmed(data: &RunData) -> Option<std::ops::Range<u32>> {
    let probe = data.record.search.as_ref()?.probes.iter().find(|probe| probe.confirms)?;
    Some(probe.from_t..probe.to_t)
}

/// What each second of a probe counted, all scripts together.
fn seconds(data: &RunData, probe: &Probe) -> Vec<ProbeSecond> {
    let of_second = |t: u32| {
        let mut counts = Counts::default();
        data.intervals
            .iter()
            .filter(|interval| interval.t == t)
            .for_each(|interval| counts += interval.counts);
        ProbeSecond { ended: counts.ended(), late: counts.not_in_time() }
    };
    (probe.from_t..probe.to_t).map(of_second).collect()
}

fn summary(data: &RunData, search: &SearchRecord, probe: &Probe, judged: &Judged) -> ProbeSummary {
    let length_s = f64::from(probe.to_t - probe.from_t);
    let latency = latency(data, probe);
    let q = search.target.percentile / 100.0;
    // As many independent values as the late ones are worth.
    let n = (latency.n() as f64 / judged.dispersion) as u64;
    let ranks = stats::quantile_ranks(n, q, LEVEL);
    let at = |rank: u64| latency.quantile_ns(rank as f64 / n as f64);
    ProbeSummary {
        from_s: f64::from(probe.from_t),
        to_s: f64::from(probe.to_t),
        rate_per_s: probe.rate_per_s,
        achieved_per_s: judged.n as f64 / length_s,
        late: judged.late.point,
        latency_ns: latency.quantile_ns(q),
        latency_low_ns: ranks.and_then(|(low, _)| at(low)),
        latency_high_ns: ranks.and_then(|(_, high)| at(high)),
        verdict: match judged.surely_missed {
            Some(true) => ProbeVerdict::Misses,
            Some(false) => ProbeVerdict::Holds,
            None => ProbeVerdict::Undecided,
        },
        piles_up: judged.piles_up,
        confirms: probe.confirms,
    }
}

/// The latency of all scripts in the seconds of a probe.
fn latency(data: &RunData, probe: &Probe) -> HistogramSum {
    let mut sum = HistogramSum::new();
    let is_latency =
        |tag: &str| data.record.load.iter().flat_map(|load| &load.scripts).any(|script| script.tag == tag);
    data.histograms
        .iter()
        .filter(|stamped| (probe.from_t..probe.to_t).contains(&stamped.t) && is_latency(&stamped.line.tag))
        // Those that cannot be read are told of by the run's findings.
        .filter_map(|stamped| HistogramSum::read(&stamped.line).ok())
        .for_each(|one| sum.add(&one));
    sum
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

/// Whether a run was completed and voided by nothing but that no rate held: an outcome, and no failure of the run.
pub(crate) fn is_censored(run: &RunSummary) -> bool {
    let is_unreachable = run.capacity.as_ref().is_some_and(|one| one.outcome == Outcome::Unreachable);
    let mut void = run.findings.iter().filter(|finding| finding.severity == Severity::Void);
    is_unreachable && run.state == RunState::Completed && void.all(|finding| finding.id == UNREACHABLE)
}

/// Whether the probe that was to confirm a run's rate did not miss the target.
pub(crate) fn is_confirmed(run: &RunSummary) -> bool {
    let mut probes = run.capacity.iter().flat_map(|capacity| &capacity.probes);
    probes.any(|probe| probe.confirms && probe.verdict != ProbeVerdict::Misses)
}

/// The finding of a search in which no rate held.
pub(crate) const UNREACHABLE: &str = "target-unreachable";

/// The median of the runs' rates, `None` if in half of them or more no rate held. A run without such a rate stands as one
/// of 0, below all others: left out, the median would be one of successes. The interval: of one run, its own; from six
/// runs on, that of the signed rank test (`stats::centre`, of logarithms); between, or where a run stands as 0, from the
/// lowest lower end to the highest upper end of the runs' own, because so few have no interval of 95 % between them.
pub(crate) fn of_case(runs: &[&RunSummary]) -> Option<CaseCapacity> {
    let searched: Vec<&Capacity> = runs.iter().filter_map(|run| run.capacity.as_ref()).collect();
    let nothing = Rate { point: 0.0, low: 0.0, high: 0.0 };
    let found: Vec<Rate> = searched.iter().map(|one| one.rate.unwrap_or(nothing)).collect();
    let n_of = |outcome: Outcome| searched.iter().filter(|one| one.outcome == outcome).count();
    let n_unreachable = n_of(Outcome::Unreachable);
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
    Some(CaseCapacity {
        target: searched.first()?.target,
        rate: Rate { point: stats::median(&rates)?, low: ends.0, high: ends.1 },
        n_runs: found.len(),
        n_unreachable,
        n_not_limiting: n_of(Outcome::NotLimiting),
    })
}
