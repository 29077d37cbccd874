//! The section on variation: the spread of each case's runs with its interval, its origin, and how to lower it.

use analysis::summary::Study;

use super::escape::escape_html;
use super::table;
use super::tables::case_name;
use crate::axis::Axis;
use crate::prose::{format, phrases, variation};

/// The section; empty if no case has enough runs.
pub(super) fn section(study: &Study, axis: &Axis) -> String {
    let known: Vec<_> =
        study.cases.iter().filter_map(|case| Some((case, case.variation.tps.as_ref()?))).collect();
    if known.is_empty() {
        return String::new();
    }
    let dash = || "-".to_string();
    let rows: Vec<Vec<String>> = known
        .iter()
        .map(|(case, tps)| {
            let of = &case.variation;
            vec![
                case_name(axis, case),
                escape_html(&variation::spread(tps)),
                of.origin.as_ref().map_or_else(dash, |origin| escape_html(&variation::origin(origin))),
                of.origin
                    .as_ref()
                    .map_or_else(dash, |origin| escape_html(&phrases::capital(origin.advice()))),
                of.runs_for_one_percent.map_or_else(dash, |n| format::count(n as u64)),
                of.per_cpu_s.map_or_else(dash, format::tps),
                of.per_cpu_s_spread
                    .as_ref()
                    .map_or_else(dash, |spread| escape_html(&variation::spread(spread))),
            ]
        })
        .collect();
    let heads = [
        "Case",
        "CV of tps (95 % interval)",
        "Where the variance comes from",
        "To lower it",
        "Runs for ±1 %",
        "Transactions per server CPU second",
        "Their CV",
    ];
    format!(
        "<p class=\"quiet\">Standard deviation over mean of the runs that count, with the interval of Vangel; shares of the \
         variance by the nested analysis of Kalibera and Jones, in which a component smaller than chance alone would \
         produce is 0 %.</p>\n{}\n",
        table("text", &heads, &rows)
    )
}
