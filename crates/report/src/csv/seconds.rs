//! One row per second of each run: throughput, latency, errors, and the series of host and server.

use std::collections::BTreeMap;

use analysis::summary::{RunSummary, Study};

use super::{line, number};
use crate::prose::format;

const HEADS: [&str; 14] = [
    "run",
    "block",
    "case",
    "label",
    "second",
    "time",
    "measured",
    "counts",
    "tps",
    "errors",
    "latency_p50_ns",
    "latency_p95_ns",
    "latency_p99_ns",
    "latency_max_ns",
];

/// The rows of one run, or of all.
pub(crate) fn table(study: &Study, only: Option<u32>) -> String {
    let runs = || study.runs.iter().filter(|run| only.is_none_or(|only| run.run == only));
    let mut columns: Vec<String> = runs().flat_map(|run| run.series.iter().map(name)).collect();
    columns.sort_unstable();
    columns.dedup();
    let mut text = String::new();
    line(&mut text, HEADS.into_iter().chain(columns.iter().map(String::as_str)));
    for run in runs() {
        rows(&mut text, study, run, &columns);
    }
    text
}

/// `cpu server (%)`.
fn name(series: &analysis::summary::TelemetrySeries) -> String {
    match series.unit.as_str() {
        "" | "1" => format!("{} {}", series.panel, series.name),
        unit => format!("{} {} ({unit})", series.panel, series.name),
    }
}

fn rows(text: &mut String, study: &Study, run: &RunSummary, columns: &[String]) {
    let label = study.cases.iter().find(|case| case.case.id == run.case).map(|case| case.label.as_str());
    // The value of a second is the first one that was read in it.
    let mut values: BTreeMap<(&str, u32), f64> = BTreeMap::new();
    let named: Vec<String> = run.series.iter().map(name).collect();
    for (series, name) in run.series.iter().zip(&named) {
        for (t, value) in series.points.iter().filter(|(t, value)| *t >= 0.0 && value.is_finite()) {
            values.entry((name, *t as u32)).or_insert(*value);
        }
    }
    for second in &run.seconds {
        let ns = |ns: Option<u64>| ns.map(|ns| ns.to_string()).unwrap_or_default();
        let mut row = vec![
            run.run.to_string(),
            run.block.to_string(),
            run.case.to_string(),
            label.unwrap_or_default().to_string(),
            second.t.to_string(),
            run.go_unix_ns
                .map(|go| format::instant(go + u64::from(second.t) * 1_000_000_000))
                .unwrap_or_default(),
            u8::from(second.measured).to_string(),
            u8::from(run.counts()).to_string(),
            number(Some(second.tps)),
            second.errors.to_string(),
            ns(second.p50_ns),
            ns(second.p95_ns),
            ns(second.p99_ns),
            ns(second.max_ns),
        ];
        row.extend(columns.iter().map(|column| number(values.get(&(column.as_str(), second.t)).copied())));
        line(text, row.iter().map(String::as_str));
    }
}
