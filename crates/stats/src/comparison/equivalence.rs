//! Whether a difference is too small to matter.

use crate::{finite, mean, sd, student_t_cdf};

/// Chance of a mean as far inside the margin when the true one is at the margin or beyond it: two one-sided t tests.
/// Below 5 %, the mean is equivalent to zero; a large value says nothing.
///
/// Schuirmann, "A Comparison of the Two One-Sided Tests Procedure and the Power Approach", 1987. `margin` is above zero
/// and in the unit of the sample. `None` below two values.
pub fn equivalence_p(sample: &[f64], margin: f64) -> Option<f64> {
    let (mean, error) = (mean(sample)?, sd(sample)? / (sample.len() as f64).sqrt());
    if margin.is_nan() || margin <= 0.0 {
        return None;
    }
    if error == 0.0 {
        return Some(if mean.abs() < margin { 0.0 } else { 1.0 });
    }
    let below_upper = student_t_cdf((mean - margin) / error, sample.len() as f64 - 1.0)?;
    let above_lower = student_t_cdf(-(mean + margin) / error, sample.len() as f64 - 1.0)?;
    finite(below_upper.max(above_lower))
}
