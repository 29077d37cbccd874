//! What a number of repetitions can detect.

use crate::distribution::{ln_gamma, normal_cdf, where_crossed};
use crate::student_t_quantile;

/// Points of Simpson's rule over the spread of a sample.
const POINTS: usize = 200;
/// Most repetitions that are considered.
const N_MAX: usize = 100_000;

/// Chance that a two-sided t test at `level` (0.95) with `df` degrees of freedom finds a true difference of `effect`
/// standard errors. `None` where the t quantile is.
pub fn power_of_t(effect: f64, df: f64, level: f64) -> Option<f64> {
    Some(TwoSidedT::new(df, level)?.power(effect))
}

/// The smallest true difference that a two-sided t test at `level` finds with chance `power` (0.8), in the unit of the
/// standard error `error`: the minimum detectable effect (Bloom 1995). `None` where the t quantile is.
pub fn detectable(error: f64, df: f64, level: f64, power: f64) -> Option<f64> {
    let test = TwoSidedT::new(df, level)?;
    let mut high = 4.0;
    while test.power(high) < power && high < 1e6 {
        high *= 2.0;
    }
    Some(error * where_crossed(0.0, high, |effect| test.power(effect) - power))
}

/// A two-sided t test.
///
/// The noncentral t distribution as a mean of normal ones over the spread of the sample (Johnson, Kotz and Balakrishnan,
/// "Continuous Univariate Distributions", 31.1), integrated by Simpson's rule.
struct TwoSidedT {
    /// At each point, how many true standard errors are significant, and the density of the spread.
    points: Vec<(f64, f64)>,
    /// Between points.
    step: f64,
}

impl TwoSidedT {
    fn new(df: f64, level: f64) -> Option<TwoSidedT> {
        let critical = student_t_quantile(0.5 + level / 2.0, df)?;
        let density = spread_density(df);
        let reach = 9.0 / (2.0 * df).sqrt();
        let (from, to) = ((1.0 - reach).max(0.0), 1.0 + reach);
        let step = (to - from) / POINTS as f64;
        let spreads = (0..=POINTS).map(|i| from + i as f64 * step);
        let points = spreads.map(|spread| (critical * spread, density(spread))).collect();
        Some(TwoSidedT { points, step })
    }

    /// Chance that it finds a true difference of `effect` standard errors.
    fn power(&self, effect: f64) -> f64 {
        let seen = |(i, &(critical, density)): (usize, &(f64, f64))| {
            let weight = if i == 0 || i == POINTS { 1.0 } else { 2.0 + 2.0 * (i % 2) as f64 };
            weight * (normal_cdf(effect - critical) + normal_cdf(-effect - critical)) * density
        };
        let sum: f64 = self.points.iter().enumerate().map(seen).sum();
        (sum * self.step / 3.0).clamp(0.0, 1.0)
    }
}

/// Density of the sample's standard deviation over the true one: a chi distribution over the root of `df`.
fn spread_density(df: f64) -> impl Fn(f64) -> f64 {
    let half = df / 2.0;
    let scale = 2f64.ln() + half * half.ln() - ln_gamma(half);
    move |spread| {
        if spread <= 0.0 { 0.0 } else { (scale + (df - 1.0) * spread.ln() - half * spread * spread).exp() }
    }
}

/// How many repetitions bring the t interval's half width down to `half_width`, if their standard deviation is `sd`.
/// `None` beyond 100,000, and unless both are numbers above zero.
pub fn n_for_half_width(sd: f64, half_width: f64, level: f64) -> Option<usize> {
    if !(sd > 0.0 && half_width > 0.0) {
        return None;
    }
    let reached = |n: usize| {
        let t = student_t_quantile(0.5 + level / 2.0, n as f64 - 1.0)?;
        Some(t * sd / (n as f64).sqrt() <= half_width)
    };
    let (mut low, mut high) = (2, N_MAX);
    if !reached(high)? {
        return None;
    }
    while low < high {
        let middle = (low + high) / 2;
        if reached(middle)? {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(low)
}
