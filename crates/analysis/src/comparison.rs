//! Compares B with A: two cases, of one experiment or of two, by throughput and percentiles of latency.
//!
//! Runs of one experiment are paired by block. `stats::compare_pairs` gives the verdict; `differences` lists what else
//! differs between A and B; what casts doubt on the comparison is a finding like any other.

pub(crate) mod applied;
pub(crate) mod build;
pub(crate) mod costs;
pub(crate) mod differences;
pub(crate) mod disturbed;
pub(crate) mod family;
pub(crate) mod outages;
mod provisional;
mod sample;
pub(crate) mod scripts;
pub(crate) mod statements;
pub(crate) mod supplement;
pub(crate) mod wording;

use model::run::{ExperimentData, RunData};
use serde::{Deserialize, Serialize};
use stats::{Comparison, Design};

pub(crate) use disturbed::OneSided;

pub use applied::AppliedSide;
pub use costs::CostComparison;
pub use differences::Difference;
pub use disturbed::DisturbedSides;
pub use family::{FamilyRatio, FamilyVerdict};
pub use outages::{OutageComparison, OutageFigureName};
pub use provisional::Provisional;
pub use sample::FigureSample;
pub use scripts::{PlanChange, ScriptComparison};
pub(crate) use statements::StatementCriteria;

pub use statements::{
    PlansCompared, StatementComparison, StatementVerdict, StatementsCompared, TimePart, TransactionSum,
};
pub use supplement::{AdjustedRatio, Supplement};

use crate::finding::{Finding, Grade};
use crate::summary::{RunSummary, Study};

/// Default share up to which a difference does not matter.
pub const MARGIN: f64 = 0.02;

/// Why two cases are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComparisonPurpose {
    /// To learn what a change does.
    Change,
    /// B repeats A, on another machine or later: where and when it was measured is what is compared.
    Repeat,
}

impl ComparisonPurpose {
    /// What A and B are called. A and B of a repetition would be taken for the sides of the comparison that it may repeat.
    pub fn names(self) -> [&'static str; 2] {
        match self {
            ComparisonPurpose::Change => ["A", "B"],
            ComparisonPurpose::Repeat => ["theirs", "here"],
        }
    }

    /// The same behind what belongs to them: `runs of A`, `runs here`.
    pub fn owners(self) -> [&'static str; 2] {
        match self {
            ComparisonPurpose::Change => ["of A", "of B"],
            ComparisonPurpose::Repeat => ["of theirs", "here"],
        }
    }
}

/// One side: a case of an experiment.
#[derive(Debug, Clone, Copy)]
pub struct ComparedSide<'a> {
    /// The records.
    pub data: &'a ExperimentData,
    /// The explained experiment.
    pub study: &'a Study,
    /// Number of the case.
    pub case: u32,
}

impl<'a> ComparedSide<'a> {
    pub(crate) fn runs(self) -> impl Iterator<Item = &'a RunSummary> {
        self.study.runs.iter().filter(move |run| run.case == self.case)
    }

    pub(crate) fn counting(self) -> impl Iterator<Item = &'a RunSummary> {
        self.runs().filter(|run| run.counts())
    }

    /// The records of the first run that counts, which describe what the case was measured on.
    pub(crate) fn first(self) -> Option<&'a RunData> {
        let run = self.counting().next()?.run;
        self.data.runs.iter().find(|data| data.record.spec.run == run)
    }

    pub(crate) fn label(self) -> String {
        self.data.plan.case(self.case).map(model::experiment::case::Case::label).unwrap_or_default()
    }
}

/// A compared figure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ComparedFigure {
    /// Committed transactions per second.
    #[default]
    Throughput,
    /// Median latency.
    P50,
    /// 95th percentile of latency.
    P95,
    /// 99th percentile of latency.
    P99,
    /// Throughput of B over that of A in a round of a duet, where duets are compared.
    Ratio,
}

impl ComparedFigure {
    /// All figures of runs, in the order of tables.
    pub const ALL: [ComparedFigure; 4] =
        [ComparedFigure::Throughput, ComparedFigure::P50, ComparedFigure::P95, ComparedFigure::P99];

    /// The word for people.
    pub fn as_str(self) -> &'static str {
        match self {
            ComparedFigure::Throughput => "throughput",
            ComparedFigure::P50 => "p50",
            ComparedFigure::P95 => "p95",
            ComparedFigure::P99 => "p99",
            ComparedFigure::Ratio => "ratio",
        }
    }

    /// Unit of its values.
    pub fn unit(self) -> &'static str {
        match self {
            ComparedFigure::Throughput => "tps",
            ComparedFigure::P50 | ComparedFigure::P95 | ComparedFigure::P99 => "ns",
            ComparedFigure::Ratio => "1",
        }
    }

    fn of(self, run: &RunSummary) -> Option<f64> {
        let latency =
            |of: fn(&crate::summary::LatencySummary) -> u64| run.latency.as_ref().map(|l| of(l) as f64);
        match self {
            ComparedFigure::Throughput => run.tps,
            ComparedFigure::P50 => latency(|l| l.p50_ns),
            ComparedFigure::P95 => latency(|l| l.p95_ns),
            ComparedFigure::P99 => latency(|l| l.p99_ns),
            // It takes two.
            ComparedFigure::Ratio => None,
        }
    }
}

/// The verdict on B.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ComparisonVerdict {
    /// More throughput, a higher ratio, or less latency.
    Faster,
    /// Less throughput, a lower ratio, or more latency.
    Slower,
    /// No difference larger than the margin.
    Same,
    /// The interval is too wide for a verdict.
    Unsure,
}

impl ComparisonVerdict {
    /// The word in files.
    pub fn as_str(self) -> &'static str {
        match self {
            ComparisonVerdict::Faster => "faster",
            ComparisonVerdict::Slower => "slower",
            ComparisonVerdict::Same => "same",
            ComparisonVerdict::Unsure => "unsure",
        }
    }
}

/// B over A for one figure.
#[derive(Debug, Clone, Serialize)]
pub struct FigureComparison {
    /// The figure that is compared.
    pub figure: ComparedFigure,
    /// Median of A's runs: transactions per second, nanoseconds, or a ratio.
    pub a_median: Option<f64>,
    /// Median of B's runs.
    pub b_median: Option<f64>,
    /// The comparison; `None` with too few pairs.
    pub result: Option<Ratio>,
    /// What they show all the same; only without a comparison.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisional: Option<Provisional>,
    /// The values behind it.
    pub sample: FigureSample,
}

impl FigureComparison {
    /// A figure with the medians of A and of B, and what the sample shows if there is no result.
    pub fn new(
        figure: ComparedFigure,
        a_median: Option<f64>,
        b_median: Option<f64>,
        result: Option<Ratio>,
        sample: FigureSample,
        pairing: Pairing,
    ) -> FigureComparison {
        let provisional = match result {
            Some(_) => None,
            None => Provisional::new(&sample, pairing),
        };
        FigureComparison { figure, a_median, b_median, result, provisional, sample }
    }
}

/// A ratio with its interval and verdict.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Ratio {
    /// B over A.
    pub ratio: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Level of the interval: 0.95.
    pub level: f64,
    /// The verdict on B.
    pub verdict: ComparisonVerdict,
    /// Two-sided chance of such a difference between identical servers.
    pub p: f64,
    /// The same after Holm's correction for all cases compared at once.
    pub p_adjusted: f64,
    /// The smallest difference, as a share, that 4 of 5 such comparisons would detect.
    pub detectable: Option<f64>,
    /// Roughly how many more pairs would give a verdict, if there is none.
    pub more_pairs: Option<usize>,
}

/// How runs of A and B are paired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pairing {
    /// Each run of A with the run of B in the same block.
    Blocks,
    /// Each slice of A's time with the neighbouring slice of B's: a duet.
    Slices,
    /// Rounds of a duet; both servers restart for each round.
    Rounds,
    /// Not paired: two experiments.
    None,
    /// Rounds of two duets, not paired.
    RoundsApart,
}

impl Pairing {
    /// The unit that is counted.
    pub fn noun(self) -> &'static str {
        match self {
            Pairing::Blocks | Pairing::Slices => "pair",
            Pairing::Rounds | Pairing::RoundsApart => "round",
            Pairing::None => "run",
        }
    }

    /// Whether the values are those of loads that took turns.
    pub fn is_of_duet(self) -> bool {
        matches!(self, Pairing::Slices | Pairing::Rounds | Pairing::RoundsApart)
    }

    /// Whether each value of A has a partner among those of B.
    pub fn is_paired(self) -> bool {
        !matches!(self, Pairing::None | Pairing::RoundsApart)
    }
}

/// One case of A and one of B, compared.
#[derive(Debug, Clone, Serialize)]
pub struct CaseComparison {
    /// Why they are compared, and with it what A and B are called. JSON calls them `a` and `b`.
    #[serde(skip)]
    pub purpose: ComparisonPurpose,
    /// Name of A.
    pub a: String,
    /// Name of B.
    pub b: String,
    /// How runs are paired.
    pub pairing: Pairing,
    /// Pairs with the deciding figure, or runs, or rounds, of the side that has fewer.
    pub n_pairs: usize,
    /// The share up to which a difference does not matter.
    pub margin: f64,
    /// Whether throughput is that of an analytical workload: 1 over the geometric mean of its queries' seconds.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_analytical: bool,
    /// The deciding figure: throughput in a closed loop, the 99th percentile if the rate is given.
    pub lead: ComparedFigure,
    /// The option with which more is measured, of `compare` or of `run`: `--pairs`, `--rounds` or `--repeats`.
    pub more_with: &'static str,
    /// All figures; for a duet, throughput only, and for its repetition, the ratio.
    pub figures: Vec<FigureComparison>,
    /// What a transaction costs: figures that never decide the verdict on speed, with a verdict each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<CostComparison>,
    /// How long writes were out and how much service was lost, if both sides had outages. They never decide the verdict on speed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outages: Vec<OutageComparison>,
    /// How long the transactions of each script take, if both sides have several: those that differ first. They never decide the verdict.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scripts: Vec<ScriptComparison>,
    /// How long each statement takes, if there are several. They never decide the verdict.
    #[serde(skip_serializing_if = "StatementsCompared::is_empty")]
    pub statements: StatementsCompared,
    /// What was applied to the data of A and of B (`workload.apply`).
    #[serde(skip_serializing_if = "is_nothing")]
    pub applied: [Option<AppliedSide>; 2],
    /// For a duet: the second slice of a pair over the first, which is 1 unless one side's slice affects the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub carry_over: Option<Ratio>,
    /// Ratios that are shown with the verdict and never decide it.
    #[serde(rename = "beside")]
    pub supplement: Supplement,
    /// Differences that the experiment asked for.
    pub declared: Vec<Difference>,
    /// Defaults in which the servers differ that the experiment asked for, such as checksums from 18 on: part of what is
    /// compared.
    pub defaults: Vec<Difference>,
    /// Other differences.
    pub undeclared: Vec<Difference>,
    /// What disturbed the runs that count, by side: what they say of it is with the runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disturbed: Vec<DisturbedSides>,
    /// What casts doubt on the comparison, or is worth knowing; findings of the runs are with the runs.
    pub findings: Vec<Finding>,
    /// The grade that follows from the findings.
    pub grade: Grade,
}

fn is_nothing(applied: &[Option<AppliedSide>; 2]) -> bool {
    applied.iter().all(Option::is_none)
}

impl CaseComparison {
    /// The deciding figure.
    pub fn leading_figure(&self) -> Option<&FigureComparison> {
        self.figures.iter().find(|figure| figure.figure == self.lead)
    }

    /// The comparison of the deciding figure.
    pub fn leading(&self) -> Option<&Ratio> {
        self.leading_figure()?.result.as_ref()
    }

    /// The verdict that counts: with several cases, a difference must also pass Holm's correction.
    pub fn verdict(&self) -> Option<ComparisonVerdict> {
        let ratio = self.leading()?;
        let is_difference = matches!(ratio.verdict, ComparisonVerdict::Faster | ComparisonVerdict::Slower);
        Some(if is_difference && ratio.p_adjusted > 0.05 { ComparisonVerdict::Unsure } else { ratio.verdict })
    }
}

/// What decides how a figure is compared, next to its runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Criteria<'a> {
    pub(crate) design: Design,
    /// The share up to which a difference does not matter.
    pub(crate) margin: f64,
    pub(crate) one_sided: &'a OneSided<'a>,
}

/// The compared runs; if paired, those at the same index in both lists form a pair.
pub(crate) struct Samples<'a> {
    pub(crate) a: Vec<&'a RunSummary>,
    pub(crate) b: Vec<&'a RunSummary>,
}

impl<'a> Samples<'a> {
    /// Blocks in which the runs of both sides count.
    pub(crate) fn paired(a: ComparedSide<'a>, b: ComparedSide<'a>) -> Samples<'a> {
        let partner = |run: &RunSummary| b.counting().find(|other| other.block == run.block);
        let (a, b) = a.counting().filter_map(|run| Some((run, partner(run)?))).unzip();
        Samples { a, b }
    }

    pub(crate) fn compare(
        &self,
        figure: ComparedFigure,
        pairing: Pairing,
        criteria: Criteria,
    ) -> FigureComparison {
        let medians = |runs: &[&RunSummary]| {
            stats::median(&runs.iter().filter_map(|run| figure.of(run)).collect::<Vec<f64>>())
        };
        let (a, b) = self.logs(figure, pairing);
        let result = compare_logs(&a, &b, pairing, criteria.margin, criteria.design, BY_RANKS);
        let sample = if pairing.is_paired() {
            FigureSample::of_blocks(figure, &self.a, &self.b)
        } else {
            FigureSample::of_runs(figure, &self.a, &self.b)
        };
        let bounds = criteria.one_sided.bounds(figure);
        FigureComparison::new(
            figure,
            medians(&self.a),
            medians(&self.b),
            result.map(|(comparison, p)| ratio(figure, with_errors(comparison, &bounds), p)),
            sample,
            pairing,
        )
    }

    /// Logarithms of a figure on both sides.
    pub(crate) fn logs(&self, figure: ComparedFigure, pairing: Pairing) -> (Vec<f64>, Vec<f64>) {
        self.values(pairing, |run| log(figure, run))
    }

    /// A value of each run on both sides; a run without it is left out, with its partner if it has one.
    pub(crate) fn values(
        &self,
        pairing: Pairing,
        of: impl Fn(&RunSummary) -> Option<f64>,
    ) -> (Vec<f64>, Vec<f64>) {
        let values = |runs: &[&RunSummary]| runs.iter().map(|run| of(run)).collect::<Vec<_>>();
        let (a, b) = (values(&self.a), values(&self.b));
        if pairing.is_paired() {
            a.into_iter().zip(b).filter_map(|(a, b)| a.zip(b)).unzip()
        } else {
            (a.into_iter().flatten().collect(), b.into_iter().flatten().collect())
        }
    }

    /// Runs that count but lack a figure.
    pub(crate) fn without_figure(&self) -> Vec<u32> {
        let lacks = |run: &RunSummary| figures_of(run).iter().any(|figure| log(*figure, run).is_none());
        self.a.iter().chain(&self.b).filter(|run| lacks(run)).map(|run| run.run).collect()
    }
}

/// The figures that a run has: few executions have no percentiles.
pub(crate) fn figures_of(run: &RunSummary) -> &'static [ComparedFigure] {
    if run.analytical.is_some() { &[ComparedFigure::Throughput] } else { &ComparedFigure::ALL }
}

/// How the chance of a difference between identical servers is computed: of pairs from their differences, of others from both samples.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChanceTest {
    of_pairs: fn(&[f64]) -> Option<f64>,
    of_runs: fn(&[f64], &[f64]) -> Option<f64>,
}

/// Signed ranks and rank sums.
const BY_RANKS: ChanceTest = ChanceTest { of_pairs: stats::signed_rank_p, of_runs: stats::rank_sum_p };
/// Student's t.
pub(crate) const BY_STUDENTS_T: ChanceTest = ChanceTest { of_pairs: stats::mean_p, of_runs: stats::t_test_p };

/// B against A by logarithms, those at the same index in both lists being pairs if they are paired, and the chance of such a difference.
pub(crate) fn compare_logs(
    a: &[f64],
    b: &[f64],
    pairing: Pairing,
    margin: f64,
    design: Design,
    chance: ChanceTest,
) -> Option<(Comparison, f64)> {
    if !pairing.is_paired() {
        return stats::compare_unpaired(a, b, margin).zip((chance.of_runs)(a, b));
    }
    let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| b - a).collect();
    stats::compare_pairs(&differences, margin, design).zip((chance.of_pairs)(&differences))
}

/// The comparison with what disturbed one side in its interval.
pub(crate) fn with_errors(comparison: Comparison, bounds: &[[f64; 2]]) -> Comparison {
    if bounds.is_empty() { comparison } else { comparison.with_errors(bounds).unwrap_or(comparison) }
}

/// The logarithm of a run's figure. A run without latency has none, and nothing is a multiple of zero throughput.
fn log(figure: ComparedFigure, run: &RunSummary) -> Option<f64> {
    figure.of(run).filter(|value| *value > 0.0).map(f64::ln)
}

pub(crate) fn ratio(figure: ComparedFigure, comparison: Comparison, p: f64) -> Ratio {
    let higher_is_faster = matches!(figure, ComparedFigure::Throughput | ComparedFigure::Ratio);
    Ratio {
        ratio: comparison.ratio.point,
        low: comparison.ratio.low,
        high: comparison.ratio.high,
        level: comparison.ratio.level,
        verdict: match comparison.verdict {
            stats::Verdict::Same => ComparisonVerdict::Same,
            stats::Verdict::Unsure => ComparisonVerdict::Unsure,
            stats::Verdict::Higher if higher_is_faster => ComparisonVerdict::Faster,
            stats::Verdict::Lower if !higher_is_faster => ComparisonVerdict::Faster,
            stats::Verdict::Higher | stats::Verdict::Lower => ComparisonVerdict::Slower,
        },
        p,
        p_adjusted: p,
        detectable: comparison.detectable(),
        more_pairs: comparison.more_pairs(),
    }
}
