//! One script of a load: its part in the mix, what became of its transactions, and what its workload directory says of them.

use std::collections::BTreeMap;

use model::load::interval::Counts;
use serde::Serialize;

use super::LatencySummary;

/// One script of a load, over the measurement.
#[derive(Debug, Clone, Serialize)]
pub struct ScriptSummary {
    /// Name of the script.
    pub name: String,
    /// Weight in the choice of the next script.
    pub weight: u32,
    /// Weight over the sum of all weights, 0 to 1; `None` if classes of clients choose in ways of their own.
    pub share_planned: Option<f64>,
    /// Its part in the transactions that were committed or ended with an expected error, 0 to 1; `None` without any.
    pub share: Option<f64>,
    /// Whether `share` differs from `share_planned` by more than chance allows.
    pub share_differs: bool,
    /// Counts of its transactions.
    pub counts: Counts,
    /// Committed transactions per second.
    pub tps: Option<f64>,
    /// Latency of its transactions: end minus due.
    pub latency: Option<LatencySummary>,
    /// Service time of its transactions: end minus sent.
    pub service: Option<LatencySummary>,
    /// Facts about its committed transactions, each summed up.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, u64>,
    /// Ratios of its facts that its workload directory names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub measures: Vec<MeasureSummary>,
    /// The latency that its workload directory judges it by; `None` without one, and if nothing was committed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitSummary>,
}

/// A ratio of facts, such as recall.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MeasureSummary {
    /// Name.
    pub name: String,
    /// A title of a few words.
    pub title: String,
    /// The fact that is divided, summed up.
    pub numerator: u64,
    /// The fact that divides.
    pub denominator: u64,
    /// The ratio; `None` over zero.
    pub value: Option<f64>,
}

impl MeasureSummary {
    /// The ratio of these sums.
    pub fn new(name: &str, title: &str, numerator: u64, denominator: u64) -> MeasureSummary {
        let value = (denominator > 0).then(|| numerator as f64 / denominator as f64);
        MeasureSummary { name: name.to_string(), title: title.to_string(), numerator, denominator, value }
    }
}

/// A latency that a script is judged by.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LimitSummary {
    /// The percentile, in percent: 99.9.
    pub percentile: f64,
    /// Most latency at this percentile, nanoseconds.
    pub limit_ns: u64,
    /// The latency there.
    pub found_ns: u64,
    /// Whether it is within the limit.
    pub is_met: bool,
}
