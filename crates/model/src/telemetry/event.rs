//! Events during a run, on the same time line as the readings.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::bounds::NUMBER_MAX;

/// Kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A checkpoint began (`cause`: `time`, `wal`, `immediate force wait`, …).
    CheckpointStart,
    /// A checkpoint was complete (`buffers`, `write_s`, `sync_s`, `total_s`).
    CheckpointEnd,
    /// The server counted a checkpoint since the last tick (seen in its statistics, not its log).
    CheckpointCounted,
    /// An automatic vacuum of a table ended (`table`, `elapsed_s`).
    AutovacuumEnd,
    /// An automatic analyze of a table ended.
    AutoanalyzeEnd,
    /// An autovacuum worker was seen at work (from statistics, not the log).
    AutovacuumSeen,
    /// The server counted automatic vacuums or analyzes of a table that have ended since the previous reading, `span_s` ago
    /// (`what`, `table`, `n`; seen in its statistics, not its log).
    AutovacuumCounted,
    /// A FATAL, PANIC or crash line of the server log.
    ServerTrouble,
    /// The server is no longer the same process (restart or failover).
    ServerRestarted,
    /// Any other line of the server log worth keeping.
    ServerLog,
    /// A client lost its connection (`client`, `sqlstate`).
    ConnectionLost,
    /// The server violated PostgreSQL's protocol, and the client stopped (`client`).
    ProtocolBroken,
    /// The server sent more than the driver takes for one statement (`client`, `script`, `command`).
    LimitExceeded,
    /// A client that had lost its connection has a new one (`client`, `outage_s`).
    ConnectionRestored,
    /// A client stopped because of an error (`client`, `script`, `command`, `sqlstate`; `message` is the error alone,
    /// `cause` a line that precedes the text). The text is pgbench's.
    ClientAborted,
    /// A statement of a pipeline could not be parsed (`client`, `script`, `command`, `sqlstate`); it may never be run.
    /// The text is libpq's.
    StatementRefused,
    /// A transaction got an error that does not end its client (details as above). Only on request.
    ErrorReported,
    /// The transaction is retried after that error (`client`, `tries`). Only on request.
    ErrorRetried,
    /// The transaction failed with that error (`client`, `tries`). Only on request.
    ErrorFailed,
    /// A script called `debug()` (`client`); the text is pgbench's line.
    ScriptDebug,
    /// A client took a step (`client`); the text is pgbench's debugging output. Only on request.
    ScriptTrace,
    /// What a `\shell` command wrote to its standard output (`client`).
    ShellOutput,
    /// The server raised a notice or a warning (`client`, `severity`, `sqlstate`); the text is libpq's. Those beyond a
    /// limit per second are counted (`n_dropped`).
    ServerNotice,
    /// The driver did not run for a while (`pause_s`).
    DriverPaused,
    /// A source of telemetry can no longer be read.
    TelemetryLost,
    /// Space on a device is nearly used up (`free_bytes`, `path`).
    DiskNearlyFull,
    /// The cloud of a machine with eyes or a driver will take it away (`driver`); the text is the cloud's.
    SpotNotice,
    /// The cloud of that machine cannot be asked whether it will (`driver`); the text says why.
    SpotUnread,
}

/// One event: a line of `events.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Event {
    /// Time, nanoseconds since the Unix epoch.
    pub t_unix_ns: u64,
    pub kind: EventKind,
    /// Text: the log line, the message.
    pub text: String,
    /// Further facts by name, as text.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub detail: BTreeMap<String, String>,
}

impl Event {
    /// An event without further facts.
    pub fn new(t_unix_ns: u64, kind: EventKind, text: impl Into<String>) -> Event {
        Event { t_unix_ns, kind, text: text.into(), detail: BTreeMap::new() }
    }

    /// Adds a fact.
    pub fn with(mut self, name: &str, value: impl ToString) -> Event {
        self.detail.insert(name.to_string(), value.to_string());
        self
    }

    /// The fact `name` as a number, if it is a possible one.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.detail.get(name)?.parse().ok().filter(|number: &f64| number.abs() <= NUMBER_MAX)
    }
}
