//! The mean of a series whose values resemble their neighbours: seconds of one run.

use crate::quantile;
use crate::random::Random;
use crate::sample::bootstrap::Resampling;
use crate::sample::estimate::{Estimate, mean_interval};
use crate::{autocorrelation_lag_1, batch_means, mean};

/// The effective sample size: how many independent values would give the mean as precisely. `n / (1 + 2 sum(rho[k]))`,
/// between 1 and `n`.
///
/// The sum ends where pairs of neighbouring autocorrelations stop being positive, and never rises: the initial monotone
/// sequence of Geyer, "Practical Markov Chain Monte Carlo", 1992. `None` below four values and for a constant series.
pub fn effective_sample_size(series: &[f64]) -> Option<f64> {
    let n = series.len();
    let centre = mean(series)?;
    let squares: f64 = series.iter().map(|x| (x - centre).powi(2)).sum();
    if n < 4 || squares == 0.0 {
        return None;
    }
    let rho = |lag: usize| {
        let ahead = series[lag..].iter();
        ahead.zip(series).map(|(a, b)| (a - centre) * (b - centre)).sum::<f64>() / squares
    };
    let (mut sum, mut last) = (0.0, f64::INFINITY);
    for pair in 0..(n - 1) / 2 {
        let both = (rho(2 * pair) + rho(2 * pair + 1)).min(last);
        if both <= 0.0 {
            break;
        }
        (sum, last) = (sum + both, both);
    }
    Some((n as f64 / (2.0 * sum - 1.0).max(1.0)).min(n as f64).max(1.0))
}

/// The mean of a series with its interval by Student's t on the means of `n_batches` consecutive batches (Law and
/// Kelton, "Simulation Modeling and Analysis", 9.5.3). Batches should be ten times as long as the span over which
/// values resemble each other. `None` with fewer than two batches or fewer values than batches.
pub fn batch_means_interval(series: &[f64], n_batches: usize, level: f64) -> Option<Estimate> {
    mean_interval(&batch_means(series, n_batches)?, level)
}

/// Length of blocks for [`block_bootstrap`], at most half of the series: `1.1447 (a n)^(1/3)` with `a = 4 r^2 / (1 -
/// r^2)^2`, after the autocorrelation `r` at lag 1 (Andrews, "Heteroskedasticity and Autocorrelation Consistent
/// Covariance Matrix Estimation", 1991, formula 6.4; the bootstrap's variance is that of Bartlett's weights).
pub fn block_length(series: &[f64]) -> usize {
    let r = autocorrelation_lag_1(series).unwrap_or(0.0).clamp(-0.97, 0.97);
    let a = 4.0 * r * r / (1.0 - r * r).powi(2);
    let length = (1.1447 * (a * series.len() as f64).cbrt()).ceil() as usize;
    length.min(series.len() / 2).max(1)
}

/// The mean of a series with its interval from resampled blocks of neighbours: the circular block bootstrap (Politis
/// and Romano 1992). `None` for fewer than four blocks: too few to vary.
pub fn block_bootstrap(series: &[f64], block: usize, level: f64, how: Resampling) -> Option<Estimate> {
    let n = series.len();
    if block == 0 || n / block < 4 || how.n == 0 {
        return None;
    }
    let mut random = Random::new(how.seed);
    let mut means = Vec::with_capacity(how.n);
    for _ in 0..how.n {
        let mut sum = 0.0;
        let mut taken = 0;
        while taken < n {
            let start = random.index(n);
            let length = block.min(n - taken);
            sum += (start..start + length).map(|i| series[i % n]).sum::<f64>();
            taken += length;
        }
        means.push(sum / n as f64);
    }
    let tail = (1.0 - level) / 2.0;
    let (low, high) = (quantile(&means, tail)?, quantile(&means, 1.0 - tail)?);
    Some(Estimate { point: mean(series)?, low, high, level })
}
