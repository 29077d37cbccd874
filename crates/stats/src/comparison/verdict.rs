//! Comparing B with A by pairs of runs: the estimate, the verdict, and when to stop.
//!
//! The whole procedure is held to its error rates by simulation (`crates/stats/tests/stats/simulation.rs`).

use crate::sample::estimate::Estimate;
use crate::{
    RepetitionError, RepetitionSpread, centre, detectable, n_for_half_width, sd, shift, student_t_quantile,
};

/// Fewest pairs that can give a verdict: with five, no result has a chance below 5 %.
pub const PAIRS_MIN: usize = 6;
/// Fewest runs on each side where they are not paired: with three and three, no result has a chance below 10 %.
pub const UNPAIRED_MIN: usize = 4;
/// Level of intervals.
const LEVEL: f64 = 0.95;
/// Level at which the interval is taken when its width decided when to stop, so that it holds at 95 %: stopping favours
/// samples whose spread is small by chance. Found by simulation: without it 5 to 7 % of identical programs differ.
const LEVEL_SEQUENTIAL: f64 = 0.96;
/// Chance with which the smallest difference that is called detectable is found.
const POWER: f64 = 0.8;

/// How the number of pairs was determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Design {
    /// The number of pairs was set before the first one.
    Fixed,
    /// It depended on the pairs: [`Precision`] or a time budget ended them.
    Sequential,
}

impl Design {
    /// Level at which intervals are taken so that 95 % of them hold the truth.
    pub fn level(self) -> f64 {
        match self {
            Design::Fixed => LEVEL,
            Design::Sequential => LEVEL_SEQUENTIAL,
        }
    }
}

/// The verdict on B in a comparison with A.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The figure is higher: the interval is above 1 and not all of it within the margin.
    Higher,
    /// The figure is lower: the interval is below 1 and not all of it within the margin.
    Lower,
    /// The whole interval is within the margin.
    Same,
    /// None of these.
    Unsure,
}

/// B against A.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// B over A, with its interval of 95 %.
    pub ratio: Estimate,
    /// The verdict for the requested margin.
    pub verdict: Verdict,
    /// Pairs; of runs that are not paired, the runs of the side that has fewer.
    pub n_pairs: usize,
    /// Degrees of freedom of the spread.
    pub df: f64,
    /// The share up to which a difference does not matter.
    pub margin: f64,
    /// Standard deviation of the logarithms of the pairs' ratios.
    pub spread: f64,
}

/// Compares by the logarithms of B over A, one for each pair.
///
/// The ratio is the Hodges-Lehmann estimate with the interval of the signed rank test ([`centre`]), which assumes
/// only that noise is symmetric: with a random order of A and B in each pair it is, whatever drifts or disturbs.
/// `margin` (0.02) is the share up to which a difference does not matter. `None` below [`PAIRS_MIN`] pairs.
pub fn compare_pairs(log_ratios: &[f64], margin: f64, design: Design) -> Option<Comparison> {
    if log_ratios.len() < PAIRS_MIN {
        return None;
    }
    let logs = Estimate { level: LEVEL, ..centre(log_ratios, design.level())? };
    let verdict = judge(&logs, margin.ln_1p());
    let spread = sd(log_ratios)?;
    let n_pairs = log_ratios.len();
    Some(Comparison { ratio: logs.map(f64::exp), verdict, n_pairs, df: n_pairs as f64 - 1.0, margin, spread })
}

/// Compares runs that were not made in pairs, by the logarithms of their figures: the shift with the interval of the
/// rank sum test ([`shift`]). Whatever changed between the runs of A and those of B is part of it: no statistic can
/// separate it. `None` below [`UNPAIRED_MIN`] runs on each side.
pub fn compare_unpaired(a_logs: &[f64], b_logs: &[f64], margin: f64) -> Option<Comparison> {
    if a_logs.len().min(b_logs.len()) < UNPAIRED_MIN {
        return None;
    }
    let logs = shift(a_logs, b_logs, LEVEL)?;
    let verdict = judge(&logs, margin.ln_1p());
    let spread = sd(a_logs)?.hypot(sd(b_logs)?);
    let df = (a_logs.len() + b_logs.len()) as f64 - 2.0;
    let n_pairs = a_logs.len().min(b_logs.len());
    Some(Comparison { ratio: logs.map(f64::exp), verdict, n_pairs, df, margin, spread })
}

impl Comparison {
    /// The same with errors that pairs do not show, each uniform between its bounds of the logarithm of the true ratio over the
    /// measured one. The interval is that of the sum of these and of Student's distribution with the interval of the pairs
    /// (JCGM 101:2008); it holds the estimate, which stays. `None` unless both can be computed.
    pub fn with_errors(&self, bounds: &[[f64; 2]]) -> Option<Comparison> {
        let logs = self.ratio.map(f64::ln);
        let scale = logs.half_width() / student_t_quantile(0.5 + LEVEL / 2.0, self.df)?;
        let spread = RepetitionSpread::new(RepetitionError { scale, df: self.df })?;
        let sum = spread.sum_interval(bounds, LEVEL)?;
        let middle = 0.5 * (logs.low + logs.high);
        let (low, high) = ((middle + sum.low).min(logs.point), (middle + sum.high).max(logs.point));
        let logs = Estimate { low, high, ..logs };
        Some(Comparison { ratio: logs.map(f64::exp), verdict: judge(&logs, self.margin.ln_1p()), ..*self })
    }

    /// The smallest difference, as a share of A, that so many pairs with this spread find in 4 of 5 comparisons.
    pub fn detectable(&self) -> Option<f64> {
        let error = self.ratio.map(f64::ln).half_width() / student_t_quantile(0.5 + LEVEL / 2.0, self.df)?;
        Some(detectable(error, self.df, LEVEL, POWER)?.exp_m1())
    }

    /// About how many more pairs would give a verdict if the estimate stays where it is: the interval must then either
    /// leave 1 outside or fit into the margin, whichever is easier. `None` where there is a verdict, and beyond
    /// 100,000.
    pub fn more_pairs(&self) -> Option<usize> {
        if self.verdict != Verdict::Unsure {
            return None;
        }
        let distance = self.ratio.point.ln().abs();
        let half_width = distance.max(self.margin.ln_1p() - distance);
        let n = n_for_half_width(self.spread, half_width, LEVEL)?;
        Some(n.saturating_sub(self.n_pairs).max(1))
    }
}

/// The verdict on an interval of logarithms; the margin is one too.
fn judge(logs: &Estimate, margin: f64) -> Verdict {
    if logs.low >= -margin && logs.high <= margin {
        Verdict::Same
    } else if logs.low > 0.0 {
        Verdict::Higher
    } else if logs.high < 0.0 {
        Verdict::Lower
    } else {
        Verdict::Unsure
    }
}

/// When pairs suffice: stop on the width of the interval, then test once.
///
/// The width says nothing about the sign of the difference, so looking at it keeps the error rate of the test, where
/// looking at the test itself does not (8 to 19 % instead of 5 %). It is only looked at after 6, 8, 11, 15, 20, 27
/// pairs and so on, and the interval is that of [`Design::Sequential`]: both together keep the error rate in every
/// world of the simulation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Precision {
    /// Largest half width of the ratio's interval, as a share: 0.01 for ±1 %.
    pub half_width: f64,
}

impl Precision {
    /// Whether the pairs so far are precise enough, and their number is one at which to look.
    pub fn is_reached(&self, log_ratios: &[f64]) -> bool {
        is_look(log_ratios.len())
            && centre(log_ratios, LEVEL_SEQUENTIAL).is_some_and(|logs| logs.half_width() <= self.half_width)
    }
}

/// Whether the width is looked at after `n` pairs: each number is a third larger than the one before.
fn is_look(n: usize) -> bool {
    let mut look = PAIRS_MIN;
    while look < n {
        look = (look * 4).div_ceil(3);
    }
    look == n
}
