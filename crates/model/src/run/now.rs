//! What happens to an experiment at this moment, apart from its load: `now.json`.

use serde::{Deserialize, Serialize};

/// What pgdyno does now. It is for whoever looks on; nothing is decided by it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CurrentActivity {
    /// Format version, [`crate::FORMAT`].
    pub format: u32,
    /// Since when, nanoseconds since the Unix epoch.
    pub t_unix_ns: u64,
    /// In words: `vacuum`, `loading: rows 43 %`.
    pub doing: String,
    /// When the last run of each lane that is measured side by side, otherwise of all, is expected to end, nanoseconds since the Unix
    /// epoch; empty if nobody knows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ends_unix_ns: Vec<u64>,
}
