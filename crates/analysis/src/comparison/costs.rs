//! What a transaction costs, B against A: figures that a neighbour's noise hardly moves, so that few runs decide.

use serde::Serialize;
use stats::Design;

use super::family::{self, FamilyRatio, FamilyVerdict};
use super::{Pairing, Samples};
use crate::cost::{COSTS, CostRow};
use crate::summary::RunSummary;

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
    pub result: Option<FamilyRatio>,
    /// The verdict; `None` without a ratio.
    pub verdict: Option<FamilyVerdict>,
}

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
    pub fn verdict_at(&self, margin: f64) -> Option<FamilyVerdict> {
        if self.is_negligible() {
            return Some(FamilyVerdict::Same);
        }
        Some(self.result?.verdict_at(margin))
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
        compared.result = FamilyRatio::new(&log_a, &log_b, pairing, design, row.margin);
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

/// Gives all costs of all cases their verdicts, after Holm's correction: they are one family of tests.
pub(crate) fn judge<'a>(costs: impl Iterator<Item = &'a mut CostComparison>) {
    let mut costs: Vec<&mut CostComparison> = costs.collect();
    family::adjust(costs.iter_mut().filter_map(|cost| cost.result.as_mut()));
    costs.iter_mut().for_each(|cost| cost.verdict = cost.verdict_at(cost.margin));
}
