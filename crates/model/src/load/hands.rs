//! The protocol between pgdyno and its hands on a server's host (`pgdyno host`), one JSON value per line.
//!
//! To the hands: a greeting (see `load::hello`), a [`AgentOrder`], then [`AgentCommand`]s, each of which but `ping` is
//! answered by one [`AgentAnswer`]. Values are set for as long as the pipe is open and something arrives on it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::telemetry::watch::Backend;

/// Longest line to the hands, bytes: they may have root's rights, and what they read has a bound.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// The helper on a host that a user who is not root calls by sudo: this program, owned by root.
pub const HELPER: &str = "/usr/lib/pgdyno/pgdyno-host";

/// How the hands find the devices of the server's data and WAL.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AgentOrder {
    /// Format version, [`crate::FORMAT`].
    pub format: u32,
    /// The server process of a session; the working directory of its parent is the data directory.
    pub backend: Option<Backend>,
}

/// A later line to the hands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentCommand {
    /// Say which of these pairs of key and value are impossible there. Changes nothing.
    Check(Vec<(String, String)>),
    /// Set these values of `[os]`, by key.
    Set(BTreeMap<String, String>),
    /// Restore all values, also those that a dead pgdyno left there.
    PutBack,
    /// Restore the values that you have set, and end.
    Stop,
    /// Answer at once with a `Pong` of this number.
    Ping(u64),
}

/// An answer of the hands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentAnswer {
    /// They have looked for the server, and wait for commands.
    Ready {
        /// Why the devices of data and WAL are not known, if they are not.
        no_disks: Option<String>,
    },
    /// The impossible values, with reasons.
    Checked(Vec<RefusedValue>),
    /// All values are in force.
    Set(SetValues),
    /// The values that were restored, or could not be.
    Back(Vec<RestoredValue>),
    /// The command was not carried out, for this reason.
    Refused(String),
}

/// A value that is impossible on a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct RefusedValue {
    pub key: String,
    pub value: String,
    pub reason: String,
}

/// Values that were set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetValues {
    /// By the kernel's file: the value with the previous one, as the run's record has it.
    pub detail: BTreeMap<String, String>,
    /// Values that a dead pgdyno had left there, which were restored first.
    pub undone: Vec<RestoredValue>,
}

/// Result of restoring one value.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoredValue {
    pub path: String,
    /// Current value.
    pub now: String,
    /// Why the previous value was not restored, if it was not.
    pub problem: Option<String>,
    /// Whether the journal keeps the previous value, to be restored later.
    #[serde(default)]
    pub is_kept: bool,
    /// Who had set it, if that was another process, and what became of that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<String>,
    /// What the kernel still keeps although the previous value is restored, and until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remains: Option<String>,
}
