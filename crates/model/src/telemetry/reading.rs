//! Readings of host, server and driver, tick by tick.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

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
    #[serde(deserialize_with = "values")]
    pub values: BTreeMap<String, f64>,
}

/// Reads all values before it makes the map, which is faster than to insert one by one: a study has millions.
fn values<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, f64>, D::Error> {
    struct Values;
    impl<'de> Visitor<'de> for Values {
        type Value = BTreeMap<String, f64>;

        fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
            out.write_str("values by key")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut values = Vec::with_capacity(128);
            while let Some(entry) = map.next_entry()? {
                values.push(entry);
            }
            Ok(values.into_iter().collect())
        }
    }
    from.deserialize_map(Values)
}

/// The key of one instance of a metric.
pub fn key(metric: &str, instance: &str) -> String {
    format!("{metric}[{instance}]")
}

/// Splits a key into the metric's name and the instance, if there is one.
pub fn split_key(key: &str) -> (&str, Option<&str>) {
    match key.split_once('[') {
        Some((metric, rest)) => (metric, rest.strip_suffix(']')),
        None => (key, None),
    }
}
