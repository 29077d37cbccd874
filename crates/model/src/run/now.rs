//! What happens to an experiment at this moment, apart from its load: `now.json`.

use serde::{Deserialize, Serialize};

/// What pgdyno does now. It is for whoever looks on; nothing is decided by it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Now {
    /// Format version, [`crate::FORMAT`].
    pub format: u32,
    /// Since when, nanoseconds since the Unix epoch.
    pub t_unix_ns: u64,
    /// In words: `vacuum`, `loading: rows 43 %`.
    pub doing: String,
}
