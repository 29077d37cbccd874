//! One run in figures: its seconds, its resource usage, and its marks.

pub mod capacity;
pub(crate) mod limiter;
pub mod marks;
pub(crate) mod resources;
pub(crate) mod seconds;
pub(crate) mod series;
pub(crate) mod settings;
pub(crate) mod timeline;
pub(crate) mod top_statements;
pub mod tpcc;
pub(crate) mod usage;

use seconds::Distributions;

use crate::summary::RunSummary;

/// A run's summary, and its distributions, which can still be added to those of other runs.
pub(crate) struct ExplainedRun {
    pub(crate) summary: RunSummary,
    pub(crate) distributions: Distributions,
}
