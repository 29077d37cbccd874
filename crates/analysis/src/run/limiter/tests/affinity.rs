//! Parties that may use fewer processors than the machine has.

use super::*;

/// Seconds of a machine with two processors, on which these readings and the rest were made; four clients, two threads of the driver.
fn judged(readings: &[(&str, f64)]) -> Limiter {
    judged_of(readings, true)
}

/// The same with the driver on that machine or on another one.
fn judged_of(readings: &[(&str, f64)], is_local: bool) -> Limiter {
    let rest = [
        ("waits.samples", 10.0),
        ("server.cpu.system", 0.0),
        ("driver.cpu.system", 0.0),
        ("host.cpu.system[cpu0]", 0.0),
        ("host.cpu.system[cpu1]", 0.0),
        ("pgdyno.cpu", 0.01),
    ];
    let values = readings.iter().chain(&rest).map(|(key, value)| (key.to_string(), *value)).collect();
    let tick = Tick { source: TickSource::Host, end_unix_ns: 1, length_ns: 1_000_000_000, values };
    let placed = |n: i32| Placed { from_s: f64::from(n), to_s: f64::from(n + 1), tick: &tick };
    let parties = Parties { server: true, driver: true, pgdyno: true };
    let usage = Usage::new((0..4).map(placed).collect(), parties);
    let conditions = Conditions {
        n_clients: 4,
        met_its_rate: false,
        is_local,
        has_pauses: false,
        tps: Some(8000.0),
        service_s: None,
        connecting: None,
    };
    let span = (0.0, 4.0);
    let driver_cpu = usage.rate("driver.cpu.user", span.0, span.1);
    let resources = ResourceUsage { n_cpus: Some(2), driver_cpu, ..ResourceUsage::default() };
    judge(&MeasurementFacts::from_usage(&usage, span.0, span.1).unwrap().with(
        &usage,
        span.0,
        span.1,
        &resources,
        &conditions,
    ))
}

/// A server that is bound to the second of two processors, of which it used 0.97, while the driver used 0.3 of the first.
const PINNED: [(&str, f64); 12] = [
    ("affinity.processors[server]", 1.0),
    ("affinity.cpu[server:cpu1]", 1.0),
    ("affinity.processors[driver]", 2.0),
    ("host.cpu.user[cpu0]", 0.35),
    ("host.cpu.user[cpu1]", 0.98),
    ("server.cpu.user", 0.97),
    ("server.run_delay", 1.6),
    ("driver.cpu.user", 0.3),
    ("driver.thread_cpu[0]", 0.15),
    ("driver.thread_cpu[1]", 0.15),
    ("waits.processes[client/CPU]", 12.0),
    ("waits.processes[client/idle]", 28.0),
];

fn with(changes: &[(&'static str, f64)]) -> Limiter {
    let kept = PINNED.iter().filter(|(key, _)| changes.iter().all(|(changed, _)| changed != key));
    judged(&kept.chain(changes).copied().collect::<Vec<_>>())
}

#[test]
fn a_server_that_is_bound_to_one_busy_processor_is_limited_by_it() {
    let found = judged(&PINNED);
    assert_eq!((found.name, found.confidence), (Bottleneck::ServerCpu, Confidence::Medium), "{found:?}");
    let expected = "the one processor that the server may use was busy 98 % of the time, 1.0 of it by the server, and the driver may use it too; ";
    assert!(found.evidence.starts_with(expected), "{}", found.evidence);
    // What is hidden is as before: the machine has room.
    let unknown: Vec<(&str, f64)> =
        PINNED.into_iter().filter(|(key, _)| !key.starts_with("affinity.")).collect();
    assert_ne!(judged(&unknown).name, Bottleneck::ServerCpu);
}

#[test]
fn others_on_the_very_processor_that_the_server_needs_count() {
    // A fifth of both processors, and two fifths of the one.
    let found = with(&[("server.cpu.user", 0.3), ("host.cpu.user[cpu0]", 0.1), ("driver.cpu.user", 0.25)]);
    assert_eq!(found.name, Bottleneck::ForeignCpu, "{found:?}");
    let expected = "other processes used 42 % of the one processor that the server may use";
    assert!(found.evidence.starts_with(expected), "{}", found.evidence);
    assert_eq!(found.runner_up.unwrap().0, Bottleneck::ServerCpu);
}

#[test]
fn a_quota_is_used_up_before_it_stops_anybody_half_of_the_time() {
    let quota = [
        ("affinity.processors[server]", 2.0),
        ("affinity.cpu[server:cpu1]", 0.0),
        ("cgroup.quota[server:/db]", 0.5),
        ("cgroup.periods[server:/db]", 10.0),
        ("cgroup.throttled_periods[server:/db]", 4.0),
        ("server.cpu.user", 0.49),
    ];
    let found = with(&quota);
    assert_eq!(found.name, Bottleneck::Quota, "{found:?}");
    let expected =
        "a quota stopped the server's processes in 40 % of its periods; they used 0.49 of 0.50 processors";
    assert_eq!(found.evidence, expected);
    // In a group with the driver, both count.
    let shared = [
        &quota[..5],
        &[("server.cpu.user", 0.25), ("driver.cpu.user", 0.24), ("cgroup.quota[driver:/db]", 0.5)],
    ];
    let found = with(&shared.concat());
    assert_eq!(found.name, Bottleneck::Quota, "{found:?}");
    let expected = "they and the driver, which is in the same group, used 0.49 of 0.50 processors";
    assert!(found.evidence.ends_with(expected), "{}", found.evidence);
    // On two machines, groups of one path are two.
    let all: Vec<(&str, f64)> = PINNED.iter().chain(&shared.concat()).copied().collect();
    let last: std::collections::BTreeMap<&str, f64> = all.into_iter().collect();
    let elsewhere = judged_of(&last.into_iter().collect::<Vec<(&str, f64)>>(), false);
    assert_ne!(elsewhere.name, Bottleneck::Quota, "{elsewhere:?}");
}

#[test]
fn threads_of_a_driver_that_share_one_processor_are_its_limit_though_none_is_busy() {
    let idle = [
        ("affinity.processors[server]", 2.0),
        ("affinity.cpu[server:cpu1]", 0.0),
        ("server.cpu.user", 0.4),
        ("server.run_delay", 0.1),
        ("driver.cpu.user", 0.96),
        ("driver.thread_cpu[0]", 0.48),
        ("driver.thread_cpu[1]", 0.48),
        ("waits.processes[client/CPU]", 4.0),
        ("waits.processes[client/idle]", 36.0),
    ];
    for limit in [("affinity.processors[driver]", 1.0), ("cgroup.quota[driver:/load]", 1.0)] {
        let found = with(&[&idle[..], &[limit]].concat());
        assert_eq!(found.name, Bottleneck::Driver, "{limit:?}: {found:?}");
        let expected = "the driver used 0.96 of 1 processor that it may use, and ";
        assert!(found.evidence.starts_with(expected), "{}", found.evidence);
    }
    assert_ne!(with(&idle).name, Bottleneck::Driver, "it may use both");
    // Others that keep the machine busy meanwhile take nothing from who has used up its own.
    let busy =
        [("affinity.processors[driver]", 1.0), ("host.cpu.user[cpu0]", 1.0), ("host.cpu.user[cpu1]", 1.0)];
    assert_eq!(with(&[&idle[..], &busy].concat()).name, Bottleneck::Driver);
}

#[test]
fn a_pooler_that_works_all_of_the_time_is_the_way() {
    let found = with(&[
        ("affinity.processors[server]", 2.0),
        ("affinity.cpu[server:cpu1]", 0.0),
        ("affinity.processors[pooler]", 1.0),
        ("pooler.cpu.user", 0.93),
        ("pooler.cpu.system", 0.05),
        ("server.cpu.user", 0.3),
        ("server.run_delay", 0.1),
        ("waits.processes[client/CPU]", 4.0),
        ("waits.processes[client/idle]", 36.0),
    ]);
    assert_eq!(found.name, Bottleneck::Network, "{found:?}");
    let expected = "the pooler or proxy in between used 0.98 of 1 processor that it can use";
    assert!(found.evidence.starts_with(expected), "{}", found.evidence);
}
