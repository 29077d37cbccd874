//! The nodes of a run besides its primary: standbys, before the load and after it, and the pooler that the load went through.

use serde::{Deserialize, Serialize};

use crate::experiment::topology::pooler::{PoolMode, PoolerKind};

/// A standby that pgdyno ran.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Name of the node: `s1`.
    pub name: String,
    /// Name of the standby that it streams from; `None`: the primary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// Process id of its postmaster.
    pub pid: u32,
    /// Identifier of the cluster that it follows: that of its own files, and of the primary's.
    pub system_identifier: String,
    /// `sync_state` of its upstream's `pg_stat_replication` before the load: `async`, `potential`, `sync` or `quorum`.
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

/// The pooler that pgdyno ran between the load and the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PoolerRecord {
    /// Kind of pooler.
    pub kind: PoolerKind,
    /// Its release; unknown of what a command of the user's starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// For how long a client had a connection of the pool.
    pub mode: PoolMode,
    /// Connections of each process to the server, at most.
    pub size: u32,
    /// Number of processes.
    pub n_processes: u32,
}

impl PoolerRecord {
    /// Describes it: `pgbouncer 1.18.0 in transaction mode with 20 connections`.
    pub fn words(&self) -> String {
        let what = match self.kind {
            PoolerKind::Command => "the pooler of pooler.command",
            PoolerKind::None | PoolerKind::Pgbouncer => self.kind.as_str(),
        };
        let version = self.version.iter().map(|version| format!(" {version}")).collect::<String>();
        let each = if self.n_processes > 1 {
            format!(" in each of {} processes", self.n_processes)
        } else {
            String::new()
        };
        format!("{what}{version} in {} mode with {} connections{each}", self.mode, self.size)
    }

    /// Connections to the server that all of its processes have at most.
    pub fn n_connections(&self) -> u32 {
        self.size.saturating_mul(self.n_processes)
    }
}

/// Whether commits wait for a standby with this `sync_state`.
pub fn is_waited_for(sync_state: &str) -> bool {
    matches!(sync_state, "sync" | "quorum")
}
