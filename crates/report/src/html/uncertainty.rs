//! The section on uncertainty: each case's range, and the budget that it adds up from, as a table with bars.

use analysis::summary::uncertainty::{Contribution, Uncertainty};
use analysis::summary::{CaseSummary, Study};

use super::escape::escape_html;
use super::table;
use super::tables::case_name;
use crate::axis::Axis;
use crate::prose::scripts::queries;
use crate::prose::variation::uncertainty;
use crate::prose::{format, headline};

/// The section; empty if no case has a figure.
pub(super) fn section(study: &Study, axis: &Axis) -> String {
    let best = headline::best(study).map(|case| case.case.id);
    let known: Vec<&CaseSummary> = study.cases.iter().filter(|case| case.uncertainty.is_some()).collect();
    if known.is_empty() {
        return String::new();
    }
    let mut html = String::from(
        "<p class=\"quiet\">The range in which the answer to “what does this machine give, undisturbed and in steady state?” lies with a \
         chance of 95 %, and what it adds up from. What runs differ by is a distribution of Student’s; each disturbance lies evenly \
         between its bounds; errors add up as JCGM 100:2008 (GUM) says.</p>\n",
    );
    for case in known {
        let open = if best == Some(case.case.id) { " open" } else { "" };
        html.push_str(&format!(
            "<details class=\"fold\"{open}><summary>{}</summary>{}</details>\n",
            case_name(axis, case),
            of_case(case)
        ));
    }
    html
}

fn of_case(case: &CaseSummary) -> String {
    let Some(known) = &case.uncertainty else { return String::new() };
    let tps = |value: f64| format!("{} {}", format::tps(value), queries::unit(case));
    let ms = |value: f64| format!("{} ms", format::ms(value));
    let latency =
        |of: fn(&analysis::summary::LatencySummary) -> u64| case.latency.as_ref().map(|l| of(l) as f64);
    let ranges = [
        range("throughput", case, Some(&known.throughput), case.tps_median, tps),
        range("p50", case, known.p50.as_ref(), latency(|l| l.p50_ns), ms),
        range("p99", case, known.p99.as_ref(), latency(|l| l.p99_ns), ms),
    ];
    let ranges: Vec<String> = ranges.into_iter().flatten().collect();
    format!("<p>{}</p>\n{}", ranges.join("; "), budget(&known.throughput))
}

/// `throughput 2,250 to 2,480 tps (±5 %)`.
fn range(
    name: &str,
    case: &CaseSummary,
    known: Option<&Uncertainty>,
    figure: Option<f64>,
    words: impl Fn(f64) -> String,
) -> Option<String> {
    let (known, figure) = known.zip(figure)?;
    let [low, high] = [known.low, known.high].map(|ratio| words(figure * ratio));
    let good_to = uncertainty::good_to(Some(known), case.precision());
    Some(escape_html(&format!("{name} {low} to {high} ({good_to})")))
}

fn budget(known: &Uncertainty) -> String {
    let largest = known.budget.iter().map(Contribution::good_to).fold(known.good_to(), f64::max);
    let row = |row: &Contribution| {
        vec![
            escape_html(uncertainty::title(row)),
            signed(row.low),
            signed(row.high),
            bar(row.low, row.high, largest),
            escape_html(&row.evidence),
            escape_html(&row.remedy),
        ]
    };
    let mut rows: Vec<Vec<String>> = known.budget.iter().map(row).collect();
    rows.push(vec![
        "<b>all of it</b>".to_string(),
        format!("<b>{}</b>", signed(known.low)),
        format!("<b>{}</b>", signed(known.high)),
        bar(known.low, known.high, largest),
        String::new(),
        String::new(),
    ]);
    table("budget", &["Throughput", "Low", "High", "", "Measured", "Would lower it"], &rows)
}

/// A ratio as a difference: `-3.1 %`; a dash for none.
fn signed(ratio: f64) -> String {
    if (ratio - 1.0).abs() < 5e-5 { "0 %".to_string() } else { format::signed(ratio - 1.0) }
}

/// A range around zero, in the middle of the bar.
fn bar(low: f64, high: f64, largest: f64) -> String {
    let at = |ratio: f64| (50.0 + 50.0 * (ratio - 1.0) / largest.max(1e-9)).clamp(0.0, 100.0);
    let (from, to) = (at(low), at(high));
    format!(
        "<svg class=\"bar\" viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
         <rect class=\"light\" x=\"49.6\" width=\"0.8\" height=\"10\"/><rect x=\"{from:.1}\" width=\"{:.1}\" height=\"10\"/></svg>",
        (to - from).max(0.8)
    )
}
