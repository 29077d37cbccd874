//! What runs, cases and an experiment mean: the values that reports draw.
//!
//! Only types; `study.rs` computes them. Latencies are in nanoseconds, times in seconds since `go`.

use model::case::Case;
use model::course::Course;
use model::interval::Counts;
use model::plan::{Plan, RunState};
use model::repeat::Repeat;
use serde::Serialize;

use crate::capacity::{Capacity, CaseCapacity};
use crate::finding::{Finding, Grade};
use crate::scalability::Scalability;
use crate::tpcc::TpccSummary;
use crate::variation::Variation;

/// An experiment, explained.
#[derive(Debug, Clone, Serialize)]
pub struct Study {
    /// The plan that was followed.
    pub plan: Plan,
    /// Each case over its runs, in the order of the plan.
    pub cases: Vec<CaseSummary>,
    /// Each run that was begun, in the order of execution.
    pub runs: Vec<RunSummary>,
    /// How throughput goes with the number of clients, for each combination of the other factors.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scalability: Vec<Scalability>,
    /// Findings about the experiment as a whole; those of a run or a case are with them.
    pub findings: Vec<Finding>,
    /// Why the experiment is not whole (`2 of 9 runs are missing: interrupted`), if it is not.
    pub partial: Option<String>,
}

/// A case over its runs. Only completed runs count; void ones are shown but left out of the numbers.
#[derive(Debug, Clone, Serialize)]
pub struct CaseSummary {
    /// The case.
    pub case: Case,
    /// Its label for tables and axes.
    pub label: String,
    /// Runs that count.
    pub n_runs: usize,
    /// Throughput of the runs that count, transactions per second, in the order of execution.
    pub tps: Vec<f64>,
    /// Median of `tps`; `None` without a run that counts.
    pub tps_median: Option<f64>,
    /// Coefficient of variation of `tps` (standard deviation over mean); `None` below two runs.
    pub tps_cv: Option<f64>,
    /// How much `tps` varies, and where that comes from.
    pub variation: Variation,
    /// Latency over all runs that count, from added histograms; of searches, of those probes that confirmed a rate and did
    /// not miss the target.
    pub latency: Option<LatencySummary>,
    /// Service time likewise.
    pub service: Option<LatencySummary>,
    /// Scripts over all runs that count.
    pub scripts: Vec<ScriptSummary>,
    /// Statements over all runs that count.
    pub statements: Vec<StatementSummary>,
    /// TPC-C over all runs that count, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tpcc: Option<TpccSummary>,
    /// The highest rate that holds a latency target, if that was searched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<CaseCapacity>,
    /// Findings that belong to the case (such as the spread of its runs).
    pub findings: Vec<Finding>,
    /// The worst grade that `findings` and the counting runs' findings give.
    pub grade: Grade,
}

/// One run, explained.
#[derive(Debug, Clone, Serialize)]
pub struct RunSummary {
    /// Number of the run.
    pub run: u32,
    /// Number of its block.
    pub block: u32,
    /// Number of its case.
    pub case: u32,
    /// Which planned run it repeats; `None` for a planned one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeat: Option<Repeat>,
    /// What else on the machine disturbed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disturbance: Option<Disturbance>,
    /// The run that counts in its place, because that one was disturbed less.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaced_by: Option<u32>,
    /// How far it got.
    pub state: RunState,
    /// Why it did not complete, if so.
    pub reason: String,
    /// The window as it became, where its ends were found while the load ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub course: Option<Course>,
    /// Seconds that were measured.
    pub measured_s: f64,
    /// Counts within the measure.
    pub counts: Counts,
    /// Counts over the whole load; their identity holds.
    pub total: Counts,
    /// Failed and unknown transactions of the whole load, by SQLSTATE, with one message each.
    pub errors: Vec<ErrorSummary>,
    /// Committed transactions per second of the measure; `None` when nothing was measured. Of a search, the highest rate
    /// that holds the target.
    pub tps: Option<f64>,
    /// What a search for that rate found, if it was one.
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
    /// Each statement's service time.
    pub statements: Vec<StatementSummary>,
    /// TPC-C, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tpcc: Option<TpccSummary>,
    /// Each second from `go` to the end of the drain.
    pub seconds: Vec<Second>,
    /// What the run used of the machine, over the measure.
    pub resources: Resources,
    /// Per-second values of telemetry, aligned with `seconds` by time.
    pub series: Vec<Series>,
    /// Marks on the time line (checkpoints, autovacuum, lost connections).
    pub marks: Vec<Mark>,
    /// Length of each phase in seconds, in order: name and seconds.
    pub phases: Vec<(String, f64)>,
    /// Jain's fairness index over the clients' committed transactions, 1 is even.
    pub fairness: Option<f64>,
    /// What was found.
    pub findings: Vec<Finding>,
    /// The worst grade that the findings give.
    pub grade: Grade,
}

/// What else on the machine disturbed a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Disturbance {
    /// The largest excess over the threshold of a rule: 2 is twice as much as the rule allows.
    pub score: f64,
    /// The rules that found it.
    pub rules: Vec<&'static str>,
    /// Their evidence.
    pub evidence: String,
}

/// Errors of one SQLSTATE.
#[derive(Debug, Clone, Serialize)]
pub struct ErrorSummary {
    /// SQLSTATE, or `lost`.
    pub sqlstate: String,
    /// How many transactions.
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

/// One script of a load, over the measure.
#[derive(Debug, Clone, Serialize)]
pub struct ScriptSummary {
    /// Its name.
    pub name: String,
    /// Weight in the choice of the next script.
    pub weight: u32,
    /// Its weight over the sum of all, 0 to 1.
    pub share_planned: f64,
    /// Its committed transactions over those of all scripts, 0 to 1; `None` when nothing was committed.
    pub share: Option<f64>,
    /// What became of its transactions.
    pub counts: Counts,
    /// Committed transactions per second.
    pub tps: Option<f64>,
    /// Latency of its transactions: end minus due.
    pub latency: Option<LatencySummary>,
}

/// One statement of a script.
#[derive(Debug, Clone, Serialize)]
pub struct StatementSummary {
    /// Name of the script.
    pub script: String,
    /// Index of the statement in the script.
    pub index: usize,
    /// Its first line.
    pub label: String,
    /// Its service times.
    pub service: LatencySummary,
}

/// One second of the load, all scripts together.
#[derive(Debug, Clone, Serialize)]
pub struct Second {
    /// Seconds since `go`.
    pub t: u32,
    /// Whether it belongs to the measure.
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

/// What a run used, over the measure; `None` where it could not be seen.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Resources {
    /// Processors of the host.
    pub n_cpus: Option<u32>,
    /// Busy share of all processors, 0 to 1.
    pub host_busy: Option<f64>,
    /// Largest busy share of a single processor, 0 to 1.
    pub busiest_cpu: Option<f64>,
    /// Share of processor time taken by the hypervisor, 0 to 1.
    pub steal: Option<f64>,
    /// CPU seconds of the server's process tree per wall second.
    pub server_cpu: Option<f64>,
    /// CPU seconds of the driver per wall second.
    pub driver_cpu: Option<f64>,
    /// Busiest driver thread, share of one processor, 0 to 1.
    pub driver_busiest_thread: Option<f64>,
    /// CPU seconds per wall second used by anything else on the host: busy minus server, driver and pgdyno.
    pub foreign_cpu: Option<f64>,
    /// Driver CPU per transaction that ended, microseconds.
    pub driver_cpu_us_per_transaction: Option<f64>,
    /// Server CPU per transaction that ended, microseconds.
    pub server_cpu_us_per_transaction: Option<f64>,
    /// WAL written, bytes per second.
    pub wal_bytes_per_s: Option<f64>,
    /// WAL written per committed transaction, bytes.
    pub wal_bytes_per_transaction: Option<f64>,
    /// Share of block reads found in shared buffers, 0 to 1.
    pub cache_hit: Option<f64>,
    /// Bytes read per second from the data device.
    pub disk_read_bytes_per_s: Option<f64>,
    /// Bytes written per second to the data device.
    pub disk_write_bytes_per_s: Option<f64>,
    /// Share of time the data device was busy, 0 to 1.
    pub disk_busy: Option<f64>,
    /// The machine of the target, where an exporter on it was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<RemoteResources>,
}

/// What the target's machine did over the measure, as an exporter on it told; `None` where that did not.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RemoteResources {
    /// Its processors.
    pub n_cpus: u32,
    /// Busy share of all processors, 0 to 1.
    pub busy: Option<f64>,
    /// Idle share of all processors, waiting for I/O left out, 0 to 1.
    pub idle: Option<f64>,
    /// Share of processor time taken by the hypervisor, 0 to 1.
    pub steal: Option<f64>,
    /// Bytes read per second from the device that was read most.
    pub disk_read_bytes_per_s: Option<f64>,
    /// Bytes written per second to the device that was written most.
    pub disk_write_bytes_per_s: Option<f64>,
    /// Share of time the busiest device was busy, 0 to 1.
    pub disk_busy: Option<f64>,
    /// Bytes received per second over all interfaces.
    pub received_bytes_per_s: Option<f64>,
    /// Bytes sent per second over all interfaces.
    pub sent_bytes_per_s: Option<f64>,
}

/// A telemetry series of one run.
#[derive(Debug, Clone, Serialize)]
pub struct Series {
    /// Which panel it belongs to: `cpu` (each processor `cpuN`, and who used them, to be stacked), `disk`, `wal`,
    /// `memory`, `server` (sessions), `waits` (top wait events), `psi` (pressure), `driver`.
    pub panel: String,
    /// Name in the legend: `cpu0`, `server`, `data reads`.
    pub name: String,
    /// Unit of the values: `%`, `MB/s`, `IOPS`, `ms`, `MB`, `sessions`, `transactions`.
    pub unit: String,
    /// Points: seconds since `go` and value.
    pub points: Vec<(f64, f64)>,
}

/// A moment or stretch of the time line worth a mark.
#[derive(Debug, Clone, Serialize)]
pub struct Mark {
    /// Start, seconds since `go` (may be negative).
    pub from_s: f64,
    /// End, seconds since `go`; equal to the start for a moment.
    pub to_s: f64,
    /// `checkpoint`, `autovacuum`, `trouble`, `pause`.
    pub kind: String,
    /// In words.
    pub text: String,
}
