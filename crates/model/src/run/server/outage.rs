//! An outage: the fault that was injected while the load ran, what followed it, and what became of the load's commits.

use serde::{Deserialize, Serialize};

/// The outage of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OutageRecord {
    /// The fault: `kill-primary`.
    pub fault: String,
    /// When it was planned, seconds after `go`.
    pub planned_s: f64,
    /// When it was begun, nanoseconds since the Unix epoch: just before the first signal, the start of the user's command, or the pause
    /// of a pooler. `None` if it was not, because the load ended before or others would have been hit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_unix_ns: Option<u64>,
    /// When it was complete: the last exit, the end of the user's command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complete_unix_ns: Option<u64>,
    /// What shows that it happened; `None` if nothing does, and then the run does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<String>,
    /// Why it could not be done, or not be proved; with a proof, what failed after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// What was done about it, in order: `promote s1`, `restart`, `undo`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<OutageStep>,
    /// When a server that takes writes was ready again, nanoseconds since the Unix epoch, as far as pgdyno saw it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_unix_ns: Option<u64>,
    /// Name of that server: `primary`, `s1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub survivor: Option<String>,
    /// WAL since the last checkpoint when it began, bytes: recovery after a crash depends on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wal_since_checkpoint_bytes: Option<u64>,
    /// What each server has of the load's commits, the survivor first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ledgers: Vec<LedgerRecord>,
    /// Why there is no such record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ledger_unavailable: Option<String>,
    /// Why there is none of the first primary, after another server took over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former_unavailable: Option<String>,
}

/// The step that ends a fault.
pub const UNDO: &str = "undo";
/// The step of a switchover that holds clients of a pooler back, before the primary is stopped.
pub const PAUSE: &str = "pause the pooler";
/// The step after the load that starts the lost primary, to read what it has.
pub const READ_COMMITS: &str = "restart primary, to read its commits";

impl OutageRecord {
    /// The first step of whoever manages the servers: neither a part of the fault or its end, nor what is done after the load.
    pub fn first_step(&self) -> Option<&OutageStep> {
        self.steps.iter().find(|step| ![PAUSE, UNDO, READ_COMMITS].contains(&step.what.as_str()))
    }
}

/// A step that followed the fault.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OutageStep {
    /// The step: `promote s1`.
    pub what: String,
    /// When it was begun, nanoseconds since the Unix epoch.
    pub began_unix_ns: u64,
    /// When it had ended.
    pub ended_unix_ns: u64,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The load's commits as the rows of one server tell them. Each transaction has written a token of its client and its number.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LedgerRecord {
    /// Name of the server: `primary`, `s1`.
    pub node: String,
    /// Tokens that it has.
    pub n_tokens: u64,
    /// Transactions that were acknowledged.
    pub n_acknowledged: u64,
    /// Acknowledged, and absent.
    pub n_lost: u64,
    /// When the first and the last of the lost ones were acknowledged, nanoseconds after `go`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_ns: Option<(u64, u64)>,
    /// Reported as failed, and present.
    pub n_ghosts: u64,
    /// Present twice or more.
    pub n_doubled: u64,
    /// Of those whose end nobody knows: present.
    pub n_unknown_present: u64,
    /// Of those whose end nobody knows: absent.
    pub n_unknown_absent: u64,
    /// Tokens that no transaction of the load has written.
    pub n_foreign: u64,
    /// Acknowledged after another server had taken over, and present here alone.
    #[serde(default)]
    pub n_of_two_primaries: u64,
}
