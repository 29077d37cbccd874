//! Ranks with ties, and exact distributions of sums of ranks.

/// Twice the mid-rank of each value, which makes it whole; equal values share the mean of their ranks.
pub(crate) fn doubled_midranks(sample: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..sample.len()).collect();
    order.sort_by(|a, b| sample[*a].total_cmp(&sample[*b]));
    let mut ranks = vec![0; sample.len()];
    let mut below = 0;
    for group in order.chunk_by(|a, b| sample[*a] == sample[*b]) {
        for i in group {
            ranks[*i] = 2 * below + group.len() + 1;
        }
        below += group.len();
    }
    ranks
}

/// Chances of each sum when every rank is taken or left with chance 1/2; index is the sum.
pub(crate) fn sums_of_any(ranks: &[usize]) -> Vec<f64> {
    let mut chances = vec![0.0; ranks.iter().sum::<usize>() + 1];
    chances[0] = 1.0;
    let mut reached = 0;
    for rank in ranks {
        reached += rank;
        for sum in (0..=reached).rev() {
            let taken = if sum >= *rank { chances[sum - rank] } else { 0.0 };
            chances[sum] = 0.5 * (chances[sum] + taken);
        }
    }
    chances
}

/// Chances of each sum when `n_taken` of the ranks are taken, each set alike; index is the sum.
pub(crate) fn sums_of_some(ranks: &[usize], n_taken: usize) -> Vec<f64> {
    let width = ranks.iter().sum::<usize>() + 1;
    let mut counts = vec![vec![0.0; width]; n_taken + 1];
    counts[0][0] = 1.0;
    for rank in ranks {
        for n in (1..=n_taken).rev() {
            let (fewer, more) = counts.split_at_mut(n);
            for sum in *rank..width {
                more[0][sum] += fewer[n - 1][sum - rank];
            }
        }
    }
    let all: f64 = counts[n_taken].iter().sum();
    counts[n_taken].iter().map(|count| count / all).collect()
}

/// Two-sided chance of a value at least as extreme: twice the smaller tail, at most 1.
pub(crate) fn two_sided(chances: &[f64], value: usize) -> f64 {
    let low: f64 = chances[..=value].iter().sum();
    let high: f64 = chances[value..].iter().sum();
    (2.0 * low.min(high)).min(1.0)
}

/// The smallest sum that is not exceeded with at least chance `p`.
pub(crate) fn quantile_of_sum(chances: &[f64], p: f64) -> usize {
    let mut below = 0.0;
    for (sum, chance) in chances.iter().enumerate() {
        below += chance;
        if below >= p {
            return sum;
        }
    }
    chances.len() - 1
}
