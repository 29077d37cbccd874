//! The number of distinct values in bounded memory: the k smallest hashes (Bar-Yossef et al. 2002).

use std::collections::BTreeSet;

use crate::template::reservoir::mix;

/// Hashes that are kept; the standard error is 1 / sqrt(k - 2), 6 %.
const KEPT: usize = 256;

/// A count of distinct values.
#[derive(Clone, Debug, Default)]
pub struct DistinctSketch {
    least: BTreeSet<u64>,
    n: u64,
}

impl DistinctSketch {
    /// Counts a value by a hash of it.
    pub fn add(&mut self, hash: u64) {
        self.n += 1;
        let hash = mix(hash);
        if self.least.len() < KEPT {
            self.least.insert(hash);
        } else if self.least.last().is_some_and(|greatest| hash < *greatest) && self.least.insert(hash) {
            self.least.pop_last();
        }
    }

    /// Values that were counted.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// Distinct ones, about; exact up to 256.
    pub fn distinct(&self) -> u64 {
        match self.least.last() {
            Some(greatest) if self.least.len() == KEPT => {
                let share = (*greatest as f64 / u64::MAX as f64).max(f64::MIN_POSITIVE);
                ((KEPT - 1) as f64 / share).round() as u64
            }
            _ => self.least.len() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinct_values_are_counted_within_the_error() {
        for n in [1u64, 100, 256, 10_000, 200_000] {
            let mut sketch = DistinctSketch::default();
            for value in (0..n).chain(0..n) {
                sketch.add(value.wrapping_mul(0x9e37_79b9));
            }
            let found = sketch.distinct() as f64;
            let error = if n <= 256 { 0.0 } else { 0.2 };
            assert!((found / n as f64 - 1.0).abs() <= error, "{n}: {found}");
            assert_eq!(sketch.n(), 2 * n);
        }
    }
}
