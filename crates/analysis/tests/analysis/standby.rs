//! A standby that commits wait for is part of the number.

use analysis::finding::{Finding, Severity};
use model::telemetry::reading::TickSource;

use crate::findings::findings_of;
use crate::quiet;

/// The findings of a run in which each tick of `source` has these values besides its own.
fn found(source: TickSource, values: &[(&str, f64)]) -> Vec<Finding> {
    let mut data = quiet::run(1);
    for tick in data.ticks.iter_mut().filter(|tick| tick.source == source) {
        tick.values.extend(values.iter().map(|(key, value)| (key.to_string(), *value)));
    }
    findings_of(data)
}

fn check(source: TickSource, values: &[(&str, f64)], expected: Option<(&str, Severity, &str)>) {
    let found = found(source, values);
    let Some((id, severity, words)) = expected else { return assert_eq!(found, [], "{values:?}") };
    let finding = found.iter().find(|finding| finding.id == id).unwrap_or_else(|| panic!("{id}: {found:#?}"));
    assert_eq!(finding.severity, severity, "{finding:?}");
    assert!(finding.evidence.contains(words), "{finding:?}");
}

#[test]
fn a_standby_that_commits_wait_for_is_named() {
    let waits = |n: f64| [("waits.samples", 20.0), ("waits.stages[standby]", n)];
    let words = "at 90 % of the sampled instants some session waited for a standby";
    check(TickSource::Server, &waits(18.0), Some(("waits-for-standby", Severity::Note, words)));
    check(TickSource::Server, &waits(4.0), None);
}
