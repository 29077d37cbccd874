//! The section on the search for the highest rate: the rate of each case, and the probes of each run.

use analysis::summary::capacity::{Capacity, ProbeSummary};
use analysis::summary::{CaseSummary, RunSummary, Study};
use serde::Serialize;

use super::escape::escape_html;
use super::tables::case_name;
use super::{ChartFigure, table};
use crate::axis::Axis;
use crate::prose::{capacity, format, phrases};

/// The probes of one run, for its chart.
#[derive(Debug, Serialize)]
pub(super) struct ProbesData {
    /// Number of the run.
    run: u32,
    /// The judged percentile: `p99`.
    percentile: String,
    /// Limit of the percentile, milliseconds.
    limit_ms: f64,
    /// Lower end, estimate and upper end of the rate that was found.
    found: Option<[f64; 3]>,
    probes: Vec<ProbeData>,
}

#[derive(Debug, Serialize)]
struct ProbeData {
    rate: f64,
    ms: f64,
    /// Interval of the percentile, milliseconds, if there is one.
    range: Option<[f64; 2]>,
    verdict: &'static str,
    confirms: bool,
}

/// All searches of a study.
pub(super) fn data(study: &Study) -> Vec<ProbesData> {
    searched(study)
        .map(|(run, capacity)| ProbesData {
            run: run.run,
            percentile: format!("p{}", capacity.target.percentile),
            limit_ms: capacity.target.limit_ns as f64 / 1e6,
            found: capacity.rate.map(|rate| [rate.low, rate.point, rate.high]),
            probes: capacity.probes.iter().filter_map(ProbeData::new).collect(),
        })
        .collect()
}

impl ProbeData {
    fn new(probe: &ProbeSummary) -> Option<ProbeData> {
        let ms = |ns: u64| ns as f64 / 1e6;
        Some(ProbeData {
            rate: probe.rate_per_s,
            ms: ms(probe.latency_ns?),
            range: probe.latency_low_ns.zip(probe.latency_high_ns).map(|(low, high)| [ms(low), ms(high)]),
            verdict: probe.verdict.as_str(),
            confirms: probe.confirms,
        })
    }
}

fn searched(study: &Study) -> impl Iterator<Item = (&RunSummary, &Capacity)> {
    study.runs.iter().filter_map(|run| Some((run, run.capacity.as_ref()?)))
}

/// The section; empty if nothing was searched.
pub(super) fn section(study: &Study, axis: &Axis) -> String {
    if searched(study).next().is_none() {
        return String::new();
    }
    let rows: Vec<Vec<String>> = study.cases.iter().map(|case| case_row(study, axis, case)).collect();
    let heads = ["Case", "Target", "Highest rate", "Interval", "Runs", "Closed loop"];
    let mut html = format!(
        "<p class=\"quiet\">Transactions per second, at random times, whose latency, counted from when each was due, meets the \
         target. The interval of one run, or of {} and more, is a 95 % interval; for fewer runs it spans those of the runs.</p>{}\n",
        analysis::summary::capacity::CENTRE_MIN,
        table("plain", &heads, &rows)
    );
    for (run, capacity) in searched(study) {
        html.push_str(&of_run(run, capacity));
    }
    html
}

fn case_row(study: &Study, axis: &Axis, case: &CaseSummary) -> Vec<String> {
    let of_case = || searched(study).filter(|(run, _)| run.case == case.case.id);
    let target = of_case().next().map_or(String::new(), |(_, capacity)| capacity.target.to_string());
    // Of runs that do not count, only if no other is there: the figures of a row are those of the same runs.
    let is_any = of_case().any(|(run, _)| run.counts());
    let counting = of_case().filter(|(run, _)| run.counts() || !is_any);
    let ceiling = counting.map(|(_, capacity)| capacity.ceiling_per_s).reduce(f64::max);
    let ceiling = ceiling.map_or("-".to_string(), |ceiling| format!("{}/s", format::tps(ceiling)));
    let [rate, interval] = match &case.capacity {
        Some(found) => [format!("{}/s", format::tps(found.rate.point)), capacity::interval(found)],
        None => ["none".to_string(), "-".to_string()],
    };
    let rest = [target, rate, interval.replace("interval ", ""), case.n_runs.to_string(), ceiling];
    std::iter::once(case_name(axis, case)).chain(rest.iter().map(|cell| escape_html(cell))).collect()
}

fn of_run(run: &RunSummary, capacity: &Capacity) -> String {
    let name = format!("p{}", capacity.target.percentile);
    let heads = ["Seconds", "Offered", "Ended", "Late", name.as_str(), "Interval", "Verdict"];
    let rows: Vec<Vec<String>> = capacity.probes.iter().map(probe_row).collect();
    let title = format!("Run {}: {} probes", run.run, capacity.probes.len());
    let found = match capacity.rate {
        Some(rate) => format!(
            "{}/s ({} to {}), closed loop {}/s",
            format::tps(rate.point),
            format::tps(rate.low),
            format::tps(rate.high),
            format::tps(capacity.ceiling_per_s)
        ),
        None => "no rate meets the target".to_string(),
    };
    let note = format!(
        "{name} in ms by offered rate, log scale; green: meets the target, orange: misses it, grey: undecided; ring: confirming probe; lines: {} and {found}",
        capacity.target
    );
    if capacity.probes.iter().all(|probe| probe.latency_ns.is_none()) {
        let table = if rows.is_empty() { String::new() } else { table("plain", &heads, &rows) };
        return format!("<p class=\"quiet\">{}: {}.</p>{table}\n", escape_html(&title), escape_html(&found));
    }
    let id = format!("probes-{}", run.run);
    ChartFigure { id: &id, title: &title, note: &note, height: "mid", table: &table("plain", &heads, &rows) }
        .html()
}

fn probe_row(probe: &ProbeSummary) -> Vec<String> {
    let ms = |ns: Option<u64>| ns.map_or("-".to_string(), |ns| format!("{} ms", format::ms(ns as f64)));
    let interval = match (probe.latency_low_ns, probe.latency_high_ns) {
        (Some(low), Some(high)) => format!("{} to {}", format::ms(low as f64), ms(Some(high))),
        _ => "-".to_string(),
    };
    let last = capacity::verdict(probe);
    [
        format!("{:.0} to {:.0}", probe.from_s, probe.to_s),
        format!("{}/s", format::tps(probe.rate_per_s)),
        format!("{}/s", format::tps(probe.achieved_per_s)),
        format::percent(probe.late),
        ms(probe.latency_ns),
        interval,
        phrases::one_line(&last),
    ]
    .iter()
    .map(|cell| escape_html(cell))
    .collect()
}
