//! Where a series changed its level.

use crate::{mean, median, t_test_p};

/// When a change of level counts.
#[derive(Debug, Clone, Copy)]
pub struct ChangeRule {
    /// Level of the t test between the values on both sides.
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
    /// `p` of the t test between these values.
    pub p: f64,
}

/// The changes of a series, in its order.
///
/// E-divisive (Matteson and James, "A Nonparametric Approach for Multiple Change Point Analysis", 2014, with exponent
/// 1), with a t test in place of the permutation test so that the answer is always the same, and weak points taken out
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
    if !differ(&series[..at], &series[at..], rule) {
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

fn differ(before: &[f64], after: &[f64], rule: ChangeRule) -> bool {
    let (Some(first), Some(second), Some(p)) = (mean(before), mean(after), t_test_p(before, after)) else {
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
            (!differ(before, after, rule)).then(|| (t_test_p(before, after).unwrap_or(1.0), i))
        };
        let weakest = (0..found.len()).filter_map(p_of).max_by(|a, b| a.0.total_cmp(&b.0));
        let Some((_, i)) = weakest else { return };
        found.remove(i);
    }
}

fn describe(series: &[f64], found: &[usize], i: usize) -> Option<ChangePoint> {
    let (before, after) = sides(series, found, i);
    let p = t_test_p(before, after)?;
    Some(ChangePoint { at: found[i], before: median(before)?, after: median(after)?, p })
}
