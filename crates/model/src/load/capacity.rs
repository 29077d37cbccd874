//! The highest rate that meets a latency target: the request, and the course of a search.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::load::Window;
use crate::text::units::serde_by_text;

/// Seconds between the order of a new rate and the first second that is judged: the effects of the previous rate fade.
pub const SETTLE_S: u32 = 1;
/// The lowest rate that a search offers, as a share of the closed loop's throughput.
pub const LOWEST_SHARE: f64 = 0.02;
/// The highest rate that a search offers, as a share of the closed loop's throughput: a loop that runs for a short time
/// may show less than the server can do.
pub const HIGHEST_SHARE: f64 = 1.25;
/// The shortest probe, seconds.
const PROBE_S_MIN: u32 = 2;
/// A probe lasts at least this many times the latency limit that it judges.
const PROBE_LIMITS: u64 = 4;
/// Most probes of a search: more time makes them longer.
const PROBES_MAX: u32 = 16;
/// Fewest probes of a search.
const PROBES_MIN: u32 = 6;
/// Part of the measurement window for the search, in per cent; the rest confirms the rate that it found.
const SEARCH_PERCENT: u64 = 70;

/// A latency limit for a share of all transactions: `p99 <= 10ms`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LatencyTarget {
    /// The percentile, 50 to 99.9.
    pub percentile: f64,
    /// The limit of that percentile, nanoseconds.
    pub limit_ns: u64,
}

impl LatencyTarget {
    /// Share of the transactions that may exceed the limit.
    pub fn late_share(self) -> f64 {
        1.0 - self.percentile / 100.0
    }
}

impl FromStr for LatencyTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<LatencyTarget, String> {
        let text = text.trim();
        let (name, limit) = text.split_once("<=").or_else(|| text.split_once('≤')).ok_or_else(|| {
            format!("`{text}` is not a latency target; examples: p99 <= 10ms, p95 <= 500us")
        })?;
        let percentile = name.trim().strip_prefix('p').and_then(|digits| digits.parse::<f64>().ok());
        let percentile = percentile.ok_or_else(|| {
            format!("`{}` is not a percentile; examples: p50, p95, p99, p99.9", name.trim())
        })?;
        if !(50.0..=99.9).contains(&percentile) {
            return Err(format!("`{}` is not in p50 to p99.9", name.trim()));
        }
        Ok(LatencyTarget { percentile, limit_ns: limit_ns(limit.trim())? })
    }
}

/// Parses the latency of a target.
fn limit_ns(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let unit_ns = match text[digits..].trim() {
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "" if digits > 0 => return Err(format!("the latency `{text}` needs a unit: `{text}ms`, us or s")),
        _ => return Err(format!("`{text}` is not a latency; examples: 500us, 10ms, 1s")),
    };
    let number: f64 =
        text[..digits].parse().map_err(|_| format!("`{text}` is not a latency; example: 10ms"))?;
    let ns = number * unit_ns;
    if (1e3..=1e10).contains(&ns) {
        return Ok(ns.round() as u64);
    }
    Err(format!("the latency `{text}` is not in 1us to 10s"))
}

impl fmt::Display for LatencyTarget {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "p{} <= ", self.percentile)?;
        match self.limit_ns {
            ns if ns.is_multiple_of(1_000_000_000) => write!(f, "{}s", ns / 1_000_000_000),
            ns if ns.is_multiple_of(1_000_000) => write!(f, "{}ms", ns / 1_000_000),
            ns => write!(f, "{}us", ns as f64 / 1e3),
        }
    }
}

serde_by_text!(
    LatencyTarget,
    "a latency target such as \"p99 <= 10ms\"",
    |_| Err("expected a latency target such as \"p99 <= 10ms\"".into()),
    |_| Err("expected a latency target such as \"p99 <= 10ms\"".into()),
    |_| Err("expected a latency target such as \"p99 <= 10ms\"".into())
);
use serde::Serializer;
use serde::de::{self, Deserializer, Visitor};

/// How the measurement window of a run is divided into probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probing {
    /// Judged seconds of each probe; [`SETTLE_S`] precede them.
    pub probe_s: u32,
    /// Probes of the search, if no order is late.
    pub n_probes: u32,
    /// The first second after the search, from the beginning of the load; the rest confirms the rate that was found.
    pub search_end_t: u32,
    /// The end of the measurement window, from the beginning of the load.
    pub end_t: u32,
}

impl Probing {
    /// Seconds of the shortest ramp-up and of the shortest measurement window with which a search finds anything.
    pub fn shortest(target: LatencyTarget) -> (u32, u32) {
        let search_s = PROBES_MIN * (shortest_probe_s(target) + SETTLE_S);
        // In whole numbers, so that a window of this length suffices: 180 x 0.7 is less than 126.
        (RAMP_UP_S_MIN, (u64::from(search_s) * 100).div_ceil(SEARCH_PERCENT) as u32)
    }

    /// The probes that fit into a window.
    ///
    /// # Errors
    /// When they are too few to find anything, or nothing shows where to search; names a window that is long enough.
    pub fn new(target: LatencyTarget, window: Window) -> Result<Probing, String> {
        let shortest = shortest_probe_s(target);
        let ramp_up = (window.ramp_up_s < RAMP_UP_S_MIN).then(|| {
            format!("run.ramp_up of {RAMP_UP_S_MIN}s or more, because its closed loop shows where to search")
        });
        let search_s = (u64::from(window.measure_s) * SEARCH_PERCENT / 100) as u32;
        // The shortest with which no more than that many fit.
        let probe_s = shortest.max((search_s / (PROBES_MAX + 1) + 1).saturating_sub(SETTLE_S));
        let n_probes = search_s / (probe_s + SETTLE_S);
        let measure = (n_probes < PROBES_MIN).then(|| {
            let (_, needed_s) = Probing::shortest(target);
            format!(
                "run.measure of {needed_s}s or more (--measure), for {PROBES_MIN} probes of {shortest} s and time to confirm what they \
                 find"
            )
        });
        let needs: Vec<String> = ramp_up.into_iter().chain(measure).collect();
        if !needs.is_empty() {
            return Err(format!(
                "a search for the highest rate with {target} needs {}",
                needs.join("; and ")
            ));
        }
        Ok(Probing { probe_s, n_probes, search_end_t: window.ramp_up_s + search_s, end_t: window.load_s() })
    }
}

/// Shortest probe, in seconds: enough transactions as long as the limit fit into it one after the other.
fn shortest_probe_s(target: LatencyTarget) -> u32 {
    PROBE_S_MIN.max((target.limit_ns * PROBE_LIMITS).div_ceil(1_000_000_000) as u32)
}

/// Shortest closed loop before a search: its first second is not representative.
const RAMP_UP_S_MIN: u32 = 2;

/// The course of a search: which rates were offered when. Their results are in the run's intervals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SearchRecord {
    /// The target to meet.
    pub target: LatencyTarget,
    /// Throughput of the closed loop before the first probe in its best second, transactions per second.
    pub ceiling_per_s: f64,
    /// Seconds of a probe; a confirming probe is judged in pieces of this length.
    pub probe_s: u32,
    /// The probes in order.
    pub probes: Vec<Probe>,
}

impl SearchRecord {
    /// Whether its probes are possible in a load of `load_s`: each offers something, and ends after it began. A results file
    /// may contain anything.
    ///
    /// # Errors
    /// Names the probe that is impossible.
    pub fn check(&self, load_s: u32) -> Result<(), String> {
        let is_possible = |probe: &Probe| {
            probe.from_t < probe.to_t
                && probe.to_t <= load_s
                && probe.rate_per_s > 0.0
                && probe.rate_per_s.is_finite()
        };
        match self.probes.iter().find(|probe| !is_possible(probe)) {
            None => Ok(()),
            Some(Probe { rate_per_s, from_t, to_t, .. }) => Err(format!(
                "a probe of {rate_per_s} transactions per second from second {from_t} to {to_t} is impossible in a load of {load_s} s"
            )),
        }
    }
}

/// A period at one rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// Offered transactions per second, with exponential gaps.
    pub rate_per_s: f64,
    /// The first judged second, counted from the beginning of the load.
    pub from_t: u32,
    /// The second after the last judged one.
    pub to_t: u32,
    /// Whether it confirms the rate that was found instead of searching.
    #[serde(default)]
    pub confirms: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Pace;

    #[test]
    fn targets_are_read_and_written_alike() {
        for (text, percentile, limit_ns, again) in [
            ("p99 <= 10ms", 99.0, 10_000_000, "p99 <= 10ms"),
            (" p99.9<=500us", 99.9, 500_000, "p99.9 <= 500us"),
            ("p50 ≤ 1.5 ms", 50.0, 1_500_000, "p50 <= 1500us"),
            ("p95 <= 2s", 95.0, 2_000_000_000, "p95 <= 2s"),
        ] {
            let target: LatencyTarget = text.parse().unwrap();
            assert_eq!((target.percentile, target.limit_ns), (percentile, limit_ns), "{text}");
            assert_eq!(target.to_string(), again);
            assert_eq!(again.parse::<LatencyTarget>().unwrap(), target);
        }
    }

    #[test]
    fn bad_targets_say_what_is_wrong() {
        for (text, expected) in [
            ("p101 <= 10ms", "`p101` is not in p50 to p99.9"),
            ("p0 <= 10ms", "p50 to p99.9"),
            ("pNaN <= 10ms", "p50 to p99.9"),
            ("p99 <= 10", "needs a unit"),
            ("p99 <= 0ms", "not in 1us to 10s"),
            ("p99 <= 11s", "not in 1us to 10s"),
            ("p99 <= 10min", "not a latency"),
            ("p99 <= .ms", "not a latency"),
            ("median <= 10ms", "not a percentile"),
            ("p99", "not a latency target"),
        ] {
            let message = text.parse::<LatencyTarget>().unwrap_err();
            assert!(message.contains(expected), "{text}: {message}");
        }
    }

    #[test]
    fn a_pace_may_be_a_search() {
        let pace: Pace = "max with p99.9 <= 5ms".parse().unwrap();
        assert_eq!((pace.to_string().as_str(), pace.is_open()), ("max with p99.9 <= 5ms", true));
        assert_eq!(pace.target().unwrap().limit_ns, 5_000_000);
        for (text, expected) in [
            ("max", "needs a latency target; example: max with p99 <= 10ms"),
            ("max p99 <= 10ms", "needs a latency target"),
            ("max with p101 <= 10ms", "`p101` is not in p50 to p99.9"),
            ("maximum", "is not a pace"),
        ] {
            let message = text.parse::<Pace>().unwrap_err();
            assert!(message.contains(expected), "{text}: {message}");
        }
    }

    #[test]
    fn a_rate_may_name_a_latency_to_keep() {
        let pace: Pace = "poisson 500/s with p95 <= 20ms".parse().unwrap();
        assert_eq!((pace.to_string().as_str(), pace.is_open()), ("500/s with p95 <= 20ms", true));
        // It is no search.
        assert_eq!((pace.rate_per_s(), pace.target()), (Some(500.0), None));
        for (text, expected) in [
            ("500/s with p98 <= 20ms", "p50, p90, p95, p99 or p99.9, and not by p98"),
            ("500/s with p99", "not a latency target"),
            ("closed with p99 <= 20ms", "at a rate with random gaps; example: 500/s with p99 <= 20ms"),
            ("constant 500/s with p99 <= 20ms", "at a rate with random gaps"),
            ("500/s with p99 <= 20ms with p99 <= 20ms", "pace `"),
            ("fast with p99 <= 20ms", "`fast` is not a pace"),
        ] {
            let message = text.parse::<Pace>().unwrap_err();
            assert!(message.contains(expected), "{text}: {message}");
        }
    }

    #[test]
    fn more_time_makes_probes_longer_and_no_more_than_sixteen() {
        for measure_s in 30..=3600 {
            let window = Window { ramp_up_s: 5, measure_s, grace_s: 1 };
            let Probing { probe_s, n_probes, .. } =
                Probing::new("p99 <= 10ms".parse().unwrap(), window).unwrap();
            assert!(
                (PROBES_MIN..=PROBES_MAX).contains(&n_probes),
                "{measure_s} s: {n_probes} probes of {probe_s} s"
            );
        }
    }

    #[test]
    fn a_measure_is_cut_into_probes_or_refused() {
        let of = |target: &str, ramp_up_s: u32, measure_s: u32| {
            Probing::new(target.parse().unwrap(), Window { ramp_up_s, measure_s, grace_s: 1 })
        };
        let probing =
            |probe_s, n_probes, search_end_t, end_t| Ok(Probing { probe_s, n_probes, search_end_t, end_t });
        assert_eq!(of("p99 <= 10ms", 5, 30), probing(2, 7, 26, 35));
        assert_eq!(of("p99 <= 10ms", 5, 120), probing(4, 16, 89, 125));
        assert_eq!(of("p99 <= 1s", 5, 60), probing(4, 8, 47, 65));
        assert!(of("p99 <= 10ms", 5, 20).unwrap_err().contains("run.measure of 26s"));
        assert!(of("p99 <= 10ms", 0, 30).unwrap_err().contains("run.ramp_up"));
        let both = of("p99 <= 10ms", 0, 5).unwrap_err();
        assert!(both.contains("run.ramp_up of 2s or more") && both.contains("run.measure of 26s"), "{both}");
    }

    #[test]
    fn the_shortest_window_that_is_advised_suffices_and_a_shorter_one_does_not() {
        for limit_ms in 1..=10_000 {
            let target = LatencyTarget { percentile: 99.0, limit_ns: limit_ms * 1_000_000 };
            let (ramp_up_s, measure_s) = Probing::shortest(target);
            let of = |measure_s| Probing::new(target, Window { ramp_up_s, measure_s, grace_s: 1 });
            assert!(of(measure_s).is_ok() && of(measure_s - 1).is_err(), "{limit_ms} ms: {measure_s} s");
        }
    }
}
