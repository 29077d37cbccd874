//! How long the transactions of each script take, B against A: which of several has become slower.
//!
//! The figure is the mean service time, from the first statement sent to the last answer: in a closed loop, rates follow the mix, and in an
//! open one, what waits for a slow transaction waits in all of them.

use std::collections::BTreeSet;

use serde::Serialize;
use stats::Design;

use super::family::{self, FamilyRatio, FamilyVerdict};
use super::{Pairing, Samples};
use crate::summary::{RunSummary, ScriptSummary};

/// B over A for the transactions of one script.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScriptComparison {
    /// Name of the script.
    pub name: String,
    /// Its part in the committed transactions, 0 to 1: the mean of both sides.
    pub share: f64,
    /// Median of A's runs of the mean service time, nanoseconds; `None` if none was committed.
    pub a_median_ns: Option<f64>,
    /// The same of B's runs.
    pub b_median_ns: Option<f64>,
    /// Transactions of A that failed, or whose outcome is unknown, over those that ended, 0 to 1.
    pub a_failed: f64,
    /// The same of B.
    pub b_failed: f64,
    /// By how much it makes the mean of all of B's transactions longer, nanoseconds: these parts add up to the difference, as far as both
    /// sides have the same mix.
    pub part_ns: f64,
    /// Pairs, or runs of the side with fewer, in which it was committed.
    pub n_pairs: usize,
    /// The share up to which a difference does not matter.
    pub margin: f64,
    /// The ratio of the mean service times; `None` with too few pairs.
    pub result: Option<FamilyRatio>,
    /// The verdict; `None` without a ratio.
    pub verdict: Option<FamilyVerdict>,
    /// Whether B's plan is another one; `None` if plans were not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanChange>,
}

/// How the plans of a query on both sides compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanChange {
    /// All runs of both sides have one plan.
    Same,
    /// No run of B has a plan of A.
    Other,
    /// Some runs have, and some have not.
    Varies,
}

impl PlanChange {
    /// The word in files.
    pub fn as_str(self) -> &'static str {
        match self {
            PlanChange::Same => "same",
            PlanChange::Other => "other",
            PlanChange::Varies => "varies",
        }
    }

    fn between(a: &[&RunSummary], b: &[&RunSummary], name: &str) -> Option<PlanChange> {
        let plans = |runs: &[&RunSummary]| -> BTreeSet<String> {
            let queries = runs.iter().filter_map(|run| run.analytical.as_ref()?.query(name));
            queries.flat_map(|query| &query.plans).cloned().collect()
        };
        let (a, b) = (plans(a), plans(b));
        if a.is_empty() || b.is_empty() {
            return None;
        }
        Some(if a.is_disjoint(&b) {
            PlanChange::Other
        } else if a.len() == 1 && a == b {
            PlanChange::Same
        } else {
            PlanChange::Varies
        })
    }
}

/// Failures in whose share the sides differ by more than this matter more than any time. Our convention, as for a run as a whole.
const FAILED_MORE: f64 = 0.01;

/// Whether the shares of A and of B that failed differ.
pub(super) fn is_other_share([a, b]: [f64; 2]) -> bool {
    (a - b).abs() > FAILED_MORE
}

impl ScriptComparison {
    /// Whether it takes longer or shorter for sure.
    pub fn is_different(&self) -> bool {
        matches!(self.verdict, Some(FamilyVerdict::More | FamilyVerdict::Less))
    }

    /// Whether it fails more often on one side.
    pub fn fails_differently(&self) -> bool {
        is_other_share([self.a_failed, self.b_failed])
    }

    /// Wrong before slow, slow before unsure, and those first that matter most.
    fn place(&self) -> (u8, f64) {
        let rank = match self.verdict {
            _ if self.fails_differently() => 0,
            Some(FamilyVerdict::More | FamilyVerdict::Less) => 1,
            None | Some(FamilyVerdict::Unsure) => 2,
            Some(FamilyVerdict::Same) => 3,
        };
        (rank, -self.part_ns.abs())
    }
}

/// All scripts that both sides ran, without verdicts, which [`judge`] gives. None where there is only one, whose transactions the figures
/// of the comparison are about, and of searches, whose latencies belong to many rates.
pub(crate) fn compare(
    samples: &Samples,
    pairing: Pairing,
    design: Design,
    margin: f64,
) -> Vec<ScriptComparison> {
    let runs = || samples.a.iter().chain(&samples.b);
    if runs().any(|run| run.capacity.is_some()) {
        return Vec::new();
    }
    let keys = keys_of(samples);
    if keys.len() < 2 {
        return Vec::new();
    }
    keys.iter().map(|key| of_script(*key, samples, pairing, design, margin)).collect()
}

/// A script: its name, and how many of the same name are before it.
type ScriptKey<'a> = (&'a str, usize);

fn find<'a>(run: &'a RunSummary, (name, nth): ScriptKey) -> Option<&'a ScriptSummary> {
    run.scripts.iter().filter(|script| script.name == name).nth(nth)
}

/// The scripts that have transactions on both sides, in the order of the load.
fn keys_of<'a>(samples: &Samples<'a>) -> Vec<ScriptKey<'a>> {
    let Some(first) = samples.a.first() else { return Vec::new() };
    let nth = |at: usize| {
        let name = &first.scripts[at].name;
        first.scripts[..at].iter().filter(|before| before.name == *name).count()
    };
    let keys = first.scripts.iter().enumerate().map(|(at, script)| (script.name.as_str(), nth(at)));
    let ran = |runs: &[&RunSummary], key: ScriptKey| {
        runs.iter().any(|run| find(run, key).is_some_and(|script| script.counts.ended() > 0))
    };
    keys.filter(|key| ran(&samples.a, *key) && ran(&samples.b, *key)).collect()
}

fn of_script(
    key: ScriptKey,
    samples: &Samples,
    pairing: Pairing,
    design: Design,
    margin: f64,
) -> ScriptComparison {
    let of_runs = |run: &RunSummary| match &run.analytical {
        Some(queries) => queries.query(key.0)?.seconds.map(|seconds| 1e9 * seconds),
        None => mean_ns(find(run, key)?),
    };
    let (a, b) = samples.values(pairing, of_runs);
    let logs = |values: &[f64]| values.iter().map(|value| value.ln()).collect::<Vec<f64>>();
    let [of_a, of_b] = [&samples.a, &samples.b].map(|runs| SideTotals::new(runs, key));
    let share = 0.5 * (of_a.share + of_b.share);
    let [a_median_ns, b_median_ns] = [&a, &b].map(|values| stats::median(values));
    let means = if samples.a.iter().any(|run| run.analytical.is_some()) {
        a_median_ns.zip(b_median_ns)
    } else {
        of_a.mean_ns.zip(of_b.mean_ns)
    };
    let slower_ns = means.map_or(0.0, |(a, b)| b - a);
    ScriptComparison {
        name: key.0.to_string(),
        share,
        a_median_ns,
        b_median_ns,
        a_failed: of_a.failed,
        b_failed: of_b.failed,
        part_ns: share * slower_ns,
        n_pairs: a.len().min(b.len()),
        margin,
        result: FamilyRatio::new(&logs(&a), &logs(&b), pairing, design, margin),
        verdict: None,
        plan: PlanChange::between(&samples.a, &samples.b, key.0),
    }
}

/// The mean service time of a script's transactions in a run.
fn mean_ns(script: &ScriptSummary) -> Option<f64> {
    script.service.map(|service| service.mean_ns).filter(|mean_ns| *mean_ns > 0.0)
}

/// A script over all runs of a side.
struct SideTotals {
    share: f64,
    failed: f64,
    mean_ns: Option<f64>,
}

impl SideTotals {
    fn new(runs: &[&RunSummary], key: ScriptKey) -> SideTotals {
        let scripts: Vec<&ScriptSummary> = runs.iter().filter_map(|run| find(run, key)).collect();
        let sum = |of: &dyn Fn(&ScriptSummary) -> f64| scripts.iter().map(|script| of(script)).sum::<f64>();
        let committed = sum(&|script| script.counts.committed as f64);
        let of_all =
            |run: &&RunSummary| run.scripts.iter().map(|script| script.counts.committed as f64).sum::<f64>();
        let all: f64 = runs.iter().map(of_all).sum();
        let ended = sum(&|script| script.counts.ended() as f64);
        let timed = sum(&|script| script.service.map_or(0.0, |service| service.n as f64));
        let times = sum(&|script| script.service.map_or(0.0, |service| service.n as f64 * service.mean_ns));
        let over = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        SideTotals {
            share: over(committed, all),
            failed: over(sum(&|script| (script.counts.failed + script.counts.unknown) as f64), ended),
            mean_ns: (timed > 0.0).then(|| times / timed),
        }
    }
}

/// Gives the scripts of all cases their verdicts, after Holm's correction: they are one family of tests. Those that differ come first.
pub(crate) fn judge<'a>(cases: impl Iterator<Item = &'a mut Vec<ScriptComparison>>) {
    let mut cases: Vec<&mut Vec<ScriptComparison>> = cases.collect();
    let all = cases.iter_mut().flat_map(|scripts| scripts.iter_mut());
    family::adjust(all.filter_map(|script| script.result.as_mut()));
    for scripts in cases {
        for script in scripts.iter_mut() {
            script.verdict = script.result.map(|ratio| ratio.verdict_at(script.margin));
        }
        scripts.sort_by(|one, other| {
            let ((rank, part), (of_other, part_of_other)) = (one.place(), other.place());
            rank.cmp(&of_other).then(part.total_cmp(&part_of_other))
        });
    }
}
