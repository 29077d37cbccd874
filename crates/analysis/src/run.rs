//! One run in figures: its seconds, its resource usage, and its marks.

pub(crate) mod analytical;
pub mod capacity;
pub(crate) mod counters;
pub mod imports;
pub(crate) mod limiter;
pub mod marks;
pub(crate) mod resources;
pub(crate) mod scripts;
pub(crate) mod seconds;
pub mod series;
pub(crate) mod settings;
pub(crate) mod timeline;
pub(crate) mod top_statements;
pub mod tpcc;
pub(crate) mod usage;

use seconds::Distributions;

use crate::summary::{RunSummary, TelemetrySeries};

/// A run's summary, its distributions, which can still be added to those of other runs, and what cases need of its measurements.
#[derive(Debug)]
pub struct ExplainedRun {
    pub(crate) summary: RunSummary,
    pub(crate) distributions: Distributions,
    /// Whether a checkpoint would have been seen: the server's statistics or log were read.
    pub(crate) sees_checkpoints: bool,
}

impl ExplainedRun {
    /// The run in little memory.
    pub fn packed(mut self) -> ExplainedRun {
        self.distributions.pack();
        self
    }

    /// The summary alone.
    pub fn into_summary(self) -> RunSummary {
        self.summary
    }

    /// Telemetry over time alone.
    pub fn into_series(self) -> Vec<TelemetrySeries> {
        self.summary.series
    }
}
