//! Pure statistics on slices of numbers: no input, no clock, no dependency.
//!
//! Every function returns `None` where its sample is too small, or where the answer would not be a
//! finite number; none returns NaN. Formulas name their source. What a figure means for a
//! measurement is decided in `analysis`, not here.

pub mod autocorrelated;
pub mod bootstrap;
pub mod change_points;
pub mod comparison;
pub mod covariate;
pub mod describe;
pub mod distribution;
pub mod equivalence;
pub mod estimate;
pub mod holm;
pub mod power;
pub mod probe;
pub mod quantile;
pub mod random;
pub mod rank_sum;
mod ranks;
pub mod repetitions;
pub mod series;
pub mod signed_rank;
pub mod threshold;
pub mod trend;
pub mod usl;
pub mod variance;
pub mod warm_up;

pub use autocorrelated::{batch_means_interval, block_bootstrap, block_length, effective_sample_size};
pub use bootstrap::{BCA_MIN, bca};
pub use change_points::{ChangePoint, ChangeRule, change_points};
pub use comparison::{
    Comparison, Design, PAIRS_MIN, Precision, UNPAIRED_MIN, Verdict, compare_pairs, compare_unpaired,
};
pub use covariate::{Adjusted, control_variate, narrowed};
pub use describe::{cv, cv_interval, jain, mean, sd};
pub use distribution::{
    binomial_cdf, chi_squared_quantile, normal_cdf, normal_quantile, normal_two_sided_p, student_t_cdf,
    student_t_quantile,
};
pub use equivalence::equivalence_p;
pub use estimate::{Estimate, mean_interval, mean_p};
pub use holm::holm;
pub use power::{detectable, n_for_half_width, power_of_t};
pub use probe::{Judged, ProbeSecond, judge};
pub use quantile::{mad, median, quantile, quantile_ranks};
pub use rank_sum::{rank_sum_p, shift};
pub use repetitions::repetitions;
pub use series::{autocorrelation_lag_1, batch_means};
pub use signed_rank::{centre, signed_rank_p};
pub use threshold::Threshold;
pub use trend::{MannKendall, STEADINESS_MIN, Steadiness, mann_kendall, steadiness, t_test_p};
pub use usl::{Scalability, scalability};
pub use variance::{nested_variance, variance_of_runs};
pub use warm_up::{WarmUpRule, is_warm, mser_cut};

/// The value, if it is a finite number.
pub(crate) fn finite(x: f64) -> Option<f64> {
    x.is_finite().then_some(x)
}
