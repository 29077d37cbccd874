//! Removes from a difference the part that another measured quantity explains.

use crate::sample::estimate::Estimate;
use crate::{finite, mean, mean_interval, student_t_cdf, student_t_quantile};

/// Chance of so close a relation to a covariate that has none, above which nothing is adjusted.
const RELATION_P_MAX: f64 = 0.01;

/// A mean difference without the part that a covariate explains.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdjustedDifference {
    /// The difference that remains if the covariate does not differ.
    pub estimate: Estimate,
    /// Change of the difference for each unit of the covariate.
    pub slope: f64,
    /// Share of the variance that the covariate explains: the square of the correlation.
    pub explained: f64,
}

/// The mean of paired differences, adjusted by the paired differences of a covariate that the treatment cannot change
/// (foreign CPU): the intercept of least squares with its t interval (Cochran, "Analysis of Covariance", 1957;
/// Lavenberg and Welch, "A Perspective on the Use of Control Variables", 1981).
///
/// A covariate that the treatment changes would take the effect out with it. `None` below five pairs, for samples of
/// unequal length, and for a covariate that does not vary.
pub fn control_variate(differences: &[f64], covariate: &[f64], level: f64) -> Option<AdjustedDifference> {
    let n = differences.len();
    if n < 5 || covariate.len() != n {
        return None;
    }
    let (y, x) = (mean(differences)?, mean(covariate)?);
    let products = |a: &[f64], a_mean: f64, b: &[f64], b_mean: f64| -> f64 {
        a.iter().zip(b).map(|(a, b)| (a - a_mean) * (b - b_mean)).sum()
    };
    let xx = products(covariate, x, covariate, x);
    let yy = products(differences, y, differences, y);
    let xy = products(covariate, x, differences, y);
    if xx <= 0.0 {
        return None;
    }
    let slope = xy / xx;
    let df = n as f64 - 2.0;
    let residual = ((yy - slope * xy) / df).max(0.0);
    let error = (residual * (1.0 / n as f64 + x * x / xx)).sqrt();
    let point = y - slope * x;
    let half = student_t_quantile(0.5 + level / 2.0, df)? * error;
    let estimate =
        Estimate { point: finite(point)?, low: finite(point - half)?, high: finite(point + half)?, level };
    let explained = if yy > 0.0 { slope * xy / yy } else { 0.0 };
    Some(AdjustedDifference { estimate, slope, explained })
}

/// The control variate of [`control_variate`] if it may be shown with the plain interval: the relation to the covariate
/// is closer than chance would make it (p < 0.01), the interval is narrower than that of the plain mean, and the
/// covariate itself does not differ between the sides by its own interval, or else the treatment may have changed it.
///
/// Showing the better of two intervals costs no coverage: the simulation of comparisons verifies that.
pub fn narrowed(differences: &[f64], covariate: &[f64], level: f64) -> Option<AdjustedDifference> {
    let adjusted = control_variate(differences, covariate, level)?;
    let df = differences.len() as f64 - 2.0;
    let unexplained = 1.0 - adjusted.explained;
    let is_related = unexplained <= 0.0 || {
        let t = (adjusted.explained * df / unexplained).sqrt();
        2.0 * (1.0 - student_t_cdf(t, df)?) < RELATION_P_MAX
    };
    let is_narrower = adjusted.estimate.half_width() < mean_interval(differences, level)?.half_width();
    let is_even = !mean_interval(covariate, level)?.excludes(0.0);
    (is_related && is_narrower && is_even).then_some(adjusted)
}
