//! Figures of a sample whose order matters: one value per second.

use crate::{finite, mean};

/// Means of `n_batches` consecutive batches whose lengths differ by at most one; the earlier values
/// come first. `None` when there are fewer values than batches, or no batch is asked for.
///
/// Averaging neighbours is what makes tests usable on seconds of one run: neighbouring seconds
/// resemble each other, batches do so much less (Law and Kelton, "Simulation Modeling and
/// Analysis", section 9.5.3).
pub fn batch_means(series: &[f64], n_batches: usize) -> Option<Vec<f64>> {
    if n_batches == 0 || series.len() < n_batches {
        return None;
    }
    let edge = |i: usize| i * series.len() / n_batches;
    (0..n_batches).map(|i| mean(&series[edge(i)..edge(i + 1)])).collect()
}

/// Autocorrelation at lag 1: `sum((x[i] - m)(x[i+1] - m)) / sum((x[i] - m)^2)`.
///
/// Box, Jenkins and Reinsel, "Time Series Analysis", estimator 2.1.13. `None` below three values
/// and for a constant series.
pub fn autocorrelation_lag_1(series: &[f64]) -> Option<f64> {
    let mean = mean(series)?;
    let squares: f64 = series.iter().map(|x| (x - mean).powi(2)).sum();
    if series.len() < 3 || squares == 0.0 {
        return None;
    }
    let products: f64 = series.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum();
    finite(products / squares)
}
