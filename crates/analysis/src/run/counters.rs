//! Counters of processor and kernel over the measurement of a run, and over the runs of a case.

use model::experiment::keys::run::COUNTERS;
use model::load::interval::Counts;
use model::run::RunData;
use model::telemetry::metric::METRICS;
use model::telemetry::reading::key;

use crate::run::timeline::Timeline;
use crate::run::usage::Usage;
use crate::summary::{CounterSummary, EventCount};

const PREFIX: &str = "counters.";

/// The counts of a run that asked for them.
pub(crate) fn of_run(
    data: &RunData,
    line: &Timeline,
    usage: &Usage,
    counts: Counts,
) -> Option<CounterSummary> {
    if !data.record.case.get(COUNTERS) {
        return None;
    }
    let unavailable = data.record.telemetry_unavailable.iter();
    let missing = unavailable.filter(|(what, _)| what.starts_with(PREFIX));
    let missing = missing.map(|(what, reason)| (what.clone(), reason.clone())).collect();
    let Some((from_s, to_s)) = line.measured_span() else {
        return Some(CounterSummary { missing, ..CounterSummary::default() });
    };
    let ended = (counts.ended() > 0).then_some(counts.ended() as f64);
    let event = |metric: &str| {
        let name = metric.strip_prefix(PREFIX)?;
        let total = usage.rate(metric, from_s, to_s)? * line.measured_s();
        let shares =
            usage.with_key(&key("counters.share", name)).map(|(_, share)| share).collect::<Vec<f64>>();
        let share = shares.into_iter().fold(1.0, f64::min);
        Some(EventCount { name: name.to_string(), total, per_transaction: ended.map(|n| total / n), share })
    };
    let plain = METRICS.iter().filter(|metric| metric.name.starts_with(PREFIX) && metric.instance.is_empty());
    let events: Vec<EventCount> = plain.filter_map(|metric| event(metric.name)).collect();
    let memory_bytes_per_s = usage.rate("counters.memory_bytes", from_s, to_s);
    Some(with_ratios(CounterSummary { memory_bytes_per_s, events, missing, ..CounterSummary::default() }))
}

/// The medians of runs; `None` if none counted anything.
pub(crate) fn of_case(runs: &[&CounterSummary]) -> Option<CounterSummary> {
    let first = runs.first()?;
    let median = |of: &dyn Fn(&CounterSummary) -> Option<f64>| {
        stats::median(&runs.iter().filter_map(|run| of(run)).collect::<Vec<f64>>())
    };
    let mut names: Vec<&str> = Vec::new();
    for event in runs.iter().flat_map(|run| &run.events) {
        if !names.contains(&event.name.as_str()) {
            names.push(&event.name);
        }
    }
    let event = |name: &&str| {
        let shares = runs.iter().filter_map(|run| Some(run.event(name)?.share));
        Some(EventCount {
            name: name.to_string(),
            total: median(&|run| Some(run.event(name)?.total))?,
            per_transaction: median(&|run| run.event(name)?.per_transaction),
            share: shares.fold(1.0, f64::min),
        })
    };
    Some(CounterSummary {
        ipc: median(&|run| run.ipc),
        cache_miss: median(&|run| run.cache_miss),
        memory_bytes_per_s: median(&|run| run.memory_bytes_per_s),
        events: names.iter().filter_map(event).collect(),
        missing: first.missing.clone(),
    })
}

fn with_ratios(counters: CounterSummary) -> CounterSummary {
    let ratio = |of: &str, to: &str| {
        let to = counters.event(to)?.total;
        (to > 0.0).then_some(counters.event(of)?.total / to)
    };
    let (ipc, cache_miss) = (ratio("instructions", "cycles"), ratio("cache_misses", "cache_references"));
    CounterSummary { ipc, cache_miss: cache_miss.map(|share| share.min(1.0)), ..counters }
}
