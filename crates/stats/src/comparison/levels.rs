//! Several levels of a factor, measured once in each of a few randomized blocks: which pairs of them differ.

use std::collections::BTreeSet;

use crate::sample::estimate::Estimate;
use crate::{
    PAIRS_MIN, centre, holm, mean, n_for_half_width, signed_rank_p, student_t_cdf, student_t_quantile,
};

/// Level of the intervals.
const LEVEL: f64 = 0.95;
/// Chance of a wrong difference among all pairs, below which a pair is called different.
pub const CHANCE_MAX: f64 = 0.05;

/// Logarithms of one level's runs by block; `None` where the run does not count.
pub type LevelRuns = Vec<Option<f64>>;

/// Two levels of one group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LevelPair {
    /// Index of the first level in its group.
    pub a: usize,
    /// Index of the second level.
    pub b: usize,
    /// Blocks in which both count.
    pub n_blocks: usize,
    /// Blocks in which `b` is above `a`.
    pub n_above: usize,
    /// Logarithm of `b` over `a`, with its 95 % interval.
    pub log_ratio: Estimate,
    /// Two-sided chance of such a difference between equal levels, after Holm's correction for all pairs of all groups.
    pub p_adjusted: f64,
    /// Standard deviation of the difference within a block.
    pub spread: f64,
}

impl LevelPair {
    /// Whether the levels differ beyond chance.
    pub fn is_different(&self) -> bool {
        self.p_adjusted <= CHANCE_MAX
    }

    /// About how many more blocks bring the half width of the interval down to `share` (0.05), and reach the fewest
    /// that a rank test needs; 0 if there are enough, `None` beyond 100,000.
    pub fn more_blocks(&self, share: f64) -> Option<usize> {
        let for_width =
            if self.spread > 0.0 { n_for_half_width(self.spread, share.ln_1p(), LEVEL)? } else { 0 };
        Some(for_width.max(PAIRS_MIN).saturating_sub(self.n_blocks))
    }
}

/// Compares all pairs of levels within each group (other factors fixed), by differences within blocks. A pair needs two
/// blocks in which both levels count; those without are left out.
///
/// As [`crate::compare_pairs`] does, it uses the exact signed rank test with its interval if there are enough blocks.
/// That test has no chance below `2^(1 - n)` with `n` blocks; where Holm's correction asks for less, no result could
/// pass, and Student's t on the logarithms decides. Its variance is that of all differences within blocks in the group,
/// as in the analysis of randomized complete blocks (Montgomery, "Design and Analysis of Experiments", 4.1), or that of
/// the pair if it is larger: levels may vary unequally. For two levels it is the paired t test. Errors are held to 6 %
/// by simulation (`crates/stats/tests/stats/levels.rs`).
pub fn compare_levels(groups: &[Vec<LevelRuns>]) -> Vec<Vec<LevelPair>> {
    let differences: Vec<Vec<Differences>> = groups.iter().map(|levels| differences(levels)).collect();
    let n_pairs = differences.iter().map(Vec::len).sum();
    let mut compared: Vec<Vec<LevelPair>> = differences
        .iter()
        .map(|pairs| {
            let pooled = Pooled::from_pairs(pairs);
            pairs.iter().filter_map(|pair| pair.compare(pooled, n_pairs)).collect()
        })
        .collect();
    let p: Vec<f64> = compared.iter().flatten().map(|pair| pair.p_adjusted).collect();
    for (pair, adjusted) in compared.iter_mut().flatten().zip(holm(&p)) {
        pair.p_adjusted = adjusted;
    }
    compared
}

/// The differences `b` minus `a` within blocks.
struct Differences {
    a: usize,
    b: usize,
    values: Vec<f64>,
}

fn differences(levels: &[LevelRuns]) -> Vec<Differences> {
    let mut pairs = Vec::new();
    for b in 1..levels.len() {
        for a in 0..b {
            let both = levels[a].iter().zip(&levels[b]);
            let values: Vec<f64> = both.filter_map(|(a, b)| Some((*b)? - (*a)?)).collect();
            if values.len() > 1 && values.iter().all(|value| value.is_finite()) {
                pairs.push(Differences { a, b, values });
            }
        }
    }
    pairs
}

/// The variance of a difference within a block, pooled over all pairs of a group.
#[derive(Clone, Copy)]
struct Pooled {
    variance: f64,
    df: f64,
    /// The quantile of Student's t with `df` for the intervals, which all pairs share: it is found by bisection.
    quantile: Option<f64>,
}

impl Pooled {
    /// The mean of the pairs' variances is twice the residual mean square of the two-way layout, whose degrees of
    /// freedom are `(levels - 1)(blocks - 1)`: 2 over the number of levels times the sum over pairs of `blocks - 1`.
    fn from_pairs(pairs: &[Differences]) -> Pooled {
        let levels: BTreeSet<usize> = pairs.iter().flat_map(|pair| [pair.a, pair.b]).collect();
        let freedom: f64 = pairs.iter().map(|pair| pair.values.len() as f64 - 1.0).sum();
        let squares: f64 = pairs.iter().map(|pair| squares(&pair.values)).sum();
        let df = 2.0 * freedom / levels.len().max(2) as f64;
        let quantile = student_t_quantile(0.5 + LEVEL / 2.0, df);
        Pooled { variance: squares / freedom.max(1.0), df, quantile }
    }
}

fn squares(values: &[f64]) -> f64 {
    let centre = mean(values).unwrap_or_default();
    values.iter().map(|value| (value - centre).powi(2)).sum()
}

impl Differences {
    /// The pair with its chance before correction.
    fn compare(&self, pooled: Pooled, n_pairs: usize) -> Option<LevelPair> {
        let n = self.values.len() as f64;
        let variance = pooled.variance.max(squares(&self.values) / (n - 1.0));
        let is_by_rank = self.values.len() >= PAIRS_MIN && (1.0 - n).exp2() * n_pairs as f64 <= CHANCE_MAX;
        let (log_ratio, p) = if is_by_rank {
            (centre(&self.values, LEVEL)?, signed_rank_p(&self.values)?)
        } else {
            let (point, error) = (mean(&self.values)?, (variance / n).sqrt());
            let half = pooled.quantile? * error;
            let p = match (point == 0.0, error > 0.0) {
                (true, _) => 1.0,
                (false, true) => 2.0 * student_t_cdf(-point.abs() / error, pooled.df)?,
                (false, false) => 0.0,
            };
            (Estimate { point, low: point - half, high: point + half, level: LEVEL }, p)
        };
        Some(LevelPair {
            a: self.a,
            b: self.b,
            n_blocks: self.values.len(),
            n_above: self.values.iter().filter(|value| **value > 0.0).count(),
            log_ratio,
            p_adjusted: p,
            spread: variance.sqrt(),
        })
    }
}
