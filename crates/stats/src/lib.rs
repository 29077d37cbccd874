//! Pure statistics on slices of numbers: no input, no clock, no dependency.
//!
//! Every function returns `None` where its sample is too small, or where the answer would not be a
//! finite number; none returns NaN. Formulas name their source. What a figure means for a
//! measurement is decided in `analysis`, not here.

pub mod describe;
pub mod distribution;
pub mod quantile;
pub mod series;
pub mod trend;

pub use describe::{cv, jain, mean, sd};
pub use distribution::{normal_two_sided_p, student_t_cdf, student_t_quantile};
pub use quantile::{mad, median, quantile};
pub use series::{autocorrelation_lag_1, batch_means};
pub use trend::{MannKendall, Steadiness, mann_kendall, steadiness, t_test_p};

/// The value, if it is a finite number.
pub(crate) fn finite(x: f64) -> Option<f64> {
    x.is_finite().then_some(x)
}
