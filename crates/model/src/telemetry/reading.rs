//! Readings of host, server and driver, tick by tick.

mod values;

use serde::{Deserialize, Serialize};

pub use self::values::{ReadingValue, Values};

use crate::bounds::UNIX_NS_MAX;
use crate::telemetry::metric;

/// Source of a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TickSource {
    /// The machine, and the processes on it.
    Host,
    /// PostgreSQL's own statistics.
    Server,
    /// The load driver.
    Driver,
    /// The machine of a target, as its exporter reports it.
    Remote,
    /// The machine of pgdyno and its driver, where `Host` is the server's: the same metrics as of `Host`.
    DriverHost,
    /// A standby, against its primary.
    Standby,
    /// The console of the pooler that pgdyno runs.
    Pooler,
}

impl TickSource {
    /// All of them.
    pub const ALL: [TickSource; 7] = [
        TickSource::Host,
        TickSource::Server,
        TickSource::Driver,
        TickSource::Remote,
        TickSource::DriverHost,
        TickSource::Standby,
        TickSource::Pooler,
    ];
}

/// One tick of one source: a line of `readings.jsonl`.
///
/// Keys are the names of [`crate::telemetry::metric::METRICS`], followed by `[instance]` if the metric has instances
/// (`host.cpu.user[cpu0]`). A counter's value is its increase over the tick, a gauge's the value at its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Tick {
    pub source: TickSource,
    /// End of the tick, nanoseconds since the Unix epoch.
    pub end_unix_ns: u64,
    /// Length of the tick, nanoseconds.
    pub length_ns: u64,
    /// Value by key.
    pub values: Values,
}

/// Longest tick that is used: an hour. Whatever asks for a moment looks that far around it, and a longer mean says nothing of one.
pub const LENGTH_MAX_NS: u64 = 3_600_000_000_000;
/// Most ticks of a source that overlap at any moment; those of one observer follow each other.
pub const OVERLAPS_MAX: usize = 64;
/// Most values of a tick, and most different keys of a run: a machine with hundreds of processors has some thousands, and each observer
/// gathers at most 10,000.
pub const KEYS_MAX: usize = 32_768;

impl Tick {
    /// Whether its time and size are possible. A results file may contain anything.
    ///
    /// # Errors
    /// Names the number that is not.
    pub fn check(&self) -> Result<(), String> {
        if self.end_unix_ns > UNIX_NS_MAX {
            return Err(format!("an end of {} is more than {UNIX_NS_MAX}", self.end_unix_ns));
        }
        if self.values.len() > KEYS_MAX {
            return Err(format!("a tick of {} values has more than {KEYS_MAX}", self.values.len()));
        }
        Ok(())
    }

    /// Takes out the values that are impossible, and names the first: one wrong line of an exporter costs no other value.
    pub fn take_out_impossible(&mut self) -> Option<String> {
        let mut first = None;
        self.values.retain(|key, value| {
            let is_possible = metric::find(split_key(key).0).is_none_or(|metric| metric.can_be(value));
            if !is_possible {
                first.get_or_insert_with(|| format!("`{key}` of {value:e} is impossible"));
            }
            is_possible
        });
        first
    }
}

/// The key of one instance of a metric.
pub fn key(metric: &str, instance: &str) -> String {
    format!("{metric}[{instance}]")
}

/// Splits a key into the metric's name and the instance, if there is one.
pub fn split_key(key: &str) -> (&str, Option<&str>) {
    // Keys are short: a search that starts up for long texts would take most of the time.
    match key.bytes().position(|byte| byte == b'[') {
        Some(at) => (&key[..at], key[at + 1..].strip_suffix(']')),
        None => (key, None),
    }
}
