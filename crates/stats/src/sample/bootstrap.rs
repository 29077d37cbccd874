//! The bias-corrected and accelerated bootstrap.

use crate::quantile;
use crate::random::Random;
use crate::sample::estimate::Estimate;
use crate::{finite, normal_cdf, normal_quantile};

/// Fewest values that are resampled. With five, an interval that should hold the truth in 95 % of cases does so in 88 %
/// (simulation of procedures, METHODOLOGY).
pub const BCA_MIN: usize = 8;

/// How to resample.
#[derive(Debug, Clone, Copy)]
pub struct Resampling {
    /// Samples drawn; 2,000 or more for an interval of 95 %.
    pub n: usize,
    /// Seed of the random numbers.
    pub seed: u64,
}

/// A statistic of a sample with its interval by the BCa bootstrap: Efron, "Better Bootstrap Confidence Intervals", 1987;
/// Efron and Tibshirani, "An Introduction to the Bootstrap", 14.3.
///
/// `None` below [`BCA_MIN`] values, and where the statistic has no value or does not vary.
pub fn bca(
    sample: &[f64],
    statistic: impl Fn(&[f64]) -> Option<f64>,
    level: f64,
    how: Resampling,
) -> Option<Estimate> {
    if sample.len() < BCA_MIN || how.n == 0 {
        return None;
    }
    let point = finite(statistic(sample)?)?;
    let mut random = Random::new(how.seed);
    let mut draw = vec![0.0; sample.len()];
    let mut drawn = Vec::with_capacity(how.n);
    for _ in 0..how.n {
        draw.fill_with(|| sample[random.index(sample.len())]);
        drawn.push(statistic(&draw)?);
    }
    let below = drawn.iter().filter(|value| **value < point).count() as f64;
    let equal = drawn.iter().filter(|value| **value == point).count() as f64;
    let bias = normal_quantile((below + 0.5 * equal) / how.n as f64)?;
    let acceleration = acceleration(sample, &statistic)?;
    let end = |p: f64| {
        let z = bias + normal_quantile(p)?;
        quantile(&drawn, normal_cdf(bias + z / (1.0 - acceleration * z)))
    };
    let tail = (1.0 - level) / 2.0;
    Some(Estimate { point, low: end(tail)?, high: end(1.0 - tail)?, level })
}

/// Skewness of the values that the statistic has when one value at a time is left out, over six.
fn acceleration(sample: &[f64], statistic: &impl Fn(&[f64]) -> Option<f64>) -> Option<f64> {
    let mut without = Vec::with_capacity(sample.len());
    for left_out in 0..sample.len() {
        let rest: Vec<f64> = sample[..left_out].iter().chain(&sample[left_out + 1..]).copied().collect();
        without.push(statistic(&rest)?);
    }
    let mean = crate::mean(&without)?;
    let power = |exponent: i32| without.iter().map(|value| (mean - value).powi(exponent)).sum::<f64>();
    finite(power(3) / (6.0 * power(2).powf(1.5)))
}
