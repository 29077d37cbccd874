//! Quantiles, and the spread measured with them.

use crate::finite;

/// The quantile `q` (0 to 1) of a sample by linear interpolation between order statistics.
///
/// Type 7 of Hyndman and Fan, "Sample Quantiles in Statistical Packages", 1996: the default of R and
/// numpy. `None` for an empty sample, for `q` outside 0 to 1, and when a value is not a number.
pub fn quantile(sample: &[f64], q: f64) -> Option<f64> {
    if sample.is_empty() || !(0.0..=1.0).contains(&q) || sample.iter().any(|x| x.is_nan()) {
        return None;
    }
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len() - 1) as f64 * q;
    let below = at.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    let weight = at - below as f64;
    finite(sorted[below] + weight * (sorted[above] - sorted[below]))
}

/// The median; `None` for an empty sample.
pub fn median(sample: &[f64]) -> Option<f64> {
    quantile(sample, 0.5)
}

/// Median absolute deviation from the median, unscaled; `None` for an empty sample.
///
/// Multiply by 1.4826 to estimate a normal distribution's standard deviation (Rousseeuw and Croux,
/// "Alternatives to the Median Absolute Deviation", 1993).
pub fn mad(sample: &[f64]) -> Option<f64> {
    let centre = median(sample)?;
    let distances: Vec<f64> = sample.iter().map(|x| (x - centre).abs()).collect();
    median(&distances)
}
