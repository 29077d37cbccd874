//! The workload directory of a case: its texts when the plan was made, and what was chosen of it. Crate `generator` reads the texts.

pub mod drawn;
pub mod trace;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};

use crate::directory::drawn::DrawnFiles;
use crate::text::word_enum::{word_or_number, words};

/// A workload directory in a variant, with values of its options.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkloadDirectory {
    /// Name that its `workload.toml` gives.
    pub name: String,
    /// Title that it gives.
    pub title: String,
    /// Where its files were read in this process: a built-in name, or a path. Records do not have it.
    #[serde(skip)]
    pub place: DirectoryPlace,
    /// What it wants to be said with every result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notice: Option<String>,
    /// The variant, if it has some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// The value of each option, also of those that nobody gave.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// The seed of the data.
    pub data_seed: u64,
    /// SHA-256 of all of its files, in hexadecimal, also of those that are not in `texts`.
    pub identity: String,
    /// SHA-256 of all that the data depends on, in hexadecimal.
    pub data_identity: String,
    /// Its tables in load order, as planned; empty where that is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<DirectoryTable>,
    /// Ratios of facts that it names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub measures: Vec<DirectoryMeasure>,
    /// The latencies that its transactions are judged by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<DirectoryLimit>,
    /// What an analytical workload asks of a load; `None` for all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub analytical: Option<AnalyticalSpec>,
    /// Whether classes of clients, or an order, choose transactions, so that weights alone do not say which part each should have.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_classes: bool,
    /// Its files by name with `/`, without those that only people and later checks of answers read.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub texts: BTreeMap<String, String>,
    /// Where it is, as the user named it, if it has captured rows, which no record has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draws_from: Option<String>,
    /// Its captured rows, as far as they are at hand.
    #[serde(skip)]
    pub draws: DrawnFiles,
    /// The server and the window that it was captured from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub captured: Option<CapturedFrom>,
    /// What is replayed of its trace, in place of its transactions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<TraceReplay>,
}

words! {
    /// How a captured workload is run again.
    Replay, "a replay" {
        /// Captured transactions are drawn by their frequencies, and arrive at random: a steady load of any length.
        #[default]
        Modelled = "modelled",
        /// The transactions of the trace, each once: the sessions, the order and the pace of the source.
        Trace = "trace",
    }
}

/// How many times as fast as the source a trace is replayed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Speed(f64);

impl Speed {
    /// The number.
    pub fn times(self) -> f64 {
        self.0
    }
}

impl Default for Speed {
    fn default() -> Speed {
        Speed(1.0)
    }
}

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Speed, String> {
        match text.trim().trim_start_matches('x').parse::<f64>() {
            Ok(times) if (0.001..=1000.0).contains(&times) => Ok(Speed(times)),
            _ => Err(format!("`{text}` is no speed: give a number from 0.001 to 1000, as 2 or 0.5")),
        }
    }
}

impl<'de> Deserialize<'de> for Speed {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Speed, D::Error> {
        word_or_number(from)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The replay of a trace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceReplay {
    /// How many times as fast as the source.
    pub speed: f64,
    /// Sessions of the source; those that follow each other share a client.
    pub n_sessions: u32,
    /// Transactions.
    pub n_transactions: u64,
    /// Statements.
    pub n_statements: u64,
    /// Length at the speed of the source, microseconds.
    pub length_us: u64,
}

impl TraceReplay {
    /// Length at its speed, seconds.
    pub fn length_s(&self) -> f64 {
        self.length_us as f64 / 1e6 / self.speed
    }
}

/// Where a captured workload comes from, as far as runs and reports need it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CapturedFrom {
    /// Release of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// System identifier of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_identifier: Option<String>,
    /// Transactions per second of the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_s: Option<f64>,
    /// Most sessions that were active at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n_clients: Option<u32>,
}

/// A place for messages. It is no part of what a directory is, so all places are equal.
#[derive(Debug, Clone, Default)]
pub struct DirectoryPlace(pub String);

impl PartialEq for DirectoryPlace {
    fn eq(&self, _: &DirectoryPlace) -> bool {
        true
    }
}

impl Eq for DirectoryPlace {}

/// A table of a workload directory, as planned.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryTable {
    /// Name without the schema.
    pub name: String,
    /// Rows; of a table whose number of lines is drawn for each parent, about as many.
    pub n_rows: u64,
    /// Approximate disk space without indexes.
    pub bytes: u64,
}

/// A ratio of sums of facts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryMeasure {
    /// Name.
    pub name: String,
    /// A title of a few words.
    pub title: String,
    /// The fact that is divided.
    pub numerator: String,
    /// The fact that divides.
    pub denominator: String,
}

/// Most latency of a transaction.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryLimit {
    /// Name of the transaction.
    pub transaction: String,
    /// The share of its transactions that keep to it, per thousand: 999 for p99.9.
    pub permille: u16,
    /// The latency, nanoseconds.
    pub limit_ns: u64,
}

/// What an analytical workload asks of a load: each client is a stream, which runs all queries in an order, so many times.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnalyticalSpec {
    /// Passes that count.
    pub passes: u32,
    /// Passes before them.
    pub warm_passes: u32,
    /// Queries of a pass.
    pub n_queries: u32,
    /// Whether plans are recorded after the measurement.
    pub explain: bool,
    /// The longest time of a query, milliseconds, by its name: one that is stopped then counts as that long.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub timeouts_ms: BTreeMap<String, u64>,
    /// The file of expected rows of a query, by its name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub answers: BTreeMap<String, String>,
}

impl WorkloadDirectory {
    /// As people call it: `ycsb:b`.
    pub fn label(&self) -> String {
        match &self.variant {
            Some(variant) => format!("{}:{variant}", self.name),
            None => self.name.clone(),
        }
    }

    /// As the user has named it, for messages: `./shop.workload`; by its name where only a record is known.
    pub fn place_words(&self) -> &str {
        if self.place.0.is_empty() { &self.name } else { self.place.0.trim_end_matches('/') }
    }

    /// Its title and its variant, for titles of experiments.
    pub fn title_words(&self) -> String {
        match &self.variant {
            Some(variant) => format!("{} ({variant})", self.title),
            None => self.title.clone(),
        }
    }

    /// Where the data comes from: `made by workload directory ycsb at scale 10`.
    pub fn data_words(&self, scale: u32) -> String {
        format!("made by workload directory {} at scale {scale}", self.name)
    }

    /// Approximate disk space of its tables without indexes, bytes.
    pub fn estimated_bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.bytes).fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_called_by_name_and_variant() {
        let plain = WorkloadDirectory {
            name: "ycsb".to_string(),
            title: "YCSB-like".to_string(),
            ..WorkloadDirectory::default()
        };
        let varied = WorkloadDirectory { variant: Some("b".to_string()), ..plain.clone() };
        assert_eq!((plain.label(), varied.label()), ("ycsb".to_string(), "ycsb:b".to_string()));
        assert_eq!(varied.title_words(), "YCSB-like (b)");
        assert_eq!(varied.data_words(10), "made by workload directory ycsb at scale 10");
    }

    #[test]
    fn what_an_older_record_lacks_is_empty() {
        let text = r#"{"name":"a","title":"A","data_seed":1,"identity":"x","data_identity":"y"}"#;
        let read: WorkloadDirectory = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        assert_eq!(read.estimated_bytes(), 0);
    }
}
