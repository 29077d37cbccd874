//! The section on what a transaction costs: a row per case, a column per cost.

use analysis::comparison::CaseComparison;
use analysis::summary::{CaseSummary, Study};

use crate::axis::Axis;
use crate::comparison;
use crate::html::escape::escape_html;
use crate::html::table;
use crate::html::tables::case_name;
use crate::prose::phrases;
use crate::prose::variation::costs;

/// The section; empty if no cost is known.
pub(crate) fn section(study: &Study, axis: &Axis) -> String {
    let rows = costs::rows(study);
    if rows.is_empty() {
        return String::new();
    }
    let heads: Vec<String> = rows.iter().map(|row| phrases::capital(row.title)).collect();
    let heads: Vec<&str> = std::iter::once("Case").chain(heads.iter().map(String::as_str)).collect();
    let of_case = |case: &CaseSummary| {
        let cells = rows.iter().map(|row| escape_html(&costs::cell(row, case)));
        std::iter::once(case_name(axis, case)).chain(cells).collect::<Vec<String>>()
    };
    let cells: Vec<Vec<String>> = study.cases.iter().map(of_case).collect();
    format!("<p class=\"quiet\">{}.</p>\n{}", phrases::capital(costs::BLIND), table("plain", &heads, &cells))
}

/// The table of a comparison; empty if no cost is known.
pub(crate) fn compared(case: &CaseComparison) -> String {
    let table = compared_table(case, "A transaction’s cost", costs::table_of(case));
    if table.is_empty() {
        return table;
    }
    format!("{table}<p class=\"quiet\">{}.</p>\n", phrases::capital(costs::BLIND_COMPARED))
}

/// A table of a comparison: title, A's and B's median, ratio, and a verdict in each row; empty without rows.
pub(super) fn compared_table(case: &CaseComparison, title: &str, rows: Vec<[String; 5]>) -> String {
    let row = |[title, a, b, change, verdict]: [String; 5]| {
        [phrases::capital(&title), a, b, change, verdict].map(|cell| escape_html(&cell)).to_vec()
    };
    let rows: Vec<Vec<String>> = rows.into_iter().map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    let [median_a, median_b] = comparison::medians(case.purpose);
    let ratio = comparison::ratio_head(case.purpose);
    table("figures", &[title, &median_a, &median_b, &ratio, "Verdict"], &rows)
}
