//! How many repetitions a figure needs, estimated from existing repetitions, without assuming a distribution.

use crate::random::Random;
use crate::sample::bootstrap::Resampling;
use crate::sample::quantile::quantile_ranks;
use crate::{mean, median};

/// Fewest values in a subset: below, the median has no interval of 95 %.
const SUBSET_MIN: usize = 10;

/// The smallest number of repetitions with which the interval of the median lies within `error` (0.01) of the median, on
/// average over random subsets of the sample. `None` when even the whole sample is too small.
///
/// Maricq et al., "Taming Performance Variability", OSDI 2018 (CONFIRM): for each size, intervals by order statistics of
/// subsets drawn without replacement; the mean of their ends counts. The median must be above zero.
pub fn repetitions(sample: &[f64], error: f64, level: f64, how: Resampling) -> Option<usize> {
    let centre = median(sample).filter(|centre| *centre > 0.0)?;
    let mut random = Random::new(how.seed);
    let mut values = sample.to_vec();
    (SUBSET_MIN..=sample.len()).find(|size| {
        let Some((low, high)) = quantile_ranks(*size as u64, 0.5, level) else { return false };
        let (mut lows, mut highs) = (Vec::with_capacity(how.n), Vec::with_capacity(how.n));
        for _ in 0..how.n {
            let subset = draw(&mut values, *size, &mut random);
            lows.push(subset[low as usize - 1]);
            highs.push(subset[high as usize - 1]);
        }
        let within = |ends: &[f64]| mean(ends).is_some_and(|end| (end / centre - 1.0).abs() <= error);
        within(&lows) && within(&highs)
    })
}

/// `size` of the values, sorted: the first steps of a Fisher-Yates shuffle.
fn draw(values: &mut [f64], size: usize, random: &mut Random) -> Vec<f64> {
    for i in 0..size {
        let other = i + random.index(values.len() - i);
        values.swap(i, other);
    }
    let mut subset = values[..size].to_vec();
    subset.sort_by(f64::total_cmp);
    subset
}
