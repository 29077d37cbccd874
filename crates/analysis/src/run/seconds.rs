//! Seconds and distributions of a run: the driver's counts, placed in time and added up.

use std::collections::BTreeMap;

use model::load::histogram::{Decoded, Decoder, HistogramSum};
use model::load::interval::{Counts, Interval, MEASURED};
use model::run::RunData;
use model::run::server::plans::StatementPlan;

use crate::run::scripts::{ScriptMix, ScriptSums};
use crate::run::timeline::Timeline;
use crate::summary::{LatencySummary, Second, StatementExecutions, StatementSummary};

/// The distributions of a run's measurement, which can still be added.
#[derive(Debug, Clone, Default)]
pub(crate) struct Distributions {
    pub(crate) latency: HistogramSum,
    pub(crate) service: HistogramSum,
    pub(crate) lag: HistogramSum,
    /// Scripts by number.
    pub(crate) scripts: BTreeMap<usize, ScriptSums>,
    /// How scripts are chosen, and what is said of their facts.
    pub(crate) mix: ScriptMix,
    /// Statements by script and index.
    pub(crate) statements: BTreeMap<(usize, usize), StatementSums>,
}

/// One statement's distribution.
#[derive(Debug, Clone)]
pub(crate) struct StatementSums {
    script: String,
    label: String,
    service: HistogramSum,
    rows: Option<u64>,
    errors: BTreeMap<String, u64>,
}

impl StatementSums {
    fn new(data: &RunData, script: usize, index: usize) -> StatementSums {
        StatementSums {
            script: script_name(data, script),
            label: statement_label(data, script, index),
            service: HistogramSum::new(),
            rows: None,
            errors: BTreeMap::new(),
        }
    }

    fn add(&mut self, other: &StatementSums) {
        self.service.add(&other.service);
        self.add_rows(other.rows);
        other.errors.iter().for_each(|(sqlstate, n)| self.add_errors(sqlstate, *n));
    }

    fn add_rows(&mut self, rows: Option<u64>) {
        if let Some(more) = rows {
            self.rows = Some(self.rows.unwrap_or(0).saturating_add(more));
        }
    }

    fn add_errors(&mut self, sqlstate: &str, more: u64) {
        let n = self.errors.entry(sqlstate.to_string()).or_default();
        *n = n.saturating_add(more);
    }
}

impl Distributions {
    /// Adds the distributions of another run of the same case.
    pub(crate) fn add(&mut self, other: &Distributions) {
        self.latency.add(&other.latency);
        self.service.add(&other.service);
        self.lag.add(&other.lag);
        for (key, script) in &other.scripts {
            self.scripts.entry(*key).or_insert_with(|| script.without_sums()).add(script);
        }
        self.mix.add(&other.mix);
        for (key, statement) in &other.statements {
            match self.statements.get_mut(key) {
                Some(own) => own.add(statement),
                None => drop(self.statements.insert(*key, statement.clone())),
            }
        }
    }

    /// Makes them small, to be kept.
    pub(crate) fn pack(&mut self) {
        self.sums().for_each(HistogramSum::pack);
    }

    /// Makes them fast to read, once all is added.
    pub(crate) fn settle(&mut self) {
        self.sums().for_each(HistogramSum::settle);
    }

    fn sums(&mut self) -> impl Iterator<Item = &mut HistogramSum> {
        let of_scripts =
            self.scripts.values_mut().flat_map(|script| [&mut script.latency, &mut script.service]);
        let of_statements = self.statements.values_mut().map(|statement| &mut statement.service);
        [&mut self.latency, &mut self.service, &mut self.lag]
            .into_iter()
            .chain(of_scripts)
            .chain(of_statements)
    }

    /// The statements' summaries in the order of the scripts.
    pub(crate) fn statement_summaries(&self) -> Vec<StatementSummary> {
        let summary = |((_, index), statement): (&(usize, usize), &StatementSums)| {
            Some(StatementSummary {
                script: statement.script.clone(),
                index: *index,
                label: statement.label.clone(),
                service: LatencySummary::from_histogram(&statement.service)?,
            })
        };
        self.statements.iter().filter_map(summary).collect()
    }

    /// What each statement did, in the order of the scripts.
    pub(crate) fn executions(&self, plans: &[StatementPlan]) -> Vec<StatementExecutions> {
        let of = |((script, index), sums): (&(usize, usize), &StatementSums)| {
            let n = sums.service.n();
            StatementExecutions {
                script: *script,
                script_name: sums.script.clone(),
                index: *index,
                label: sums.label.clone(),
                n,
                sum_ns: if n > 0 { n as f64 * sums.service.mean_ns() } else { 0.0 },
                rows: sums.rows,
                errors: sums.errors.clone(),
                explained: plans
                    .iter()
                    .find(|plan| (plan.script as usize, plan.statement as usize) == (*script, *index))
                    .map(|plan| plan.explained.clone()),
            }
        };
        self.statements.iter().map(of).collect()
    }

    /// Adds the rows and errors of a second's statements.
    fn count_statements(&mut self, data: &RunData, interval: &Interval) {
        let script = interval.script as usize;
        for (index, (n, rows)) in interval.statements.iter().zip(&interval.statement_rows).enumerate() {
            if *n > 0 {
                self.statement(data, script, index).add_rows(Some(*rows));
            }
        }
        for errors in &interval.statement_errors {
            self.statement(data, script, errors.statement as usize).add_errors(&errors.sqlstate, errors.n);
        }
    }

    fn statement(&mut self, data: &RunData, script: usize, index: usize) -> &mut StatementSums {
        let new = || StatementSums::new(data, script, index);
        self.statements.entry((script, index)).or_insert_with(new)
    }
}

/// Everything that the driver counted in a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunCounts {
    /// Each second.
    pub(crate) seconds: Vec<Second>,
    /// Counts of the measurement.
    pub(crate) measured: Counts,
    /// Counts of all intervals.
    pub(crate) total: Counts,
    /// Distributions of the measurement.
    pub(crate) distributions: Distributions,
    /// Histograms that could not be read, with the reason.
    pub(crate) unreadable: Vec<String>,
    /// How many times each histogram contains.
    pub(crate) recorded: Recorded,
}

/// How many times each histogram contains, by second (of a sum: the first) and kind.
pub(crate) type Recorded = BTreeMap<(u32, HistogramRole), u64>;

/// Adds up the counts, second by second and in total.
pub(crate) fn count(data: &RunData, line: &Timeline) -> RunCounts {
    let mut counted = RunCounts::default();
    counted.distributions.scripts = ScriptSums::of_load(&data.record);
    counted.distributions.mix = ScriptMix::new(&data.record);
    let mut by_t: BTreeMap<u32, (Counts, u64)> = BTreeMap::new();
    for interval in &data.intervals {
        counted.total += interval.counts;
        if line.measures(interval.t) {
            counted.measured += interval.counts;
            if let Some(script) = counted.distributions.scripts.get_mut(&(interval.script as usize)) {
                script.count(interval);
                counted.distributions.count_statements(data, interval);
            }
        }
        let (counts, length_ns) = by_t.entry(interval.t).or_default();
        *counts += interval.counts;
        *length_ns = interval.length_ns.max(*length_ns);
    }
    let latency_by_t = add_histograms(data, line, &mut counted);
    for (t, (counts, length_ns)) in by_t {
        let latency = latency_by_t.get(&t);
        let tps = if length_ns > 0 { counts.committed as f64 * 1e9 / length_ns as f64 } else { 0.0 };
        counted.seconds.push(Second {
            t,
            measured: line.measures(t),
            tps,
            errors: counts.failed + counts.unknown,
            p50_ns: latency.map(|latency| latency.p50_ns),
            p95_ns: latency.map(|latency| latency.p95_ns),
            p99_ns: latency.map(|latency| latency.p99_ns),
            max_ns: latency.map(|latency| latency.max_ns),
        });
    }
    counted
}

/// The figures of one second's latency, without the mean: it costs as much as all of these, and no report shows it for a second.
struct SecondLatency {
    p50_ns: u64,
    p95_ns: u64,
    p99_ns: u64,
    max_ns: u64,
}

impl SecondLatency {
    fn from_histogram(sum: &HistogramSum) -> Option<SecondLatency> {
        let [p50_ns, p95_ns, p99_ns] = sum.quantiles_ns([0.5, 0.95, 0.99])?;
        Some(SecondLatency { p50_ns, p95_ns, p99_ns, max_ns: sum.largest_ns() })
    }
}

/// Adds the histograms of the measurement to the distributions; returns the latency of each second that has any.
fn add_histograms(data: &RunData, line: &Timeline, counted: &mut RunCounts) -> BTreeMap<u32, SecondLatency> {
    let mut by_t = BTreeMap::new();
    let mut put = |of_second: Option<(u32, HistogramSum)>| {
        by_t.extend(of_second.and_then(|(t, sum)| Some((t, SecondLatency::from_histogram(&sum)?))));
    };
    let mut current: Option<(u32, HistogramSum)> = None;
    let mut stamped: Vec<_> = data.histograms.iter().collect();
    stamped.sort_by_key(|stamped| stamped.t);
    let mut decoder = Decoder::default();
    for stamped in stamped {
        let Some(role) = HistogramRole::from_tag(data, &stamped.line.tag) else { continue };
        let one = match decoder.decode(&stamped.line) {
            Ok(one) => one,
            Err(reason) => {
                counted.unreadable.push(format!("second {}: {reason}", stamped.t));
                continue;
            }
        };
        *counted.recorded.entry((stamped.t, role)).or_default() += one.n();
        // A sum over the measurement of a run with an outage mixes the time before it with the rest.
        let is_counted = if role.is_sum() { !line.is_cut_by_fault() } else { line.measures(stamped.t) };
        if is_counted {
            add_by_role(data, &mut counted.distributions, role, &one);
        }
        if !matches!(role, HistogramRole::Latency { .. }) {
            continue;
        }
        match &mut current {
            Some((t, sum)) if *t == stamped.t => sum.add_decoded(&one),
            _ => {
                let mut sum = HistogramSum::new();
                sum.add_decoded(&one);
                put(current.replace((stamped.t, sum)));
            }
        }
    }
    put(current);
    counted.distributions.settle();
    by_t
}

/// The kind of time in a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names say it")]
pub(crate) enum HistogramRole {
    Latency {
        script: usize,
    },
    Service {
        script: usize,
    },
    Lag {
        script: usize,
    },
    Statement {
        script: usize,
        index: usize,
    },
    /// The sum of a statement over the measurement.
    StatementSum {
        script: usize,
        index: usize,
    },
}

impl HistogramRole {
    /// The role of a tag; `None` if no script of the load has it.
    fn from_tag(data: &RunData, tag: &str) -> Option<HistogramRole> {
        let (script_tag, rest) = match tag.split_once('.') {
            Some((script_tag, rest)) => (script_tag, Some(rest)),
            None => (tag, None),
        };
        let scripts = &data.record.load.as_ref()?.scripts;
        let script = scripts.iter().position(|script| script.tag == script_tag)?;
        match rest {
            None => Some(HistogramRole::Latency { script }),
            Some("service") => Some(HistogramRole::Service { script }),
            Some("lag") => Some(HistogramRole::Lag { script }),
            Some(number) => match number.strip_suffix(MEASURED) {
                Some(number) => {
                    number.parse().ok().map(|index| HistogramRole::StatementSum { script, index })
                }
                None => number.parse().ok().map(|index| HistogramRole::Statement { script, index }),
            },
        }
    }

    pub(crate) fn is_sum(self) -> bool {
        matches!(self, HistogramRole::StatementSum { .. })
    }

    /// The tag that [`HistogramRole::from_tag`] reads.
    pub(crate) fn tag(self, data: &RunData) -> String {
        let of = |script: usize, end: String| {
            let scripts = data.record.load.as_ref().map(|load| &load.scripts);
            let tag = scripts.and_then(|scripts| scripts.get(script)).map_or("", |script| &script.tag);
            format!("{tag}{end}")
        };
        match self {
            HistogramRole::Latency { script } => of(script, String::new()),
            HistogramRole::Service { script } => of(script, ".service".to_string()),
            HistogramRole::Lag { script } => of(script, ".lag".to_string()),
            HistogramRole::Statement { script, index } => of(script, format!(".{index}")),
            HistogramRole::StatementSum { script, index } => of(script, format!(".{index}{MEASURED}")),
        }
    }
}

fn add_by_role(data: &RunData, sums: &mut Distributions, role: HistogramRole, one: &Decoded) {
    match role {
        HistogramRole::Latency { script } => {
            sums.latency.add_decoded(one);
            if let Some(script) = sums.scripts.get_mut(&script) {
                script.latency.add_decoded(one);
            }
        }
        HistogramRole::Service { script } => {
            sums.service.add_decoded(one);
            if let Some(script) = sums.scripts.get_mut(&script) {
                script.service.add_decoded(one);
            }
        }
        HistogramRole::Lag { .. } => sums.lag.add_decoded(one),
        HistogramRole::Statement { script, index } | HistogramRole::StatementSum { script, index } => {
            sums.statement(data, script, index).service.add_decoded(one);
        }
    }
}

fn script_name(data: &RunData, script: usize) -> String {
    let scripts = data.record.load.as_ref().map(|load| &load.scripts);
    scripts.and_then(|scripts| scripts.get(script)).map_or(String::new(), |script| script.name.clone())
}

fn statement_label(data: &RunData, script: usize, index: usize) -> String {
    let labels = data.record.ready.as_ref().and_then(|ready| ready.statements.get(script));
    labels.and_then(|labels| labels.get(index)).cloned().unwrap_or_else(|| format!("statement {index}"))
}
