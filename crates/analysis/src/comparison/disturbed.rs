//! Disturbances that hit one side of a comparison: the difference holds all of their effect, so its interval has their bounds.
//!
//! What hit both sides is in the spread of the pairs, and is not added.

use super::{ComparedFigure, ComparedSide, Pairing};
use crate::summary::RunSummary;
use crate::summary::uncertainty::DisturbanceBounds;

/// The rows of the budgets that one side has, with their bounds on both.
#[derive(Debug, Default)]
pub(crate) struct OneSided<'a> {
    rows: Vec<&'static str>,
    sides: [Vec<&'a RunSummary>; 2],
}

/// Whether an interval of this kind can hold them: each round of a duet has a ratio of its own, which no side's bounds describe.
pub(crate) fn are_held(pairing: Pairing) -> bool {
    pairing != Pairing::RoundsApart
}

impl<'a> OneSided<'a> {
    /// Those rows, of the runs that count.
    pub(crate) fn new(rows: Vec<&'static str>, sides: [ComparedSide<'a>; 2]) -> OneSided<'a> {
        OneSided { rows, sides: sides.map(|side| side.counting().collect()) }
    }

    /// Bounds of the logarithm of the undisturbed ratio over the measured one, for each row and side: the undisturbed figure of B counts
    /// up, that of A down.
    pub(crate) fn bounds(&self, figure: ComparedFigure) -> Vec<[f64; 2]> {
        let [a, b] = &self.sides;
        let each = self.rows.iter().flat_map(|id| {
            let [low, high] = mean(a, id, figure);
            [[-high, -low], mean(b, id, figure)]
        });
        each.filter(|[low, high]| low < high).collect()
    }
}

/// The mean over the runs, as a case's budget has it.
fn mean(runs: &[&RunSummary], id: &str, figure: ComparedFigure) -> [f64; 2] {
    let of_run = |run: &&RunSummary| {
        let found = run.bounds.iter().find(|bounds| bounds.id == id);
        found.map_or([0.0, 0.0], |bounds| of_figure(bounds, figure))
    };
    let sum = runs.iter().map(of_run).fold([0.0, 0.0], |sum, one| [sum[0] + one[0], sum[1] + one[1]]);
    sum.map(|end| end / runs.len().max(1) as f64)
}

fn of_figure(bounds: &DisturbanceBounds, figure: ComparedFigure) -> [f64; 2] {
    match figure {
        ComparedFigure::Throughput => bounds.throughput,
        ComparedFigure::P50 => bounds.p50,
        // It lies between both.
        ComparedFigure::P95 => [bounds.p50[0].min(bounds.p99[0]), bounds.p50[1].max(bounds.p99[1])],
        ComparedFigure::P99 => bounds.p99,
        ComparedFigure::Ratio => [0.0, 0.0],
    }
}
