//! Where the level of what a transaction costs changed.
//!
//! WAL and full-page images are left out: each page is imaged once in a run, so that both change with the throughput. The records of WAL
//! do not.

use serde::Serialize;
use stats::{ChangePoint, ChangeRule};

use super::HistoryPoint;
use crate::cost::{COSTS, CostRow};

/// A change of what a transaction costs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CostChange {
    /// Name of the cost: a row of [`COSTS`].
    pub id: &'static str,
    /// The first run after the change.
    pub first_after: HistoryPoint,
    /// Median since the previous change, per committed transaction.
    pub before: f64,
    /// Median up to the next change.
    pub after: f64,
    /// `p` of the test between both, as for the throughput.
    pub p: f64,
}

impl CostChange {
    /// The row of the cost.
    pub fn row(&self) -> Option<&'static CostRow> {
        crate::cost::row(self.id)
    }
}

/// The changes of all costs among the runs that have them.
pub(super) fn changes(points: &[HistoryPoint]) -> Vec<CostChange> {
    COSTS.iter().filter(|row| row.at_work.is_none()).flat_map(|row| of_row(row, points)).collect()
}

fn of_row(row: &CostRow, points: &[HistoryPoint]) -> Vec<CostChange> {
    let (points, values): (Vec<&HistoryPoint>, Vec<f64>) =
        points.iter().filter_map(|point| Some((point, *point.costs.get(row.id)?))).unzip();
    let rule = ChangeRule { effect_min: row.margin, ..ChangeRule::default() };
    let change = |found: ChangePoint| CostChange {
        id: row.id,
        first_after: points[found.at].to_owned(),
        before: found.before,
        after: found.after,
        p: found.p,
    };
    let is_asked = |found: &ChangePoint| found.before.max(found.after) >= row.least;
    stats::change_points(&values, rule).into_iter().filter(is_asked).map(change).collect()
}
