//! The answer to the question that an experiment's factor asks: which level is best, and which cannot be distinguished
//! from it. A pure function of a study; reports put it into words.

use std::collections::BTreeMap;

use model::load::capacity::LatencyTarget;
use serde::Serialize;
use stats::{LevelPair, LevelRuns};

use super::factors::CLIENTS;
use crate::comparison::MARGIN;
use crate::finding::Grade;
use crate::summary::capacity::CaseCapacity;
use crate::summary::{CaseSummary, RunSummary, Study};

/// Level of the intervals.
const LEVEL: f64 = 0.95;

/// The figure that decides which level is best.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decider {
    /// Committed transactions per second.
    Throughput,
    /// New-Orders per minute of TPC-C.
    Nopm,
    /// The highest rate that meets a latency target.
    Rate(LatencyTarget),
    /// 99th percentile of latency in nanoseconds: the rate is given.
    P99,
}

/// The answer for one factor.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FactorAnswer {
    /// Key of the factor; empty if cases differ in several keys at once, and their labels are the levels.
    pub factor: String,
    /// The figure that decides.
    pub by: Decider,
    /// A group for each combination of the other factors' levels that has a level with a number, in the order of the
    /// plan.
    pub groups: Vec<Group>,
    /// Index of the group with the highest throughput.
    pub lead: usize,
}

/// The levels of the factor, all other levels being equal.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    /// Levels of the other factors, by key.
    pub others: BTreeMap<String, String>,
    /// Levels with a number, in the order of the plan.
    pub levels: Vec<LevelResult>,
    /// Levels without a number.
    pub without_number: Vec<String>,
    /// Index of the best level: that with the best median, unless another one is better within blocks, beyond chance.
    pub best: usize,
}

/// One level of the factor.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LevelResult {
    /// The level, as text.
    pub level: String,
    /// Number of the case in the plan.
    pub case: u32,
    /// Median of the deciding figure.
    pub median: f64,
    /// The 95 % interval of its centre, from three runs on: by the signed rank test from six on, else by
    /// Student's t; for a search, that of its case.
    pub interval: Option<(f64, f64)>,
    /// Whether the interval only spans those of a few searches ([`CaseCapacity::is_envelope`]).
    pub is_envelope: bool,
    /// Runs that count, and searches in which no rate met the target.
    pub n_runs: usize,
    /// Coefficient of variation of the deciding figure, from two runs on; none with a search in which no rate met the target.
    pub cv: Option<f64>,
    /// How far off the throughput can be, as a share of it; `None` where another figure decides, and for a rate that was searched for.
    pub good_to: Option<f64>,
    /// How far off it may be to be precise enough.
    pub precision: f64,
    /// This level against the best one; none for the best itself, and with fewer than two common blocks.
    pub against_best: Option<AgainstBest>,
    /// Grade of the case.
    pub grade: Grade,
}

/// A level against the best one of its group.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AgainstBest {
    /// The best over this level, within blocks.
    pub ratio: f64,
    /// Lower end of the 95 % interval of the ratio.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Blocks in which both count.
    pub n_blocks: usize,
    /// Blocks in which the best one is better.
    pub n_better: usize,
    /// Two-sided chance of such a difference between equal levels, after Holm's correction.
    pub p_adjusted: f64,
    /// The conclusion about the level.
    pub standing: LevelStanding,
    /// How many more blocks would settle the largest difference that is not settled yet; none if all are.
    pub would_settle: Option<Settles>,
}

/// How a level stands against the best one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LevelStanding {
    /// Worse, beyond chance, with enough blocks for a verdict.
    Worse,
    /// Worse, beyond chance if runs vary as Student's t assumes, but with fewer blocks than a verdict needs.
    ProvisionallyWorse,
    /// The whole interval is within the margin of 2 %, with enough blocks for a verdict.
    Same,
    /// Not distinguished.
    Open,
}

impl LevelStanding {
    /// Whether the level is worse than the best, provisionally or not.
    pub fn is_worse(self) -> bool {
        matches!(self, LevelStanding::Worse | LevelStanding::ProvisionallyWorse)
    }
}

/// Blocks that would settle a difference.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Settles {
    /// The difference, as a share.
    pub difference: f64,
    /// Blocks that are needed in addition; none if they are more than [`MORE_BLOCKS_MAX`].
    pub more_blocks: Option<usize>,
}

/// More blocks than this are no advice.
pub const MORE_BLOCKS_MAX: usize = 100;
/// Differences that may be worth settling, the largest first.
const DIFFERENCES: [f64; 3] = [0.05, 0.02, 0.01];

impl Group {
    /// The best level.
    pub fn best(&self) -> &LevelResult {
        &self.levels[self.best]
    }

    /// The levels that are not worse than the best one, with it, in the order of the plan.
    pub fn plateau(&self) -> Vec<&LevelResult> {
        self.levels.iter().filter(|level| !level.is_worse()).collect()
    }

    /// The levels of which the best one is ahead in each block, by more than what does not matter, in fewer blocks than a verdict
    /// needs; the nearest first.
    pub fn behind_so_far(&self) -> Vec<&LevelResult> {
        let is_behind = |level: &&LevelResult| {
            level.against_best.is_some_and(|against| {
                against.standing == LevelStanding::Open
                    && against.n_blocks < stats::PAIRS_MIN
                    && against.n_better == against.n_blocks
                    && against.ratio.ln().abs() > MARGIN.ln_1p()
            })
        };
        let distance = |level: &LevelResult| level.against_best.map_or(0.0, |one| one.ratio.ln().abs());
        let mut behind: Vec<&LevelResult> = self.levels.iter().filter(is_behind).collect();
        behind.sort_by(|a, b| distance(a).total_cmp(&distance(b)));
        behind
    }

    /// Whether no level has more than one run.
    pub fn is_of_single_runs(&self) -> bool {
        self.levels.iter().all(|level| level.n_runs < 2)
    }

    /// The largest coefficient of variation of a level that is not worse than the best.
    pub fn cv_max(&self) -> Option<f64> {
        self.plateau().into_iter().filter_map(|level| level.cv).max_by(f64::total_cmp)
    }
}

impl LevelResult {
    fn is_worse(&self) -> bool {
        self.against_best.is_some_and(|against| against.standing.is_worse())
    }
}

/// The answer; `None` unless at least two cases are to be compared and one has a number.
pub fn factor_answer(study: &Study) -> Option<FactorAnswer> {
    let factor = factor(study)?;
    let by = decider(study)?;
    let mut groups: Vec<Group> = Vec::new();
    for case in &study.cases {
        let (level, others) = place(case, &factor);
        let at = groups.iter().position(|group| group.others == others).unwrap_or_else(|| {
            groups.push(Group { others, levels: Vec::new(), without_number: Vec::new(), best: 0 });
            groups.len() - 1
        });
        match of_case(study, case, level.clone(), by) {
            Some(found) => groups[at].levels.push(found),
            None => groups[at].without_number.push(level),
        }
    }
    groups.retain(|group| !group.levels.is_empty());
    if groups.is_empty() {
        return None;
    }
    compare(study, by, &mut groups);
    let throughput = |group: &Group| {
        let of_level =
            |level: &LevelResult| study.cases.iter().find(|case| case.case.id == level.case)?.tps_median;
        group.levels.iter().filter_map(of_level).fold(0.0, f64::max)
    };
    let highest = |a: &usize, b: &usize| throughput(&groups[*a]).total_cmp(&throughput(&groups[*b]));
    let lead = (0..groups.len()).max_by(highest).unwrap_or_default();
    Some(FactorAnswer { factor, by, groups, lead })
}

/// The factor that is the question: the first one other than the clients, whose effect is of interest only by itself.
/// Empty if no two cases differ in it alone.
fn factor(study: &Study) -> Option<String> {
    if study.cases.len() < 2 {
        return None;
    }
    let keys = || study.plan.factors.iter();
    let factor = keys().find(|key| *key != CLIENTS).or(keys().next())?;
    let places: Vec<_> = study.cases.iter().map(|case| place(case, factor).1).collect();
    let is_alone = places.iter().all(|one| places.iter().filter(|other| *other == one).count() == 1);
    Some(if is_alone { String::new() } else { factor.clone() })
}

/// The level of a case, and its levels of all other factors.
fn place(case: &CaseSummary, factor: &str) -> (String, BTreeMap<String, String>) {
    let mut others = case.case.levels.clone();
    if factor.is_empty() {
        return (case.label.clone(), BTreeMap::new());
    }
    let level = others.remove(factor).unwrap_or_default();
    (level, others)
}

fn decider(study: &Study) -> Option<Decider> {
    let workloads = || study.cases.iter().map(|case| &case.case.workload);
    let is_given = workloads().all(|workload| workload.pace.is_open() && workload.pace.target().is_none());
    let target = study.cases.iter().find_map(|case| case.case.workload.pace.target());
    Some(match target {
        Some(target) if workloads().all(|workload| workload.pace.target() == Some(target)) => {
            Decider::Rate(target)
        }
        _ if is_given => Decider::P99,
        _ if study.cases.iter().all(|case| case.tpcc.is_some() || case.tps_median.is_none()) => Decider::Nopm,
        _ => Decider::Throughput,
    })
}

impl Decider {
    /// Orders the better figure last.
    fn order(self, a: f64, b: f64) -> std::cmp::Ordering {
        if self == Decider::P99 { b.total_cmp(&a) } else { a.total_cmp(&b) }
    }

    fn of_run(self, run: &RunSummary) -> Option<f64> {
        let value = match self {
            Decider::Throughput | Decider::Rate(_) => run.tps,
            Decider::Nopm => run.tpcc.as_ref().map(|tpcc| tpcc.nopm),
            Decider::P99 => run.latency.map(|latency| latency.p99_ns as f64),
        };
        value.filter(|value| *value > 0.0)
    }
}

fn counting(study: &Study, case: u32) -> impl Iterator<Item = &RunSummary> {
    study.runs.iter().filter(move |run| run.case == case && run.counts())
}

fn of_case(study: &Study, case: &CaseSummary, level: String, by: Decider) -> Option<LevelResult> {
    // A case may have runs and no number, if searches disagree.
    case.tps_median.filter(|_| case.grade != Grade::Void)?;
    let values: Vec<f64> = counting(study, case.case.id).filter_map(|run| by.of_run(run)).collect();
    // A search counts runs without a rate as a rate below all others.
    let median = match by {
        Decider::Rate(_) => case.tps_median?,
        _ => stats::median(&values)?,
    };
    let interval = match &case.capacity {
        Some(capacity) => Some((capacity.rate.low, capacity.rate.high)),
        None => interval(&values, median),
    };
    let capacity = case.capacity.as_ref();
    Some(LevelResult {
        level,
        case: case.case.id,
        median,
        interval,
        is_envelope: capacity.is_some_and(CaseCapacity::is_envelope),
        n_runs: capacity.map_or(values.len(), |capacity| capacity.n_runs),
        cv: stats::cv(&values).filter(|_| capacity.is_none_or(|capacity| capacity.n_unreachable == 0)),
        good_to: good_to(case, median),
        precision: case.precision(),
        against_best: None,
        grade: case.grade,
    })
}

fn good_to(case: &CaseSummary, median: f64) -> Option<f64> {
    let decides = case.tps_median == Some(median) && case.capacity.is_none();
    let known = case.uncertainty.as_ref()?;
    decides.then(|| known.throughput.good_to())
}

/// The 95 % interval of the centre of a case's throughput; of a search, that of its rate. `None` below three runs.
pub fn interval_of(case: &CaseSummary) -> Option<(f64, f64)> {
    match &case.capacity {
        Some(capacity) => Some((capacity.rate.low, capacity.rate.high)),
        None => interval(&case.tps, case.tps_median?),
    }
}

/// By the signed rank test of the logarithms from six values on, else by Student's t. It is that of the Hodges-Lehmann
/// centre or of the mean, so it is widened to the median where that lies outside.
fn interval(values: &[f64], median: f64) -> Option<(f64, f64)> {
    if values.iter().any(|value| *value <= 0.0) {
        return None;
    }
    let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    if logs.len() < crate::case::variation::RUNS_MIN {
        return None;
    }
    let centre = stats::centre(&logs, LEVEL).or_else(|| stats::mean_interval(&logs, LEVEL))?;
    Some((centre.low.exp().min(median), centre.high.exp().max(median)))
}

/// Finds the best level of each group and compares the others with it, with a correction for all pairs of all groups.
fn compare(study: &Study, by: Decider, groups: &mut [Group]) {
    let mut blocks: Vec<u32> = study.runs.iter().map(|run| run.block).collect();
    blocks.sort_unstable();
    blocks.dedup();
    let runs_of = |level: &LevelResult| -> LevelRuns {
        let of_block = |block: &u32| {
            let run = counting(study, level.case).find(|run| run.block == *block)?;
            by.of_run(run).map(f64::ln)
        };
        blocks.iter().map(of_block).collect()
    };
    let samples: Vec<Vec<LevelRuns>> =
        groups.iter().map(|group| group.levels.iter().map(runs_of).collect()).collect();
    // Runs in which no rate met the target rank below all others, and have no rate to compare.
    let misses = |level: &LevelResult| {
        let case = study.cases.iter().find(|case| case.case.id == level.case);
        case.and_then(|case| case.capacity.as_ref()).is_some_and(|capacity| capacity.n_unreachable > 0)
    };
    for (group, mut pairs) in groups.iter_mut().zip(stats::compare_levels(&samples)) {
        pairs.retain(|pair| ![pair.a, pair.b].iter().any(|level| misses(&group.levels[*level])));
        group.best = best(group, &pairs, by);
        for pair in pairs {
            let other = match group.best {
                best if best == pair.a => pair.b,
                best if best == pair.b => pair.a,
                _ => continue,
            };
            group.levels[other].against_best = Some(against(&pair, group.best == pair.b, by));
        }
    }
}

/// The level with the best median, or the one that is better than it within blocks, beyond chance, and so on: runs of slow or
/// of fast blocks may be missing from a median.
fn best(group: &Group, pairs: &[LevelPair], by: Decider) -> usize {
    let mut rest: Vec<usize> = (0..group.levels.len()).collect();
    let better = |a: &usize, b: &usize| by.order(group.levels[*a].median, group.levels[*b].median);
    let mut best = rest.iter().copied().max_by(better).unwrap_or_default();
    // Pairs may go round in a circle.
    loop {
        rest.retain(|level| *level != best);
        let ahead = pairs.iter().filter(|pair| pair.is_different()).filter_map(|pair| match best {
            best if best == pair.a => Some((pair.b, pair.log_ratio.point)),
            best if best == pair.b => Some((pair.a, -pair.log_ratio.point)),
            _ => None,
        });
        let ahead = ahead.map(|(level, log)| (level, if by == Decider::P99 { -log } else { log }));
        let most = ahead
            .filter(|(level, log)| *log > 0.0 && rest.contains(level))
            .max_by(|a, b| a.1.total_cmp(&b.1));
        match most {
            Some((level, _)) => best = level,
            None => return best,
        }
    }
}

fn against(pair: &LevelPair, best_is_second: bool, by: Decider) -> AgainstBest {
    let sign = if best_is_second { 1.0 } else { -1.0 };
    let ends = [pair.log_ratio.low, pair.log_ratio.high].map(|log| (sign * log).exp());
    let ratio = (sign * pair.log_ratio.point).exp();
    let n_above = if best_is_second { pair.n_above } else { pair.n_blocks - pair.n_above };
    let is_lower_better = by == Decider::P99;
    let is_ahead = if is_lower_better { ratio < 1.0 } else { ratio > 1.0 };
    let margin = MARGIN.ln_1p();
    let is_within = pair.log_ratio.low >= -margin && pair.log_ratio.high <= margin;
    let is_enough = pair.n_blocks >= stats::PAIRS_MIN;
    let settles = |difference: f64| Settles {
        difference,
        more_blocks: pair.more_blocks(difference).filter(|more| *more <= MORE_BLOCKS_MAX),
    };
    AgainstBest {
        ratio,
        low: ends[0].min(ends[1]),
        high: ends[0].max(ends[1]),
        n_blocks: pair.n_blocks,
        n_better: if is_lower_better { pair.n_blocks - n_above } else { n_above },
        p_adjusted: pair.p_adjusted,
        standing: match (is_within, pair.is_different() && is_ahead) {
            (true, _) if is_enough => LevelStanding::Same,
            (_, true) if is_enough => LevelStanding::Worse,
            (_, true) => LevelStanding::ProvisionallyWorse,
            _ => LevelStanding::Open,
        },
        would_settle: DIFFERENCES.into_iter().map(settles).find(|settles| settles.more_blocks != Some(0)),
    }
}
