//! The queries of an analytical workload: each counts by itself, because there are few executions.

use serde::Serialize;

/// The figures of an analytical workload, of a run or of a case over its runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AnalyticalSummary {
    /// Streams of queries at the same time.
    pub n_streams: u32,
    /// Queries of a pass, as often as its order names each.
    pub n_queries: u32,
    /// Passes of each stream that count.
    pub n_passes: u32,
    /// The queries, in the order of the workload.
    pub queries: Vec<QuerySummary>,
    /// Geometric mean of the queries' seconds; of a case, the median of its runs. `None` if a query has no time.
    pub geomean_s: Option<f64>,
    /// Geometric mean of each run that counts; of a run, its own.
    pub geomeans_s: Vec<f64>,
    /// Whether a query was stopped at its longest time, which counts as its time: means are at least as long.
    pub is_at_least: bool,
    /// From the first counted query to the last answer, seconds; of a case, the median of its runs.
    pub elapsed_s: f64,
    /// Scale over the geometric mean, per hour, of one stream: 3600 · scale / geometric mean.
    pub power_per_h: Option<f64>,
    /// Queries times scale, per hour, of several streams: 3600 · streams · passes · queries of a pass · scale / elapsed time.
    pub throughput_per_h: Option<f64>,
}

/// One query.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QuerySummary {
    /// Name.
    pub name: String,
    /// Executions that count.
    pub n: u64,
    /// Those that were stopped at their longest time.
    pub timeouts: u64,
    /// Those that ended with another error, or without an answer.
    pub failed: u64,
    /// Mean seconds; of a case, the median of its runs. `None` if not all executions have a time.
    pub seconds: Option<f64>,
    /// The mean of each run that counts; of a run, its own.
    pub seconds_runs: Vec<f64>,
    /// Shortest execution, seconds.
    pub min_s: Option<f64>,
    /// Longest execution, seconds.
    pub max_s: Option<f64>,
    /// Hashes of its plans; of a run at most one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub plans: Vec<String>,
}

impl QuerySummary {
    /// Coefficient of variation over runs; `None` below two.
    pub fn cv(&self) -> Option<f64> {
        stats::cv(&self.seconds_runs)
    }
}

impl AnalyticalSummary {
    /// The throughput by which runs are compared: 1 over the geometric mean.
    pub fn rate_per_s(&self) -> Option<f64> {
        self.geomean_s.map(|geomean_s| 1.0 / geomean_s)
    }

    /// The query of this name.
    pub fn query(&self, name: &str) -> Option<&QuerySummary> {
        self.queries.iter().find(|query| query.name == name)
    }
}
