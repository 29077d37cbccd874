//! Wilcoxon's rank sum test of two samples that are not paired, and the shift between them.

use crate::comparison::ranks::{doubled_midranks, quantile_of_sum, sums_of_some, two_sided};
use crate::sample::estimate::Estimate;
use crate::{finite, median, normal_quantile, normal_two_sided_p};

/// Up to this many values in both samples the distribution is computed exactly.
const EXACT_MAX: usize = 60;

/// Two-sided chance of ranks as uneven over two samples when both come from one distribution.
///
/// Wilcoxon 1945; Mann and Whitney 1947. Exact up to 60 values, given the ties that there are (every division into
/// samples of these sizes counts alike); beyond, normal with the variance of the mid-ranks (Lehmann,
/// "Nonparametrics", 1.4). `None` for an empty sample.
pub fn rank_sum_p(a: &[f64], b: &[f64]) -> Option<f64> {
    let all: Vec<f64> = a.iter().chain(b).copied().collect();
    if a.is_empty() || b.is_empty() || all.iter().any(|x| !x.is_finite()) {
        return None;
    }
    let ranks = doubled_midranks(&all);
    let of_a: usize = ranks[..a.len()].iter().sum();
    if all.len() <= EXACT_MAX {
        return Some(two_sided(&sums_of_some(&ranks, a.len()), of_a));
    }
    let (n_a, n_b, n) = (a.len() as f64, b.len() as f64, all.len() as f64);
    let spread: f64 = ranks.iter().map(|rank| (*rank as f64 - (n + 1.0)).powi(2)).sum();
    let sd = (n_a * n_b / (n * (n - 1.0)) * spread).sqrt();
    Some(if sd == 0.0 { 1.0 } else { normal_two_sided_p((of_a as f64 - n_a * (n + 1.0)) / sd) })
}

/// By how much `b` lies above `a`: the median of all differences (Hodges and Lehmann 1963), with the interval that
/// inverts the rank sum test (Moses 1965; Hollander and Wolfe, 4.3). `None` where no interval of the level exists.
pub fn shift(a: &[f64], b: &[f64], level: f64) -> Option<Estimate> {
    if a.iter().chain(b).any(|x| !x.is_finite()) {
        return None;
    }
    let mut differences: Vec<f64> = b.iter().flat_map(|y| a.iter().map(move |x| y - x)).collect();
    let from_end = rank_from_end(a.len(), b.len(), (1.0 - level) / 2.0)?;
    differences.sort_by(f64::total_cmp);
    let (low, high) = (differences[from_end - 1], differences[differences.len() - from_end]);
    Some(Estimate { point: finite(median(&differences)?)?, low, high, level })
}

fn rank_from_end(n_a: usize, n_b: usize, tail: f64) -> Option<usize> {
    if n_a == 0 || n_b == 0 {
        return None;
    }
    if n_a + n_b <= EXACT_MAX {
        let ranks: Vec<usize> = (1..=n_a + n_b).collect();
        let smallest = n_a * (n_a + 1) / 2;
        let chances = sums_of_some(&ranks, n_a);
        return Some(quantile_of_sum(&chances, tail) - smallest).filter(|rank| *rank > 0);
    }
    let (n_a, n_b) = (n_a as f64, n_b as f64);
    let sd = (n_a * n_b * (n_a + n_b + 1.0) / 12.0).sqrt();
    Some((n_a * n_b / 2.0 + normal_quantile(tail)? * sd).floor().max(1.0) as usize)
}
