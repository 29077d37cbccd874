//! The highest rate that meets a latency target: the result of a search, probe by probe.

use std::collections::BTreeMap;

use model::load::capacity::{HIGHEST_SHARE, LOWEST_SHARE, Probe, SearchRecord};
use model::load::histogram::HistogramSum;
use model::load::interval::Counts;
use model::run::RunData;
use stats::{JudgedProbe, ProbeSecond, Threshold};

use crate::summary::capacity::{Capacity, ProbeSummary, ProbeVerdict, RateEstimate, SearchOutcome};

/// Level of all intervals.
const LEVEL: f64 = 0.95;
/// From this share of the closed loop's throughput on, throughput is the limit, not the latency.
const NOT_LIMITING_SHARE: f64 = 0.97;

/// The result of a run's search; `None` for a run without one.
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
        probes.push(summary(data, search, probe, seconds.len(), &judged));
    }
    let rate = known.estimate(LEVEL).filter(|_| !probes.is_empty()).map(RateEstimate::new);
    let outcome = match rate {
        _ if known.below(LOWEST_SHARE * ceiling) > 0.5 => SearchOutcome::Unreachable,
        Some(rate) if rate.point >= NOT_LIMITING_SHARE * ceiling => SearchOutcome::NotLimiting,
        _ => SearchOutcome::Found,
    };
    // Beyond the rates that probes and the closed loop had, the distribution is a guess: the rate is at least this high.
    let highest = probes.iter().map(|probe| probe.rate_per_s).fold(ceiling, f64::max);
    let offered = |rate: f64| rate.min(highest);
    let within = |rate: RateEstimate| RateEstimate {
        point: offered(rate.point),
        low: offered(rate.low),
        high: offered(rate.high),
    };
    let rate = rate.filter(|_| outcome != SearchOutcome::Unreachable).map(within);
    Some(Capacity { target: search.target, outcome, rate, ceiling_per_s: ceiling, probes })
}

/// The seconds of the confirming probe, which are the measurement of such a run.
pub(crate) fn confirmed(data: &RunData) -> Option<std::ops::Range<u32>> {
    let probe = data.record.search.as_ref()?.probes.iter().find(|probe| probe.confirms)?;
    Some(probe.from_t..probe.to_t)
}

/// Counts of each recorded second of a probe, over all scripts.
fn seconds(data: &RunData, probe: &Probe) -> Vec<ProbeSecond> {
    let mut seconds: BTreeMap<u32, Counts> = BTreeMap::new();
    for interval in data.intervals.iter().filter(|interval| (probe.from_t..probe.to_t).contains(&interval.t))
    {
        *seconds.entry(interval.t).or_default() += interval.counts;
    }
    seconds.values().map(|counts| ProbeSecond { ended: counts.ended(), late: counts.not_in_time() }).collect()
}

fn summary(
    data: &RunData,
    search: &SearchRecord,
    probe: &Probe,
    n_seconds: usize,
    judged: &JudgedProbe,
) -> ProbeSummary {
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
        achieved_per_s: judged.n as f64 / n_seconds as f64,
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
        // The run's findings report unreadable histograms.
        .filter_map(|stamped| HistogramSum::read(&stamped.line).ok())
        .for_each(|one| sum.add(&one));
    sum
}
