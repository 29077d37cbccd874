//! Findings about counters that should stand still during a measurement.

use analysis::finding::{Finding, Severity};
use analysis::study;
use model::telemetry::reading::TickSource;

use crate::quiet;

/// Findings of a run in which these counters rise by so much in each tick of their source.
fn findings_with(source: TickSource, counters: &[(&str, f64)]) -> Vec<Finding> {
    let mut data = quiet::run(1);
    for tick in data.ticks.iter_mut().filter(|tick| tick.source == source) {
        tick.values.extend(counters.iter().map(|(name, n)| (name.to_string(), *n)));
    }
    study(&quiet::experiment(1, vec![data])).runs.remove(0).findings
}

#[test]
fn counters_that_rise_are_findings_with_their_sums() {
    let archiving = "30 failed attempts to archive a segment of WAL, and 60 segments archived meanwhile";
    let volume = "nvme1n1:volume-iops was above its limit 40 % of the time";
    let both =
        "nvme1n1:volume-iops was above its limit 40 % of the time, 90 packets held back by ens5:bw_out";
    for (source, counters, id, expected) in [
        (
            TickSource::Server,
            &[("server.archive_failures", 1.0), ("server.archived", 2.0)][..],
            "archiving-failed",
            Some((Severity::Doubt, archiving)),
        ),
        (
            TickSource::Server,
            &[("server.archive_failures", 0.0), ("server.archived", 2.0)],
            "archiving-failed",
            None,
        ),
        (
            TickSource::Host,
            &[
                ("disk.over_limit_time[nvme1n1:volume-iops]", 0.4),
                ("disk.over_limit_time[nvme1n1:volume-throughput]", 0.0),
            ],
            "allowance-exceeded",
            Some((Severity::Doubt, volume)),
        ),
        (
            TickSource::Host,
            &[
                ("disk.over_limit_time[nvme1n1:volume-iops]", 0.4),
                ("net.held_back_packets[ens5:bw_out]", 3.0),
            ],
            "allowance-exceeded",
            Some((Severity::Doubt, both)),
        ),
        (
            TickSource::Host,
            &[("disk.over_limit_time[nvme1n1:volume-iops]", 0.005), ("net.held_back_packets[ens5:pps]", 1.0)],
            "allowance-exceeded",
            Some((Severity::Note, "30 packets held back by ens5:pps")),
        ),
    ] {
        let findings = findings_with(source, counters);
        let found = findings.iter().find(|finding| finding.id == id);
        assert_eq!(
            found.map(|finding| (finding.severity, finding.evidence.as_str())),
            expected,
            "{counters:?}"
        );
    }
}

#[test]
fn archiving_and_frequencies_are_drawn_where_there_are_any() {
    let drawn = |source, values: &[(&str, f64)], panel: &str| -> Vec<(String, f64)> {
        let mut data = quiet::run(1);
        for tick in data.ticks.iter_mut().filter(|tick| tick.source == source) {
            tick.values.extend(values.iter().map(|(name, value)| (name.to_string(), *value)));
        }
        let series = study(&quiet::experiment(1, vec![data])).runs.remove(0).series;
        let of_panel = series.into_iter().filter(|series| series.panel == panel);
        of_panel.map(|series| (series.name, series.points[0].1)).collect()
    };
    let archived = |n, failed| [("server.archived", n), ("server.archive_failures", failed)];
    let expected = [("archived".to_string(), 2.0), ("failed attempts".to_string(), 0.0)];
    assert_eq!(drawn(TickSource::Server, &archived(2.0, 0.0), "archiver"), expected);
    assert_eq!(drawn(TickSource::Server, &archived(0.0, 0.0), "archiver"), []);
    let frequencies = [("host.cpu.frequency[cpu0]", 2.4e9), ("host.cpu.frequency[cpu1]", 1.2e9)];
    let expected = [("slowest".to_string(), 1200.0), ("fastest".to_string(), 2400.0)];
    assert_eq!(drawn(TickSource::Host, &frequencies, "frequency"), expected);
}

/// The finding about a queue of segments that has so many more in each second.
fn queue(begins: f64, grows: f64) -> Option<String> {
    let mut data = quiet::run(1);
    let ticks = data.ticks.iter_mut().filter(|tick| tick.source == TickSource::Server);
    for (n, tick) in ticks.enumerate() {
        tick.values.extend([("archive.ready".to_string(), (begins + grows * n as f64).max(0.0))]);
    }
    for tick in data.ticks.iter_mut().filter(|tick| tick.source == TickSource::Host) {
        tick.values.extend([("disk.free_bytes[data]".to_string(), 16.0 * f64::from(1 << 30))]);
    }
    let findings = study(&quiet::experiment(1, vec![data])).runs.remove(0).findings;
    let found = findings.into_iter().find(|finding| finding.id == "archiver-behind")?;
    assert_eq!(found.severity, Severity::Doubt);
    Some(found.evidence)
}

#[test]
fn an_archiver_is_behind_if_its_queue_is_long_and_grows() {
    let found = queue(0.0, 1.0).unwrap();
    assert!(found.contains(" segments waited to be archived at the end"), "{found}");
    assert!(found.contains(", and how many were archived meanwhile is unknown; "), "{found}");
    // 1,024 segments of 16 MiB, one a second.
    assert!(found.contains("; at this rate the disk with WAL is full in 17 min"), "{found}");
    assert_eq!(queue(10.0, 0.0), None, "it does not grow");
    assert_eq!(queue(60.0, -1.0), None, "it shrinks");
    assert_eq!(queue(0.0, 0.02), None, "it is short");
}
