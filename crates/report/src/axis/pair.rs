//! Two factors with numbers that are crossed: clients and transactions.

use analysis::summary::{CaseSummary, Study};
use model::experiment::case::Case;

use super::{factor_words, group_name, is_numeric, level, ordered_levels, position};
use model::experiment::keys;

/// Fewer cells say no more than the table of cases.
const CELLS_MIN: usize = 6;
/// The share of all combinations that must have been planned: others are no grid.
const FILLED_MIN: f64 = 0.6;

/// A grid of two numeric factors, for each combination of the others.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pair {
    /// The factor along which panels and groups of bars stand: the clients, if they vary.
    pub(crate) across: Numeric,
    /// The factor along which each of them shows throughput.
    pub(crate) along: Numeric,
    /// Names of the combinations of all other factors.
    pub(crate) others: Vec<String>,
    /// Cases with a number.
    pub(crate) cells: Vec<Cell>,
}

/// A factor with numbers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Numeric {
    pub(crate) title: String,
    pub(crate) levels: Vec<String>,
}

/// A case of the grid: indices into both factors' levels, and into the others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Cell {
    pub(crate) case: u32,
    pub(crate) across: usize,
    pub(crate) along: usize,
    pub(crate) other: usize,
    /// Median throughput, per second.
    pub(crate) tps: f64,
}

/// The grid of a study, if it has one.
pub(crate) fn from_study(study: &Study) -> Option<Pair> {
    let cases: Vec<&Case> = study.cases.iter().map(|summary| &summary.case).collect();
    let is_number = |key: &&String| {
        let levels = ordered_levels(&cases, key);
        // Versions are names that look like numbers.
        key.as_str() != keys::server::VERSION.name && levels.len() > 1 && is_numeric(&levels)
    };
    let mut keys: Vec<&String> = study.plan.factors.iter().filter(is_number).collect();
    keys.sort_by_key(|key| {
        (key.as_str() != keys::workload::CLIENTS.name, key.as_str() != keys::workload::TRANSACTIONS.name)
    });
    let [across, along] = keys.get(..2)? else { return None };
    let others: Vec<&String> =
        study.plan.factors.iter().filter(|key| *key != *across && *key != *along).collect();
    let [a, b] = [across, along].map(|key| ordered_levels(&cases, key));
    let names = super::distinct(cases.iter().map(|case| group_name(case, &others)));
    if a.len() * b.len() < CELLS_MIN
        || (cases.len() as f64) < FILLED_MIN * (a.len() * b.len() * names.len()) as f64
    {
        return None;
    }
    let cell = |summary: &CaseSummary| {
        let case = &summary.case;
        Some(Cell {
            case: case.id,
            across: position(&a, &level(case, across)),
            along: position(&b, &level(case, along)),
            other: position(&names, &group_name(case, &others)),
            tps: summary.tps_median.filter(|tps| tps.is_finite())?,
        })
    };
    let cells: Vec<Cell> = study.cases.iter().filter_map(cell).collect();
    (cells.len() >= CELLS_MIN).then(|| Pair {
        across: Numeric { title: factor_words(across), levels: a.clone() },
        along: Numeric { title: factor_words(along), levels: b.clone() },
        others: names.clone(),
        cells,
    })
}
