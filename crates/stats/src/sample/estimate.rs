//! A figure with its interval, and the interval of a mean.

use crate::{finite, mean, sd, student_t_cdf, student_t_quantile};

/// A figure and the interval that holds the true one at the given level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The figure.
    pub point: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Chance that such an interval holds the true figure: `0.95`.
    pub level: f64,
}

impl Estimate {
    /// Half of the interval's length.
    pub fn half_width(&self) -> f64 {
        0.5 * (self.high - self.low)
    }

    /// Whether the value lies outside the interval.
    pub fn excludes(&self, value: f64) -> bool {
        self.low > value || self.high < value
    }

    /// Applies a function that never falls to the figure and both ends: `exp` turns logarithms of ratios into ratios.
    pub fn map(self, f: impl Fn(f64) -> f64) -> Estimate {
        Estimate { point: f(self.point), low: f(self.low), high: f(self.high), ..self }
    }
}

/// The mean with its interval by Student's t: of logarithms of ratios, the geometric mean of the ratios.
///
/// Student, "The Probable Error of a Mean", 1908. `None` below two values.
pub fn mean_interval(sample: &[f64], level: f64) -> Option<Estimate> {
    let (point, sd, n) = (mean(sample)?, sd(sample)?, sample.len() as f64);
    let half = student_t_quantile(0.5 + level / 2.0, n - 1.0)? * sd / n.sqrt();
    Some(Estimate { point, low: finite(point - half)?, high: finite(point + half)?, level })
}

/// Two-sided chance of a mean at least as far from zero when the true one is zero: the paired t test, given the
/// differences. `None` below two values; 1 when all are zero.
pub fn mean_p(sample: &[f64]) -> Option<f64> {
    let (point, sd, n) = (mean(sample)?, sd(sample)?, sample.len() as f64);
    if point == 0.0 {
        return Some(1.0);
    }
    Some(2.0 * student_t_cdf(-point.abs() / (sd / n.sqrt()), n - 1.0)?)
}
