//! The queries of analytical workloads in words: seconds of each, and the figures of all together.

use analysis::case::factors;
use analysis::summary::{AnalyticalSummary, CaseSummary, QuerySummary, Study};

use super::{ScriptRows, dash};
use crate::prose::{format, phrases};

/// The unit of throughput of an analytical case.
pub(crate) const UNIT: &str = "queries/s";
/// Meaning of throughput there.
pub(crate) const WHAT: &str = "throughput is 1 over the geometric mean of the queries' seconds";
/// First letters of a plan's hash that tables show.
const PLAN_LETTERS: usize = 8;

/// The unit of a case's throughput.
pub(crate) fn unit(case: &CaseSummary) -> &'static str {
    if case.analytical.is_some() { UNIT } else { "tps" }
}

/// The unit of a study's throughput, if all of its cases have a unit of their own.
pub(crate) fn unit_of_study(study: &Study) -> &'static str {
    let are_all =
        |is_one: fn(&CaseSummary) -> bool| !study.cases.is_empty() && study.cases.iter().all(is_one);
    let has_none = |case: &CaseSummary| case.tps_median.is_none();
    if are_all(|case| case.analytical.is_some()) {
        UNIT
    } else if are_all(|case| case.tpcc.is_some() || case.tps_median.is_none())
        && !study.cases.iter().all(has_none)
    {
        NOPM
    } else {
        "tps"
    }
}

/// A case's median throughput in the unit of its study.
pub(crate) fn median_in_unit(study: &Study, case: &CaseSummary) -> Option<f64> {
    if unit_of_study(study) == NOPM { factors::score(case) } else { case.tps_median }
}

/// What TPC-C counts: New-Order transactions a minute.
const NOPM: &str = "NOPM";

/// `geometric mean 0.123 s of 22 queries`.
pub(crate) fn geometric_mean(queries: &AnalyticalSummary) -> String {
    format!(
        "geometric mean {} of {} queries",
        seconds(queries.geomean_s, queries.is_at_least),
        queries.queries.len()
    )
}

/// What stands below a table of cases: a line for each analytical case.
pub(crate) fn lines(study: &Study) -> Vec<String> {
    let of_case = |case: &CaseSummary| {
        let queries = case.analytical.as_ref()?;
        let about = if study.cases.len() > 1 { phrases::one_line(&case.label) + ": " } else { String::new() };
        let scale = case.case.workload.scale;
        let at_most = if queries.is_at_least { "at most " } else { "" };
        let power = queries.power_per_h.map(|rate| {
            format!("power {at_most}{} (3600 · scale {scale} / geometric mean)", format::tps(rate))
        });
        let throughput = queries.throughput_per_h.map(|rate| {
            format!(
                "throughput {at_most}{} (3600 · {} streams · {} queries · scale {scale} / {} s)",
                format::tps(rate),
                queries.n_streams,
                queries.n_queries * queries.n_passes,
                format::significant(queries.elapsed_s)
            )
        });
        let figures: Vec<String> = power.into_iter().chain(throughput).collect();
        let per_hour = if figures.is_empty() { "" } else { "; per hour: " };
        Some(format!("{about}{}{per_hour}{}", geometric_mean(queries), figures.join(", ")))
    };
    study.cases.iter().filter_map(of_case).collect()
}

/// `at least 0.123 s`.
fn seconds(seconds: Option<f64>, is_at_least: bool) -> String {
    let at_least = if is_at_least { "at least " } else { "" };
    seconds.map_or_else(dash, |seconds| format!("{at_least}{} s", format::significant(seconds)))
}

/// A row for each query.
pub(super) fn table(case: &CaseSummary, queries: &AnalyticalSummary, has_all: bool) -> ScriptRows {
    let has_plans = queries.queries.iter().any(|query| !query.plans.is_empty());
    let has_timeouts = queries.is_at_least;
    let mut heads = vec![super::noun(case), "s", "spread", "shortest", "longest"];
    heads.extend(has_all.then_some("executions"));
    heads.extend(has_timeouts.then_some("stopped"));
    heads.extend((has_all && has_plans).then_some("plan"));
    let number = |value: Option<f64>| value.map_or_else(dash, format::significant);
    let row = |query: &QuerySummary| {
        let at_least = if query.timeouts > 0 { "≥ " } else { "" };
        let mut cells = vec![
            phrases::one_line(&query.name),
            query.seconds.map_or_else(dash, |seconds| at_least.to_string() + &format::significant(seconds)),
            query.cv().map_or_else(dash, format::percent),
            number(query.min_s),
            number(query.max_s),
        ];
        cells.extend(has_all.then(|| format::count(query.n)));
        cells.extend(has_timeouts.then(|| format::count(query.timeouts)));
        cells.extend((has_all && has_plans).then(|| plans(query)));
        cells
    };
    ScriptRows { heads, rows: queries.queries.iter().map(row).collect() }
}

/// The plan by the first letters of its hash, or how many there were.
fn plans(query: &QuerySummary) -> String {
    match query.plans.as_slice() {
        [] => dash(),
        [only] => only.chars().take(PLAN_LETTERS).collect(),
        several => format!("{} plans", several.len()),
    }
}
