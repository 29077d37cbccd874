//! The statements that a load spent its time in.

use serde::Serialize;

/// A statement over a measurement, as the server saw it: from sampled sessions, and from pg_stat_statements if it was there.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TopStatement {
    /// Text without literals; `all others` for the rest.
    pub text: String,
    /// Sessions that were in it at a time, the mean of the samples; `None` if no sample saw it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sessions: Option<f64>,
    /// The same sessions by what they did: `CPU`, `LWLocks`, `I/O`, `WAL`, `locks`, `other`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by: Vec<(&'static str, f64)>,
    /// Executions per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls_per_s: Option<f64>,
    /// Time in the executor, seconds per second: the sessions that were in it at a time, as the extension counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<f64>,
    /// Time in the planner, seconds per second; zero unless track_planning is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan_time: Option<f64>,
    /// Rows returned or changed per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows_per_s: Option<f64>,
    /// Blocks not found in shared buffers per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocks_read_per_s: Option<f64>,
    /// Blocks of temporary files per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temp_blocks_per_s: Option<f64>,
    /// Time of reads and writes, seconds per second; zero unless track_io_timing is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io_time: Option<f64>,
    /// WAL, bytes per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wal_bytes_per_s: Option<f64>,
}

impl TopStatement {
    /// Mean time of an execution in the executor, seconds.
    pub fn mean_s(&self) -> Option<f64> {
        self.per_call(self.time)
    }

    /// A rate over that of executions.
    pub fn per_call(&self, rate: Option<f64>) -> Option<f64> {
        Some(rate? / self.calls_per_s.filter(|calls| *calls > 0.0)?)
    }

    /// Sessions in it at a time, by samples, else by the extension.
    pub fn weight(&self) -> f64 {
        self.sessions.or(self.time).unwrap_or(0.0)
    }
}
