//! Several tests of which some may be wrong.

/// Chances adjusted so that of those below 5 %, on average at most 5 % are wrong: candidates, and no verdicts.
///
/// Benjamini and Hochberg, "Controlling the False Discovery Rate", 1995. The order of the input is kept; values that are not numbers
/// count as 1.
pub fn benjamini_hochberg(p: &[f64]) -> Vec<f64> {
    let value = |i: usize| if p[i].is_nan() { 1.0 } else { p[i] };
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| value(*a).total_cmp(&value(*b)));
    let mut adjusted = vec![1.0; p.len()];
    let mut least = 1.0f64;
    for (rank, i) in order.into_iter().enumerate().rev() {
        least = least.min(p.len() as f64 / (rank + 1) as f64 * value(i));
        adjusted[i] = least;
    }
    adjusted
}
