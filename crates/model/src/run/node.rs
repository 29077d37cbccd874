//! A standby of the run's primary, before the load and after it.

use serde::{Deserialize, Serialize};

/// A standby that pgdyno ran.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Its name: `s1`.
    pub name: String,
    /// Process id of its postmaster.
    pub pid: u32,
    /// Identifier of the cluster that it follows: that of its own files, and of the primary's.
    pub system_identifier: String,
    /// `sync_state` of `pg_stat_replication` before the load: `async`, `potential`, `sync` or `quorum`.
    pub sync_state: String,
    /// What it was like when the load had ended; `None` if it could not be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<NodeAfter>,
}

/// A standby at the end of the load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeAfter {
    /// `sync_state` then; `None` if it was not connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_state: Option<String>,
    /// WAL of the primary that it had not yet written, bytes; like the others unknown of a standby that was not connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_lag_bytes: Option<u64>,
    /// WAL that it had not yet flushed to disk, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flush_lag_bytes: Option<u64>,
    /// WAL that it had not yet replayed, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay_lag_bytes: Option<u64>,
    /// How long it took to replay what the primary had written when the load had ended, seconds; `None` if it did not in the time
    /// that a load takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catch_up_s: Option<f64>,
    /// Bytes that the relay between it and its primary has forwarded since the standby was started, both ways; `None` without a relay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relayed_bytes: Option<u64>,
    /// Bytes that the relay has swallowed while it was cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swallowed_bytes: Option<u64>,
}

/// Whether commits wait for a standby with this `sync_state`.
pub fn is_waited_for(sync_state: &str) -> bool {
    matches!(sync_state, "sync" | "quorum")
}
