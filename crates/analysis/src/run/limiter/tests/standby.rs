//! Waits for a standby whose longest part is known.

use model::run::server::node::NodeRecord;
use model::telemetry::reading::Values;

use super::*;
use crate::run::limiter::standby::{StandbyStages, stages};
use crate::summary::limiter::StandbyPart;

const PARTIES: Parties = Parties { server: true, driver: true, pgdyno: true };

/// Sessions of which most wait for a standby with these stages.
fn waiting(standby: StandbyStages) -> MeasurementFacts {
    let facts = facts(&[("IPC:SyncRep", 7.1), ("CPU", 0.9)], &[(WaitStage::Standby, 0.99)], &[], 0.1);
    MeasurementFacts { standby: Some(standby), ..facts }
}

fn at(write_ms: f64, flush_ms: f64, replay_ms: f64, last: StandbyPart) -> StandbyStages {
    StandbyStages {
        node: "s1".to_string(),
        write_s: write_ms / 1e3,
        flush_s: flush_ms / 1e3,
        replay_s: replay_ms / 1e3,
        last: Some(last),
        ..StandbyStages::default()
    }
}

#[test]
fn the_longest_part_of_the_wait_is_named_with_its_own_advice() {
    for (stages, part, words, advice) in [
        (
            at(5.2, 5.6, 5.7, StandbyPart::Disk),
            Some(StandbyPart::Way),
            "of 5.6 ms until `s1` had a commit, 5.2 ms were the way to it, 0.4 ms were its disk",
            "Try synchronous_commit=local",
        ),
        (
            at(0.3, 10.3, 11.0, StandbyPart::Disk),
            Some(StandbyPart::Disk),
            "of 10.3 ms until `s1` had a commit, 0.3 ms were the way to it, 10.0 ms were its disk",
            "Try synchronous_commit=remote_write",
        ),
        (
            at(0.3, 1.3, 21.3, StandbyPart::Replay),
            Some(StandbyPart::Replay),
            "0.3 ms were the way to it, 1.0 ms were its disk, 20.0 ms were its replay",
            "Try synchronous_commit=on",
        ),
        // What commits do not wait for is no part of it.
        (
            at(0.3, 10.0, 900.0, StandbyPart::Way),
            Some(StandbyPart::Way),
            "of 0.3 ms until `s1` had a commit, 0.3 ms were the way to it",
            "Try synchronous_commit=local",
        ),
        // No half of it.
        (
            at(2.0, 4.0, 6.0, StandbyPart::Replay),
            None,
            "of 6.0 ms",
            "Try synchronous_commit=local, which lifts it; a faster standby",
        ),
    ] {
        let found = judge(&waiting(stages));
        assert_eq!((found.name, found.part), (Bottleneck::Standby, part), "{found:?}");
        assert!(found.evidence.contains(words), "{}", found.evidence);
        assert!(found.next.starts_with(advice), "{}", found.next);
        let shares: f64 =
            found.figures.iter().filter(|f| f.of == "the wait for a standby").map(|f| f.share).sum();
        assert!((shares - 1.0).abs() < 1e-9, "{:?}", found.figures);
    }
}

#[test]
fn a_startup_process_that_is_busy_all_the_time_is_the_part() {
    let busy = StandbyStages { startup: Some(0.93), ..at(0.3, 9.0, 12.0, StandbyPart::Replay) };
    let found = judge(&waiting(busy.clone()));
    assert_eq!(found.part, Some(StandbyPart::Replay));
    assert!(
        found.evidence.ends_with("its startup process, which replays alone, used 0.93 of a processor"),
        "{found:?}"
    );
    // Nobody waits for it.
    let unneeded = StandbyStages { last: Some(StandbyPart::Disk), ..busy };
    assert_eq!(judge(&waiting(unneeded)).part, Some(StandbyPart::Disk));
}

#[test]
fn what_is_no_standby_has_no_part() {
    let facts = facts(&[("CPU", 8.0)], &[], &[], 0.99);
    let busy = MeasurementFacts { standby: Some(at(5.0, 6.0, 7.0, StandbyPart::Disk)), ..facts };
    assert_eq!(judge(&busy).part, None);
}

/// Ten seconds with these readings.
fn ticks(source: TickSource, values: &[(&str, f64)]) -> Vec<Tick> {
    let values: Values = values.iter().map(|(key, value)| ((*key).to_string(), *value)).collect();
    let tick = |n| Tick { source, end_unix_ns: n, length_ns: 1_000_000_000, values: values.clone() };
    (0..10).map(tick).collect()
}

fn stages_of(ticks: &[Tick], record: &RunRecord) -> Option<StandbyStages> {
    let placed = ticks.iter().enumerate().map(|(n, tick)| {
        let from_s = (n % 10) as f64;
        Placed { from_s, to_s: from_s + 1.0, tick }
    });
    let mut placed: Vec<Placed> = placed.collect();
    placed.sort_by(|a, b| a.to_s.total_cmp(&b.to_s));
    stages(&Usage::new(placed, PARTIES), (0.0, 10.0), record)
}

#[test]
fn in_a_stall_the_marks_tell_what_replies_do_not() {
    let mut all = ticks(
        TickSource::Server,
        &[
            ("server.replication_lag[s1/write]", 0.001),
            ("server.replication_lag[s1/flush]", 0.002),
            ("server.replication_lag[s1/replay]", 0.004),
            ("server.replication_lag_bytes[s1/write]", 0.0),
            ("server.replication_lag_bytes[s1/flush]", 100.0),
            ("server.replication_lag_bytes[s1/replay]", 25_000.0),
            ("server.replication_lag[s2/write]", 0.5),
            ("server.replication_lag[s2/flush]", 0.6),
        ],
    );
    all.extend(ticks(
        TickSource::Standby,
        &[
            ("standby.receive_lag[s1]", 0.05),
            ("standby.replay_lag[s1]", 1.5),
            ("standby.cpu[s1/startup]", 0.25),
        ],
    ));
    let mut record = lacking::record(&[]);
    let node = |name: &str, sync_state: &str| NodeRecord {
        name: name.to_string(),
        sync_state: sync_state.to_string(),
        ..NodeRecord::default()
    };
    record.nodes = vec![node("s1", "sync"), node("s2", "async")];
    let found = stages_of(&all, &record).unwrap();
    assert_eq!(found.node, "s1", "nobody waits for s2");
    assert!((found.write_s - 0.001).abs() < 1e-9, "{found:?}");
    // Marks that come each 0.1 s say nothing of 0.05 s.
    assert!((found.flush_s - 0.002).abs() < 1e-9 && (found.replay_s - 1.5).abs() < 1e-9, "{found:?}");
    assert_eq!((found.startup, found.lag_bytes), (Some(0.25), Some([0.0, 100.0, 25_000.0])), "{found:?}");
    // By URL nobody knows which is waited for: the slowest is.
    record.nodes = Vec::new();
    assert_eq!(stages_of(&all, &record).unwrap().node, "s2");
    assert_eq!(stages_of(&ticks(TickSource::Server, &[("server.wal_bytes", 1.0)]), &record), None);
}

#[test]
fn a_stall_of_the_way_is_no_stall_of_the_disk() {
    let found = |write_bytes: f64| {
        let mut all = ticks(
            TickSource::Server,
            &[
                ("server.replication_lag[s1/write]", 0.001),
                ("server.replication_lag[s1/flush]", 0.002),
                ("server.replication_lag_bytes[s1/write]", write_bytes),
                ("server.replication_lag_bytes[s1/flush]", 1000.0),
                ("server.replication_lag_bytes[s1/replay]", 1000.0),
            ],
        );
        all.extend(ticks(TickSource::Standby, &[("standby.receive_lag[s1]", 1.5)]));
        let record = lacking::record(&[]);
        judge(&waiting(stages_of(&all, &record).unwrap())).part
    };
    assert_eq!(found(1000.0), Some(StandbyPart::Way), "nothing of what is missing was written");
    assert_eq!(found(200.0), Some(StandbyPart::Disk), "most of it was written, and is not durable");
}
