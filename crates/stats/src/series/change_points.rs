//! Where a series changed its level.

use crate::{mean, median, rank_sum_p, t_test_p};

/// When a change of level counts.
#[derive(Debug, Clone, Copy)]
pub struct ChangeRule {
    /// Level of the tests between the values on both sides: Student's t, or the exact rank sum, which needs more values and
    /// assumes nothing about their spread.
    pub p_max: f64,
    /// Smallest change of the mean, as a share of the mean before.
    pub effect_min: f64,
    /// Fewest values on each side.
    pub side_min: usize,
}

impl Default for ChangeRule {
    /// p below 0.001, at least 2 %, at least four values on each side.
    fn default() -> ChangeRule {
        ChangeRule { p_max: 0.001, effect_min: 0.02, side_min: 4 }
    }
}

/// One change of level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChangePoint {
    /// Index of the first value of the new level.
    pub at: usize,
    /// Median of the values since the change before.
    pub before: f64,
    /// Median of the values up to the next change.
    pub after: f64,
    /// `p` of the test between these values that shows it more clearly.
    pub p: f64,
}

/// A division of a series that its values suggest and are too few to show.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PendingChange {
    /// Index of the first value after it.
    pub at: usize,
    /// Median of the values before it.
    pub before: f64,
    /// Median of the values after it.
    pub after: f64,
    /// Chance of ranks as uneven between equal levels: the exact rank sum test.
    pub p: f64,
    /// How many more values decide, if they are like those after it; `None` if no number does, as there are too few before it.
    pub more: Option<usize>,
}

/// The changes of a series, in its order.
///
/// E-divisive (Matteson and James, "A Nonparametric Approach for Multiple Change Point Analysis", 2014, with exponent
/// 1), with a t test and an exact rank sum test in place of the permutation test so that the answer is always the same, and weak points taken out
/// again at the end (Fleming et al., "Hunter: Using Change Point Detection to Hunt for Performance Regressions", 2023).
/// A series with a value that is not a number has no changes.
pub fn change_points(series: &[f64], rule: ChangeRule) -> Vec<ChangePoint> {
    let mut found = Vec::new();
    if series.iter().all(|x| x.is_finite()) {
        divide(series, 0, rule, &mut found);
    }
    found.sort_unstable();
    drop_weak(series, rule, &mut found);
    (0..found.len()).filter_map(|i| describe(series, &found, i)).collect()
}

fn divide(series: &[f64], offset: usize, rule: ChangeRule, found: &mut Vec<usize>) {
    let Some(at) = best_division(series, rule.side_min.max(2)) else { return };
    if !differ(&series[..at], &series[at..], rule, chance) {
        return;
    }
    found.push(offset + at);
    divide(&series[..at], offset, rule, found);
    divide(&series[at..], offset + at, rule, found);
}

/// The division with the largest energy distance between its sides, weighted by their sizes; `None` when too short.
fn best_division(series: &[f64], side_min: usize) -> Option<usize> {
    let n = series.len();
    let distances = |i: usize, range: std::ops::Range<usize>| -> f64 {
        series[range].iter().map(|other| (series[i] - other).abs()).sum()
    };
    let (mut left, mut across) = (0.0, 0.0);
    let mut right: f64 = (0..n).map(|i| distances(i, i + 1..n)).sum();
    let mut best = None;
    for at in 1..n {
        // Value `at - 1` moves from the right side to the left one.
        let (to_left, to_right) = (distances(at - 1, 0..at - 1), distances(at - 1, at..n));
        left += to_left;
        right -= to_right;
        across += to_right - to_left;
        if at < side_min || n - at < side_min {
            continue;
        }
        let (a, b) = (at as f64, (n - at) as f64);
        let energy = 2.0 * across / (a * b) - 2.0 * left / (a * (a - 1.0)) - 2.0 * right / (b * (b - 1.0));
        let weighed = a * b / (a + b) * energy;
        if best.is_none_or(|(most, _)| weighed > most) {
            best = Some((weighed, at));
        }
    }
    best.map(|(_, at)| at)
}

/// Fewest values on each side of a division that is pending.
const PENDING_MIN: usize = 2;
/// Chance up to which a division is worth naming before it is decided.
const PENDING_P_MAX: f64 = 0.05;
/// More values than this are no advice.
const MORE_MAX: usize = 100;

/// The division that a series without changes suggests, with the number of values that would decide it: all values of one side
/// are above all of the other, or the ranks are uneven beyond a chance of 5 %.
///
/// With `n` and `m` values that do not overlap, the exact rank sum test has the chance of 2 in all the ways to choose `n` of
/// `n + m` (Wilcoxon 1945): 2 in 252 of five and five, and 2 in 2,002, which is below 0.001, with four more on one side.
pub fn pending_change(series: &[f64], rule: ChangeRule) -> Option<PendingChange> {
    if series.iter().any(|x| !x.is_finite()) {
        return None;
    }
    let at = best_division(series, PENDING_MIN)?;
    let (first, second) = series.split_at(at);
    let (before, after, p) = (median(first)?, median(second)?, rank_sum_p(first, second)?);
    let is_large = (after - before).abs() >= rule.effect_min * before.abs();
    let is_apart = is_below(first, second) || is_below(second, first);
    if !is_large || !(is_apart || p <= PENDING_P_MAX) {
        return None;
    }
    Some(PendingChange { at, before, after, p, more: more(first, second, rule) })
}

/// How many values like those after a division decide it: with the same spread, by the test that shows it first.
fn more(first: &[f64], second: &[f64], rule: ChangeRule) -> Option<usize> {
    if first.len() < rule.side_min {
        return None;
    }
    let is_enough = |more: &usize| {
        let longer: Vec<f64> = second.iter().copied().cycle().take(second.len() + more).collect();
        longer.len() >= rule.side_min && differ(first, &longer, rule, chance)
    };
    (1..=MORE_MAX).find(is_enough)
}

fn is_below(lower: &[f64], upper: &[f64]) -> bool {
    let most = lower.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    upper.iter().all(|value| *value > most)
}

/// The chance that counts: that of the test which shows a difference more clearly.
fn chance(before: &[f64], after: &[f64]) -> Option<f64> {
    let (by_t, by_rank) = (t_test_p(before, after)?, rank_sum_p(before, after)?);
    Some(by_t.min(by_rank))
}

fn differ(
    before: &[f64],
    after: &[f64],
    rule: ChangeRule,
    test: impl Fn(&[f64], &[f64]) -> Option<f64>,
) -> bool {
    let (Some(first), Some(second), Some(p)) = (mean(before), mean(after), test(before, after)) else {
        return false;
    };
    p < rule.p_max && (second - first).abs() >= rule.effect_min * first.abs()
}

/// The values between a change's neighbours, before it and after it.
fn sides<'a>(series: &'a [f64], found: &[usize], i: usize) -> (&'a [f64], &'a [f64]) {
    let from = if i == 0 { 0 } else { found[i - 1] };
    let to = found.get(i + 1).copied().unwrap_or(series.len());
    (&series[from..found[i]], &series[found[i]..to])
}

/// Removes the weakest change that no longer passes between its neighbours, until all pass.
fn drop_weak(series: &[f64], rule: ChangeRule, found: &mut Vec<usize>) {
    loop {
        let p_of = |i: usize| {
            let (before, after) = sides(series, found, i);
            (!differ(before, after, rule, chance)).then(|| (chance(before, after).unwrap_or(1.0), i))
        };
        let weakest = (0..found.len()).filter_map(p_of).max_by(|a, b| a.0.total_cmp(&b.0));
        let Some((_, i)) = weakest else { return };
        found.remove(i);
    }
}

fn describe(series: &[f64], found: &[usize], i: usize) -> Option<ChangePoint> {
    let (before, after) = sides(series, found, i);
    let p = chance(before, after)?;
    Some(ChangePoint { at: found[i], before: median(before)?, after: median(after)?, p })
}
