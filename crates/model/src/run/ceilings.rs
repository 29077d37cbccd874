//! Ceilings: the most that a machine's parts can give, measured by `pgdyno calibrate` or declared in `[limits]`.
//!
//! A value exists if and only if it is a row of [`CEILINGS`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::experiment::os::limits::Limits;

/// One row of the table of ceilings.
#[derive(Debug, Clone, Copy)]
pub struct Ceiling {
    /// Name, as in [`Calibration::values`].
    pub name: &'static str,
    /// What an instance is (`method`, `depth`), or empty.
    pub instance: &'static str,
    /// Unit: `1/s`, `bytes/s`, `s`, `bytes`, `1`.
    pub unit: &'static str,
    /// Description, and how it is measured.
    pub what: &'static str,
}

const fn row(name: &'static str, instance: &'static str, unit: &'static str, what: &'static str) -> Ceiling {
    Ceiling { name, instance, unit, what }
}

/// Every value that a calibration can have.
pub const CEILINGS: &[Ceiling] = &[
    row("file_bytes", "", "bytes", "size of the file that the other values of a directory are valid for"),
    row("sync_rate", "method", "1/s", "8 kB writes made durable one after the other, by wal_sync_method"),
    row("sync_time", "method", "s", "median time of one of them"),
    row(
        "read_rate",
        "depth",
        "1/s",
        "8 kB reads at random places past the page cache (O_DIRECT), so many at a time",
    ),
    row("read_time", "depth", "s", "median time of one of them"),
    row(
        "write_rate",
        "depth",
        "1/s",
        "8 kB writes at random places past the page cache (O_DIRECT), so many at a time",
    ),
    row("write_time", "depth", "s", "median time of one of them"),
    row("read_throughput", "", "bytes/s", "1 MiB reads in order past the page cache, four at a time"),
    row("write_throughput", "", "bytes/s", "1 MiB writes in order past the page cache, four at a time"),
    row("core_rate", "", "1/s", "steps of splitmix64 on one processor"),
    row("cores_rate", "", "1/s", "steps of splitmix64 on all processors at once"),
    row("memory_throughput", "", "bytes/s", "STREAM's triad on all processors, 24 bytes for each element"),
    row("clock_time", "", "s", "time that reading the monotonic clock takes"),
    row("round_trip_rate", "", "1/s", "`select 1` in one session, one after the other"),
    row("round_trip_time", "", "s", "median time of one of them"),
    row("receive_throughput", "", "bytes/s", "rows of 1 MiB in one session, from the server to the driver"),
    row(
        "send_throughput",
        "",
        "bytes/s",
        "statements of 1 MiB in one session, from the driver to the server",
    ),
];

/// What one calibration found about one place: a directory, a machine, or the way to a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// The machine that measured: name, processors and memory.
    pub machine: String,
    /// What was measured: `machine`, a device with its file system, or the way to a server.
    pub place: String,
    /// When it ended, nanoseconds since the Unix epoch.
    pub measured_unix_ns: u64,
    /// Longest time of each part, milliseconds.
    pub part_ms: u64,
    /// Values by key: a name of [`CEILINGS`], with its instance in brackets.
    pub values: BTreeMap<String, f64>,
    /// What could not be measured, with the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unavailable: BTreeMap<String, String>,
}

impl Calibration {
    /// A value, if it was measured and is positive.
    pub fn value(&self, key: &str) -> Option<f64> {
        self.values.get(key).copied().filter(|value| value.is_finite() && *value > 0.0)
    }

    /// The largest value of a metric over its instances.
    pub fn most(&self, name: &str) -> Option<f64> {
        let of_name = |key: &str| key.split('[').next() == Some(name);
        let all =
            self.values.iter().filter(|(key, value)| of_name(key) && value.is_finite() && **value > 0.0);
        all.map(|(_, value)| *value).reduce(f64::max)
    }

    /// Time since it ended, seconds; 0 if the clock was set back.
    pub fn age_s(&self, now_unix_ns: u64) -> f64 {
        now_unix_ns.saturating_sub(self.measured_unix_ns) as f64 / 1e9
    }
}

/// The ceilings that a run is judged by.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ceilings {
    /// Kept measurements by role: `data`, `wal`, `machine`, `network`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub measured: BTreeMap<String, Calibration>,
    /// Limits that the experiment declares.
    #[serde(skip_serializing_if = "Limits::is_empty")]
    pub declared: Limits,
}

impl Ceilings {
    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.measured.is_empty() && self.declared.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_name() {
        let values = [
            ("read_rate[1]", 100.0),
            ("read_rate[32]", 900.0),
            ("read_rate_x", 5000.0),
            ("write_rate[1]", 0.0),
        ];
        let calibration = Calibration {
            machine: String::new(),
            place: String::new(),
            measured_unix_ns: 5_000_000_000,
            part_ms: 5000,
            values: values.map(|(key, value)| (key.to_string(), value)).into(),
            unavailable: BTreeMap::new(),
        };
        assert_eq!(calibration.most("read_rate"), Some(900.0));
        assert_eq!((calibration.most("write_rate"), calibration.value("write_rate[1]")), (None, None));
        assert_eq!((calibration.age_s(6_000_000_000), calibration.age_s(1)), (1.0, 0.0));
    }
}
