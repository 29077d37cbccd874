//! What a transaction costs, B against A: figures that a neighbour's noise hardly moves, so that few runs decide.

use serde::Serialize;
use stats::Design;

use super::{BY_STUDENTS_T, Pairing, Samples, compare_logs};
use crate::cost::{COSTS, CostRow};
use crate::summary::RunSummary;

/// The verdict on a cost of B.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CostVerdict {
    /// B's transactions cost more.
    More,
    /// B's transactions cost less.
    Less,
    /// No difference larger than the margin.
    Same,
    /// The interval is too wide for a verdict, or chance among so many costs explains it.
    Unsure,
}

/// B over A for one cost.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CostComparison {
    /// Name of the cost: a row of [`COSTS`].
    pub id: &'static str,
    /// Median of A's runs, per committed transaction.
    pub a_median: f64,
    /// Median of B's runs.
    pub b_median: f64,
    /// Pairs, or runs of the side with fewer, that have it.
    pub n_pairs: usize,
    /// The share up to which a difference does not matter.
    pub margin: f64,
    /// The ratio, with next to nothing counted as the least that somebody asks for; `None` with too few pairs, or if both sides have next to
    /// nothing.
    pub result: Option<CostRatio>,
    /// The verdict; `None` without a ratio.
    pub verdict: Option<CostVerdict>,
}

/// A ratio with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CostRatio {
    /// B over A.
    pub ratio: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Two-sided chance of such a difference between identical servers: Student's t.
    pub p: f64,
    /// The same after Holm's correction for all costs of all cases.
    pub p_adjusted: f64,
    /// The smallest difference, as a share, that 4 of 5 such comparisons would detect.
    pub detectable: Option<f64>,
}

/// Largest adjusted chance of a difference that is called one.
const SIGNIFICANT: f64 = 0.05;

impl CostComparison {
    /// The row of the cost.
    pub fn row(&self) -> Option<&'static CostRow> {
        crate::cost::row(self.id)
    }

    /// Whether both sides have too little of it for anybody to ask.
    pub fn is_negligible(&self) -> bool {
        self.row().is_some_and(|row| self.a_median.max(self.b_median) < row.least)
    }

    /// The verdict if differences up to this share did not matter.
    pub fn verdict_at(&self, margin: f64) -> Option<CostVerdict> {
        if self.is_negligible() {
            return Some(CostVerdict::Same);
        }
        let CostRatio { low, high, p_adjusted, .. } = self.result?;
        let is_within = low >= 1.0 / (1.0 + margin) && high <= 1.0 + margin;
        let is_chance = p_adjusted > SIGNIFICANT;
        Some(match (low > 1.0, high < 1.0) {
            _ if is_within => CostVerdict::Same,
            (true, _) if !is_chance => CostVerdict::More,
            (_, true) if !is_chance => CostVerdict::Less,
            _ => CostVerdict::Unsure,
        })
    }
}

/// All costs that both sides have, without verdicts, which [`judge`] gives.
pub(crate) fn compare(samples: &Samples, pairing: Pairing, design: Design) -> Vec<CostComparison> {
    COSTS.iter().filter_map(|row| of_row(row, samples, pairing, design)).collect()
}

fn of_row(row: &CostRow, samples: &Samples, pairing: Pairing, design: Design) -> Option<CostComparison> {
    let (a, b) = values(row, samples, pairing);
    let (a_median, b_median) = (stats::median(&a)?, stats::median(&b)?);
    // Nothing is a multiple of zero, and next to nothing counts as the least that somebody asks for.
    let logs = |values: &[f64]| values.iter().map(|value| value.max(row.least).ln()).collect::<Vec<f64>>();
    let (log_a, log_b) = (logs(&a), logs(&b));

    let mut compared = CostComparison {
        id: row.id,
        a_median,
        b_median,
        n_pairs: a.len().min(b.len()),
        margin: row.margin,
        result: None,
        verdict: None,
    };
    if !compared.is_negligible() {
        compared.result = ratio(&log_a, &log_b, pairing, design, row.margin);
    }
    Some(compared)
}

/// Values of A and of B; in pairs, of those pairs whose runs both have it.
fn values(row: &CostRow, samples: &Samples, pairing: Pairing) -> (Vec<f64>, Vec<f64>) {
    if pairing.is_paired() {
        let both = samples.a.iter().zip(&samples.b);
        let values = both.filter_map(|(a, b)| {
            let n = transactions_of_all(&[a, b]);
            value(row, a, n).zip(value(row, b, n))
        });
        return values.unzip();
    }
    let all: Vec<&RunSummary> = samples.a.iter().chain(&samples.b).copied().collect();
    let n = transactions_of_all(&all);
    let of = |runs: &[&RunSummary]| runs.iter().filter_map(|run| value(row, run, n)).collect();
    (of(&samples.a), of(&samples.b))
}

/// A run's cost; over its first `n` transactions where it depends on their number: a page is written to the WAL as a whole once after a
/// checkpoint, so that whoever commits more writes fewer images for each.
fn value(row: &CostRow, run: &RunSummary, n: Option<f64>) -> Option<f64> {
    let Some((at_work, n)) = row.at_work.zip(n) else { return run.cost(row.id) };
    let points: Vec<(f64, f64)> =
        run.work.iter().map(|work| Some((work.committed, at_work(work)?))).collect::<Option<_>>()?;
    Some(interpolated(&points, n)? / n)
}

/// The most transactions that each of these runs committed, if their work is known.
fn transactions_of_all(runs: &[&RunSummary]) -> Option<f64> {
    let ends = runs.iter().map(|run| run.work.last().map(|work| work.committed).filter(|n| *n > 0.0));
    ends.collect::<Option<Vec<f64>>>()?.into_iter().min_by(f64::total_cmp)
}

/// The ordinate at `x` between points whose abscissas grow, the first of which follows the origin.
fn interpolated(points: &[(f64, f64)], x: f64) -> Option<f64> {
    let after = points.iter().position(|point| point.0 >= x)?;
    let (x_0, y_0) = after.checked_sub(1).map_or((0.0, 0.0), |before| points[before]);
    let (x_1, y_1) = points[after];
    Some(if x_1 > x_0 { y_0 + (y_1 - y_0) * (x - x_0) / (x_1 - x_0) } else { y_1 })
}

/// The interval by ranks, and the chance by Student's t: six pairs have no ranks rarer than one in 32, so that after a correction for ten
/// costs no difference would count. Both must say that there is one.
fn ratio(a: &[f64], b: &[f64], pairing: Pairing, design: Design, margin: f64) -> Option<CostRatio> {
    let (comparison, p) = compare_logs(a, b, pairing, margin, design, BY_STUDENTS_T)?;
    let detectable = comparison.detectable();
    let stats::Estimate { point, low, high, .. } = comparison.ratio;
    Some(CostRatio { ratio: point, low, high, p, p_adjusted: p, detectable })
}

/// Gives all costs of all cases their verdicts, after Holm's correction: they are one family of tests.
pub(crate) fn judge<'a>(costs: impl Iterator<Item = &'a mut CostComparison>) {
    let mut costs: Vec<&mut CostComparison> = costs.collect();
    let p: Vec<f64> = costs.iter().filter_map(|cost| Some(cost.result?.p)).collect();
    let ratios = costs.iter_mut().filter_map(|cost| cost.result.as_mut());
    ratios.zip(stats::holm(&p)).for_each(|(ratio, adjusted)| ratio.p_adjusted = adjusted);
    costs.iter_mut().for_each(|cost| cost.verdict = cost.verdict_at(cost.margin));
}
