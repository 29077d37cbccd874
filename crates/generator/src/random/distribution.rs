//! Distributions over real numbers, and sysbench's `special`.

use super::draws::Draws;

/// Tries of a rejection before it is an error: what is cut away has nearly all of the probability.
pub const LONGEST_TRIES: u32 = 1000;

/// Uniform in `[0, 1)` with 53 bits.
#[inline]
pub fn unit(draws: &mut Draws) -> f64 {
    const SCALE: f64 = 1.0 / (1u64 << 53) as f64;
    (draws.next_bits() >> 11) as f64 * SCALE
}

/// Exponential with this mean: `-mean·ln(1 - u)`.
pub fn exponential(draws: &mut Draws, mean: f64) -> f64 {
    -mean * libm::log(1.0 - unit(draws))
}

/// Two independent standard normals (Box, Muller 1958): the sine half, then the cosine half.
pub fn normal_pair(draws: &mut Draws) -> (f64, f64) {
    let radius = (-2.0 * libm::log(1.0 - unit(draws))).sqrt();
    let angle = 2.0 * std::f64::consts::PI * unit(draws);
    (radius * libm::sin(angle), radius * libm::cos(angle))
}

/// Bounds and shape of a cut normal distribution.
#[derive(Clone, Copy, Debug)]
pub struct Normal {
    /// Mean before the cut.
    pub mean: f64,
    /// Standard deviation before the cut.
    pub deviation: f64,
    /// Least value.
    pub low: f64,
    /// Largest value.
    pub high: f64,
}

/// Normal, cut by rejection (the sine half of each pair); none after [`LONGEST_TRIES`].
pub fn normal(draws: &mut Draws, shape: &Normal) -> Option<f64> {
    (0..LONGEST_TRIES).find_map(|_| {
        let (sine, _) = normal_pair(draws);
        let value = shape.mean + shape.deviation * sine;
        (shape.low <= value && value <= shape.high).then_some(value)
    })
}

/// Uniform numbers whose mean is one value of [`special`]: sysbench's `--rand-spec-iter`.
const SPECIAL_ITERATIONS: u32 = 12;
/// Share of the values that are special: `--rand-spec-pct`, 1 %.
const SPECIAL_SHARE: f64 = 0.01;
/// Share of the draws that hit no special value: what `--rand-spec-res`, 75 %, leaves.
const ORDINARY_DRAWS: f64 = 0.25;

/// sysbench 1.0's default distribution over `low..=high`, as counted in what it sends: 25 % of the draws are the mean of 12
/// uniform ones. The others are in the 1 % of the values (and one more) in the middle, but not in the lowest quarter of these:
/// the draw that decides that a value is special, from a quarter to 1, also decides which one.
pub fn special(draws: &mut Draws, low: i64, high: i64) -> i64 {
    let n = (high.wrapping_sub(low) as u64).saturating_add(1);
    let decision = unit(draws);
    let offset = if decision >= ORDINARY_DRAWS {
        let width = n as f64 * SPECIAL_SHARE + 1.0;
        n as f64 / 2.0 + width * (decision - 0.5)
    } else {
        let sum: f64 = (0..SPECIAL_ITERATIONS).map(|_| unit(draws)).sum();
        n as f64 * (sum / f64::from(SPECIAL_ITERATIONS))
    };
    low.wrapping_add((offset as u64).min(n - 1) as i64)
}
