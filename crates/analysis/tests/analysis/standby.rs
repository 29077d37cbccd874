//! A standby that commits wait for is part of the number, and one that stands still is found.

use analysis::finding::{Finding, Severity};
use model::run::server::node::{NodeAfter, NodeRecord};
use model::telemetry::reading::{Tick, TickSource, Values, key};

use crate::comparison::setting;
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

#[test]
fn reads_that_lack_what_was_committed_are_stale() {
    let lacks = |s: f64, n: f64| [("reads.stale[s1]", s), ("reads.stale_commits[s1]", n)];
    let words = "s1 lacked 200 transactions for 2.00 s at the median, 2.00 s at most";
    check(TickSource::Server, &lacks(2.0, 200.0), Some(("stale-reads", Severity::Note, words)));
    check(TickSource::Server, &lacks(0.02, 2.0), None);
}

/// A run with standbys: name, state before the load, state after it, seconds to catch up.
fn with_nodes(names: &str, nodes: &[(&str, &str, Option<&str>, Option<f64>)]) -> Vec<Finding> {
    let mut data = quiet::run(1);
    setting(&mut data, "synchronous_standby_names", names);
    let node = |(name, before, after, catch_up_s): &(&str, &str, Option<&str>, Option<f64>)| NodeRecord {
        name: name.to_string(),
        sync_state: before.to_string(),
        after: Some(NodeAfter {
            sync_state: after.map(str::to_string),
            replay_lag_bytes: Some(64 << 20),
            catch_up_s: *catch_up_s,
            ..NodeAfter::default()
        }),
        ..NodeRecord::default()
    };
    data.record.nodes = nodes.iter().map(node).collect();
    findings_of(data)
}

fn evidence<'a>(found: &'a [Finding], id: &str) -> Option<(Severity, &'a str)> {
    let finding = found.iter().find(|finding| finding.id == id)?;
    Some((finding.severity, &finding.evidence))
}

#[test]
fn standbys_share_the_machine_of_their_primary() {
    let calm = with_nodes(
        "",
        &[("s1", "async", Some("async"), Some(0.02)), ("s2", "async", Some("async"), Some(0.03))],
    );
    let words = "s1, s2 and the primary share 4 processors and the devices of one machine";
    assert_eq!(evidence(&calm, "same-machine"), Some((Severity::Doubt, words)));
    assert_eq!(calm.len(), 1, "{calm:#?}");
    assert_eq!(evidence(&findings_of(quiet::run(1)), "same-machine"), None);
}

#[test]
fn a_standby_that_needs_time_after_the_load_fell_behind() {
    let found = with_nodes("", &[("s1", "async", Some("async"), Some(12.0))]);
    let (severity, words) = evidence(&found, "standby-falls-behind").unwrap();
    // About 35,200 transactions in 35.2 s and 12 s more.
    assert_eq!(severity, Severity::Doubt);
    assert!(
        words.starts_with(
            "s1 was 64.0 MiB of WAL behind and needed 12.0 s after a load of 35 s, which makes 74"
        ),
        "{words}"
    );
    let never = with_nodes("", &[("s1", "async", Some("async"), None)]);
    assert!(evidence(&never, "standby-falls-behind").unwrap().1.contains("did not catch up"));
    let gone = with_nodes("", &[("s1", "async", None, None)]);
    assert!(evidence(&gone, "standby-falls-behind").unwrap().1.contains("s1 was not connected"));
}

#[test]
fn standbys_that_are_not_waited_for_although_they_should_be_void_the_run() {
    let state = |names: &str, states: [(&str, Option<&str>); 2]| {
        let [(a, after_a), (b, after_b)] = states;
        let found = with_nodes(names, &[("s1", a, after_a, Some(0.0)), ("s2", b, after_b, Some(0.0))]);
        evidence(&found, "not-synchronous").map(|(severity, words)| (severity, words.to_string()))
    };
    let sync = ("sync", Some("sync"));
    let quorum = ("quorum", Some("quorum"));
    let potential = ("potential", Some("potential"));
    assert_eq!(state("", [("async", Some("async")); 2]), None);
    assert_eq!(state("2 (s1, s2)", [sync, sync]), None);
    assert_eq!(state("s1, s2", [sync, potential]), None);
    assert_eq!(state("ANY 1 (s1, s2)", [quorum, quorum]), None);
    let words = "after the load, with synchronous_standby_names = '2 (s1, s2)': s1 sync, s2 not connected";
    assert_eq!(state("2 (s1, s2)", [sync, ("sync", None)]), Some((Severity::Void, words.to_string())));
    let (severity, words) = state("FIRST 2 (s1, s2)", [sync, potential]).unwrap();
    assert!(severity == Severity::Void && words.starts_with("before the load"), "{words}");
}

#[test]
fn replay_that_stands_still_is_doubted_with_its_conflicts() {
    let stalled =
        |s: f64| [("standby.replay_stall[s1]", s), ("standby.replay_lag_bytes[s1]", 12.0 * 1_048_576.0)];
    check(
        TickSource::Server,
        &stalled(2.9),
        Some(("replay-stalled", Severity::Doubt, "`s1` replayed nothing for 2.9 s up to ")),
    );
    check(TickSource::Server, &stalled(0.9), None);
    let more = [("standby.conflicts[s1/snapshot]", 0.1), ("standby.conflicts[s2/lock]", 1.0)];
    let words = ", and up to 12.0 MiB were behind; 3 conflicts with queries (snapshot)";
    let values = [&stalled(2.9)[..], &more].concat();
    check(TickSource::Server, &values, Some(("replay-stalled", Severity::Doubt, words)));
    let paused = [&stalled(2.9)[..], &[("standby.replay_paused[s1]", 1.0)]].concat();
    check(TickSource::Server, &paused, Some(("replay-stalled", Severity::Doubt, "; its replay was paused")));
}

#[test]
fn conflicts_are_those_of_a_standby_however_many_others_are_observed() {
    let mut data = quiet::run(1);
    let of_server: Vec<Tick> =
        data.ticks.iter().filter(|tick| tick.source == TickSource::Server).cloned().collect();
    for (name, n) in [("s1", 0.1), ("s2", 0.0), ("s3", 2.0)] {
        let values: Values = [
            (key("standby.conflicts", &format!("{name}/snapshot")), n),
            (key("standby.replay_stall", name), if name == "s1" { 2.9 } else { 0.0 }),
        ]
        .into();
        // Each standby has ticks of its own at the same time.
        let of_standby =
            |tick: &Tick| Tick { source: TickSource::Standby, values: values.clone(), ..tick.clone() };
        data.ticks.extend(of_server.iter().map(of_standby));
    }
    let found = findings_of(data);
    let (_, words) = evidence(&found, "replay-stalled").unwrap();
    assert!(words.ends_with("; 3 conflicts with queries (snapshot)"), "{words}");
}

#[test]
fn replay_that_is_delayed_on_purpose_is_not_doubted() {
    let mut data = quiet::run(1);
    data.ticks
        .iter_mut()
        .filter(|tick| tick.source == TickSource::Server)
        .for_each(|tick| tick.values.extend([("standby.replay_stall[s1]".to_string(), 2.0)]));
    let delay = ("recovery_min_apply_delay".to_string(), "2s".to_string());
    data.record.case.server.settings.extend([delay]);
    let found = findings_of(data);
    assert!(!found.iter().any(|finding| finding.id == "replay-stalled"), "{found:#?}");
}
