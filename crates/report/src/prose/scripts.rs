//! The scripts of a load as rows of text, for every form of the report: the transactions of a workload directory are its scripts.

pub(crate) mod compared;
pub(crate) mod fidelity;
pub(crate) mod queries;

use analysis::summary::{CaseSummary, LatencySummary, MeasureSummary, ScriptSummary, Study};

use crate::prose::{format, headline, phrases};

/// The best case, if something is to be said of its scripts: short reports show only its scripts.
pub(crate) fn of_best(study: &Study) -> Option<&CaseSummary> {
    headline::best(study).filter(|case| are_shown(case))
}

/// Whether a case has several scripts, or one of which a workload directory says more.
pub(crate) fn are_shown(case: &CaseSummary) -> bool {
    case.scripts.len() > 1 || (case.case.workload.directory.is_some() && !case.scripts.is_empty())
}

/// What one script of the case is called.
pub(crate) fn noun(case: &CaseSummary) -> &'static str {
    match (&case.analytical, &case.case.workload.directory) {
        (Some(_), _) => "query",
        (None, Some(_)) => "transaction",
        (None, None) => "script",
    }
}

/// Noun for all of them.
pub(crate) fn plural_noun(case: &CaseSummary) -> String {
    if case.analytical.is_some() { "queries".to_string() } else { format!("{}s", noun(case)) }
}

/// A table: heads, and a row of as many cells for each script.
pub(crate) struct ScriptRows {
    pub(crate) heads: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// A column, and where it is shown.
struct ScriptColumn {
    head: &'static str,
    /// A terminal of which width shows it; `None`: only pages.
    least_width: Option<usize>,
    /// Whether the case has it.
    is_known: fn(&CaseSummary) -> bool,
    cell: fn(&ScriptSummary) -> String,
}

/// Width of a terminal that shows what an experiment's author knows, or can see elsewhere.
const WIDE: usize = 100;

/// The columns after the name.
const COLUMNS: &[ScriptColumn] = &[
    ScriptColumn {
        head: "weight",
        least_width: Some(0),
        is_known: |case| any(case, |script| script.share_planned.is_none()),
        cell: |script| script.weight.to_string(),
    },
    always("planned", Some(0), |script| script.share_planned.map_or_else(dash, format::percent)),
    always("share", Some(0), |script| {
        let mark = if script.share_differs { " *" } else { "" };
        script.share.map_or_else(dash, |share| format::percent(share) + mark)
    }),
    always("committed", None, |script| format::count(script.counts.committed)),
    always("tps", Some(0), |script| script.tps.map_or_else(dash, format::tps)),
    always("p50 ms", Some(0), |script| ms(script, |latency| latency.p50_ns)),
    always("p95 ms", Some(0), |script| ms(script, |latency| latency.p95_ns)),
    always("p99 ms", Some(0), |script| ms(script, |latency| latency.p99_ns)),
    ScriptColumn {
        head: "limit",
        least_width: Some(0),
        is_known: |case| any(case, |script| script.limit.is_some()),
        cell: |script| script.limit.map_or_else(dash, |limit| met(limit.is_met).to_string()),
    },
    always("failed", Some(0), |script| format::count(script.counts.failed + script.counts.unknown)),
    ScriptColumn {
        head: "expected",
        least_width: Some(WIDE),
        is_known: |case| any(case, |script| script.counts.expected > 0),
        cell: |script| format::count(script.counts.expected),
    },
    ScriptColumn {
        head: "retried",
        least_width: Some(WIDE),
        is_known: |case| any(case, |script| script.counts.retried > 0),
        cell: |script| format::count(script.counts.retried),
    },
];

const fn always(
    head: &'static str,
    least_width: Option<usize>,
    cell: fn(&ScriptSummary) -> String,
) -> ScriptColumn {
    ScriptColumn { head, least_width, is_known: |_| true, cell }
}

fn any(case: &CaseSummary, is: fn(&ScriptSummary) -> bool) -> bool {
    case.scripts.iter().any(is)
}

/// The table of a page, with all that is known.
pub(crate) fn table(case: &CaseSummary) -> ScriptRows {
    match &case.analytical {
        Some(queries) => queries::table(case, queries, true),
        None => with_columns(case, |_| true),
    }
}

/// The table of a terminal; [`below`] says the rest.
pub(crate) fn narrow_table(case: &CaseSummary, width: usize) -> ScriptRows {
    match &case.analytical {
        Some(queries) => queries::table(case, queries, width >= WIDE),
        None => with_columns(case, |column| column.least_width.is_some_and(|least| least <= width)),
    }
}

fn with_columns(case: &CaseSummary, is_wanted: impl Fn(&ScriptColumn) -> bool) -> ScriptRows {
    let columns: Vec<&ScriptColumn> =
        COLUMNS.iter().filter(|column| is_wanted(column) && (column.is_known)(case)).collect();
    let row = |script: &ScriptSummary| {
        let cells = columns.iter().map(|column| (column.cell)(script));
        std::iter::once(phrases::one_line(&script.name)).chain(cells).collect()
    };
    ScriptRows {
        heads: std::iter::once(noun(case)).chain(columns.iter().map(|column| column.head)).collect(),
        rows: case.scripts.iter().map(row).collect(),
    }
}

/// What the mark in a table means, if it has one.
pub(crate) fn note(case: &CaseSummary) -> Option<String> {
    if case.analytical.is_some() {
        return Some("seconds are means over streams and passes, medians over runs; spread is their coefficient of variation".to_string());
    }
    any(case, |script| script.share_differs).then(|| {
        format!(
            "* differs from the planned share by more than chance allows (p < 0.001 over all {}s)",
            noun(case)
        )
    })
}

/// What does not fit into a table: limits, those that are missed first, then facts and measures; a line each.
pub(crate) fn below(case: &CaseSummary) -> Vec<String> {
    let name = |script: &ScriptSummary| phrases::one_line(&script.name);
    let limits = case.scripts.iter().filter_map(|script| Some((script.limit?.is_met, script)));
    let (met, missed): (Vec<_>, Vec<_>) = limits.partition(|(is_met, _)| *is_met);
    let limits = missed.into_iter().chain(met);
    let limits = limits.filter_map(|(_, script)| Some(format!("{}: {}", name(script), limit(script)?)));
    // Of one script alone, a measure is that of the case, which is said there.
    let has_measure = |script: &&ScriptSummary| script.measures.iter().any(|measure| measure.value.is_some());
    let are_several = case.scripts.iter().filter(has_measure).count() > 1;
    let of_facts = |script: &ScriptSummary| {
        let measures = if are_several { &script.measures[..] } else { &[] }.iter().map(measure);
        let parts: Vec<String> = facts(script).into_iter().chain(measures).collect();
        (!parts.is_empty()).then(|| format!("{}: {} on average", name(script), parts.join(", ")))
    };
    // TPC-C has a section of its own.
    let with_facts = if case.tpcc.is_none() { &case.scripts[..] } else { &[] };
    let facts = with_facts.iter().filter_map(of_facts);
    limits.chain(facts).collect()
}

/// The measures over all scripts, a line for each case that has some: `8 clients: recall 0.953`.
pub(crate) fn measures(study: &Study) -> Vec<String> {
    let of_case = |case: &CaseSummary| {
        let parts: Vec<String> = case.measures.iter().map(measure).collect();
        let about = if study.cases.len() > 1 { phrases::one_line(&case.label) + ": " } else { String::new() };
        (!parts.is_empty()).then(|| about + &parts.join(", "))
    };
    study.cases.iter().filter_map(of_case).collect()
}

/// Titles of all measures, in the order of the first case that has each.
pub(crate) fn measure_titles(study: &Study) -> Vec<&str> {
    let mut titles: Vec<&str> = Vec::new();
    for measure in study.cases.iter().flat_map(|case| &case.measures) {
        if !titles.contains(&measure.title.as_str()) {
            titles.push(&measure.title);
        }
    }
    titles
}

/// The measure of a case with this title.
pub(crate) fn measured(case: &CaseSummary, title: &str) -> Option<f64> {
    case.measures.iter().find(|measure| measure.title == title)?.value
}

/// `recall 0.953`; over zero there is none.
pub(crate) fn measure(measure: &MeasureSummary) -> String {
    let value = measure.value.map_or_else(dash, format::significant);
    format!("{} {value}", phrases::one_line(&measure.title))
}

/// `p99 <= 100 ms met`, `p99 <= 100 ms missed: 123 ms`.
fn limit(script: &ScriptSummary) -> Option<String> {
    let limit = script.limit?;
    let [most, found] = [limit.limit_ns, limit.found_ns].map(|ns| format::ms(ns as f64));
    let asked = format!("p{} <= {most} ms", limit.percentile);
    Some(format!("{asked} {}: {found} ms", met(limit.is_met)))
}

fn met(is_met: bool) -> &'static str {
    if is_met { "met" } else { "MISSED" }
}

/// Facts of the mean transaction: `jobs 1.00, waited_us 812`.
fn facts(script: &ScriptSummary) -> Option<String> {
    let n = script.counts.committed;
    let each = |(name, sum): (&String, &u64)| {
        format!("{} {}", phrases::one_line(name), format::significant(*sum as f64 / n as f64))
    };
    if n == 0 {
        return None;
    }
    let parts: Vec<String> = script.facts.iter().map(each).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn ms(script: &ScriptSummary, of: fn(&LatencySummary) -> u64) -> String {
    script.latency.as_ref().map_or_else(dash, |latency| format::ms(of(latency) as f64))
}

fn dash() -> String {
    "-".to_string()
}
