//! Runs of other hosts that took place at the same time.

use serde::{Deserialize, Serialize};

/// A run of another lane that was under way, in any of its phases, while the load of this run was.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConcurrentRun {
    /// Number of the run.
    pub run: u32,
    /// Name of its target.
    pub target: String,
}
