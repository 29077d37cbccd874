//! The history of a case over stored experiments: its runs in order of time, and where their level changed.

mod conditions;
mod costs;
pub mod packed;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use model::experiment::case::{Case, ServerSource, ServerSpec};
use model::experiment::keys;
use model::run::{ExperimentData, RunRecord};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use stats::ChangeRule;

use conditions::Conditions;
pub use conditions::DifferingCondition;
pub use costs::CostChange;

use crate::comparison::differences;
use crate::finding::Grade;
use crate::findings::format::percent;
use crate::summary::Study;
use crate::summary::uncertainty::larger_side;

/// One run of a history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistoryPoint {
    /// The experiment's location, as the caller names it.
    pub experiment: String,
    /// Number of the run.
    pub run: u32,
    /// When its load began, nanoseconds since the Unix epoch.
    pub t_unix_ns: u64,
    /// Release and build of the server: `18.6`, with the first digits of the executable's hash if known.
    pub revision: String,
    /// Committed transactions per second.
    pub tps: f64,
    /// The range in which the throughput of its case lies undisturbed, as ratios to it, if that is known.
    #[serde(default)]
    pub range: Option<[f64; 2]>,
    /// What a committed transaction cost, by the names of the table of costs.
    #[serde(default)]
    pub costs: BTreeMap<String, f64>,
}

/// One change of level.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LevelChange {
    /// The last run before the change.
    pub last_before: HistoryPoint,
    /// The first run after the change.
    pub first_after: HistoryPoint,
    /// Median throughput since the previous change.
    pub before: f64,
    /// Median throughput up to the next change.
    pub after: f64,
    /// `p` of the test between both: Student's t, or the exact rank sum if that shows it more clearly.
    pub p: f64,
    /// The ranges of the runs before and after it, as ratios to their medians, if each of them has one and the change is smaller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<[[f64; 2]; 2]>,
    /// Recorded conditions that differ between the runs since the previous change and those up to the next one.
    pub conditions: Vec<DifferingCondition>,
    /// What was not recorded of some of these runs, so that nobody knows whether it differs.
    pub unrecorded: Vec<String>,
}

impl LevelChange {
    /// Says that the change is smaller than the ranges of the runs on both sides, if it is: `one run alone can be off by more (±11 %
    /// before, ±9.0 % after); all runs together show it`.
    pub fn within_words(&self) -> Option<String> {
        let [before, after] = self.within?.map(|range| percent(larger_side(range)));
        Some(format!(
            "one run alone can be off by more (±{before} before, ±{after} after); all runs together show it"
        ))
    }

    /// What is known where no recorded condition differs: `no recorded condition differs: …`.
    pub fn no_condition(&self) -> String {
        match self.unrecorded.as_slice() {
            [] => "no recorded condition differs: server, settings, data, machine and pgdyno are the same"
                .to_string(),
            unknown => format!("no recorded condition differs; not recorded: {}", unknown.join(", ")),
        }
    }
}

/// A change that the runs since the last one suggest, and are too few to show.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pending {
    /// The first run after it.
    pub first_after: HistoryPoint,
    /// Runs before it, since the last change.
    pub n_before: usize,
    /// Runs after it.
    pub n_after: usize,
    /// Median throughput before it.
    pub before: f64,
    /// Median throughput after it.
    pub after: f64,
    /// `p` of the exact rank sum test between both.
    pub p: f64,
    /// How many more runs would decide if they are like those after it; none if no number would, as there are too few before it.
    pub more_runs: Option<usize>,
    /// Recorded conditions that differ between the runs before it and after it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<DifferingCondition>,
    /// Whether it is about all runs of the history.
    #[serde(skip)]
    is_of_all: bool,
}

impl Pending {
    /// A change over all runs of a history: so many before it and after it, with these medians.
    pub fn new(
        first_after: HistoryPoint,
        n: [usize; 2],
        medians: [f64; 2],
        p: f64,
        more_runs: Option<usize>,
    ) -> Pending {
        let ([n_before, n_after], [before, after]) = (n, medians);
        let conditions = Vec::new();
        Pending { first_after, n_before, n_after, before, after, p, more_runs, conditions, is_of_all: true }
    }

    /// `no verdict yet`, or `no verdict` where waiting brings none.
    pub fn lead(&self) -> &'static str {
        if self.more_runs.is_some() { "no verdict yet" } else { "no verdict" }
    }

    /// `the last 5 are 46 % below the first 5; 4 more runs would decide`.
    pub fn words(&self) -> String {
        let change = self.after / self.before - 1.0;
        let side = if change < 0.0 { "below" } else { "above" };
        let before = if self.is_of_all {
            format!("the first {}", self.n_before)
        } else {
            format!("the {} before them", self.n_before)
        };
        let share = 100.0 * change.abs();
        let share = if share < 9.95 { format!("{share:.1}") } else { format!("{share:.0}") };
        let decide = match self.more_runs {
            Some(1) => "1 more run would decide".to_string(),
            Some(n) => format!("{n} more runs would decide"),
            None => format!("a verdict takes four on each side, and only {} came before", self.n_before),
        };
        format!("the last {} are {share} % {side} {before}; {decide}", self.n_after)
    }
}

/// The history of one case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct History {
    /// Name of the case, with the server if it is one by URL.
    pub label: String,
    /// Name of the machine; figures of two machines are never one history.
    pub hostname: String,
    /// Runs that count, the oldest first.
    pub points: Vec<HistoryPoint>,
    /// Changes of level, in order: at least 2 %, p below 0.001, four runs on each side.
    pub changes: Vec<LevelChange>,
    /// Changes of what a transaction costs, by cost.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cost_changes: Vec<CostChange>,
    /// What the runs since the last change suggest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<Pending>,
}

/// A run with what says to which history it belongs; far smaller than its experiment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PastRun {
    #[serde(serialize_with = "write_case", deserialize_with = "read_case")]
    case: Arc<Case>,
    hostname: String,
    seed: u64,
    is_of_merged: bool,
    point: HistoryPoint,
    /// Written by [`packed`] alone.
    #[serde(skip)]
    conditions: Arc<Conditions>,
}

fn write_case<S: Serializer>(case: &Arc<Case>, to: S) -> Result<S::Ok, S::Error> {
    case.as_ref().serialize(to)
}

fn read_case<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<Case>, D::Error> {
    Case::deserialize(from).map(Arc::new)
}

/// Histories of all cases of these experiments; cases with the same load, levels, machine and server by URL belong
/// together.
pub fn histories(experiments: &[(String, ExperimentData, Study)]) -> Vec<History> {
    joined(experiments.iter().flat_map(|(name, data, study)| past_runs(name, data, study)))
}

/// The runs of an experiment that a history has. Runs of a duet are left out: each had half of the time, so their throughput does
/// not describe the server.
pub fn past_runs(name: &str, data: &ExperimentData, study: &Study) -> Vec<PastRun> {
    let mut cases: BTreeMap<u32, Arc<Case>> = BTreeMap::new();
    let mut known: Vec<Arc<Conditions>> = Vec::new();
    let mut runs = Vec::new();
    for run in study.runs.iter().filter(|run| run.counts()) {
        let record = data.runs.iter().map(|run| &run.record).find(|record| record.spec.run == run.run);
        let record = record.filter(|record| !record.took_turns());
        let Some((record, case)) = record.zip(data.plan.case(run.case)) else { continue };
        let (Some(t_unix_ns), Some(tps)) = (record.go_unix_ns, run.tps) else { continue };
        let hostname = record.host.as_ref().map(|host| host.hostname.clone()).unwrap_or_default();
        let revision = revision(record);
        let range = range_of(study, run.case);
        let experiment = name.to_string();
        let costs = run.costs.iter().map(|cost| (cost.id.to_string(), cost.value)).collect();
        let point = HistoryPoint { experiment, run: run.run, t_unix_ns, revision, tps, range, costs };
        let case = cases.entry(run.case).or_insert_with(|| Arc::new(case.clone())).clone();
        let (seed, is_of_merged) = (record.spec.seed, !data.plan.origins.is_empty());
        let mut conditions = Conditions::from_record(record);
        if let Some(known) = known.iter().find(|known| known.settings == conditions.settings) {
            conditions.settings = known.settings.clone();
        }
        let conditions = Arc::new(conditions);
        let conditions = match known.iter().find(|known| **known == conditions) {
            Some(known) => known.clone(),
            None => {
                known.push(conditions.clone());
                conditions
            }
        };
        runs.push(PastRun { case, hostname, seed, is_of_merged, point, conditions });
    }
    runs
}

/// The range in which a case's throughput lies undisturbed, as ratios to it; `None` unless it is valid.
fn range_of(study: &Study, case: u32) -> Option<[f64; 2]> {
    let case = study.cases.iter().find(|one| one.case.id == case && one.grade == Grade::Valid)?;
    let known = &case.uncertainty.as_ref()?.throughput;
    // A millionth is exact enough, and stays the same however often it is written and read.
    Some([known.low, known.high].map(|ratio| (1e6 * ratio).round() / 1e6))
}

/// The histories of runs; see [`histories`]. A run counts once, also if a merged study has it next to its origin: twice, it would
/// make noise a change of level. Two loads with one seed do not begin in the same nanosecond.
pub fn joined(runs: impl IntoIterator<Item = PastRun>) -> Vec<History> {
    let mut runs: Vec<PastRun> = runs.into_iter().collect();
    runs.sort_by_key(|run| run.is_of_merged);
    let mut seen = BTreeSet::new();
    runs.retain(|run| seen.insert((run.point.t_unix_ns, run.seed)));
    runs.sort_by_key(|run| run.point.t_unix_ns);
    let mut histories: Vec<(Key, History)> = Vec::new();
    let mut conditions: Vec<Vec<Arc<Conditions>>> = Vec::new();
    for PastRun { case, hostname, point, conditions: of_run, .. } in runs {
        let key = Key::new(&case, &hostname);
        match histories.iter().position(|(known, _)| *known == key) {
            Some(n) => {
                histories[n].1.points.push(point);
                conditions[n].push(of_run);
            }
            None => {
                let label = label(&case);
                let history = History {
                    label,
                    hostname,
                    points: vec![point],
                    changes: Vec::new(),
                    cost_changes: Vec::new(),
                    pending: None,
                };
                histories.push((key, history));
                conditions.push(vec![of_run]);
            }
        }
    }
    tell_apart(&mut histories);
    let each = histories.into_iter().zip(conditions);
    each.map(|((_, history), conditions)| with_changes(history, &conditions)).collect()
}

/// Adds to histories with equal names what they ask for differently: `8 clients, scale 7`.
fn tell_apart(histories: &mut [(Key, History)]) {
    let labels: Vec<String> = (0..histories.len()).map(|i| label_among(i, histories)).collect();
    histories.iter_mut().zip(labels).for_each(|((_, history), label)| history.label = label);
}

fn label_among(i: usize, histories: &[(Key, History)]) -> String {
    let (key, history) = &histories[i];
    let namesakes = histories.iter().filter(|(other, of)| {
        other != key && (&of.label, &of.hostname) == (&history.label, &history.hostname)
    });
    let mut parts = vec![history.label.clone()];
    for difference in namesakes.flat_map(|(other, _)| differences::asked(&key.case, &other.case)) {
        let part = format!("{} {}", difference.what, difference.a);
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    parts.join(", ")
}

/// See [`HistoryPoint::revision`].
fn revision(record: &RunRecord) -> String {
    let Some(server) = &record.server else { return String::new() };
    let hash = server
        .executable_sha256
        .as_ref()
        .map(|hash| format!(" {}", hash.chars().take(8).collect::<String>()));
    format!("{}{}", server.release(), hash.unwrap_or_default())
}

/// Name of the case; servers by URL have the same cases and are distinguished by their location.
fn label(case: &Case) -> String {
    let ServerSource::Url(keywords) = &case.server.source else { return case.label() };
    let place: Vec<String> = ["host", "hostaddr", "port", "dbname"]
        .iter()
        .filter_map(|key| Some(format!("{key}={}", keywords.get(*key)?)))
        .collect();
    if place.is_empty() { case.label() } else { format!("{}, {}", case.label(), place.join(" ")) }
}

/// What two runs of one history must have in common.
#[derive(PartialEq)]
struct Key {
    case: Case,
    hostname: String,
}

impl Key {
    fn new(case: &Case, hostname: &str) -> Key {
        Key { case: asked(case), hostname: hostname.to_string() }
    }
}

/// Everything that a case asks for except the release or the build of a server run by pgdyno: on one machine, cases for which this
/// is equal have one history.
pub fn asked(case: &Case) -> Case {
    // A version or a build is what changes over a history, unless it is a level by itself. A server by URL is
    // identified by its location alone: another location is another server.
    let source = match &case.server.source {
        ServerSource::Version(_)
        | ServerSource::Installed(_)
        | ServerSource::BinDir(_)
        | ServerSource::Source { .. } => ServerSource::BinDir(PathBuf::new()),
        by_url @ ServerSource::Url(_) => by_url.clone(),
    };
    let server = ServerSpec { source, ..case.server.clone() };
    let mut asked = Case { id: 0, server, ..case.clone() };
    // What is precise enough is no question to the server.
    asked.set(keys::run::PRECISION, None);
    asked
}

/// The ranges on both sides of a change, each the median of its runs', if the change is smaller than the larger side of either.
fn within(
    before: &[HistoryPoint],
    after: &[HistoryPoint],
    change: &stats::ChangePoint,
) -> Option<[[f64; 2]; 2]> {
    let range = |points: &[HistoryPoint]| {
        let ranges: Option<Vec<[f64; 2]>> = points.iter().map(|point| point.range).collect();
        let end = |end: usize| {
            stats::median(&ranges.as_ref()?.iter().map(|range| range[end]).collect::<Vec<f64>>())
        };
        Some([end(0)?, end(1)?])
    };
    let (of_before, of_after) = (range(before)?, range(after)?);
    let size = (change.after / change.before).ln().abs();
    let is_within = [of_before, of_after].iter().all(|[low, high]| size <= high.ln().max(-low.ln()));
    is_within.then_some([of_before, of_after])
}

/// Adds the changes of level to a history, whose points are in order of time, as are the conditions of its runs.
fn with_changes(mut history: History, conditions: &[Arc<Conditions>]) -> History {
    let tps: Vec<f64> = history.points.iter().map(|point| point.tps).collect();
    let changes = stats::change_points(&tps, ChangeRule::default());
    let change = |(n, change): (usize, &stats::ChangePoint)| {
        let from = n.checked_sub(1).map_or(0, |previous| changes[previous].at);
        let to = changes.get(n + 1).map_or(tps.len(), |next| next.at);
        LevelChange {
            last_before: history.points[change.at - 1].clone(),
            first_after: history.points[change.at].clone(),
            before: change.before,
            after: change.after,
            p: change.p,
            within: within(&history.points[from..change.at], &history.points[change.at..to], change),
            conditions: conditions::differing(&conditions[from..change.at], &conditions[change.at..to]),
            unrecorded: conditions::unrecorded_of(conditions[from..to].iter()),
        }
    };
    history.changes = changes.iter().enumerate().map(change).collect();
    history.cost_changes = costs::changes(&history.points);
    let since = changes.last().map_or(0, |change| change.at);
    let pending = stats::pending_change(&tps[since..], ChangeRule::default());
    // After a change that was found, what no number of runs can decide is nothing to wait for.
    let pending = pending.filter(|found| since == 0 || found.more.is_some());
    history.pending = pending.map(|found| {
        let first_after = history.points[since + found.at].clone();
        let n = [found.at, tps.len() - since - found.at];
        let pending = Pending::new(first_after, n, [found.before, found.after], found.p, found.more);
        let (before, after) = conditions[since..].split_at(found.at);
        Pending { is_of_all: since == 0, conditions: conditions::differing(before, after), ..pending }
    });
    history
}
