//! What is known of each driver of a run, if there are several or they are on other machines.

use serde::{Deserialize, Serialize};

use crate::load::hello::Hello;
use crate::load::interval::{Counts, Moments};

/// One of the drivers of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct DriverRecord {
    pub name: String,
    pub hello: Hello,
    /// Whether it shares our kernel, and hence our clock.
    #[serde(default)]
    pub is_here: bool,
    /// Its clock against ours before the load; `None` if it is ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_before: Option<ClockOffset>,
    /// Its clock against ours after the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_after: Option<ClockOffset>,
    /// How far its wall clock was set during the load, nanoseconds.
    #[serde(default)]
    pub clock_set_ns: i64,
    /// How late its last thread began, after its `go`, nanoseconds.
    #[serde(default)]
    pub late_ns: u64,
    /// Its own totals of the whole load.
    #[serde(default)]
    pub counts: Counts,
    /// Transactions that it committed in each second since `go`.
    #[serde(default)]
    pub committed_by_second: Vec<u64>,
    /// Latencies of all its committed transactions.
    #[serde(default)]
    pub latency: Moments,
}

/// A clock compared with ours by pings (Cristian 1989): the ping with the shortest round trip decides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockOffset {
    /// Its clock less ours, nanoseconds.
    pub offset_ns: i64,
    /// Half of the shortest round trip: the offset is wrong by no more, nanoseconds.
    pub bound_ns: u64,
    /// Pings answered.
    pub n_pings: u32,
}

impl DriverRecord {
    /// How much its clock gained on ours during the load, nanoseconds.
    pub fn drift_ns(&self) -> Option<i64> {
        Some(self.clock_after?.offset_ns - self.clock_before?.offset_ns)
    }
}
