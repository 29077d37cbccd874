//! When a warm-up is over, decided second by second while it lasts.

use crate::series::trend::{HALVES_BATCHES, TREND_BATCHES, halves};
use crate::{STEADINESS_MIN, batch_means, mann_kendall, mean, t_test_p};

/// The rule by which a warm-up is over.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WarmUpRule {
    /// Change between the halves of the recent values, as a share of their mean, that is small enough whatever the
    /// tests say.
    pub floor: f64,
    /// Level of the tests for a change. High: an overlooked change spoils the measurement, an imagined one costs a
    /// few seconds.
    pub level: f64,
    /// Share of the values so far that must keep its level, at its end.
    pub recent: f64,
    /// Consecutive judgements, each with one value more, that must agree: a single one is too often chance.
    pub n_confirm: usize,
}

impl Default for WarmUpRule {
    /// Chosen by simulation, `crates/stats/tests/stats/warm_up.rs`.
    fn default() -> WarmUpRule {
        WarmUpRule { floor: 0.03, level: 0.2, recent: 0.4, n_confirm: 5 }
    }
}

/// Fewest values that [`mser_cut`] keeps: the variance of fewer means nothing.
const MSER_KEPT_MIN: usize = 5;

/// How many of the first values to leave out so that the mean of the others is known best: the `d` that minimizes
/// `sum((x[i] - m)^2) / (n - d)^2` over `i >= d`, `m` their mean. `None` below ten values.
///
/// The marginal standard error rule of White, "An effective truncation heuristic for bias reduction in simulation
/// output", Simulation 69, 1997. The last five values are never left out: a few values that happen to be close to each
/// other would win.
pub fn mser_cut(series: &[f64]) -> Option<usize> {
    let n = series.len();
    if n < 2 * MSER_KEPT_MIN || series.iter().any(|x| !x.is_finite()) {
        return None;
    }
    // Welford's sums, from the last value to the first.
    let (mut centre, mut squares, mut best) = (0.0, 0.0, (f64::INFINITY, 0));
    for (kept, x) in (1..=n).zip(series.iter().rev()) {
        let delta = x - centre;
        centre += delta / kept as f64;
        squares += delta * (x - centre);
        let error = squares / (kept * kept) as f64;
        if kept >= MSER_KEPT_MIN && error <= best.0 {
            best = (error, n - kept);
        }
    }
    Some(best.1)
}

/// Whether a warm-up is over after the values of `series`: the last [`WarmUpRule::n_confirm`] judgements must say so.
/// Each judges the values up to its own: the cut of [`mser_cut`] must lie before the recent ones, and these must keep
/// their level. The level must be above zero, and the default rule needs fourteen values.
///
/// That the cut must leave enough behind it is the sequential use of MSER (Hoad, Robinson and Davies, "Automating
/// warm-up length estimation", Journal of the Operational Research Society 61, 2010). The level is kept when the halves
/// of the recent values differ by the floor or less, or neither Mann-Kendall on 12 batch means nor a t test on 10 is
/// significant, as in [`crate::steadiness`]. A slow warm-up is judged by more values than a fast one, because the
/// recent ones are a share of all.
pub fn is_warm(series: &[f64], rule: &WarmUpRule) -> bool {
    let mut judged = (0..rule.n_confirm).map(|back| series.len().checked_sub(back));
    judged.all(|n| n.is_some_and(|n| is_settled(&series[..n], rule)))
}

fn is_settled(series: &[f64], rule: &WarmUpRule) -> bool {
    let n = series.len();
    let n_recent = ((n as f64 * rule.recent) as usize).max(STEADINESS_MIN).min(n);
    let (before, recent) = series.split_at(n - n_recent);
    mser_cut(series).is_some_and(|cut| cut <= before.len()) && keeps_level(recent, rule)
}

fn keeps_level(recent: &[f64], rule: &WarmUpRule) -> bool {
    let (first, second) = halves(recent);
    let (Some(whole), Some(a), Some(b)) = (mean(recent), mean(first), mean(second)) else { return false };
    if whole <= 0.0 {
        return false;
    }
    if (b - a).abs() / whole <= rule.floor {
        return true;
    }
    let batches = |n: usize| batch_means(recent, recent.len().min(n));
    let trend_p = batches(TREND_BATCHES).and_then(|means| mann_kendall(&means)).map(|test| test.p);
    let step_p = batches(HALVES_BATCHES).and_then(|means| {
        let (first, second) = halves(&means);
        t_test_p(first, second)
    });
    [trend_p, step_p].iter().all(|p| p.is_some_and(|p| p >= rule.level))
}
