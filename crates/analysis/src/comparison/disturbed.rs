//! Disturbances that hit one side of a comparison: the difference holds all of their effect, so its interval has their bounds.
//!
//! What hit both sides is in the spread of the pairs, and is not added.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{ComparedFigure, ComparedSide, Pairing};
use crate::finding::{Finding, Severity};
use crate::summary::RunSummary;
use crate::summary::uncertainty::{DisturbanceBounds, PRECISION};

/// A finding that casts doubt on runs, or can have changed their throughput by more than a result is expected to be off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DisturbedSides {
    /// Identifier of the finding.
    pub id: &'static str,
    /// Runs that have it, of A and of B.
    pub n: [usize; 2],
    /// Runs that count.
    pub of: [usize; 2],
}

/// What disturbed the runs of both sides that count: what most of them have comes first.
pub(crate) fn of_sides(sides: [ComparedSide; 2]) -> Vec<DisturbedSides> {
    let of = sides.map(|side| side.counting().count());
    let mut found: BTreeMap<&'static str, [usize; 2]> = BTreeMap::new();
    for (place, side) in sides.into_iter().enumerate() {
        for run in side.counting() {
            let mut ids: Vec<&str> = run.findings.iter().filter(|f| is_weighty(f)).map(|f| f.id).collect();
            ids.sort_unstable();
            ids.dedup();
            ids.into_iter().for_each(|id| found.entry(id).or_default()[place] += 1);
        }
    }
    let mut all: Vec<DisturbedSides> =
        found.into_iter().map(|(id, n)| DisturbedSides { id, n, of }).collect();
    all.sort_by_key(|one| std::cmp::Reverse(one.n[0] + one.n[1]));
    all
}

fn is_weighty(finding: &Finding) -> bool {
    finding.severity == Severity::Doubt || finding.effect.is_some_and(|effect| effect.change() > PRECISION)
}

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
