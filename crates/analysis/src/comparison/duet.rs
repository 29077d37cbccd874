//! Comparing the two sides of a duet, by its pairs of slices.

use model::duet::{Duet, SlicePair};
use stats::Design;

use super::{
    Beside, CaseComparison, Figure, FigureComparison, Pairing, Pairs, Ratio, Sample, Side, assemble, ratio,
    sample,
};

/// Compares B with A by the slices that each had; `margin` is a share ([`super::MARGIN`]).
///
/// The order within each pair was drawn by lot, so that under equal servers B over A is as likely up as down by the same
/// share, whatever happens to the machine: all that the signed rank test asks.
pub fn compare_duet(a: Side, b: Side, duet: &Duet, margin: f64) -> CaseComparison {
    let median = |of: fn(&SlicePair) -> u64| {
        stats::median(&duet.pairs.iter().map(|pair| sample::slice_tps(duet, of(pair))).collect::<Vec<f64>>())
    };
    let throughput = FigureComparison {
        figure: Figure::Throughput,
        a_median: median(|pair| pair.a),
        b_median: median(|pair| pair.b),
        result: of_logs(duet, SlicePair::log_ratio, margin),
        sample: Sample::of_slices(duet),
    };
    let carry_over = of_logs(duet, SlicePair::log_second_over_first, margin);
    let n_pairs = duet.pairs.len();
    let design = Pairs {
        pairing: Pairing::Slices,
        n_pairs,
        without_figure: Vec::new(),
        margin,
        carry_over,
        beside: Beside::default(),
    };
    assemble(a, b, design, vec![throughput])
}

fn of_logs(duet: &Duet, log: fn(&SlicePair) -> f64, margin: f64) -> Option<Ratio> {
    let logs: Vec<f64> = duet.pairs.iter().map(log).collect();
    let comparison = stats::compare_pairs(&logs, margin, Design::Fixed)?;
    Some(ratio(Figure::Throughput, comparison, stats::signed_rank_p(&logs)?))
}
