//! The section on factors: cases in per cent of a baseline, one small chart per level of the axis,
//! growth and decline with clients, the spread over all other factors, and cost of transactions.

pub(in crate::html) mod matrix;
pub(super) mod prices;
pub(super) mod scalability;
mod targets;

use analysis::case::{factors, labels};
use analysis::summary::Study;
use model::text::prose::shown;
use serde::Serialize;

use super::escape::escape_html;
use super::tables::case_name;
use super::{ChartFigure, table};
use crate::axis::{self, Axis, pair};
use crate::prose::factors as told;
use crate::prose::factors::{AgainstBaseline, CaseRow};
use crate::prose::{format, phrases};

/// More small charts than this give no overview.
const MULTIPLES_MAX: usize = 12;
/// More bars than this in each of them are not distinguished.
const GROUPS_MAX: usize = 12;
/// A longer table against a baseline that the experiment does not name is folded.
const ROWS_MAX: usize = 16;
/// More factors than this are not pooled one by one.
const POOLS_MAX: usize = 6;

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
    let targets = targets::section(study);
    match pair::from_study(study) {
        Some(pair) => html.push_str(&(targets + &matrix::section(&pair))),
        None if targets.is_empty() => html.push_str(&multiples(axis)),
        None => html.push_str(&targets),
    }
    html.push_str(&scalability::panel(study));
    html.push_str(&spreads(study));
    html.push_str(&prices::section(study, axis));
    html
}

/// Each case against the baseline: its levels, so that a crossed pair of factors reads as one, or its name.
fn percentages(study: &Study, axis: &Axis) -> String {
    let Some(AgainstBaseline { what, of, rows, ipc }) = told::against(study) else { return String::new() };
    let factors = told::columns(study);
    let by_label = told::is_by_label(study);
    let names: Vec<String> = match factors.as_slice() {
        [] | [_] => vec!["Case".to_string()],
        several => several.iter().map(|key| phrases::capital(&axis::factor_words(key))).collect(),
    };
    let mut heads: Vec<&str> = names.iter().map(String::as_str).collect();
    heads.extend([what, "Of baseline", "Difference"]);
    heads.extend(by_label.then_some("Compared with"));
    if !ipc.is_empty() {
        heads.extend(told::IPC_HEADS);
    }
    let row = |(n_row, row): (usize, &CaseRow<4>)| {
        let mut cells: Vec<String> = match factors.as_slice() {
            [] | [_] => vec![case_name(axis, row.case)],
            several => {
                several.iter().map(|key| escape_html(row.case.case.level(key).map_or("-", shown))).collect()
            }
        };
        let n = if by_label { 4 } else { 3 };
        cells.extend(row.cells[..n].iter().map(|cell| escape_html(cell)));
        cells.extend(ipc.get(n_row).into_iter().flatten().map(|cell| escape_html(cell)));
        cells
    };
    let rows: Vec<Vec<String>> = rows.iter().enumerate().map(row).collect();
    let remark = told::about_cycles(study)
        .map_or_else(String::new, |why| format!("<p class=\"quiet\">{}</p>", escape_html(&why)));
    let class = match (names.len(), by_label) {
        (1, false) => "plain",
        (1, true) => "plain by-label",
        (_, false) => "plain levels",
        (_, true) => "plain levels by-label",
    };
    let table = table(class, &heads, &rows);
    // Nobody asked for this comparison: folded, it leaves the figures below it in sight.
    let table = if study.plan.baseline == 0 && rows.len() > ROWS_MAX {
        format!(
            "<details class=\"data\"><summary>Table of {}</summary>{table}</details>",
            phrases::plural(rows.len(), "case")
        )
    } else {
        table
    };
    format!(
        "<h3>Against a baseline</h3><p class=\"quiet\">In per cent of {}. Ignore differences smaller than the spread of \
         the cases' runs.</p>{table}\n{remark}",
        escape_html(&of)
    )
}

fn cells<const N: usize>(axis: &Axis, rows: &[CaseRow<N>]) -> Vec<Vec<String>> {
    let cells = |row: &CaseRow<N>| {
        std::iter::once(case_name(axis, row.case))
            .chain(row.cells.iter().map(|cell| escape_html(cell)))
            .collect()
    };
    rows.iter().map(cells).collect()
}

/// A panel for each level of the axis, with the other factors along it.
fn multiples(axis: &Axis) -> String {
    let (levels, groups) = (axis.levels.len(), axis.groups.len());
    if !(2..=GROUPS_MAX).contains(&groups) || !(2..=MULTIPLES_MAX).contains(&levels) {
        return String::new();
    }
    let mut html =
        format!("<h3>One panel for each level of {}</h3><div class=\"trio\">", escape_html(&axis.title));
    for (n, level) in axis.levels.iter().enumerate() {
        let id = format!("multiple-{n}");
        let title = format!("{} {level}", axis.title);
        html.push_str(&ChartFigure { id: &id, title: &title, note: "tps", height: "mid", table: "" }.html());
    }
    html.push_str("</div>\n");
    html
}

/// The pools of the targets and of each factor, if there are at least two levels of other factors to pool over; of one target alone,
/// all of its runs.
pub(super) fn pools(study: &Study) -> Vec<PoolData> {
    let varying = told::columns(study);
    let labels = labels::varying(study);
    if varying.len() + labels.len() < 2 {
        return Vec::new();
    }
    let of = |key: &String| {
        let pools = factors::pools(study, key);
        (pools.len() > 1 && pools.iter().any(|pool| pool.tps.len() > 1))
            .then(|| PoolData::new(axis::factor_words(key), pools))
    };
    // Targets first: irrespective of clients and of all else, what does each give?
    let (targets, others): (Vec<&String>, Vec<&String>) = varying.iter().partition(|key| *key == "target");
    let all = targets.is_empty().then(|| {
        let tps = study.cases.iter().flat_map(|case| case.tps.iter().copied()).collect();
        PoolData::new(String::new(), vec![factors::LevelPool { level: "all runs".to_string(), tps }])
    });
    let keys = targets.into_iter().chain(&labels).chain(others);
    all.into_iter().chain(keys.filter_map(of)).take(POOLS_MAX).collect()
}

impl PoolData {
    fn new(title: String, pools: Vec<factors::LevelPool>) -> PoolData {
        let at = |tps: &[f64], q: f64| stats::quantile(tps, q).unwrap_or(0.0);
        PoolData {
            title,
            levels: pools.iter().map(|pool| pool.level.clone()).collect(),
            boxes: pools.iter().map(|p| [0.0, 0.25, 0.5, 0.75, 1.0].map(|q| at(&p.tps, q))).collect(),
            n: pools.iter().map(|pool| pool.tps.len()).collect(),
        }
    }
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
                let mut row = vec![escape_html(level), n.to_string()];
                row.extend(of.iter().map(|tps| format::tps(*tps)));
                row
            })
            .collect();
        let heads = ["Level", "Runs", "Lowest", "Quartile", "Median", "Quartile", "Highest"];
        let figure = ChartFigure {
            id: &format!("spread-{n}"),
            title: &if pool.levels.len() == 1 {
                "All runs".to_string()
            } else {
                format!("Runs by {}", pool.title)
            },
            note: "tps; box: quartiles, bar: median, line: lowest to highest",
            height: "mid",
            table: &table("plain", &heads, &rows),
        };
        html.push_str(&figure.html());
    }
    html.push_str("</div>\n");
    html
}
