//! The measures of fidelity, with their thresholds.

use super::pairs::{TwoSided, TwoSidedStatements};
use super::{FidelityGrade, FidelityMeasure};

/// Statements without which a spread of times says nothing.
const TIMED_MIN: usize = 3;
/// Calls of a statement without which its mean time is not used, unless it has a share of the time.
const CALLS_MIN: u64 = 30;
const TIME_SHARE_MIN: f64 = 0.01;

/// A measure's name and thresholds.
#[derive(Clone, Copy)]
struct Scale {
    name: &'static str,
    what: &'static str,
    faithful: f64,
    approximate: f64,
}

const COVERAGE: Scale = Scale {
    name: "coverage",
    what: "the source's time in statements that are replayed",
    faithful: 0.95,
    approximate: 0.8,
};
const MIX: Scale = Scale {
    name: "mix",
    what: "calls that would have to be of another statement",
    faithful: 0.03,
    approximate: 0.1,
};
const ROWS: Scale = Scale {
    name: "rows",
    what: "time in statements with as many rows per call (within 20 %)",
    faithful: 0.95,
    approximate: 0.8,
};
const WORK: Scale = Scale {
    name: "work",
    what: "time in statements that touch as many blocks, and write as much WAL (within 20 %)",
    faithful: 0.9,
    approximate: 0.7,
};
const CACHE: Scale = Scale {
    name: "cache",
    what: "difference of the shares of blocks that were not in shared buffers",
    faithful: 0.02,
    approximate: 0.05,
};
const TIMES: Scale = Scale {
    name: "times",
    what: "spread of the ratios of mean times (median deviation of their logarithms)",
    faithful: 0.25,
    approximate: 0.7,
};
const ERRORS: Scale =
    Scale { name: "errors", what: "transactions that failed here", faithful: 0.001, approximate: 0.01 };
const ARRIVALS: Scale = Scale {
    name: "arrivals",
    what: "difference of the dispersions of transactions per second",
    faithful: 0.2,
    approximate: 0.5,
};

impl Scale {
    fn known(self, value: f64, text: String) -> FidelityMeasure {
        // Where more is better, the better grade asks for more.
        let is_share = self.faithful > self.approximate;
        let is_met = |threshold: f64| if is_share { value >= threshold } else { value <= threshold };
        let grade = if is_met(self.faithful) {
            FidelityGrade::Faithful
        } else if is_met(self.approximate) {
            FidelityGrade::Approximate
        } else {
            FidelityGrade::NotYourWorkload
        };
        self.measure(Some(value), text, grade)
    }

    fn unknown(self, why: &str) -> FidelityMeasure {
        self.measure(None, format!("unknown: {why}"), FidelityGrade::Unknown)
    }

    fn measure(self, value: Option<f64>, text: String, grade: FidelityGrade) -> FidelityMeasure {
        let Scale { name, what, faithful, approximate, .. } = self;
        FidelityMeasure { name, what, value, text, faithful, approximate, grade }
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// The share of the source's time in statements that the replay executed; if nobody counted those, that the directory replays.
pub(super) fn coverage(pairs: &TwoSidedStatements, uncounted: Option<&str>) -> FidelityMeasure {
    let total_us = pairs.source_total.time_us;
    if total_us <= 0.0 {
        return COVERAGE.unknown("there are no statistics of the source");
    }
    let is_said = pairs.all.iter().any(|pair| pair.is_reproduced.is_some());
    let is_replayed = |pair: &&TwoSided| match uncounted {
        None => pair.replay.calls > 0,
        Some(_) => pair.is_reproduced == Some(true),
    };
    if let (Some(why), false) = (uncounted, is_said) {
        return COVERAGE.unknown(why);
    }
    let share = pairs.all.iter().filter(is_replayed).map(|pair| pair.source.time_us).sum::<f64>() / total_us;
    COVERAGE.known(share, percent(share))
}

/// Total variation of the shares of calls. What the source did not have is not counted: the session of the run has its own statements.
pub(super) fn mix(pairs: &TwoSidedStatements, uncounted: Option<&str>) -> FidelityMeasure {
    if let Some(why) = uncounted {
        return MIX.unknown(why);
    }
    let n_source = pairs.source_total.calls as f64;
    if n_source <= 0.0 {
        return MIX.unknown("there are no statistics of the source");
    }
    if pairs.n_replayed <= 0.0 {
        return MIX.known(1.0, "none of the source's statements was executed".to_string());
    }
    let of_pairs = pairs.all.iter().map(|pair| {
        (pair.source.calls as f64 / n_source - pair.replay.calls as f64 / pairs.n_replayed).abs()
    });
    let named = pairs.all.iter().map(|pair| pair.source.calls as f64).sum::<f64>();
    let distance = 0.5 * (of_pairs.sum::<f64>() + (n_source - named).max(0.0) / n_source);
    MIX.known(distance, percent(distance))
}

/// The share of time in statements with as many rows per call.
pub(super) fn rows(pairs: &TwoSidedStatements, uncounted: Option<&str>) -> FidelityMeasure {
    match (pairs.time_share_within(|pair| pair.has_rows()), uncounted) {
        (Some(share), _) => ROWS.known(share, percent(share)),
        (None, Some(why)) => ROWS.unknown(why),
        (None, None) => ROWS.unknown("nobody counted rows on both sides"),
    }
}

/// The share of time in statements that do as much work per call.
pub(super) fn work(pairs: &TwoSidedStatements, uncounted: Option<&str>) -> FidelityMeasure {
    match (pairs.time_share_within(|pair| pair.has_work()), uncounted) {
        (Some(share), _) => WORK.known(share, percent(share)),
        (None, Some(why)) => WORK.unknown(why),
        (None, None) => WORK.unknown("nobody counted blocks on both sides"),
    }
}

/// The difference of the shares of blocks read, over statements that both executed.
pub(super) fn cache(pairs: &TwoSidedStatements, uncounted: Option<&str>) -> FidelityMeasure {
    let mut sums = [[0.0_f64; 2]; 2];
    for pair in pairs.of_both() {
        for (sum, side) in sums.iter_mut().zip([&pair.source, &pair.replay]) {
            if let (Some(read), Some(blocks)) = (side.blocks_read, side.blocks) {
                *sum = [sum[0] + read as f64, sum[1] + blocks as f64];
            }
        }
    }
    if sums.iter().any(|[_, blocks]| *blocks <= 0.0) {
        return CACHE.unknown(uncounted.unwrap_or("nobody counted blocks on both sides"));
    }
    let [source, replay] = sums.map(|[read, blocks]| read / blocks);
    let text = format!("{} at the source, {} here", percent(source), percent(replay));
    CACHE.known((source - replay).abs(), text)
}

/// The spread of the ratios of mean times around their median, and the median, as a factor. Statements weigh the same: one with most of the
/// time would be its own median.
pub(super) fn times(pairs: &TwoSidedStatements, uncounted: Option<&str>) -> (FidelityMeasure, Option<f64>) {
    let logs = log_ratios(pairs);
    let Some(middle) = stats::median(&logs) else {
        return (TIMES.unknown(uncounted.unwrap_or("no statement was timed on both sides")), None);
    };
    let factor = middle.exp();
    if logs.len() < TIMED_MIN {
        return (TIMES.unknown("fewer than three statements were timed on both sides"), Some(factor));
    }
    let spread = stats::mad(&logs).unwrap_or(0.0);
    let text = format!("{spread:.2} around a factor of {factor:.2}");
    (TIMES.known(spread, text), Some(factor))
}

/// Of the statements with a share of the time; if these are too few, of all that are frequent.
fn log_ratios(pairs: &TwoSidedStatements) -> Vec<f64> {
    let total_us = pairs.source_total.time_us;
    let has_time = |pair: &&TwoSided| pair.source.time_us > 0.0 && pair.replay.time_us > 0.0;
    let is_frequent = |pair: &&TwoSided| pair.source.calls.min(pair.replay.calls) >= CALLS_MIN;
    let has_share = |pair: &&TwoSided| pair.source.time_us >= TIME_SHARE_MIN * total_us;
    let log_ratio = |pair: &TwoSided| {
        let [source, replay] = [pair.source, pair.replay].map(|side| side.time_us / side.calls as f64);
        (replay / source).ln()
    };
    let of_share: Vec<f64> = pairs.of_both().filter(has_time).filter(has_share).map(log_ratio).collect();
    if of_share.len() >= TIMED_MIN {
        return of_share;
    }
    pairs
        .of_both()
        .filter(has_time)
        .filter(|pair| is_frequent(pair) || has_share(pair))
        .map(log_ratio)
        .collect()
}

/// The share of transactions that failed and that the source had not.
pub(super) fn errors(transactions: Option<(u64, u64)>) -> FidelityMeasure {
    match transactions {
        Some((all, failed)) if all > 0 => {
            let share = failed as f64 / all as f64;
            ERRORS.known(share, format!("{failed} of {all} transactions"))
        }
        _ => ERRORS.unknown("the driver counted no transaction"),
    }
}

/// The relative difference of the dispersions.
pub(super) fn arrivals(source: Option<f64>, replay: Option<f64>) -> FidelityMeasure {
    match (source, replay) {
        (Some(source), Some(replay)) if source > 0.0 => {
            let difference = (replay / source - 1.0).abs();
            ARRIVALS.known(difference, format!("{source:.2} at the source, {replay:.2} here"))
        }
        (None, _) => ARRIVALS.unknown("only a log with times shows how transactions arrived at the source"),
        _ => ARRIVALS.unknown("too few seconds were measured"),
    }
}
