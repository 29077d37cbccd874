//! Several tests at once.

/// Chances adjusted so that marking those below 5 % marks a wrong one in at most 5 % of tables.
///
/// Holm, "A Simple Sequentially Rejective Multiple Test Procedure", 1979. The order of the input is kept; values that
/// are not numbers count as 1.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let value = |i: usize| if p[i].is_nan() { 1.0 } else { p[i] };
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| value(*a).total_cmp(&value(*b)));
    let mut adjusted = vec![1.0; p.len()];
    let mut largest = 0.0f64;
    for (rank, i) in order.into_iter().enumerate() {
        largest = largest.max((p.len() - rank) as f64 * value(i)).min(1.0);
        adjusted[i] = largest;
    }
    adjusted
}
