//! The phases of a run, in their order, and when each took place.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A phase of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The initial state of the data is restored and the server is started.
    Restore,
    /// The statements of `workload.apply`.
    Apply,
    /// Vacuum and analyze.
    Vacuum,
    /// Data is read into memory.
    Prewarm,
    /// A checkpoint, so that none is due soon.
    Checkpoint,
    /// Waiting until the server is quiet.
    Settle,
    /// Clients connect and prepare.
    Connect,
    /// Load before the measurement window.
    RampUp,
    /// The measurement window.
    Measure,
    /// Transactions in flight end.
    Drain,
}

impl Phase {
    /// All phases, in their order.
    pub const ALL: [Phase; 10] = [
        Phase::Restore,
        Phase::Apply,
        Phase::Vacuum,
        Phase::Prewarm,
        Phase::Checkpoint,
        Phase::Settle,
        Phase::Connect,
        Phase::RampUp,
        Phase::Measure,
        Phase::Drain,
    ];

    /// The word used in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Restore => "restore",
            Phase::Apply => "apply",
            Phase::Vacuum => "vacuum",
            Phase::Prewarm => "prewarm",
            Phase::Checkpoint => "checkpoint",
            Phase::Settle => "settle",
            Phase::Connect => "connect",
            Phase::RampUp => "ramp_up",
            Phase::Measure => "measure",
            Phase::Drain => "drain",
        }
    }
}

/// When a phase took place, with further facts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseRecord {
    /// The phase.
    pub phase: Phase,
    /// Start, nanoseconds since the Unix epoch.
    pub start_unix_ns: u64,
    /// End, nanoseconds since the Unix epoch.
    pub end_unix_ns: u64,
    /// Facts by name: the method used, bytes moved, why it was skipped.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub detail: BTreeMap<String, String>,
}

impl PhaseRecord {
    /// Length in seconds.
    pub fn length_s(&self) -> f64 {
        self.end_unix_ns.saturating_sub(self.start_unix_ns) as f64 / 1e9
    }
}
