//! Where the runs of a merged study were measured.

use serde::{Deserialize, Serialize};

use crate::experiment::plan::Plan;

/// The factor that keeps the cases of origins apart.
pub const FACTOR: &str = "origin";

/// Results that were merged into a study.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergedFrom {
    /// Distinguishes it from the other origins of the study: the last part of its directory's path, or as given.
    pub name: String,
    /// Added to the number of a run of that directory, this gives its number in the study.
    pub first: u32,
    /// The highest number of its runs in the study.
    pub last: u32,
    /// Version of the pgdyno that planned it.
    pub tool_version: String,
    /// Seed of its order and its runs.
    pub seed: u64,
    /// When its plan was made, nanoseconds since the Unix epoch.
    pub made_unix_ns: u64,
}

impl MergedFrom {
    /// Whether it contains this run of the study.
    pub fn has(&self, run: u32) -> bool {
        self.first < run && run <= self.last
    }
}

impl Plan {
    /// Where a run of a merged study was measured; `None` if the study was not merged.
    pub fn origin_of(&self, run: u32) -> Option<&MergedFrom> {
        self.origins.iter().find(|origin| origin.has(run))
    }
}
