//! The section on outages: what they cost by case, each of them, and a chart of each on one time axis around the fault.

mod chart;

use analysis::comparison::CaseComparison;
use analysis::summary::{RunSummary, Study};

use crate::axis::Axis;
use crate::html::escape::escape_html;
use crate::html::table;
use crate::html::tables::{case_name, costs};
use crate::html::timeline;
use crate::prose::headline::outages;
use crate::prose::{format, phrases};

/// Most outages that are drawn.
const DRAWN_MAX: usize = 30;

/// The section; empty without an outage.
pub(crate) fn section(study: &Study, axis: &Axis) -> String {
    let rows = outages::rows(study);
    if rows.is_empty() {
        return String::new();
    }
    let cells = |cells: &[String]| cells.iter().map(|cell| escape_html(cell)).collect::<Vec<String>>();
    let of_cases: Vec<Vec<String>> = outages::case_rows(study)
        .iter()
        .map(|(case, row)| [vec![case_name(axis, case)], cells(row)].concat())
        .collect();
    let capitals = |heads: &[&str]| heads.iter().map(|head| phrases::capital(head)).collect::<Vec<String>>();
    let case_heads = capitals(&outages::CASE_HEADS);
    let heads = capitals(&outages::HEADS);
    let case_heads: Vec<&str> = case_heads.iter().map(String::as_str).collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let of_runs: Vec<Vec<String>> = rows.iter().map(|row| cells(row)).collect();
    let mut html = String::new();
    if !of_cases.is_empty() {
        html.push_str(&table("outages", &case_heads, &of_cases));
        html.push_str(&format!(
            "<p class=\"quiet\">{} All other sections are about the time before the fault.</p>\n",
            range_in_words(study)
        ));
    }
    html.push_str("<h3>Each outage</h3>\n");
    html.push_str(&table("plain", &heads, &of_runs));
    html.push_str(&format!("<p class=\"quiet\">{}.</p>\n", escape_html(outages::NOTE)));
    html.push_str(&charts(study));
    html
}

/// The range of several outages, with the chance that it has the median of all such outages in it if that is the same for all cases.
fn range_in_words(study: &Study) -> String {
    let all: Vec<Option<f64>> =
        study.cases.iter().filter_map(|case| Some(case.outages.as_ref()?.write_outage.coverage)).collect();
    let several: Vec<f64> = all.iter().copied().flatten().collect();
    let Some(first) = several.first() else { return "One outage has a value, and no range.".to_string() };
    let share = if several.iter().all(|one| one == first) {
        format!(" with {}", format::percent(*first))
    } else {
        String::new()
    };
    let alone = if several.len() < all.len() { " One outage alone has a value, and no range." } else { "" };
    format!(
        "Medians, and the lowest to the highest outage, between which the median of all such outages lies{share}.{alone}"
    )
}

/// The chart of a typical outage, and those of the others, folded.
fn charts(study: &Study) -> String {
    let drawn: Vec<&RunSummary> =
        study.runs.iter().filter(|run| run.outage.is_some()).take(DRAWN_MAX).collect();
    let chosen = timeline::first_choice(study);
    let mut html = String::new();
    for run in &drawn {
        let Some(outage) = run.outage.as_deref() else { continue };
        let case = study.cases.iter().find(|case| case.case.id == run.case);
        let label = case.map_or_else(String::new, |case| phrases::one_line(&case.label));
        let title =
            format!("Run {}: {} at {} s, {label}", run.run, outage.fault, format::seconds(outage.at_s));
        let open = if drawn.len() == 1 || chosen == Some(run.run) { " open" } else { "" };
        html.push_str(&format!(
            "<details class=\"fold outage-run\"{open}><summary>{}</summary>{}</details>\n",
            escape_html(&title),
            chart::svg(outage, &title)
        ));
    }
    html
}

/// The table of a comparison; empty without outages on both sides.
pub(crate) fn compared(case: &CaseComparison) -> String {
    costs::compared_table(case, "Outages", outages::table_of(case))
}
