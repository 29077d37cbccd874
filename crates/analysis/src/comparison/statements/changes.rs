//! What is worse than slow: errors that only one side has, and other numbers of rows.

use std::collections::BTreeMap;

use stats::PAIRS_MIN;

use super::key::StatementKey;
use super::{StatementComparison, StatementCriteria};
use crate::comparison::Samples;
use crate::comparison::family::{self, FamilyRatio, FamilyVerdict};
use crate::summary::RunSummary;

/// Fewest runs of B that have an error which no run of A has: were the sides equal, five such runs would all be B's once in 32 times.
const RUNS_MIN: usize = 5;
/// The largest difference in rows of an execution that does not matter: counts follow random keys.
const ROWS_MARGIN: f64 = 0.01;
/// Fewer rows of an execution are next to none.
const ROWS_LEAST: f64 = 0.01;

/// The errors of a statement on both sides.
pub(super) struct SideErrors {
    pub(super) by_sqlstate: BTreeMap<String, [u64; 2]>,
    /// Runs of each side that had one.
    n_runs: BTreeMap<String, [usize; 2]>,
}

impl SideErrors {
    pub(super) fn compared(sides: [&[&RunSummary]; 2], key: &StatementKey) -> SideErrors {
        let mut found = SideErrors { by_sqlstate: BTreeMap::new(), n_runs: BTreeMap::new() };
        for (side, runs) in sides.into_iter().enumerate() {
            let errors = runs.iter().filter_map(|run| key.find(run)).flat_map(|of| &of.errors);
            for (sqlstate, n) in errors.filter(|(_, n)| **n > 0) {
                let sum = &mut found.by_sqlstate.entry(sqlstate.clone()).or_default()[side];
                *sum = sum.saturating_add(*n);
                found.n_runs.entry(sqlstate.clone()).or_default()[side] += 1;
            }
        }
        found
    }

    /// The share of executions that failed on each side, of which so many did not.
    pub(super) fn failed(&self, acknowledged: [u64; 2]) -> [f64; 2] {
        [0, 1].map(|side| {
            let failed = self.by_sqlstate.values().map(|sides| sides[side]).fold(0, u64::saturating_add);
            let all = failed.saturating_add(acknowledged[side]);
            if all > 0 { failed as f64 / all as f64 } else { 0.0 }
        })
    }

    pub(super) fn new_ones(&self) -> Vec<String> {
        let new = self.n_runs.iter().filter(|(_, [a, b])| *a == 0 && *b >= RUNS_MIN);
        new.map(|(sqlstate, _)| sqlstate.clone()).collect()
    }
}

/// Marks the statements that return or change another number of rows: a family of tests of its own, with Holm's correction.
pub(super) fn judge_rows(
    all: &mut [StatementComparison],
    keys: &[StatementKey],
    samples: &Samples,
    criteria: StatementCriteria,
) {
    let mut found: Vec<Option<FamilyRatio>> =
        keys.iter().map(|key| rows_ratio(key, samples, criteria)).collect();
    family::adjust(found.iter_mut().flatten());
    for (one, ratio) in all.iter_mut().zip(found) {
        let verdict = ratio.map(|ratio| ratio.verdict_at(ROWS_MARGIN));
        one.rows_differ = matches!(verdict, Some(FamilyVerdict::More | FamilyVerdict::Less));
    }
}

fn rows_ratio(key: &StatementKey, samples: &Samples, criteria: StatementCriteria) -> Option<FamilyRatio> {
    let StatementCriteria { pairing, design, .. } = criteria;
    let (a, b) = samples.values(pairing, |run| {
        let of = key.find(run).filter(|of| of.n > 0)?;
        Some((of.rows? as f64 / of.n as f64 + ROWS_LEAST).ln())
    });
    let is_constant = |values: &[f64]| values.iter().all(|value| *value == values[0]);
    if a.len() >= PAIRS_MIN && b.len() >= PAIRS_MIN && is_constant(&a) && is_constant(&b) {
        let ratio = (b[0] - a[0]).exp();
        let p = if a[0] == b[0] { 1.0 } else { 0.0 };
        return Some(FamilyRatio { ratio, low: ratio, high: ratio, p, p_adjusted: p, detectable: None });
    }
    FamilyRatio::new(&a, &b, pairing, design, ROWS_MARGIN)
}
