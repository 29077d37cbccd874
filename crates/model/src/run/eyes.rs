//! What is known of the eyes on the server's host.

use serde::{Deserialize, Serialize};

use crate::load::hello::Hello;
use crate::run::driver::ClockOffset;

/// `pgdyno watch` on the server's host during one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct HostObserverRecord {
    pub name: String,
    pub hello: Hello,
    /// Whether they share our kernel, and hence our clock and processors.
    #[serde(default)]
    pub is_here: bool,
    /// Process id of the postmaster there, if it was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub postmaster_pid: Option<u32>,
    /// Their clock against ours before the load; `None` if it is ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_before: Option<ClockOffset>,
    /// Their clock against ours after the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_after: Option<ClockOffset>,
    /// Ticks that arrived here.
    #[serde(default)]
    pub n_ticks: u64,
    /// Ticks that were observed there and did not arrive.
    #[serde(default)]
    pub n_ticks_lost: u64,
}
