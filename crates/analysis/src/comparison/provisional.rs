//! What fewer values than a verdict needs show: the ratio, which way it points, and what is missing.

use serde::Serialize;
use stats::{PAIRS_MIN, UNPAIRED_MIN};

use super::{FigureSample, Pairing};

/// B over A without a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Provisional {
    /// The geometric mean of the pairs' ratios; of values that are not paired, the ratio of the medians.
    pub ratio: f64,
    /// The lowest ratio of a pair; without pairs, the lowest value of B over the highest of A.
    pub lowest: f64,
    /// The highest ratio of a pair; without pairs, the highest value of B over the lowest of A.
    pub highest: f64,
    /// Pairs, or values of A and of B, which are alike for pairs.
    pub n: [usize; 2],
    /// Pairs that a verdict still needs; without pairs, values of the side that has fewer.
    pub n_missing: usize,
}

impl Provisional {
    /// What a sample shows; `None` if a side has no value.
    pub(crate) fn new(sample: &FigureSample, pairing: Pairing) -> Option<Provisional> {
        if pairing.is_paired() {
            Provisional::of_pairs(&sample.ratios)
        } else {
            Provisional::of_sides(&sample.a, &sample.b)
        }
    }

    fn of_pairs(ratios: &[f64]) -> Option<Provisional> {
        let logs: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
        let [lowest, highest] = range(ratios);
        Some(Provisional {
            ratio: stats::mean(&logs)?.exp(),
            lowest,
            highest,
            n: [ratios.len(); 2],
            n_missing: PAIRS_MIN.saturating_sub(ratios.len()),
        })
    }

    fn of_sides(a: &[f64], b: &[f64]) -> Option<Provisional> {
        let ratio = stats::median(b)? / stats::median(a)?;
        let ([low_a, high_a], [low_b, high_b]) = (range(a), range(b));
        Some(Provisional {
            ratio,
            lowest: low_b / high_a,
            highest: high_b / low_a,
            n: [a.len(), b.len()],
            n_missing: UNPAIRED_MIN.saturating_sub(a.len().min(b.len())),
        })
    }

    /// Whether all pairs point the same way; without pairs, whether every value of one side is above every one of the other.
    pub fn is_one_way(&self) -> bool {
        self.lowest > 1.0 || self.highest < 1.0
    }
}

fn range(values: &[f64]) -> [f64; 2] {
    let fold = |of: fn(f64, f64) -> f64, from| values.iter().copied().fold(from, of);
    [fold(f64::min, f64::INFINITY), fold(f64::max, f64::NEG_INFINITY)]
}
