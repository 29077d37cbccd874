//! Which statements changed: how long each takes with B against A, by pairs, and what that adds to the mean transaction.
//!
//! Times are the driver's, from send to the end of the reply: planning, flushes and the network are part of them. What fails on one side
//! only, or returns other rows, comes first.

mod changes;
mod key;
mod plans;
mod sum;

use std::collections::BTreeMap;

use serde::Serialize;
use stats::{Design, PAIRS_MIN, UNPAIRED_MIN};

pub use plans::PlansCompared;
pub use sum::{TimePart, TransactionSum};

use super::family::{self, FamilyRatio, FamilyVerdict};
use super::scripts::is_other_share;
use super::{Pairing, Samples};
use crate::summary::{RunSummary, StatementExecutions};
use changes::SideErrors;
use key::StatementKey;
use sum::Parts;

/// Least part of the mean transaction's time on either side with which a statement belongs to the family that gets verdicts. Our
/// convention: what takes less cannot matter much, and its test would cost the others power.
const SHARE_MIN: f64 = 0.01;
/// Fewest executions of a side whose mean is judged, as in Microsoft's Database Experimentation Assistant.
const EXECUTIONS_MIN: u64 = 30;
/// Largest share of wrong ones among candidates.
const FALSE_SHARE_MAX: f64 = 0.05;

/// The statements of a comparison, and the sum of what they changed.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct StatementsCompared {
    /// Each statement that a side executed: those first that fail or return other rows, then those that differ.
    #[serde(rename = "list")]
    pub all: Vec<StatementComparison>,
    /// What the differences add up to; `None` without a transaction on both sides.
    pub sum: Option<TransactionSum>,
}

impl StatementsCompared {
    /// Whether there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

/// B over A for one statement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StatementComparison {
    /// Name of its script.
    pub script: String,
    /// First line of the statement.
    pub statement: String,
    /// Index in the script: of A, or of B if A has no such statement.
    pub index: usize,
    /// Time of its acknowledged executions over that of all committed transactions: the larger one of both sides. Executions in
    /// transactions that failed count, so it may exceed 1.
    pub share: f64,
    /// Executions of A and of B.
    pub executions: [u64; 2],
    /// Executions per transaction of A and of B.
    pub calls: [f64; 2],
    /// Median of A's runs of the mean time, nanoseconds; `None` if none was acknowledged.
    pub a_median_ns: Option<f64>,
    /// The same of B's runs.
    pub b_median_ns: Option<f64>,
    /// By how much its time makes B's mean transaction longer.
    pub part: TimePart,
    /// Rows of an execution of A and of B, if they were counted.
    pub rows: [Option<f64>; 2],
    /// Whether it returns or changes another number of rows.
    pub rows_differ: bool,
    /// Share of executions that failed, of A and of B.
    pub failed: [f64; 2],
    /// Errors of A and of B by SQLSTATE.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<String, [u64; 2]>,
    /// SQLSTATEs that B has and A has not, where chance does not explain it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub new_errors: Vec<String>,
    /// Pairs, or runs of the side with fewer, in which both sides executed it.
    pub n_pairs: usize,
    /// The share up to which a difference does not matter.
    pub margin: f64,
    /// The ratio of the mean times; `None` if it cannot be judged. Its `p_adjusted` is Holm's, 1 outside of the family.
    pub result: Option<FamilyRatio>,
    /// The chance after Benjamini's and Hochberg's correction, which marks candidates.
    pub q: Option<f64>,
    /// Its plans, if both sides recorded them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plans: Option<PlansCompared>,
    /// The verdict.
    pub verdict: StatementVerdict,
}

/// The verdict on a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StatementVerdict {
    /// It takes longer with B.
    Slower,
    /// It takes less time.
    Faster,
    /// No difference larger than the margin.
    Same,
    /// A candidate: of such ones, at most 5 % are wrong on average.
    MaybeSlower,
    /// A candidate in the other direction.
    MaybeFaster,
    /// The interval is too wide, chance explains the difference, or its time is too small a part to be judged.
    Unsure,
    /// Fewer than 30 executions on a side.
    FewExecutions,
    /// Fewer pairs, or runs, than a verdict needs.
    FewPairs,
    /// No execution of B was acknowledged.
    OnlyA,
    /// No execution of A was acknowledged.
    OnlyB,
}

impl StatementVerdict {
    /// The word in files.
    pub fn as_str(self) -> &'static str {
        match self {
            StatementVerdict::Slower => "slower",
            StatementVerdict::Faster => "faster",
            StatementVerdict::Same => "same",
            StatementVerdict::MaybeSlower => "maybe_slower",
            StatementVerdict::MaybeFaster => "maybe_faster",
            StatementVerdict::Unsure => "unsure",
            StatementVerdict::FewExecutions => "few_executions",
            StatementVerdict::FewPairs => "few_pairs",
            StatementVerdict::OnlyA => "only_a",
            StatementVerdict::OnlyB => "only_b",
        }
    }
}

impl StatementComparison {
    /// Whether it takes longer or shorter for sure.
    pub fn is_different(&self) -> bool {
        matches!(self.verdict, StatementVerdict::Slower | StatementVerdict::Faster)
    }

    /// Whether it may take longer or shorter.
    pub fn is_candidate(&self) -> bool {
        matches!(self.verdict, StatementVerdict::MaybeSlower | StatementVerdict::MaybeFaster)
    }

    /// Whether it fails more often on one side.
    pub fn fails_differently(&self) -> bool {
        !self.new_errors.is_empty() || is_other_share(self.failed)
    }

    /// Whether it fails more often with B.
    pub fn fails_more(&self) -> bool {
        self.fails_differently() && self.failed[1] > self.failed[0]
    }

    /// Whether the sides do not do the same: times say little then.
    pub fn is_wrong(&self) -> bool {
        self.fails_differently() || self.rows_differ
    }

    /// Whether its time takes a part that is judged.
    pub fn is_in_family(&self) -> bool {
        self.share >= SHARE_MIN
    }

    /// Whether it is slower for sure if differences up to this share did not matter; `None` if it cannot be judged.
    pub fn is_slower_at(&self, margin: f64) -> Option<bool> {
        self.family_verdict_at(margin).map(|verdict| verdict == FamilyVerdict::More)
    }

    /// The verdict if differences up to this share did not matter; `None` outside of the family, and if it cannot be judged.
    fn family_verdict_at(&self, margin: f64) -> Option<FamilyVerdict> {
        if self.is_in_family() { Some(self.result?.verdict_at(margin)) } else { None }
    }

    /// Wrong before slow, slow before candidates, those before unsure, and those first that matter most. What is the same comes last, as
    /// does what is unsure because it takes too little time.
    fn place(&self) -> (u8, f64) {
        use StatementVerdict::{Faster, MaybeFaster, MaybeSlower, Same, Slower, Unsure};
        let rank = match self.verdict {
            _ if self.fails_differently() => 0,
            _ if self.rows_differ => 1,
            Slower | Faster => 2,
            MaybeSlower | MaybeFaster => 3,
            Same => 5,
            Unsure if !self.is_in_family() => 5,
            _ => 4,
        };
        (rank, -self.part.ns.abs())
    }

    fn verdict(&self) -> StatementVerdict {
        let [a, b] = self.executions;
        let Some(found) = self.result else {
            return match (a, b) {
                (_, 0) => StatementVerdict::OnlyA,
                (0, _) => StatementVerdict::OnlyB,
                (a, b) if a.min(b) < EXECUTIONS_MIN => StatementVerdict::FewExecutions,
                _ => StatementVerdict::FewPairs,
            };
        };
        let is_within = found.verdict_at(self.margin) == FamilyVerdict::Same;
        let is_candidate = !is_within && self.q.is_some_and(|q| q <= FALSE_SHARE_MAX);
        match self.family_verdict_at(self.margin).unwrap_or(FamilyVerdict::Unsure) {
            FamilyVerdict::Same => StatementVerdict::Same,
            FamilyVerdict::More => StatementVerdict::Slower,
            FamilyVerdict::Less => StatementVerdict::Faster,
            FamilyVerdict::Unsure if is_candidate && found.low > 1.0 => StatementVerdict::MaybeSlower,
            FamilyVerdict::Unsure if is_candidate && found.high < 1.0 => StatementVerdict::MaybeFaster,
            FamilyVerdict::Unsure => StatementVerdict::Unsure,
        }
    }
}

/// How statements are compared.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StatementCriteria {
    pub(crate) pairing: Pairing,
    pub(crate) design: Design,
    /// The share up to which a difference does not matter.
    pub(crate) margin: f64,
}

/// All statements that a side executed, without verdicts, which [`judge`] gives. None where there is only one, whose transactions the
/// figures of the comparison are about, and of searches, whose times belong to many rates.
pub(crate) fn compare(samples: &Samples, criteria: StatementCriteria) -> StatementsCompared {
    let runs = || samples.a.iter().chain(&samples.b);
    if runs().any(|run| run.capacity.is_some()) || samples.a.is_empty() || samples.b.is_empty() {
        return StatementsCompared::default();
    }
    let keys = key::of_runs(runs().copied());
    if keys.len() < 2 {
        return StatementsCompared::default();
    }
    let parts = Parts::new(samples, &keys, criteria.pairing);
    let mut all: Vec<StatementComparison> = keys
        .iter()
        .enumerate()
        .map(|(at, key)| of_statement(key, samples, parts.of_statement(at), criteria))
        .collect();
    changes::judge_rows(&mut all, &keys, samples, criteria);
    StatementsCompared { all, sum: parts.sum() }
}

fn of_statement(
    key: &StatementKey,
    samples: &Samples,
    part: TimePart,
    criteria: StatementCriteria,
) -> StatementComparison {
    let StatementCriteria { pairing, design, margin } = criteria;
    let (a, b) = samples.values(pairing, |run| key.find(run)?.mean_ns().filter(|ns| *ns > 0.0));
    let logs = |values: &[f64]| values.iter().map(|value| value.ln()).collect::<Vec<f64>>();
    let [of_a, of_b] = [&samples.a, &samples.b].map(|runs| SideTotals::new(runs, key));
    let executions = [of_a.n, of_b.n];
    let n_pairs = a.len().min(b.len());
    let n_needed = if pairing.is_paired() { PAIRS_MIN } else { UNPAIRED_MIN };
    let is_enough = executions.iter().all(|n| *n >= EXECUTIONS_MIN) && n_pairs >= n_needed;
    let result = if is_enough {
        FamilyRatio::new(&logs(&a), &logs(&b), pairing, design, margin)
            .map(|found| FamilyRatio { p_adjusted: 1.0, ..found })
    } else {
        None
    };
    let errors = SideErrors::compared([&samples.a, &samples.b], key);
    StatementComparison {
        script: key.script.to_string(),
        statement: key.label.to_string(),
        index: key.index,
        share: of_a.share.max(of_b.share),
        executions,
        calls: [of_a.calls, of_b.calls],
        a_median_ns: stats::median(&a),
        b_median_ns: stats::median(&b),
        part,
        rows: [of_a.rows, of_b.rows],
        rows_differ: false,
        failed: errors.failed([of_a.n, of_b.n]),
        new_errors: errors.new_ones(),
        errors: errors.by_sqlstate,
        n_pairs,
        margin,
        result,
        q: None,
        plans: PlansCompared::find([&samples.a, &samples.b], key),
        verdict: StatementVerdict::Unsure,
    }
}

/// A statement over all runs of a side.
struct SideTotals {
    n: u64,
    calls: f64,
    share: f64,
    rows: Option<f64>,
}

impl SideTotals {
    fn new(runs: &[&RunSummary], key: &StatementKey) -> SideTotals {
        let found: Vec<&StatementExecutions> = runs.iter().filter_map(|run| key.find(run)).collect();
        let n = found.iter().map(|of| of.n).fold(0, u64::saturating_add);
        let sum_ns: f64 = found.iter().map(|of| of.sum_ns).sum();
        let services = || runs.iter().filter_map(|run| run.service);
        let committed: f64 = services().map(|service| service.n as f64).sum();
        let whole_ns: f64 = services().map(|service| service.n as f64 * service.mean_ns).sum();
        let over = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        let rows: Option<f64> = found.iter().filter(|of| of.n > 0).map(|of| Some(of.rows? as f64)).sum();
        SideTotals {
            n,
            calls: over(n as f64, committed),
            share: over(sum_ns, whole_ns),
            rows: if n > 0 { rows.map(|rows| rows / n as f64) } else { None },
        }
    }
}

/// Gives the statements of all cases their verdicts: those with a part of the time that matters are one family of tests, with Holm's
/// correction. Those that differ come first.
pub(crate) fn judge<'a>(cases: impl Iterator<Item = &'a mut StatementsCompared>) {
    let mut cases: Vec<&mut StatementsCompared> = cases.collect();
    let all = cases.iter_mut().flat_map(|case| case.all.iter_mut());
    let mut judged: Vec<&mut StatementComparison> = all.filter(|one| one.result.is_some()).collect();
    let p: Vec<f64> = judged.iter().filter_map(|one| Some(one.result?.p)).collect();
    for (one, q) in judged.iter_mut().zip(stats::benjamini_hochberg(&p)) {
        one.q = Some(q);
    }
    let family = judged.into_iter().filter(|one| one.is_in_family());
    family::adjust(family.filter_map(|one| one.result.as_mut()));
    for case in cases {
        for one in &mut case.all {
            one.verdict = one.verdict();
        }
        case.all.sort_by(|one, other| {
            let ((rank, part), (of_other, part_of_other)) = (one.place(), other.place());
            rank.cmp(&of_other).then(part.total_cmp(&part_of_other))
        });
    }
}
