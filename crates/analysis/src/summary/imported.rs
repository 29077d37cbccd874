//! What was measured elsewhere, over the measurement of a run.

use serde::Serialize;

/// One imported series.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ImportedSummary {
    /// Name of the import.
    pub name: String,
    /// The labels that distinguish the series from others of the import; empty if it is the only one.
    pub series: String,
    /// Unit of the values.
    pub unit: String,
    /// Where it comes from, in words.
    pub source: String,
    /// Number of samples within the measurement.
    pub n: u64,
    /// Arithmetic mean of the samples.
    pub mean: f64,
    /// Smallest sample.
    pub min: f64,
    /// Largest sample.
    pub max: f64,
}
