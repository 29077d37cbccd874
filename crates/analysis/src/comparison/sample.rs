//! What a ratio was computed from, for those who want to see it: the figure of each run, or of each slice.

use model::load::duet::{Duet, SlicePair};
use serde::Serialize;

use super::Figure;
use crate::summary::RunSummary;

/// The values of one figure: transactions per second, or nanoseconds. Those that lack the figure are left out, with their
/// partners if they have some.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Sample {
    /// Numbers of the pairs, in order: blocks, or slices or rounds from 1 on. Empty where runs are not paired; else there are as
    /// many as in each of the others.
    pub pairs: Vec<u32>,
    /// Values of A.
    pub a: Vec<f64>,
    /// Values of B.
    pub b: Vec<f64>,
    /// B over A of each pair.
    pub ratios: Vec<f64>,
}

impl Sample {
    /// Of runs that are paired by their place in both lists.
    pub(crate) fn of_blocks(figure: Figure, a: &[&RunSummary], b: &[&RunSummary]) -> Sample {
        let mut sample = Sample::default();
        for (a, b) in a.iter().zip(b) {
            let (Some(of_a), Some(of_b)) = (known(figure, a), known(figure, b)) else { continue };
            sample.push(a.block, (of_a, of_b), of_b / of_a);
        }
        sample
    }

    /// A sample of unpaired runs.
    pub(crate) fn of_runs(figure: Figure, a: &[&RunSummary], b: &[&RunSummary]) -> Sample {
        let values = |runs: &[&RunSummary]| runs.iter().filter_map(|run| known(figure, run)).collect();
        Sample { a: values(a), b: values(b), ..Sample::default() }
    }

    /// Of the slices of a duet, throughput.
    pub(crate) fn of_slices(duet: &Duet) -> Sample {
        let mut sample = Sample::default();
        for (pair, number) in duet.pairs.iter().zip(1..) {
            let tps = |n: u64| slice_tps(duet, n);
            sample.push(number, (tps(pair.a), tps(pair.b)), pair.log_ratio().exp());
        }
        sample
    }

    /// Of the rounds of a duet, throughput: each side's mean over the round's slices, and the round's ratio, of which
    /// `log_ratios` are the logarithms.
    pub(crate) fn of_rounds(duet: &Duet, log_ratios: &[f64]) -> Sample {
        let mut sample = Sample::default();
        for (pairs, log_ratio) in duet.by_round().iter().zip(log_ratios) {
            let mean =
                |of: fn(&SlicePair) -> u64| slice_tps(duet, pairs.iter().map(of).sum()) / pairs.len() as f64;
            sample.push(pairs[0].round, (mean(|pair| pair.a), mean(|pair| pair.b)), log_ratio.exp());
        }
        sample
    }

    fn push(&mut self, pair: u32, (a, b): (f64, f64), ratio: f64) {
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

/// Nothing is a multiple of no throughput.
fn known(figure: Figure, run: &RunSummary) -> Option<f64> {
    figure.of(run).filter(|value| *value > 0.0)
}
