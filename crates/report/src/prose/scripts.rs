//! The scripts of a load as rows of text, for every form of the report.

use analysis::summary::{CaseSummary, ScriptSummary, Study};

use crate::prose::{format, headline, phrases};

/// Column heads.
pub(crate) const HEADS: [&str; 9] =
    ["script", "weight", "planned", "share", "tps", "p50 ms", "p95 ms", "p99 ms", "failed"];

/// The best case, if it has several scripts: short reports show only its scripts.
pub(crate) fn of_best(study: &Study) -> Option<&CaseSummary> {
    headline::best(study).filter(|case| case.scripts.len() > 1)
}

pub(crate) fn cells(script: &ScriptSummary) -> [String; 9] {
    let dash = || "-".to_string();
    let ms = |of: fn(&analysis::summary::LatencySummary) -> u64| {
        script.latency.as_ref().map_or_else(dash, |latency| format::ms(of(latency) as f64))
    };
    [
        phrases::one_line(&script.name),
        script.weight.to_string(),
        format::percent(script.share_planned),
        script.share.map_or_else(dash, format::percent),
        script.tps.map_or_else(dash, format::tps),
        ms(|latency| latency.p50_ns),
        ms(|latency| latency.p95_ns),
        ms(|latency| latency.p99_ns),
        format::count(script.counts.failed + script.counts.unknown),
    ]
}
