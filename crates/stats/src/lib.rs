//! Pure statistics on slices of numbers: no input, no clock, no dependency.
//!
//! Every function returns `None` where its sample is too small, or where the answer would not be a
//! finite number; none returns NaN. Formulas name their source. What a figure means for a
//! measurement is decided in `analysis`, not here.

pub mod capacity;
pub mod comparison;
pub mod distribution;
pub mod random;
pub mod sample;
pub mod series;

pub use capacity::probe::{JudgedProbe, ProbeSecond, judge};
pub use capacity::threshold::Threshold;
pub use capacity::usl::{UslFit, scalability};
pub use comparison::benjamini_hochberg::benjamini_hochberg;
pub use comparison::covariate::{AdjustedDifference, control_variate, narrowed};
pub use comparison::equivalence::equivalence_p;
pub use comparison::holm::holm;
pub use comparison::levels::{LevelPair, LevelRuns, compare_levels};
pub use comparison::rank_sum::{rank_sum_p, shift};
pub use comparison::signed_rank::{centre, signed_rank_p};
pub use comparison::verdict::{
    Comparison, Design, PAIRS_MIN, Precision, UNPAIRED_MIN, Verdict, compare_pairs, compare_unpaired,
};
pub use distribution::propagation::{RepetitionError, RepetitionSpread};
pub use distribution::{
    binomial_cdf, binomial_deviation_p_max, chi_squared_quantile, normal_cdf, normal_quantile,
    normal_two_sided_p, student_t_cdf, student_t_quantile,
};
pub use sample::bootstrap::{BCA_MIN, bca};
pub use sample::describe::{cv, cv_interval, jain, mean, sd};
pub use sample::estimate::{Estimate, mean_interval, mean_p};
pub use sample::power::{detectable, n_for_half_width, power_of_t};
pub use sample::quantile::{
    chance_of_none_seen, extremes_cover_median, mad, median, quantile, quantile_ranks,
};
pub use sample::repetitions::repetitions;
pub use sample::variance::{nested_variance, variance_of_runs};
pub use series::autocorrelated::{
    batch_means_interval, block_bootstrap, block_length, effective_sample_size,
};
pub use series::batches::{autocorrelation_lag_1, batch_means};
pub use series::change_points::{ChangePoint, ChangeRule, PendingChange, change_points, pending_change};
pub use series::trend::{MannKendall, STEADINESS_MIN, Steadiness, mann_kendall, steadiness, t_test_p};
pub use series::warm_up::{WarmUpRule, is_warm, mser_cut};

/// The value, if it is a finite number.
pub(crate) fn finite(x: f64) -> Option<f64> {
    x.is_finite().then_some(x)
}
