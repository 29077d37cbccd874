//! Figures that describe one sample: mean, spread, evenness.

use crate::sample::estimate::Estimate;
use crate::{chi_squared_quantile, finite};

/// Arithmetic mean; `None` for an empty sample.
pub fn mean(sample: &[f64]) -> Option<f64> {
    if sample.is_empty() {
        return None;
    }
    finite(sample.iter().sum::<f64>() / sample.len() as f64)
}

/// Sample standard deviation, with `n - 1` below the fraction; `None` below two values.
///
/// Two passes, because `sum(x^2) - n * mean^2` loses all digits when the spread is small relative to the
/// mean (Chan, Golub and LeVeque, "Algorithms for Computing the Sample Variance", 1983).
pub fn sd(sample: &[f64]) -> Option<f64> {
    let mean = mean(sample)?;
    if sample.len() < 2 {
        return None;
    }
    let squares: f64 = sample.iter().map(|x| (x - mean).powi(2)).sum();
    finite((squares / (sample.len() - 1) as f64).sqrt())
}

/// Coefficient of variation: standard deviation over mean; `None` below two values or when the mean
/// is not above zero, where a relative spread has no meaning.
pub fn cv(sample: &[f64]) -> Option<f64> {
    let mean = mean(sample).filter(|mean| *mean > 0.0)?;
    finite(sd(sample)? / mean)
}

/// The coefficient of variation with its interval, for values that are about normal.
///
/// The modified McKay interval: Vangel, "Confidence Intervals for a Normal Coefficient of Variation", The American
/// Statistician 50, 1996, formula 12. `None` where [`cv`] is, and where the spread is too large for the formula
/// (above about a third).
pub fn cv_interval(sample: &[f64], level: f64) -> Option<Estimate> {
    let point = cv(sample)?;
    let n = sample.len() as f64;
    let at = |p: f64| {
        let u = chi_squared_quantile(p, n - 1.0)?;
        let below = ((u + 2.0) / n - 1.0) * point * point + u / (n - 1.0);
        (below > 0.0).then(|| point / below.sqrt())
    };
    let tail = (1.0 - level) / 2.0;
    Some(Estimate { point, low: at(1.0 - tail)?, high: at(tail)?, level })
}

/// Jain's fairness index, `sum(x)^2 / (n * sum(x^2))`: 1 when all shares are even, `1/n` when one has all.
///
/// Jain, Chiu and Hawe, "A Quantitative Measure of Fairness and Discrimination for Resource
/// Allocation in Shared Computer Systems", DEC-TR-301, 1984. `None` when nothing was shared out.
pub fn jain(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|x| x * x).sum();
    if shares.is_empty() || squares == 0.0 {
        return None;
    }
    finite(sum * sum / (shares.len() as f64 * squares))
}
