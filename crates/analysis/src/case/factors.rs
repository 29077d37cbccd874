//! The effects of an experiment's factors: cases against a baseline, growth with clients and decline after the peak,
//! the spread over everything else, and the cost of a transaction. Pure functions of a study.

use std::collections::BTreeMap;

use model::experiment::keys;
use model::experiment::target::LABEL;

use crate::case::labels;
use crate::summary::{CaseSummary, Study};

/// The key along which throughput first grows and then falls.
pub(crate) const CLIENTS: &str = keys::workload::CLIENTS.name;

/// The case that others are compared with: the plan's, or the first one with a number.
pub fn baseline(study: &Study) -> Option<&CaseSummary> {
    let with_number = |case: &&CaseSummary| case.tps_median.is_some();
    match study.plan.baseline {
        0 => study.cases.iter().find(with_number),
        id => study.cases.iter().find(|case| case.case.id == id).filter(with_number),
    }
}

/// The factors in whose levels alone a case differs from the one that it is compared with: those that name the baseline, with those
/// that vary only along with them (`zip`). Without a baseline in the experiment: the first factor other than the clients,
/// because the effect of more clients is obvious and would drown everything else.
pub fn chosen(study: &Study) -> Vec<String> {
    let plan = &study.plan;
    if plan.baseline != 0 {
        let named = &plan.baseline_factors;
        let along = plan.factors.iter().filter(|key| !named.contains(key) && is_along(study, named, key));
        return named.iter().chain(along).cloned().collect();
    }
    if !plan.factors.iter().any(|key| key == CLIENTS) {
        return plan.baseline_factors.clone();
    }
    plan.factors.iter().find(|key| *key != CLIENTS).cloned().into_iter().collect()
}

/// Whether cases with equal levels of the named factors have the same level of `key`. Labels leave other factors free.
fn is_along(study: &Study, named: &[String], key: &str) -> bool {
    if named.is_empty() || named.iter().any(|key| key.starts_with(LABEL)) {
        return false;
    }
    let mut known: BTreeMap<Vec<Option<&str>>, Option<&str>> = BTreeMap::new();
    study.cases.iter().all(|case| {
        let of_named = named.iter().map(|key| case.case.level(key)).collect();
        let level = case.case.level(key);
        *known.entry(of_named).or_insert(level) == level
    })
}

/// Finds the case that each other one is compared with.
#[derive(Debug)]
pub struct Counterparts<'a> {
    study: &'a Study,
    baseline: &'a CaseSummary,
    chosen: Vec<String>,
}

impl<'a> Counterparts<'a> {
    /// Those of a study with this baseline.
    pub fn new(study: &'a Study, baseline: &'a CaseSummary) -> Counterparts<'a> {
        Counterparts { study, baseline, chosen: chosen(study) }
    }

    /// The case to compare `case` with: the one with the baseline's levels of the [`chosen`] factors and all other levels
    /// of `case`. With no other one: a percentage of a case that also has other clients, or another size of data, would look like the
    /// effect of what was chosen.
    pub fn of(&self, case: &CaseSummary) -> Option<&'a CaseSummary> {
        if self.chosen.is_empty() {
            return Some(self.baseline);
        }
        if self.chosen.iter().any(|key| key.starts_with(LABEL)) {
            return self.by_labels(case);
        }
        let mut wanted = case.case.levels.clone();
        for key in &self.chosen {
            wanted.extend(self.baseline.case.levels.get(key).map(|level| (key.clone(), level.clone())));
        }
        self.study.cases.iter().find(|other| other.case.levels == wanted && other.tps_median.is_some())
    }

    /// The counterpart of a case where labels chose the baseline: it has the baseline's levels of what was chosen and the case's own
    /// levels of all factors but the target. Of several, the one that shares most of its other labels (a provider has regions
    /// of its own, but sizes that others have, too), then the first.
    fn by_labels(&self, case: &CaseSummary) -> Option<&'a CaseSummary> {
        let is_chosen = |key: &String| self.chosen.contains(key);
        let fits = |other: &&CaseSummary| {
            let own = case.case.levels.iter().filter(|(key, _)| *key != "target" && !is_chosen(key));
            other.tps_median.is_some()
                && self.chosen.iter().all(|key| other.case.level(key) == self.baseline.case.level(key))
                && own.into_iter().all(|(key, level)| other.case.levels.get(key) == Some(level))
        };
        let labels = labels::keys(&self.study.plan);
        let shared = |other: &CaseSummary| {
            let alike = |key: &&String| !is_chosen(key) && other.case.level(key) == case.case.level(key);
            labels.iter().filter(alike).count()
        };
        // The first of those that share most.
        self.study.cases.iter().filter(fits).rev().max_by_key(|other| shared(other))
    }
}

/// The figure that a case is judged by: NOPM for TPC-C, else committed transactions per second.
pub fn score(case: &CaseSummary) -> Option<f64> {
    let tps = case.tps_median?;
    Some(case.tpcc.as_ref().map_or(tps, |tpcc| tpcc.nopm))
}

/// A case's score as a percentage of the baseline's.
pub fn percent_of(case: &CaseSummary, baseline: &CaseSummary) -> Option<f64> {
    let (score, base) = (score(case)?, score(baseline)?);
    (base > 0.0 && case.tpcc.is_some() == baseline.tpcc.is_some()).then(|| 100.0 * score / base)
}

/// Throughput by number of clients, with all other factors fixed.
#[derive(Debug, Clone, PartialEq)]
pub struct Scaling {
    /// The levels of the other factors, by key.
    pub others: BTreeMap<String, String>,
    /// The fewest clients and their median throughput, per second.
    pub first: (u32, f64),
    /// The clients with the highest median throughput.
    pub peak: (u32, f64),
    /// The most clients.
    pub last: (u32, f64),
}

impl Scaling {
    /// Peak throughput divided by that of the fewest clients.
    pub fn growth(&self) -> f64 {
        self.peak.1 / self.first.1
    }

    /// Peak throughput divided by that of the most clients: 1 if throughput never drops.
    pub fn drop_factor(&self) -> f64 {
        self.peak.1 / self.last.1
    }
}

/// Levels of the other factors, and throughput by number of clients.
type Curve = (BTreeMap<String, String>, Vec<(u32, f64)>);

/// The scaling for each combination of the other factors, in the order of the plan; empty unless the number of clients
/// varies.
pub fn scaling(study: &Study) -> Vec<Scaling> {
    let mut groups: Vec<Curve> = Vec::new();
    for case in &study.cases {
        let mut others = case.case.levels.clone();
        let (Some(_), Some(tps)) = (others.remove(CLIENTS), case.tps_median.filter(|tps| *tps > 0.0)) else {
            continue;
        };
        let point = (case.case.workload.n_clients, tps);
        match groups.iter_mut().find(|(known, _)| *known == others) {
            Some((_, points)) => points.push(point),
            None => groups.push((others, vec![point])),
        }
    }
    let of = |(others, mut points): Curve| {
        points.sort_by_key(|(n_clients, _)| *n_clients);
        let peak = points.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let (first, last) = (*points.first()?, *points.last()?);
        (points.len() > 1).then_some(Scaling { others, first, peak, last })
    };
    groups.into_iter().filter_map(of).collect()
}

/// All runs that count at one level of a factor, whatever the levels of the others.
#[derive(Debug, Clone, PartialEq)]
pub struct LevelPool {
    /// The level, as text.
    pub level: String,
    /// Throughput of the runs, per second.
    pub tps: Vec<f64>,
}

/// The pools of a factor, in the order of the plan: the runs at each level regardless of everything else. Pooling only
/// makes sense for factors whose levels have the same other levels; a level that lacks some of them lacks their runs
/// too.
pub fn pools(study: &Study, key: &str) -> Vec<LevelPool> {
    let mut pools: Vec<LevelPool> = Vec::new();
    for case in &study.cases {
        let Some(level) = case.case.level(key) else { continue };
        match pools.iter_mut().find(|pool| pool.level == level) {
            Some(pool) => pool.tps.extend(&case.tps),
            None => pools.push(LevelPool { level: level.to_string(), tps: case.tps.clone() }),
        }
    }
    pools.retain(|pool| !pool.tps.is_empty());
    pools
}
