//! The hottest values and how steep their counts fall, in bounded memory.

use std::collections::HashMap;

/// Values that are kept after each cleaning.
const KEPT: usize = 4096;
/// Fewest executions of a value that has a rank.
const COUNT_MIN: u64 = 20;
/// Fewest ranks of a fit.
const RANKS_MIN: usize = 8;

/// Counts of the hottest values: when there are too many, the coldest are forgotten, and what comes later begins with the greatest count
/// that was forgotten, which bounds the error (Metwally, Agrawal, El Abbadi 2005).
#[derive(Clone, Debug, Default)]
pub struct HotValues {
    counts: HashMap<u64, u64>,
    floor: u64,
}

impl HotValues {
    /// Counts a value by a hash of it.
    pub fn add(&mut self, hash: u64) {
        let floor = self.floor;
        *self.counts.entry(hash).or_insert(floor) += 1;
        if self.counts.len() >= 2 * KEPT {
            let mut all: Vec<u64> = self.counts.values().copied().collect();
            all.sort_unstable_by(|a, b| b.cmp(a));
            let least = all[KEPT];
            self.counts.retain(|_, count| *count > least);
            self.floor = self.floor.max(least);
        }
    }

    /// Exponent of Zipf's law over the ranks of the hottest values: the maximum of the likelihood of a power law that ends at the
    /// last rank (Clauset, Shalizi and Newman 2009, section 3.5 and appendix B, for ranks). `None` if there are too few.
    pub fn exponent(&self) -> Option<f64> {
        let least = COUNT_MIN.max(8 * self.floor);
        let mut counts: Vec<u64> = self.counts.values().copied().filter(|count| *count >= least).collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        if counts.len() < RANKS_MIN {
            return None;
        }
        let logs: Vec<f64> = (1..=counts.len()).map(|rank| (rank as f64).ln()).collect();
        let n: f64 = counts.iter().map(|count| *count as f64).sum();
        let mean = counts.iter().zip(&logs).map(|(count, log)| *count as f64 * log).sum::<f64>() / n;
        // The mean of the logarithm of the rank falls with the exponent; bisection finds where it is as observed.
        let expected = |exponent: f64| {
            let weights = logs.iter().map(|log| (-exponent * log).exp());
            let (sum, moment) =
                weights.zip(&logs).fold((0.0, 0.0), |(sum, moment), (w, log)| (sum + w, moment + w * log));
            moment / sum
        };
        let (mut low, mut high) = (0.0, 10.0);
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if expected(middle) > mean { low = middle } else { high = middle }
        }
        Some((low + high) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::reservoir::{Mixer, mix};

    #[test]
    fn exponents_of_zipf_are_found() {
        for exponent in [0.7, 1.0, 1.2, 1.5] {
            let n_keys = 100_000usize;
            let mut sums = Vec::with_capacity(n_keys);
            let mut sum = 0.0;
            for rank in 1..=n_keys {
                sum += (rank as f64).powf(-exponent);
                sums.push(sum);
            }
            let mut mixer = Mixer::new(3);
            let mut hot = HotValues::default();
            for _ in 0..200_000 {
                let at = mixer.next_u64() as f64 / u64::MAX as f64 * sum;
                hot.add(mix(sums.partition_point(|sum| *sum < at) as u64));
            }
            let found = hot.exponent().unwrap();
            assert!((found / exponent - 1.0).abs() < 0.05, "{exponent}: {found}");
        }
    }

    #[test]
    fn few_or_equal_values_have_no_exponent() {
        let mut hot = HotValues::default();
        (0..5).for_each(|n| hot.add(n));
        assert_eq!(hot.exponent(), None);
        (0..100_000u64).for_each(|n| hot.add(n));
        assert_eq!(hot.exponent(), None);
        assert!(hot.counts.len() < 2 * KEPT);
    }
}
