//! Compares the two sides of a duet by its pairs of slices.

use model::load::duet::{Duet, SlicePair};
use stats::{Design, PAIRS_MIN};

use super::comparison::{Pairs, assemble, lead, one_sided};
use crate::comparison::{
    CaseComparison, ComparedFigure, ComparedSide, ComparisonPurpose, CostComparison, Difference,
    FigureComparison, FigureSample, Pairing, Samples, ScriptComparison, StatementCriteria,
    StatementsCompared, Supplement, costs, ratio, scripts, statements, with_errors,
};
use crate::finding::{Finding, Grade};
use crate::summary::RunSummary;

/// Compares B with A by their slices; `margin` is a share ([`crate::comparison::MARGIN`]).
///
/// The order within each pair is random, so that with equal servers B over A is as likely to be up as down by the same
/// share, whatever happens to the machine: the signed rank test requires no more. If servers were restarted in several
/// rounds, slices of one round share the effects of that start, and the round is the unit: each gives one ratio, the
/// centre of its pairs, and these are compared (analysis of clusters by their summaries, Donner and Klar 2000, 6.2;
/// Kalibera and Jones 2013, 6: the interval comes from the highest level that varies). With too few rounds for that,
/// slices decide, and whatever lasts as long as a server runs is part of the difference. A round in which a side does
/// not count is left out.
pub fn compare_duet(a: ComparedSide, b: ComparedSide, duet: &Duet, margin: f64) -> CaseComparison {
    let duet = &counting(a, b, duet);
    let rounds = duet.by_round();
    let pairing = if rounds.len() >= PAIRS_MIN { Pairing::Rounds } else { Pairing::Slices };
    let logs = |log: fn(&SlicePair) -> f64| -> Vec<f64> {
        match pairing {
            Pairing::Rounds => rounds.iter().filter_map(|pairs| centre_of(pairs, log)).collect(),
            _ => duet.pairs.iter().map(log).collect(),
        }
    };
    let of_logs = |logs: &[f64], bounds: &[[f64; 2]]| {
        let comparison = with_errors(stats::compare_pairs(logs, margin, Design::Fixed)?, bounds);
        Some(ratio(ComparedFigure::Throughput, comparison, stats::signed_rank_p(logs)?))
    };
    let bounds = one_sided(a, b, pairing).bounds(ComparedFigure::Throughput);
    let ratios = logs(SlicePair::log_ratio);
    let sample = match pairing {
        Pairing::Rounds => FigureSample::of_rounds(duet, &ratios),
        _ => FigureSample::of_slices(duet),
    };
    // Slices of one round resemble each other more than those of other rounds.
    let (a_median, b_median) = (stats::median(&sample.a), stats::median(&sample.b));
    let throughput = FigureComparison::new(
        ComparedFigure::Throughput,
        a_median,
        b_median,
        of_logs(&ratios, &bounds),
        sample,
        pairing,
    );
    let carry_over = of_logs(&logs(SlicePair::log_second_over_first), &[]);
    let ByRounds { costs, scripts, statements } = by_rounds(a, b, duet, margin);
    let design = Pairs {
        purpose: ComparisonPurpose::Change,
        pairing,
        n: [ratios.len(); 2],
        lead: lead(a),
        without_figure: Vec::new(),
        margin,
        carry_over,
        supplement: Supplement::default(),
        costs,
        outages: Vec::new(),
        scripts,
        statements,
    };
    assemble(a, b, design, vec![throughput])
}

/// What is compared round by round: counters of a server and times of transactions are those of whole rounds.
struct ByRounds {
    costs: Vec<CostComparison>,
    scripts: Vec<ScriptComparison>,
    statements: StatementsCompared,
}

/// What transactions cost, and how long those of each script and each statement take.
fn by_rounds(a: ComparedSide, b: ComparedSide, duet: &Duet, margin: f64) -> ByRounds {
    let mut samples = Samples::paired(a, b);
    let is_counted = |run: &&RunSummary| duet.pairs.iter().any(|pair| pair.round == run.block);
    samples.a.retain(is_counted);
    samples.b.retain(is_counted);
    let mut costs = costs::compare(&samples, Pairing::Rounds, Design::Fixed);
    costs::judge(costs.iter_mut());
    let mut scripts = scripts::compare(&samples, Pairing::Rounds, Design::Fixed, margin);
    scripts::judge(std::iter::once(&mut scripts));
    let criteria = StatementCriteria { pairing: Pairing::Rounds, design: Design::Fixed, margin };
    let mut statements = statements::compare(&samples, criteria);
    statements::judge(std::iter::once(&mut statements));
    ByRounds { costs, scripts, statements }
}

/// A duet with its sides.
#[derive(Debug, Clone, Copy)]
pub struct PlayedDuet<'a> {
    /// A and B.
    pub sides: [ComparedSide<'a>; 2],
    /// The transactions of their slices.
    pub duet: &'a Duet,
}

impl PlayedDuet<'_> {
    /// The ratio of each round that counts, as a logarithm.
    fn log_ratios(self) -> Vec<f64> {
        let [a, b] = self.sides;
        let duet = counting(a, b, self.duet);
        duet.by_round().iter().filter_map(|pairs| centre_of(pairs, SlicePair::log_ratio)).collect()
    }

    /// B against A.
    fn label(self) -> String {
        let [a, b] = self.sides.map(ComparedSide::label);
        format!("{b} against {a}")
    }
}

/// Compares the ratio that a duet found, here A, with that of its repetition, B; `margin` as for [`compare_duet`].
///
/// Each round gives one ratio, in which what disturbed both servers cancels. Rounds of the two duets are not paired: the rank sum test
/// compares them, from four on each side. With fewer there is no verdict. Slices do not replace them, because all slices of a
/// round share what its servers' start decided, which the repetition decides again.
pub fn compare_duet_repeat(a: PlayedDuet, b: PlayedDuet, margin: f64) -> CaseComparison {
    let (of_a, of_b) = (a.log_ratios(), b.log_ratios());
    let result = stats::compare_unpaired(&of_a, &of_b, margin).zip(stats::rank_sum_p(&of_a, &of_b));
    let [ratios_a, ratios_b] =
        [&of_a, &of_b].map(|logs| logs.iter().map(|log| log.exp()).collect::<Vec<f64>>());
    let (a_median, b_median) = (stats::median(&ratios_a), stats::median(&ratios_b));
    let result = result.map(|(comparison, p)| ratio(ComparedFigure::Ratio, comparison, p));
    let sample = FigureSample { a: ratios_a, b: ratios_b, ..FigureSample::default() };
    let figure = FigureComparison::new(
        ComparedFigure::Ratio,
        a_median,
        b_median,
        result,
        sample,
        Pairing::RoundsApart,
    );
    // What differs between a side and its repetition casts doubt on the ratio of both.
    let of_side = |side: usize| {
        let design = Pairs {
            purpose: ComparisonPurpose::Repeat,
            pairing: Pairing::RoundsApart,
            n: [of_a.len(), of_b.len()],
            lead: ComparedFigure::Ratio,
            without_figure: Vec::new(),
            margin,
            carry_over: None,
            supplement: Supplement::default(),
            costs: Vec::new(),
            outages: Vec::new(),
            scripts: Vec::new(),
            statements: StatementsCompared::default(),
        };
        assemble(a.sides[side], b.sides[side], design, vec![figure.clone()])
    };
    let mut whole = joined(of_side(0), of_side(1));
    (whole.a, whole.b) = (a.label(), b.label());
    whole
}

/// Adds the differences and findings of another comparison.
fn joined(mut one: CaseComparison, other: CaseComparison) -> CaseComparison {
    let add = |list: &mut Vec<Difference>, more: Vec<Difference>| {
        for difference in more {
            if !list.contains(&difference) {
                list.push(difference);
            }
        }
    };
    add(&mut one.declared, other.declared);
    add(&mut one.defaults, other.defaults);
    add(&mut one.undeclared, other.undeclared);
    for finding in other.findings {
        let is_known = |known: &Finding| known.id == finding.id && known.evidence == finding.evidence;
        if !one.findings.iter().any(is_known) {
            one.findings.push(finding);
        }
    }
    one.grade = Grade::from_findings(&one.findings);
    one
}

/// The duet without rounds in which a side does not count: a round counts as a whole or not at all, like a pair of
/// runs.
fn counting(a: ComparedSide, b: ComparedSide, duet: &Duet) -> Duet {
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
