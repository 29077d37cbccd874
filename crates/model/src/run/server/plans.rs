//! Plans of the statements of a load, as the server chose them outside of the measurement.

use serde::{Deserialize, Serialize};

/// The generic plan of one statement.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct StatementPlan {
    /// Index of the script in the load.
    pub script: u32,
    /// Index of the statement in the script.
    pub statement: u32,
    /// What `EXPLAIN (SETTINGS, FORMAT JSON)` answered. Text, because a plan may be nested more deeply than a reader of JSON follows.
    pub explained: String,
}
