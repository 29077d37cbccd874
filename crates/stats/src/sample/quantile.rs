//! Quantiles, and the spread measured with them.

use crate::{binomial_cdf, finite, normal_quantile};

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

/// The chance with which the smallest and the largest of `n` values have the median of the whole between them, whatever the distribution:
/// `1 - 2^(1 - n)`, for 6 values 97 %. `None` with fewer than two.
///
/// The binomial interval of [`quantile_ranks`] for its outermost ranks: only if all values lie on one side of the median is it not between
/// them.
pub fn extremes_cover_median(n: usize) -> Option<f64> {
    (n >= 2).then(|| 1.0 - 0.5f64.powi(i32::try_from(n - 1).unwrap_or(i32::MAX)))
}

/// The upper bound, at the given level, of the chance of what none of `n` trials showed: `1 - (1 - level)^(1/n)`; for 6 trials at 95 % it is
/// 39 %, for 29 it is 10 %. `None` without trials, and unless `0 < level < 1`.
///
/// Clopper and Pearson, "The Use of Confidence or Fiducial Limits Illustrated in the Case of the Binomial", 1934, one-sided; for many trials
/// the rule of three of Hanley and Lippman-Hand, "If Nothing Goes Wrong, Is Everything All Right?", 1983. Trials must not depend on each other.
pub fn chance_of_none_seen(n: usize, level: f64) -> Option<f64> {
    (n > 0 && level > 0.0 && level < 1.0).then(|| 1.0 - (1.0 - level).powf(1.0 / n as f64))
}

/// From this many values on, [`quantile_ranks`] takes the normal distribution for the binomial one: they then differ by
/// less than one rank in a hundred.
const BINOMIAL_MAX: u64 = 10_000;

/// The ranks (1 to `n`) of two order statistics between which the quantile `q` of the whole lies at the given level,
/// whatever the distribution: of `n` sorted values, or of a histogram's counts.
///
/// The binomial interval of Conover, "Practical Nonparametric Statistics", 3.2, for values that do not depend on each
/// other. `None` where the sample is too small for that, and unless `0 < q < 1` and `0 < level < 1`.
pub fn quantile_ranks(n: u64, q: f64, level: f64) -> Option<(u64, u64)> {
    if !(q > 0.0 && q < 1.0 && level > 0.0 && level < 1.0) {
        return None;
    }
    let tail = (1.0 - level) / 2.0;
    let (low, high) = (binomial_quantile(tail, n, q)?, binomial_quantile(1.0 - tail, n, q)? + 1);
    (low >= 1 && high <= n).then_some((low, high))
}

/// The smallest number of hits that is not exceeded with at least chance `p`.
fn binomial_quantile(p: f64, n: u64, q: f64) -> Option<u64> {
    if n > BINOMIAL_MAX {
        let sd = (n as f64 * q * (1.0 - q)).sqrt();
        return Some((n as f64 * q + normal_quantile(p)? * sd).round().min(n as f64).max(0.0) as u64);
    }
    let (mut low, mut high) = (0, n);
    while low < high {
        let middle = (low + high) / 2;
        if binomial_cdf(middle, n, q) >= p {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(low)
}
