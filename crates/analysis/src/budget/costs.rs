//! What a case's transactions cost, with the range that repetition leaves.

use super::combine;
use crate::cost::{COSTS, CostRow};
use crate::summary::RunSummary;
use crate::summary::cost::CaseCost;

/// The costs of a case: the medians of its runs, each with the range that repetition leaves.
pub(crate) fn costs_of_case(runs: &[&RunSummary]) -> Vec<CaseCost> {
    COSTS.iter().filter_map(|row| of_row(row, runs)).collect()
}

fn of_row(row: &CostRow, runs: &[&RunSummary]) -> Option<CaseCost> {
    let values: Vec<f64> = runs.iter().filter_map(|run| run.cost(row.id)).collect();
    let median = stats::median(&values)?;
    let range = combine::range_of_repetition(&values, row.assumed_sd);
    Some(CaseCost { id: row.id, median, range, n_runs: values.len() })
}
