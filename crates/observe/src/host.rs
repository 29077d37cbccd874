//! The machine and its processes: a description, and their counters in each tick.

pub(crate) mod backends;
pub(crate) mod cgroup;
pub mod counters;
pub(crate) mod device;
pub(crate) mod disk;
pub mod facts;
pub(crate) mod network;
pub(crate) mod place;
pub(crate) mod process;
pub(crate) mod provisioned;
pub(crate) mod resctrl;
pub(crate) mod service;
pub(crate) mod stack;
pub(crate) mod system;
pub(crate) mod watch;

/// Why this machine has no such reading, as it is noted where a run has none; `None` if it has, and for metrics that each machine has.
pub fn lacking(metric: &str) -> Option<String> {
    if metric == resctrl::METRIC { resctrl::lacking() } else { counters::lacking(metric) }
}
