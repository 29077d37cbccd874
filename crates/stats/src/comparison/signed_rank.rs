//! Wilcoxon's signed rank test and what belongs to it: the Hodges-Lehmann estimate with its interval.

use crate::comparison::ranks::{doubled_midranks, quantile_of_sum, sums_of_any, two_sided};
use crate::sample::estimate::Estimate;
use crate::{finite, median, normal_quantile, normal_two_sided_p};

/// Up to this many differences the distribution is computed exactly; beyond it is normal to four digits.
const EXACT_MAX: usize = 150;

/// Two-sided chance of signs as uneven over the ranks when each difference is as likely up as down.
///
/// Wilcoxon 1945, exact given the ties that there are (every assignment of signs counts alike). Zeros are ranked and
/// then left out: Pratt, "Remarks on Zeros and Ties in the Wilcoxon Signed Rank Procedures", 1959. Beyond 150 values
/// the normal approximation. `None` for an empty sample; 1 when all are zero.
pub fn signed_rank_p(differences: &[f64]) -> Option<f64> {
    if differences.is_empty() || differences.iter().any(|d| !d.is_finite()) {
        return None;
    }
    let sizes: Vec<f64> = differences.iter().map(|d| d.abs()).collect();
    let ranked: Vec<(f64, usize)> =
        differences.iter().copied().zip(doubled_midranks(&sizes)).filter(|(d, _)| *d != 0.0).collect();
    let ranks: Vec<usize> = ranked.iter().map(|(_, rank)| *rank).collect();
    let risen: usize = ranked.iter().filter(|(d, _)| *d > 0.0).map(|(_, rank)| rank).sum();
    if ranks.is_empty() {
        return Some(1.0);
    }
    if ranks.len() <= EXACT_MAX {
        return Some(two_sided(&sums_of_any(&ranks), risen));
    }
    let sum: f64 = ranks.iter().map(|rank| *rank as f64).sum();
    let squares: f64 = ranks.iter().map(|rank| (*rank as f64).powi(2)).sum();
    Some(normal_two_sided_p((risen as f64 - sum / 2.0) / (squares / 4.0).sqrt()))
}

/// The centre of a sample that is about symmetric: the median of all means of two of its values (Hodges and Lehmann,
/// "Estimates of Location Based on Rank Tests", 1963), with the interval that inverts the signed rank test (Tukey 1949;
/// Hollander and Wolfe, "Nonparametric Statistical Methods", 3.3). The interval has at least the level asked for.
///
/// `None` where no interval of the level exists: below six values at 95 %.
pub fn centre(sample: &[f64], level: f64) -> Option<Estimate> {
    let n = sample.len();
    if n == 0 || sample.iter().any(|x| !x.is_finite()) {
        return None;
    }
    let mut means: Vec<f64> = Vec::with_capacity(n * (n + 1) / 2);
    for (i, a) in sample.iter().enumerate() {
        means.extend(sample[i..].iter().map(|b| 0.5 * (a + b)));
    }
    let from_end = rank_from_end(n, (1.0 - level) / 2.0)?;
    means.sort_by(f64::total_cmp);
    let (low, high) = (means[from_end - 1], means[means.len() - from_end]);
    Some(Estimate { point: finite(median(&means)?)?, low, high, level })
}

/// How many of the sorted means lie outside each end of the interval, plus one; `None` if not even all would do.
fn rank_from_end(n: usize, tail: f64) -> Option<usize> {
    if n <= EXACT_MAX {
        let ranks: Vec<usize> = (1..=n).collect();
        return Some(quantile_of_sum(&sums_of_any(&ranks), tail)).filter(|rank| *rank > 0);
    }
    let n = n as f64;
    let sd = (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
    Some((n * (n + 1.0) / 4.0 + normal_quantile(tail)? * sd).floor().max(1.0) as usize)
}
