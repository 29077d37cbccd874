//! What a metric is: a row of the table.

mod table;

use std::collections::HashMap;
use std::sync::LazyLock;

pub use table::METRICS;

/// How values of a metric combine over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows; a tick has its increase.
    Counter,
    /// A level; a tick has its value at the tick's end.
    Gauge,
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Name, as in ticks.
    pub name: &'static str,
    /// What an instance is (`cpu`, `device`), or empty.
    pub instance: &'static str,
    /// Counter or gauge.
    pub kind: MetricKind,
    /// Unit: `s`, `bytes`, `1`.
    pub unit: &'static str,
    /// Description, and where it is read.
    pub what: &'static str,
}

/// The row of a metric.
pub fn find(name: &str) -> Option<&'static Metric> {
    static BY_NAME: LazyLock<HashMap<&str, &Metric>> =
        LazyLock::new(|| METRICS.iter().map(|metric| (metric.name, metric)).collect());
    BY_NAME.get(name).copied()
}

const fn counter(
    name: &'static str,
    instance: &'static str,
    unit: &'static str,
    what: &'static str,
) -> Metric {
    Metric { name, instance, kind: MetricKind::Counter, unit, what }
}

const fn gauge(name: &'static str, instance: &'static str, unit: &'static str, what: &'static str) -> Metric {
    Metric { name, instance, kind: MetricKind::Gauge, unit, what }
}

/// Gauges whose value may be below zero: how far a clock is ahead of another one.
const SIGNED: [&str; 2] = ["host.clock_offset", "server.clock_offset"];

impl Metric {
    /// Whether a reading can have this value. Counters never fall, and no level is negative, but for differences of clocks.
    pub fn can_be(&self, value: f64) -> bool {
        let least = if SIGNED.contains(&self.name) { -VALUE_MAX } else { 0.0 };
        (least..=VALUE_MAX).contains(&value)
    }
}

/// Largest value of a reading: an exabyte.
pub const VALUE_MAX: f64 = 1e18;

/// Beginnings of what many servers and machines lack, and what no rule is silent without: it is recorded why it is not there, but
/// that is no finding.
pub const OPTIONAL: [&str; 9] = [
    "statements.",
    "database.read_time",
    "server.wal_write_time",
    "disk.over_limit_time",
    "net.held_back_packets",
    "host.cpu.frequency",
    "counters.",
    "server.wal_directory_bytes",
    "archive.",
];

#[cfg(test)]
mod tests;
