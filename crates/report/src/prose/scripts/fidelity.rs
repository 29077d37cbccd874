//! How faithful a replay is, as rows: its measures, and the statements with the most time at the source.

use analysis::fidelity::{Fidelity, FidelityMeasure, StatementFidelity};
use analysis::summary::{RunSummary, Study};
use model::text::columns;

use crate::prose::phrases;

/// Characters of a statement.
const CHARS: usize = 100;

/// Heads of the measures.
pub(crate) const MEASURES: [&str; 5] = ["measure", "grade", "found", "faithful", "what"];
/// Heads of the statements.
pub(crate) const STATEMENTS: [&str; 8] = [
    "statement",
    "time",
    "calls",
    "rows per call",
    "blocks per call",
    "WAL records per call",
    "mean ms",
    "fails",
];
/// What the columns with two figures are.
pub(crate) const WHAT: &str = "time at the source; in other columns the source, then the replay, over all of its load; with the most time at the source first";

/// Runs with a grade, of each case the one that is furthest from its source.
pub(crate) fn shown(study: &Study) -> Vec<(&RunSummary, &Fidelity)> {
    let of_case = |case: u32| {
        let runs = study.runs.iter().filter(|run| run.case == case);
        runs.filter_map(|run| Some((run, run.fidelity.as_ref()?))).max_by_key(|(_, fidelity)| rank(fidelity))
    };
    study.cases.iter().filter_map(|case| of_case(case.case.id)).collect()
}

/// Grade, then how many measures are not faithful.
fn rank(fidelity: &Fidelity) -> (u8, usize) {
    use analysis::fidelity::FidelityGrade::{Approximate, Faithful, NotYourWorkload, Unknown};
    let of_grade = |grade| match grade {
        Faithful => 0,
        Approximate => 1,
        Unknown => 2,
        NotYourWorkload => 3,
    };
    let n_lacking = fidelity.measures.iter().filter(|one| of_grade(one.grade) > 0).count();
    (of_grade(fidelity.grade), n_lacking)
}

/// `faithful; a statement takes 0.42 times as long as at the source`.
pub(crate) fn sentence(fidelity: &Fidelity) -> String {
    match fidelity.time_factor {
        Some(factor) => format!(
            "{}; a statement takes {factor:.2} times as long as at the source (median)",
            fidelity.grade.as_str()
        ),
        None => fidelity.grade.as_str().to_string(),
    }
}

/// Rows of [`MEASURES`].
pub(crate) fn measures(fidelity: &Fidelity) -> Vec<[String; 5]> {
    let row = |one: &FidelityMeasure| {
        let bound = if one.faithful > one.approximate { "at least" } else { "at most" };
        let threshold =
            if one.name == "times" { format!("{:.2}", one.faithful) } else { percent(one.faithful) };
        [
            one.name.to_string(),
            one.grade.as_str().to_string(),
            one.text.clone(),
            format!("{bound} {threshold}"),
            one.what.to_string(),
        ]
    };
    fidelity.measures.iter().map(row).collect()
}

/// Rows of [`STATEMENTS`].
pub(crate) fn statements(fidelity: &Fidelity) -> Vec<[String; 8]> {
    let row = |one: &StatementFidelity| {
        [
            shortened(if one.text.is_empty() { &one.id } else { &one.text }),
            percent(one.time_share),
            one.calls_share.map(percent).join(" / "),
            two(one.rows_per_call, 1.0),
            two(one.blocks_per_call, 1.0),
            two(one.wal_records_per_call, 1.0),
            two(one.mean_us, 1e-3),
            one.fails.join(", "),
        ]
    };
    fidelity.statements.iter().map(row).collect()
}

fn shortened(text: &str) -> String {
    let line = phrases::one_line(text);
    match line.char_indices().nth(CHARS) {
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
        None => line,
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn two(sides: [Option<f64>; 2], unit: f64) -> String {
    sides.map(|side| side.map_or("unknown".to_string(), |n| format!("{:.2}", n * unit))).join(" / ")
}

/// All of it for a terminal.
pub(crate) fn text(study: &Study) -> String {
    let mut text = String::new();
    for (run, fidelity) in shown(study) {
        text.push_str(&format!("run {}: {}\n", run.run, one(fidelity)));
    }
    text
}

/// One replay for a terminal.
pub(crate) fn one(fidelity: &Fidelity) -> String {
    let mut text = format!("{}\n\n", sentence(fidelity));
    push_table(&mut text, &MEASURES, &measures(fidelity));
    let rows = statements(fidelity);
    if !rows.is_empty() {
        text.push_str(&format!("\n{}:\n", phrases::capital(WHAT)));
        push_table(&mut text, &STATEMENTS, &rows);
    }
    text
}

fn push_table<const N: usize>(text: &mut String, heads: &[&str; N], rows: &[[String; N]]) {
    let widths: Vec<usize> = (0..N)
        .map(|n| {
            rows.iter().map(|row| row[n].chars().count()).chain([heads[n].chars().count()]).max().unwrap_or(0)
        })
        .collect();
    let heads = heads.map(str::to_string);
    for row in [&heads].into_iter().chain(rows) {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| columns::left(cell, *width)).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
}
