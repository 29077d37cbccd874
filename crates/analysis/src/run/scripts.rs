//! The scripts of a load, added up: their part in the mix, and what their workload directory says of their facts and latencies.

pub(crate) mod replayed;

use std::collections::BTreeMap;

use model::experiment::case::directory::{DirectoryLimit, DirectoryMeasure, WorkloadDirectory};
use model::load::histogram::HistogramSum;
use model::load::interval::{Counts, Interval};
use model::run::RunRecord;

use crate::run::seconds::Distributions;
use crate::summary::{LatencySummary, LimitSummary, MeasureSummary, ScriptSummary};

/// Largest chance, over all scripts of a load, of a part in the mix that is called different from the intended one. Our convention.
const CHANCE_MAX: f64 = 0.001;

/// One script's counts and distributions.
#[derive(Debug, Clone, Default)]
pub(crate) struct ScriptSums {
    pub(crate) name: String,
    weight: u32,
    limit: Option<DirectoryLimit>,
    pub(crate) counts: Counts,
    facts: BTreeMap<String, u64>,
    pub(crate) latency: HistogramSum,
    pub(crate) service: HistogramSum,
}

impl ScriptSums {
    /// The scripts of a run's load by number, of which nothing is counted yet.
    pub(crate) fn of_load(record: &RunRecord) -> BTreeMap<usize, ScriptSums> {
        let limits = directory(record).map_or(&[][..], |directory| &directory.limits);
        let scripts = record.load.iter().flat_map(|load| &load.scripts).map(|script| ScriptSums {
            name: script.name.clone(),
            weight: script.weight,
            limit: limits.iter().find(|limit| limit.transaction == script.name).cloned(),
            ..ScriptSums::default()
        });
        scripts.enumerate().collect()
    }

    /// The same script with nothing counted.
    pub(crate) fn without_sums(&self) -> ScriptSums {
        let (name, limit) = (self.name.clone(), self.limit.clone());
        ScriptSums { name, weight: self.weight, limit, ..ScriptSums::default() }
    }

    /// Transactions that ended as they are to: expected errors are a part of the work.
    fn answered(&self) -> u64 {
        self.counts.committed + self.counts.expected
    }

    /// A named count other than transactions.
    pub(crate) fn fact(&self, name: &str) -> u64 {
        self.facts.get(name).copied().unwrap_or(0)
    }

    /// Adds the counts of a second.
    pub(crate) fn count(&mut self, interval: &Interval) {
        self.counts += interval.counts;
        self.add_facts(&interval.facts);
    }

    /// Adds the same script of another run.
    pub(crate) fn add(&mut self, other: &ScriptSums) {
        self.counts += other.counts;
        self.add_facts(&other.facts);
        self.latency.add(&other.latency);
        self.service.add(&other.service);
    }

    fn add_facts(&mut self, facts: &BTreeMap<String, u64>) {
        for (name, n) in facts {
            let sum = self.facts.entry(name.clone()).or_default();
            *sum = sum.saturating_add(*n);
        }
    }

    fn limit(&self) -> Option<LimitSummary> {
        let DirectoryLimit { permille, limit_ns, .. } = *self.limit.as_ref()?;
        let found_ns = self.latency.quantile_ns(f64::from(permille) / 1000.0)?;
        Some(LimitSummary {
            percentile: f64::from(permille) / 10.0,
            limit_ns,
            found_ns,
            is_met: found_ns <= limit_ns,
        })
    }
}

/// How the scripts of a load are chosen, and the ratios of their facts that somebody asks for.
#[derive(Debug, Clone, Default)]
pub(crate) struct ScriptMix {
    chosen: ScriptChoice,
    is_of_directory: bool,
    /// Clients of all runs: at either end of a measurement, each has a transaction in flight.
    n_clients: u64,
    measures: Vec<DirectoryMeasure>,
}

/// How clients choose the script of their next transaction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum ScriptChoice {
    /// Each draws it by the weights.
    #[default]
    Drawn,
    /// Terminals, of which some defer transactions.
    Terminals,
    /// Classes of clients by weights or orders of their own.
    Classes,
}

impl ScriptMix {
    /// The mix of a run.
    pub(crate) fn new(record: &RunRecord) -> ScriptMix {
        let Some(load) = &record.load else { return ScriptMix::default() };
        let directory = directory(record);
        let chosen = match directory {
            _ if load.profiles.is_some() => ScriptChoice::Terminals,
            Some(directory) if directory.has_classes => ScriptChoice::Classes,
            _ => ScriptChoice::Drawn,
        };
        let measures = directory.map_or(Vec::new(), |directory| directory.measures.clone());
        let is_of_directory = directory.is_some();
        ScriptMix { chosen, is_of_directory, n_clients: u64::from(load.n_clients), measures }
    }

    /// Adds another run of the same case.
    pub(crate) fn add(&mut self, other: &ScriptMix) {
        let n_clients = self.n_clients.saturating_add(other.n_clients);
        *self = ScriptMix { n_clients, ..other.clone() };
    }

    fn measures(&self, fact: impl Fn(&str) -> Option<u64>) -> Vec<MeasureSummary> {
        let measures = self.measures.iter().filter_map(|measure| {
            let (numerator, denominator) = (fact(&measure.numerator)?, fact(&measure.denominator)?);
            Some(MeasureSummary::new(&measure.name, &measure.title, numerator, denominator))
        });
        measures.collect()
    }
}

fn directory(record: &RunRecord) -> Option<&WorkloadDirectory> {
    record.case.workload.directory.as_deref()
}

impl Distributions {
    /// The scripts' summaries in order, for a measurement of this length.
    pub(crate) fn script_summaries(&self, measured_s: f64) -> Vec<ScriptSummary> {
        let weights: f64 = self.scripts.values().map(|script| f64::from(script.weight)).sum();
        let answered: u64 = self.scripts.values().map(ScriptSums::answered).sum();
        let summary = |script: &ScriptSums| {
            let by_weight = if weights > 0.0 { f64::from(script.weight) / weights } else { 0.0 };
            ScriptSummary {
                name: script.name.clone(),
                weight: script.weight,
                share_planned: (self.mix.chosen != ScriptChoice::Classes).then_some(by_weight),
                share: (answered > 0).then(|| script.answered() as f64 / answered as f64),
                share_differs: self.mix.chosen == ScriptChoice::Drawn
                    && self.differs(script.answered(), answered, by_weight),
                counts: script.counts,
                tps: (measured_s > 0.0).then(|| script.counts.committed as f64 / measured_s),
                latency: LatencySummary::from_histogram(&script.latency),
                service: LatencySummary::from_histogram(&script.service),
                facts: script.facts.clone(),
                measures: self.mix.measures(|name| script.facts.get(name).copied()),
                limit: script.limit(),
            }
        };
        self.scripts.values().filter(|script| self.is_of_mix(script)).map(summary).collect()
    }

    /// Whether a script belongs to the load. A directory has transactions that only other variants run.
    fn is_of_mix(&self, script: &ScriptSums) -> bool {
        !self.mix.is_of_directory || script.weight > 0 || script.counts.started > 0
    }

    /// Whether a script's part of the transactions is another than that of its weight. Transactions that were in flight when the
    /// measurement began or ended were chosen, and not counted, or the other way round.
    fn differs(&self, n: u64, of: u64, by_weight: f64) -> bool {
        let deviation = (n as f64 - by_weight * of as f64).abs() - self.mix.n_clients as f64;
        let chance = stats::binomial_deviation_p_max(of, by_weight, deviation);
        chance * (self.scripts.len() as f64) < CHANCE_MAX
    }

    /// The ratios of facts over all scripts.
    pub(crate) fn measure_summaries(&self) -> Vec<MeasureSummary> {
        self.mix.measures(|name| {
            let mut sums = self.scripts.values().filter_map(|script| script.facts.get(name)).peekable();
            sums.peek().is_some().then(|| sums.copied().fold(0, u64::saturating_add))
        })
    }
}
