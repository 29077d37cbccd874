//! Counters of processor and kernel as rows of text.

use std::collections::BTreeSet;

use analysis::summary::{CaseSummary, CounterSummary, RunSummary, Study};

use crate::prose::format;

/// Instructions per cycle of a case: the median of its runs.
pub(crate) fn ipc(case: &CaseSummary) -> Option<f64> {
    case.counters.as_ref()?.ipc
}

/// Instructions per cycle of a run.
pub(crate) fn ipc_of_run(run: &RunSummary) -> Option<f64> {
    run.counters.as_ref()?.ipc
}

/// Whether any run has instructions per cycle.
pub(crate) fn have_ipc(study: &Study) -> bool {
    study.runs.iter().any(|run| ipc_of_run(run).is_some())
}

/// All counters of any run, in the order of the table of metrics.
pub(crate) fn names(study: &Study) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for event in study.runs.iter().filter_map(|run| run.counters.as_ref()).flat_map(|one| &one.events) {
        if !names.contains(&event.name.as_str()) {
            names.push(&event.name);
        }
    }
    names
}

/// An event in words.
pub(crate) fn words(name: &str) -> String {
    match name {
        "cache_references" => "LLC references".to_string(),
        "cache_misses" => "LLC misses".to_string(),
        "dtlb_misses" => "dTLB misses".to_string(),
        "memory_bytes" => "memory bandwidth".to_string(),
        "cpu_migrations" => "CPU migrations".to_string(),
        "task_clock" => "Task clock µs".to_string(),
        other => crate::prose::phrases::of_id(&other.replace('_', "-")),
    }
}

/// The number of an event per transaction; of the task clock, microseconds.
pub(crate) fn per_transaction(counters: &CounterSummary, name: &str) -> Option<f64> {
    let scale = if name == "task_clock" { 1e6 } else { 1.0 };
    counters.event(name)?.per_transaction.map(|n| n * scale)
}

/// What was asked for and not counted, each reason once, and which numbers are extrapolations.
pub(crate) fn remarks(study: &Study) -> Vec<String> {
    let all = || study.runs.iter().filter_map(|run| Some((run, run.counters.as_ref()?)));
    let missing: BTreeSet<(&String, &String)> = all().flat_map(|(_, counters)| &counters.missing).collect();
    let not_counted = |(what, reason): &(&String, &String)| match what.as_str() {
        "counters." => format!("There are no counters: {reason}."),
        "counters.kernel" | "counters.processes" => format!("Counters: {reason}."),
        events => {
            let names = events.split(", ").map(|name| words(name.trim_start_matches("counters.")));
            format!("Not counted ({}): {reason}.", names.collect::<Vec<_>>().join(", "))
        }
    };
    let mut remarks: Vec<String> = missing.iter().map(not_counted).collect();
    let least = all().flat_map(|(run, counters)| counters.events.iter().map(move |event| (run.run, event)));
    if let Some((run, event)) = least.min_by(|(_, a), (_, b)| a.share.total_cmp(&b.share))
        && event.share < 1.0
    {
        remarks.push(format!(
            "The processors have fewer counters than there are events, which took turns: counts are extended to the whole \
             time (fewest: {} of the time, {} of run {run}).",
            format::percent(event.share),
            words(&event.name)
        ));
    }
    remarks
}
