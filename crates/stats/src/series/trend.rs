//! Trend of a series: the Mann-Kendall test, and the steadiness of a measurement, which builds on it.

use crate::{batch_means, finite, mean, normal_two_sided_p, sd, student_t_cdf};

/// Fewest values for [`steadiness`]: below eight, the tests find little beyond chance.
pub const STEADINESS_MIN: usize = 8;
/// Smallest change, as a share of the mean, that [`steadiness`] reports.
pub const STEADINESS_FLOOR: f64 = 0.03;
/// Batches for the trend test.
pub(crate) const TREND_BATCHES: usize = 12;
/// Batches for the t test between halves.
pub(crate) const HALVES_BATCHES: usize = 10;
/// Level of the t test between halves.
const HALVES_LEVEL: f64 = 0.01;

/// Result of the Mann-Kendall test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MannKendall {
    /// Pairs that rise minus pairs that fall.
    pub s: i64,
    /// Chance of an `s` at least as large, either way, without a trend.
    pub p: f64,
}

/// The Mann-Kendall test for a trend of either direction; `None` below four values.
///
/// Normal approximation with correction for continuity and for ties (Kendall, "Rank Correlation
/// Methods", 1975; Gilbert, "Statistical Methods for Environmental Pollution Monitoring", 16.4).
pub fn mann_kendall(series: &[f64]) -> Option<MannKendall> {
    if series.len() < 4 || series.iter().any(|x| !x.is_finite()) {
        return None;
    }
    let mut s = 0i64;
    for (i, earlier) in series.iter().enumerate() {
        for later in &series[i + 1..] {
            s += i64::from(later > earlier) - i64::from(later < earlier);
        }
    }
    let n = series.len() as f64;
    let variance = (n * (n - 1.0) * (2.0 * n + 5.0) - tie_correction(series)) / 18.0;
    if variance <= 0.0 {
        return Some(MannKendall { s, p: 1.0 });
    }
    let z = (s.unsigned_abs() as f64 - 1.0).max(0.0) / variance.sqrt();
    Some(MannKendall { s, p: normal_two_sided_p(z) })
}

/// `sum(t (t - 1) (2 t + 5))` over groups of `t` equal values.
fn tie_correction(series: &[f64]) -> f64 {
    let mut sorted = series.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
        .chunk_by(|a, b| a == b)
        .map(|group| group.len() as f64)
        .map(|t| t * (t - 1.0) * (2.0 * t + 5.0))
        .sum()
}

/// Chance of a difference of means at least as large, either way, between two samples of the same
/// normal distribution: Student's t test with pooled variance (Snedecor and Cochran, "Statistical
/// Methods", section 6.9). `None` below two values each; 0 when both are constant and differ.
pub fn t_test_p(a: &[f64], b: &[f64]) -> Option<f64> {
    let (mean_a, mean_b, sd_a, sd_b) = (mean(a)?, mean(b)?, sd(a)?, sd(b)?);
    let (n_a, n_b) = (a.len() as f64, b.len() as f64);
    let df = n_a + n_b - 2.0;
    let pooled = ((n_a - 1.0) * sd_a * sd_a + (n_b - 1.0) * sd_b * sd_b) / df;
    let difference = (mean_a - mean_b).abs();
    if difference == 0.0 {
        return Some(1.0);
    }
    Some(2.0 * student_t_cdf(-difference / (pooled * (1.0 / n_a + 1.0 / n_b)).sqrt(), df)?)
}

/// Whether a series of equal spans keeps its level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Steadiness {
    /// False when a change is both significant and large enough to matter.
    pub steady: bool,
    /// Mean of the second half over mean of the first half, minus one.
    pub change: f64,
    /// `p` of the trend test.
    pub trend_p: f64,
    /// `p` of the t test between the halves.
    pub halves_p: f64,
}

/// Whether a series of one-second values is steady. It is not when the halves' means differ by more
/// than [`STEADINESS_FLOOR`] of the whole mean **and** either Mann-Kendall on 12 batch means or a t test
/// between the halves of 10 batch means is significant. `None` below [`STEADINESS_MIN`] values or
/// without a level above zero.
///
/// Chosen by simulation (`METHODOLOGY.md`): Mann-Kendall flags 2 to 9 % of 120 steady seconds with
/// autocorrelation 0.6 to 0.8 and sees a warm-up, to which the t test is blind because the warm-up
/// inflates its variance; the t test sees a step in the middle, to which Mann-Kendall is slow. The trend
/// test's level is 5 %, and 1 % where a batch would be shorter than two seconds: such neighbours resemble
/// each other, and at 5 % one in five steady short windows would be flagged. The t test's is always 1 %.
pub fn steadiness(series: &[f64]) -> Option<Steadiness> {
    if series.len() < STEADINESS_MIN {
        return None;
    }
    let whole = mean(series).filter(|level| *level > 0.0)?;
    let trend_level = if series.len() < 2 * TREND_BATCHES { 0.01 } else { 0.05 };
    let trend_p = mann_kendall(&batch_means(series, series.len().min(TREND_BATCHES))?)?.p;
    let batches = batch_means(series, series.len().min(HALVES_BATCHES))?;
    let halves_p = t_test_p(halves(&batches).0, halves(&batches).1)?;
    let (first, second) = (mean(halves(series).0)?, mean(halves(series).1)?);
    let large = (second - first).abs() / whole > STEADINESS_FLOOR;
    let significant = trend_p < trend_level || halves_p < HALVES_LEVEL;
    let change = finite(second / first - 1.0).unwrap_or(second / whole);
    Some(Steadiness { steady: !(large && significant), change, trend_p, halves_p })
}

/// Both halves; an odd middle value belongs to neither.
pub(crate) fn halves(series: &[f64]) -> (&[f64], &[f64]) {
    let half = series.len() / 2;
    (&series[..half], &series[series.len() - half..])
}
