//! Counters of processor and kernel over the server's processes.

use std::collections::BTreeMap;

use serde::Serialize;

/// Counts over the measurement of a run, or the medians over the runs of a case that count; only with `run.counters`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CounterSummary {
    /// Instructions per cycle.
    pub ipc: Option<f64>,
    /// Misses of the last-level cache over references to it, 0 to 1.
    pub cache_miss: Option<f64>,
    /// Bytes per second between the last-level caches and memory, of all that ran there.
    pub memory_bytes_per_s: Option<f64>,
    /// Each event that was counted.
    pub events: Vec<EventCount>,
    /// What could not be counted, with the reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub missing: BTreeMap<String, String>,
}

/// How often an event occurred.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EventCount {
    /// `instructions`, `cycles`, …; `task_clock` is in seconds.
    pub name: String,
    /// Number over the measurement.
    pub total: f64,
    /// Number per transaction that ended.
    pub per_transaction: Option<f64>,
    /// The smallest share of a tick's time for which the event had a counter: below 1, the number is an extrapolation.
    pub share: f64,
}

impl CounterSummary {
    /// An event by name.
    pub fn event(&self, name: &str) -> Option<&EventCount> {
        self.events.iter().find(|event| event.name == name)
    }
}
