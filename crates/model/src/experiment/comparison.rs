//! How a comparison was asked for: `comparison.json`.

use serde::{Deserialize, Serialize};

/// The options of a measured `pgdyno compare`, so that its report can be written again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparisonRequest {
    /// Format version, [`crate::FORMAT`].
    pub format: u32,
    /// The arguments that make the whole comparison again, in the working directory it was made in; without passwords.
    pub command: Vec<String>,
    /// The share up to which a difference does not matter.
    pub margin: f64,
}
