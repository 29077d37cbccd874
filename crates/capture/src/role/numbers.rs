//! Statistics of a slot's values.

use std::collections::HashMap;

/// Distinct values and values seen once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValueFrequencies {
    /// Values that are not null.
    pub n: usize,
    /// Distinct ones.
    pub distinct: usize,
    /// Those seen once.
    pub once: usize,
}

impl ValueFrequencies {
    /// Counts texts.
    pub fn new<'a>(texts: impl Iterator<Item = &'a str>) -> ValueFrequencies {
        let mut counts: HashMap<&str, u32> = HashMap::new();
        let mut n = 0;
        for text in texts {
            *counts.entry(text).or_default() += 1;
            n += 1;
        }
        ValueFrequencies {
            n,
            distinct: counts.len(),
            once: counts.values().filter(|count| **count == 1).count(),
        }
    }

    /// Chance that the next value is none of the sample (Good 1953).
    pub fn unseen(self) -> f64 {
        if self.n > 0 { self.once as f64 / self.n as f64 } else { 0.0 }
    }
}

/// Spearman's rank correlation of values with the order in which they came, without ties.
pub fn order_correlation(values: &[i64]) -> f64 {
    let n = values.len();
    if n < 3 {
        return 0.0;
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by_key(|at| values[*at]);
    let squares: f64 = order.iter().enumerate().map(|(rank, at)| (rank as f64 - *at as f64).powi(2)).sum();
    let n = n as f64;
    1.0 - 6.0 * squares / (n * (n * n - 1.0))
}

/// Distance of the 1st and the 99th percentile.
pub fn spread(values: &[i64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let at = |share: f64| {
        sorted.get((share * (sorted.len().saturating_sub(1)) as f64).round() as usize).copied().unwrap_or(0)
    };
    at(0.99) as f64 - at(0.01) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_and_correlation() {
        let found = ValueFrequencies::new(["a", "b", "a", "c"].into_iter());
        assert_eq!(found, ValueFrequencies { n: 4, distinct: 3, once: 2 });
        assert!((found.unseen() - 0.5).abs() < 1e-12);
        assert!((order_correlation(&[1, 2, 3, 10]) - 1.0).abs() < 1e-12);
        assert!((order_correlation(&[4, 3, 2, 1]) + 1.0).abs() < 1e-12);
        assert!(spread(&[5; 100]).abs() < 1e-12);
    }
}
