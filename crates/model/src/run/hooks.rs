//! What became of the user's commands before and after a run.

use serde::{Deserialize, Serialize};

use crate::experiment::hooks::Hook;

/// A command that was called.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HookRecord {
    /// Which one.
    pub hook: Hook,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// When it was started, nanoseconds since the Unix epoch.
    pub start_unix_ns: u64,
    /// When it had ended.
    pub end_unix_ns: u64,
    /// Its exit code; `None` if a signal ended it, or it could not be started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// How it failed, in words; empty if it succeeded.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub failure: String,
    /// The end of what it wrote to standard output and standard error, control characters escaped.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output: String,
}

impl HookRecord {
    /// Duration, seconds.
    pub fn length_s(&self) -> f64 {
        self.end_unix_ns.saturating_sub(self.start_unix_ns) as f64 / 1e9
    }
}
