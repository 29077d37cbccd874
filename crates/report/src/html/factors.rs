//! The section on factors: cases in per cent of a baseline, one small chart per level of the axis,
//! growth and decline with clients, the spread over all other factors, and cost of transactions.

pub(super) mod scalability;

use analysis::case::factors;
use analysis::summary::Study;
use serde::Serialize;

use super::escape::text;
use super::tables::case_name;
use super::{Figure, table};
use crate::axis::{self, Axis};
use crate::prose::factors as told;
use crate::prose::factors::{Against, Row};
use crate::prose::format;

/// More small charts than this give no overview.
const MULTIPLES_MAX: usize = 12;
/// More factors than this are not pooled one by one.
const POOLS_MAX: usize = 4;

/// The runs of each level of a factor, for a box plot.
#[derive(Debug, Serialize)]
pub(super) struct PoolData {
    title: String,
    levels: Vec<String>,
    /// Lowest, first quartile, median, third quartile, highest.
    boxes: Vec<[f64; 5]>,
    n: Vec<usize>,
}

/// The section; empty if there is a single case.
pub(super) fn section(study: &Study, axis: &Axis) -> String {
    if study.cases.len() < 2 || study.cases.iter().all(|case| case.tps_median.is_none()) {
        return String::new();
    }
    let mut html = percentages(study, axis);
    html.push_str(&multiples(axis));
    html.push_str(&scalability::panel(study));
    html.push_str(&spreads(study));
    html.push_str(&money(study, axis));
    html
}

/// Each case against the baseline.
fn percentages(study: &Study, axis: &Axis) -> String {
    let Some(Against { what, of, rows }) = told::against(study) else { return String::new() };
    format!(
        "<h3>Against a baseline</h3><p class=\"quiet\">In per cent of {}. Ignore differences smaller than the spread of \
         the cases' runs.</p>{}\n",
        text(&of),
        table("plain", &["Case", what, "Of baseline", "Difference"], &cells(axis, &rows))
    )
}

fn cells<const N: usize>(axis: &Axis, rows: &[Row<N>]) -> Vec<Vec<String>> {
    let cells = |row: &Row<N>| {
        std::iter::once(case_name(axis, row.case)).chain(row.cells.iter().map(|cell| text(cell))).collect()
    };
    rows.iter().map(cells).collect()
}

/// A panel for each level of the axis, with the other factors along it.
fn multiples(axis: &Axis) -> String {
    if axis.groups.len() < 2 || axis.levels.len() < 2 || axis.levels.len() > MULTIPLES_MAX {
        return String::new();
    }
    let mut html = format!("<h3>One panel for each level of {}</h3><div class=\"trio\">", text(&axis.title));
    for (n, level) in axis.levels.iter().enumerate() {
        let id = format!("multiple-{n}");
        let title = format!("{} {level}", axis.title);
        html.push_str(&Figure { id: &id, title: &title, note: "tps", height: "mid", table: "" }.html());
    }
    html.push_str("</div>\n");
    html
}

/// The pools of each factor, if there are at least two levels of other factors to pool over.
pub(super) fn pools(study: &Study) -> Vec<PoolData> {
    if study.plan.factors.len() < 2 {
        return Vec::new();
    }
    let of = |key: &String| {
        let pools = factors::pools(study, key);
        let at = |tps: &[f64], q: f64| stats::quantile(tps, q).unwrap_or(0.0);
        (pools.len() > 1).then(|| PoolData {
            title: axis::factor_words(key),
            levels: pools.iter().map(|pool| pool.level.clone()).collect(),
            boxes: pools.iter().map(|p| [0.0, 0.25, 0.5, 0.75, 1.0].map(|q| at(&p.tps, q))).collect(),
            n: pools.iter().map(|pool| pool.tps.len()).collect(),
        })
    };
    study.plan.factors.iter().filter_map(of).take(POOLS_MAX).collect()
}

/// The spread of the runs of each level, regardless of the other factors.
fn spreads(study: &Study) -> String {
    let pools = pools(study);
    if pools.is_empty() {
        return String::new();
    }
    let mut html = String::from("<h3>Spread regardless of the other factors</h3><div class=\"trio\">");
    for (n, pool) in pools.iter().enumerate() {
        let rows: Vec<Vec<String>> = pool
            .levels
            .iter()
            .zip(&pool.boxes)
            .zip(&pool.n)
            .map(|((level, of), n)| {
                let mut row = vec![text(level), n.to_string()];
                row.extend(of.iter().map(|tps| format::tps(*tps)));
                row
            })
            .collect();
        let heads = ["Level", "Runs", "Lowest", "Quartile", "Median", "Quartile", "Highest"];
        let figure = Figure {
            id: &format!("spread-{n}"),
            title: &format!("Runs by {}", pool.title),
            note: "tps; box: quartiles, bar: median, line: lowest to highest",
            height: "mid",
            table: &table("plain", &heads, &rows),
        };
        html.push_str(&figure.html());
    }
    html.push_str("</div>\n");
    html
}

/// Transactions per unit of money, if prices are given.
fn money(study: &Study, axis: &Axis) -> String {
    let rows = told::money(study);
    if rows.is_empty() {
        return String::new();
    }
    let heads = [&["Case"], &told::MONEY_HEADS[..]].concat();
    format!("<h3>Transactions per unit of money</h3>{}\n", table("plain", &heads, &cells(axis, &rows)))
}
