//! Compares the two sides of a duet by its pairs of slices.

use model::load::duet::{Duet, SlicePair};
use stats::{Design, PAIRS_MIN};

use super::comparison::{Pairs, assemble};
use crate::comparison::{
    CaseComparison, Figure, FigureComparison, Pairing, Purpose, Sample, Samples, Side, Supplement, ratio,
};

/// Compares B with A by their slices; `margin` is a share ([`crate::comparison::MARGIN`]).
///
/// The order within each pair is random, so that with equal servers B over A is as likely to be up as down by the same
/// share, whatever happens to the machine: the signed rank test requires no more. If servers were restarted in several
/// rounds, slices of one round share the effects of that start, and the round is the unit: each gives one ratio, the
/// centre of its pairs, and these are compared (analysis of clusters by their summaries, Donner and Klar 2000, 6.2;
/// Kalibera and Jones 2013, 6: the interval comes from the highest level that varies). With too few rounds for that,
/// slices decide, and whatever lasts as long as a server runs is part of the difference. A round in which a side does
/// not count is left out.
pub fn compare_duet(a: Side, b: Side, duet: &Duet, margin: f64) -> CaseComparison {
    let duet = &counting(a, b, duet);
    let rounds = duet.by_round();
    let pairing = if rounds.len() >= PAIRS_MIN { Pairing::Rounds } else { Pairing::Slices };
    let logs = |log: fn(&SlicePair) -> f64| -> Vec<f64> {
        match pairing {
            Pairing::Rounds => rounds.iter().filter_map(|pairs| centre_of(pairs, log)).collect(),
            _ => duet.pairs.iter().map(log).collect(),
        }
    };
    let of_logs = |logs: &[f64]| {
        let comparison = stats::compare_pairs(logs, margin, Design::Fixed)?;
        Some(ratio(Figure::Throughput, comparison, stats::signed_rank_p(logs)?))
    };
    let ratios = logs(SlicePair::log_ratio);
    let sample = match pairing {
        Pairing::Rounds => Sample::of_rounds(duet, &ratios),
        _ => Sample::of_slices(duet),
    };
    // Slices of one round resemble each other more than those of other rounds.
    let throughput = FigureComparison {
        figure: Figure::Throughput,
        a_median: stats::median(&sample.a),
        b_median: stats::median(&sample.b),
        result: of_logs(&ratios),
        sample,
    };
    let carry_over = of_logs(&logs(SlicePair::log_second_over_first));
    let design = Pairs {
        purpose: Purpose::Change,
        pairing,
        n: [ratios.len(); 2],
        without_figure: Vec::new(),
        margin,
        carry_over,
        supplement: Supplement::default(),
    };
    assemble(a, b, design, vec![throughput])
}

/// The duet without rounds in which a side does not count: a round counts as a whole or not at all, like a pair of
/// runs.
fn counting(a: Side, b: Side, duet: &Duet) -> Duet {
    let paired = Samples::paired(a, b);
    let mut duet = duet.clone();
    duet.pairs.retain(|pair| paired.a.iter().any(|run| run.block == pair.round));
    duet
}

/// The Hodges-Lehmann centre of a round's pairs, which a slice without transactions hardly moves.
fn centre_of(pairs: &[SlicePair], log: fn(&SlicePair) -> f64) -> Option<f64> {
    let logs: Vec<f64> = pairs.iter().map(log).collect();
    stats::centre(&logs, LEVEL).map(|centre| centre.point).or_else(|| stats::median(&logs))
}

/// The interval of the centre is not used.
const LEVEL: f64 = 0.95;
