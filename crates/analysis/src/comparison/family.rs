//! Ratios that are compared as one family of tests: many figures at once, of which chance must not make one differ.
//!
//! Holm's correction keeps the chance that any of a family differs only by chance at 5 %.

use serde::Serialize;
use stats::Design;

use super::{BY_STUDENTS_T, Pairing, compare_logs};

/// The verdict on a figure of B of which less is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FamilyVerdict {
    /// B has more of it: its transactions cost more, or take longer.
    More,
    /// B has less of it.
    Less,
    /// No difference larger than the margin.
    Same,
    /// The interval is too wide for a verdict, or chance among so many figures explains it.
    Unsure,
}

impl FamilyVerdict {
    /// The word in files.
    pub fn as_str(self) -> &'static str {
        match self {
            FamilyVerdict::More => "more",
            FamilyVerdict::Less => "less",
            FamilyVerdict::Same => "same",
            FamilyVerdict::Unsure => "unsure",
        }
    }
}

/// A ratio with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FamilyRatio {
    /// B over A.
    pub ratio: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Two-sided chance of such a difference between identical servers: Student's t.
    pub p: f64,
    /// The same after Holm's correction for the whole family: all such figures of all cases.
    pub p_adjusted: f64,
    /// The smallest difference, as a share, that 4 of 5 such comparisons would detect.
    pub detectable: Option<f64>,
}

/// Largest adjusted chance of a difference that is called one.
const SIGNIFICANT: f64 = 0.05;

impl FamilyRatio {
    /// The ratio of two samples of logarithms, not yet adjusted; `None` with too few.
    ///
    /// The interval by ranks, and the chance by Student's t: six pairs have no ranks rarer than one in 32, so that after a correction for
    /// ten figures no difference would count. Both must say that there is one.
    pub(crate) fn new(
        a: &[f64],
        b: &[f64],
        pairing: Pairing,
        design: Design,
        margin: f64,
    ) -> Option<FamilyRatio> {
        let (comparison, p) = compare_logs(a, b, pairing, margin, design, BY_STUDENTS_T)?;
        let detectable = comparison.detectable();
        let stats::Estimate { point, low, high, .. } = comparison.ratio;
        Some(FamilyRatio { ratio: point, low, high, p, p_adjusted: p, detectable })
    }

    /// The verdict if differences up to this share did not matter.
    pub fn verdict_at(&self, margin: f64) -> FamilyVerdict {
        let FamilyRatio { low, high, p_adjusted, .. } = *self;
        let is_within = low >= 1.0 / (1.0 + margin) && high <= 1.0 + margin;
        let is_chance = p_adjusted > SIGNIFICANT;
        match (low > 1.0, high < 1.0) {
            _ if is_within => FamilyVerdict::Same,
            (true, _) if !is_chance => FamilyVerdict::More,
            (_, true) if !is_chance => FamilyVerdict::Less,
            _ => FamilyVerdict::Unsure,
        }
    }
}

/// Holm's correction over a whole family.
pub(crate) fn adjust<'a>(family: impl Iterator<Item = &'a mut FamilyRatio>) {
    let mut family: Vec<&mut FamilyRatio> = family.collect();
    let p: Vec<f64> = family.iter().map(|ratio| ratio.p).collect();
    family.iter_mut().zip(stats::holm(&p)).for_each(|(ratio, adjusted)| ratio.p_adjusted = adjusted);
}
