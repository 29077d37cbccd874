//! One run, explained.

pub(super) mod executions;
pub(super) mod outage;
pub(super) mod query;
pub(super) mod script;

use model::experiment::plan::RunState;
use model::experiment::repeat::Repeat;
use model::load::course::LoadCourse;
use model::load::histogram::HistogramSum;
use model::load::interval::Counts;
use model::run::RunRecord;
use serde::Serialize;

use super::capacity::{Capacity, ProbeVerdict, SearchOutcome};
use super::cost::{CostFigure, WorkDone};
use super::counters::CounterSummary;
use super::imported::ImportedSummary;
use super::limiter::Limiter;
use super::resources::ResourceUsage;
use super::top_statement::TopStatement;
use super::tpcc::TpccSummary;
use super::uncertainty::DisturbanceBounds;
use crate::fidelity::Fidelity;
use crate::finding::{Finding, Grade, Severity};
use crate::summary::run::executions::StatementExecutions;
use crate::summary::run::outage::OutageSummary;
use crate::summary::run::query::AnalyticalSummary;
use crate::summary::run::script::{MeasureSummary, ScriptSummary};

/// The finding of a search in which no rate met the target.
pub(crate) const UNREACHABLE: &str = "target-unreachable";
/// The finding of a run that committed too little for percentiles.
pub(crate) const TOO_FEW_TRANSACTIONS: &str = "too-few-transactions";

/// One run, explained.
#[derive(Debug, Clone, Serialize)]
pub struct RunSummary {
    /// Number of the run.
    pub run: u32,
    /// Number of its block.
    pub block: u32,
    /// Number of its case.
    pub case: u32,
    /// The planned run that it repeats; `None` for a planned run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeat: Option<Repeat>,
    /// What else on the machine disturbed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disturbance: Option<Disturbance>,
    /// The run that counts instead, because it was disturbed less.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaced_by: Option<u32>,
    /// State of the run.
    pub state: RunState,
    /// Why the run did not complete, if so.
    pub reason: String,
    /// The resulting window, if its ends were determined while the load ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub course: Option<LoadCourse>,
    /// When the load began, nanoseconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub go_unix_ns: Option<u64>,
    /// Measured seconds.
    pub measured_s: f64,
    /// Counts within the measurement.
    pub counts: Counts,
    /// Counts over the whole load; their identity holds.
    pub total: Counts,
    /// Failed and unknown transactions of the whole load, by SQLSTATE, with one message each.
    pub errors: Vec<ErrorSummary>,
    /// Committed transactions per second of the measurement; `None` if nothing was measured. For a search, the highest
    /// rate that meets the target; for an analytical workload, 1 over the geometric mean of its queries' seconds.
    pub tps: Option<f64>,
    /// The result of the search for that rate, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Capacity>,
    /// Latency: end minus due.
    pub latency: Option<LatencySummary>,
    /// Service time: end minus sent.
    pub service: Option<LatencySummary>,
    /// Lag: sent minus due; open loop only.
    pub lag: Option<LatencySummary>,
    /// Each script of the load.
    pub scripts: Vec<ScriptSummary>,
    /// Ratios of facts that its workload directory names, over all scripts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub measures: Vec<MeasureSummary>,
    /// Each statement's service time.
    pub statements: Vec<StatementSummary>,
    /// What each statement did, for comparisons.
    #[serde(skip)]
    pub executions: Vec<StatementExecutions>,
    /// The queries of an analytical workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub analytical: Option<AnalyticalSummary>,
    /// The outage that was injected; the other figures are of the measurement before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outage: Option<Box<OutageSummary>>,
    /// TPC-C figures, if it is TPC-C.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tpcc: Option<TpccSummary>,
    /// Each second from `go` to the end of the drain.
    pub seconds: Vec<Second>,
    /// Resource usage over the measurement.
    pub resources: ResourceUsage,
    /// Counters of processor and kernel over the measurement, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counters: Option<CounterSummary>,
    /// What a committed transaction cost the server, as far as it is known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<CostFigure>,
    /// What it had written at the end of each second, for comparisons at equal work; empty if that is unknown.
    #[serde(skip)]
    pub work: Vec<WorkDone>,
    /// Per-second values of telemetry, aligned with `seconds` by time.
    pub series: Vec<TelemetrySeries>,
    /// What was measured elsewhere, over the measurement.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub imported: Vec<ImportedSummary>,
    /// Marks on the time line (checkpoints, autovacuum, lost connections).
    pub marks: Vec<TimelineMark>,
    /// Length of each phase in seconds, in order: name and seconds.
    pub phases: Vec<(String, f64)>,
    /// Jain's fairness index over the clients' committed transactions, 1 is even.
    pub fairness: Option<f64>,
    /// What limited it; `None` if waits were not sampled, or it searched for a rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limiter: Option<Limiter>,
    /// The statements that it spent its time in, as the server saw it; those with the most sessions first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub top_statements: Vec<TopStatement>,
    /// How faithful it is to the source of its workload, if that was captured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fidelity: Option<Fidelity>,
    /// What disturbances can have done to its figures, as far as the budget of the uncertainty bounds it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bounds: Vec<DisturbanceBounds>,
    /// Findings of the run.
    pub findings: Vec<Finding>,
    /// The worst grade that follows from the findings.
    pub grade: Grade,
}

/// What else on the machine disturbed a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Disturbance {
    /// The largest ratio of a value to its rule's threshold: 2 is twice what the rule allows.
    pub score: f64,
    /// The rules that found it.
    pub rules: Vec<&'static str>,
    /// Evidence of these rules.
    pub evidence: String,
}

/// Errors of one SQLSTATE.
#[derive(Debug, Clone, Serialize)]
pub struct ErrorSummary {
    /// SQLSTATE, or `lost`.
    pub sqlstate: String,
    /// Number of transactions that failed in this way.
    pub n: u64,
    /// One example message.
    pub message: String,
}

/// A distribution of times, from one histogram.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LatencySummary {
    /// Values recorded.
    pub n: u64,
    /// Arithmetic mean.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 95th percentile.
    pub p95_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// Largest value.
    pub max_ns: u64,
}

/// Shortest median wait that is a queue, nanoseconds.
const QUEUED_NS_MIN: u64 = 10_000_000;
/// The same in median service times.
const QUEUED_TIMES: u64 = 10;

impl LatencySummary {
    /// The figures of a distribution; `None` if it is empty.
    pub fn from_histogram(sum: &HistogramSum) -> Option<LatencySummary> {
        let [p50_ns, p90_ns, p95_ns, p99_ns, p999_ns] = sum.quantiles_ns([0.5, 0.9, 0.95, 0.99, 0.999])?;
        let (n, mean_ns, max_ns) = (sum.n(), sum.mean_ns(), sum.largest_ns());
        Some(LatencySummary { n, mean_ns, p50_ns, p90_ns, p95_ns, p99_ns, p999_ns, max_ns })
    }
}

/// One statement of a script.
#[derive(Debug, Clone, Serialize)]
pub struct StatementSummary {
    /// Name of the script.
    pub script: String,
    /// Index of the statement in the script.
    pub index: usize,
    /// First line of the statement.
    pub label: String,
    /// Service times of the statement.
    pub service: LatencySummary,
}

/// One second of the load, over all scripts.
#[derive(Debug, Clone, Serialize)]
pub struct Second {
    /// Seconds since `go`.
    pub t: u32,
    /// Whether it belongs to the measurement.
    pub measured: bool,
    /// Committed transactions per second.
    pub tps: f64,
    /// Failed and unknown transactions.
    pub errors: u64,
    /// Median latency, if anything ended.
    pub p50_ns: Option<u64>,
    /// 95th percentile of latency.
    pub p95_ns: Option<u64>,
    /// 99th percentile of latency.
    pub p99_ns: Option<u64>,
    /// Largest latency.
    pub max_ns: Option<u64>,
}

/// A telemetry series of one run.
#[derive(Debug, Clone, Serialize)]
pub struct TelemetrySeries {
    /// Panel of the series: `cpu` (each processor `cpuN`, and their users, to be stacked), `disk`, `wal`, `memory`,
    /// `sessions` (those that are not idle by what they do, to be stacked), `ceilings` (used part of what a resource can give at most),
    /// `server` (sessions once a second), `waits` (top wait events), `psi` (pressure), `driver`.
    pub panel: String,
    /// Name in the legend: `cpu0`, `server`, `data reads`.
    pub name: String,
    /// Unit of the values: `%`, `MiB/s`, `IOPS`, `ms`, `MiB`, `sessions`, `transactions`.
    pub unit: String,
    /// Points: seconds since `go` and value.
    pub points: Vec<(f64, f64)>,
}

/// A marked moment or stretch of the time line.
#[derive(Debug, Clone, Serialize)]
pub struct TimelineMark {
    /// Start, seconds since `go` (may be negative).
    pub from_s: f64,
    /// End, seconds since `go`; equal to the start for a moment.
    pub to_s: f64,
    /// `checkpoint`, `autovacuum`, `trouble`, `pause`.
    pub kind: String,
    /// Text for people.
    pub text: String,
}

impl RunSummary {
    /// Whether the run is part of its case's numbers: it is eligible, and no other attempt replaces it.
    pub fn counts(&self) -> bool {
        self.is_completed() && self.replaced_by.is_none()
    }

    /// What a committed transaction cost of this row of the table of costs.
    pub fn cost(&self, id: &str) -> Option<f64> {
        self.costs.iter().find(|cost| cost.id == id).map(|cost| cost.value)
    }

    /// Whether all transactions that were due at this rate ended, but for what chance explains: a hundredth, and three standard
    /// deviations of a Poisson count.
    pub fn sustains(&self, rate_per_s: f64) -> bool {
        let offered = rate_per_s * self.measured_s;
        self.counts.ended() as f64 >= 0.99 * offered - 3.0 * offered.sqrt()
    }

    /// Whether transactions were due at a rate, which it [sustained](RunSummary::sustains).
    pub(crate) fn sustains_its_rate(&self, record: &RunRecord) -> bool {
        let rate_per_s = record.load.as_ref().and_then(|load| load.pace.rate_per_s());
        rate_per_s.is_some_and(|rate_per_s| self.sustains(rate_per_s))
    }

    /// How long half of the transactions waited for a free client, nanoseconds, if that is a queue and no chance: all of them are served
    /// in the end, but none when it is due. A random schedule below nine tenths of capacity waits less. Our convention.
    pub fn queued_ns(&self) -> Option<u64> {
        let (lag, service) = (self.lag?.p50_ns, self.service?.p50_ns);
        (lag >= QUEUED_NS_MIN && lag >= QUEUED_TIMES * service).then_some(lag)
    }

    /// Whether the run reached its planned end and no finding voids it.
    pub fn is_completed(&self) -> bool {
        self.state == RunState::Completed && self.grade != Grade::Void && self.tps.is_some()
    }

    /// Whether the run reached its end and is void only because no rate met the target: a result, not a failure of the
    /// run. The lowest rate may also commit too few transactions for percentiles, which none are taken of.
    pub fn is_censored(&self) -> bool {
        let is_unreachable =
            self.capacity.as_ref().is_some_and(|one| one.outcome == SearchOutcome::Unreachable);
        let mut void = self.findings.iter().filter(|finding| finding.severity == Severity::Void);
        is_unreachable
            && self.state == RunState::Completed
            && void.all(|finding| [UNREACHABLE, TOO_FEW_TRANSACTIONS].contains(&finding.id))
    }

    /// Whether the confirming probe did not miss the target.
    pub(crate) fn is_confirmed(&self) -> bool {
        let mut probes = self.capacity.iter().flat_map(|capacity| &capacity.probes);
        probes.any(|probe| probe.confirms && probe.verdict != ProbeVerdict::Misses)
    }
}
