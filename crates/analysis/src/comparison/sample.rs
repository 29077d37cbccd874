//! The values behind a ratio: the figure of each run, or of each slice.

use model::load::duet::{Duet, SlicePair};
use serde::Serialize;

use super::ComparedFigure;
use crate::summary::RunSummary;

/// The values of one figure: transactions per second, or nanoseconds. Runs without the figure are left out, with their
/// partners if they have any.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FigureSample {
    /// Numbers of the pairs, in order: blocks, or slices or rounds from 1 on. Empty if runs are not paired; otherwise
    /// as long as each of the other lists.
    pub pairs: Vec<u32>,
    /// Values of A.
    pub a: Vec<f64>,
    /// Values of B.
    pub b: Vec<f64>,
    /// B over A of each pair.
    pub ratios: Vec<f64>,
}

impl FigureSample {
    /// A sample of runs that are paired by their index in both lists.
    pub(crate) fn of_blocks(figure: ComparedFigure, a: &[&RunSummary], b: &[&RunSummary]) -> FigureSample {
        let mut sample = FigureSample::default();
        for (a, b) in a.iter().zip(b) {
            let (Some(of_a), Some(of_b)) = (known(figure, a), known(figure, b)) else { continue };
            sample.push(a.block, of_a, of_b, of_b / of_a);
        }
        sample
    }

    /// A sample of unpaired runs.
    pub(crate) fn of_runs(figure: ComparedFigure, a: &[&RunSummary], b: &[&RunSummary]) -> FigureSample {
        let values = |runs: &[&RunSummary]| runs.iter().filter_map(|run| known(figure, run)).collect();
        FigureSample { a: values(a), b: values(b), ..FigureSample::default() }
    }

    /// The throughput of a duet's slices.
    pub(crate) fn of_slices(duet: &Duet) -> FigureSample {
        let mut sample = FigureSample::default();
        for (pair, number) in duet.pairs.iter().zip(1..) {
            let tps = |n: u64| slice_tps(duet, n);
            sample.push(number, tps(pair.a), tps(pair.b), pair.log_ratio().exp());
        }
        sample
    }

    /// The throughput of a duet's rounds: each side's mean over the round's slices, and the round's ratio, whose
    /// logarithms are `log_ratios`.
    pub(crate) fn of_rounds(duet: &Duet, log_ratios: &[f64]) -> FigureSample {
        let mut sample = FigureSample::default();
        for (pairs, log_ratio) in duet.by_round().iter().zip(log_ratios) {
            let mean =
                |of: fn(&SlicePair) -> u64| slice_tps(duet, pairs.iter().map(of).sum()) / pairs.len() as f64;
            sample.push(pairs[0].round, mean(|pair| pair.a), mean(|pair| pair.b), log_ratio.exp());
        }
        sample
    }

    fn push(&mut self, pair: u32, a: f64, b: f64, ratio: f64) {
        self.pairs.push(pair);
        self.a.push(a);
        self.b.push(b);
        self.ratios.push(ratio);
    }
}

/// Transactions of a slice per second of it that counts.
pub(crate) fn slice_tps(duet: &Duet, n: u64) -> f64 {
    n as f64 / (f64::from(duet.slicing.slice_ms - duet.slicing.guard_ms) / 1000.0)
}

/// The figure of a run, if it is usable: nothing is a multiple of zero throughput.
fn known(figure: ComparedFigure, run: &RunSummary) -> Option<f64> {
    figure.of(run).filter(|value| *value > 0.0)
}
