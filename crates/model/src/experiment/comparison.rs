//! The request of a comparison: `comparison.json`.

use serde::{Deserialize, Serialize};

/// The options of a measured `pgdyno compare`, so that its report can be written again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparisonRequest {
    /// Format version, [`crate::FORMAT`].
    pub format: u32,
    /// The arguments that repeat the whole comparison in its original working directory; without passwords.
    pub command: Vec<String>,
    /// The share up to which a difference does not matter.
    pub margin: f64,
}
