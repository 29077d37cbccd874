//! What a committed transaction costs.

use serde::Serialize;

/// One cost of a run: a row of the table of costs, and its value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CostFigure {
    /// Name of the row: `wal`.
    pub id: &'static str,
    /// Per committed transaction, in the row's unit.
    pub value: f64,
}

/// What the server had written when so many transactions were committed, since the load began.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WorkDone {
    /// Transactions that the driver had committed.
    pub committed: f64,
    /// Bytes of WAL.
    pub wal_bytes: f64,
    /// Full-page images; `None` if the server does not count them.
    pub images: Option<f64>,
}

/// One cost over the runs of a case that count.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CaseCost {
    /// Name of the row: `wal`.
    pub id: &'static str,
    /// Median of the runs, per committed transaction, in the row's unit.
    pub median: f64,
    /// The range of 95 %, as ratios to the median; `None` if a run has none of it.
    pub range: Option<[f64; 2]>,
    /// Runs that have it.
    pub n_runs: usize,
}

impl CaseCost {
    /// The larger side of the range as a share: 0.01 is "±1 %".
    pub fn good_to(&self) -> Option<f64> {
        self.range.map(super::uncertainty::larger_side)
    }
}
