//! Changes to the records of a quiet run: two drivers on other machines, what they leave to the server's machine, and runs of
//! other hosts at the same time.

use analysis::study;
use model::load::interval::Moments;
use model::run::RunData;
use model::run::concurrent::ConcurrentRun;
use model::run::driver::{ClockOffset, DriverRecord};
use model::telemetry::reading::TickSource;

use crate::findings::findings_of;
use crate::quiet::{self, set_metric};

/// Two drivers that do the same, but for a change of the second.
pub(crate) fn drivers(data: &mut RunData, change: impl FnOnce(&mut DriverRecord)) {
    let driver = |name: &str| DriverRecord {
        name: name.to_string(),
        clock_before: Some(clock_at(0, 50_000)),
        clock_after: Some(clock_at(0, 50_000)),
        latency: Moments { n: 1000, sum: 1.2e9, ..Moments::default() },
        ..DriverRecord::default()
    };
    data.record.drivers = vec![driver("a"), driver("b")];
    change(&mut data.record.drivers[1]);
}

/// A clock that was compared by 150 pings.
pub(crate) fn clock_at(offset_ns: i64, bound_ns: u64) -> ClockOffset {
    ClockOffset { offset_ns, bound_ns, n_pings: 150 }
}

/// These runs of other targets were under way, and pgdyno itself used so many processors.
pub(crate) fn concurrent(data: &mut RunData, runs: &[(u32, &str)], used: f64) {
    let run = |(run, target): &(u32, &str)| ConcurrentRun { run: *run, target: target.to_string() };
    data.record.concurrent = runs.iter().map(run).collect();
    set_metric(data, "pgdyno.cpu", -10.0, 50.0, used);
}

/// Neither the server nor a driver was on the machine of pgdyno.
pub(crate) fn all_elsewhere(data: &mut RunData) {
    drivers(data, |_| {});
    data.record.drivers.iter_mut().for_each(|driver| driver.is_here = false);
    data.record.server_is_local = false;
}

/// A run of a server whose machine has no driver; its processes use `server` of the four processors, and all use `busy`.
fn driven_from_elsewhere(server: f64, busy: f64) -> RunData {
    let mut data = quiet::run(1);
    drivers(&mut data, |_| {});
    for tick in &mut data.ticks {
        tick.values.retain(|key, _| !key.starts_with("driver.cpu"));
    }
    set_metric(&mut data, "server.cpu.user", -10.0, 50.0, server);
    set_metric(&mut data, "server.cpu.system", -10.0, 50.0, 0.0);
    set_metric(&mut data, "host.cpu.user", -10.0, 50.0, busy / 4.0);
    set_metric(&mut data, "host.cpu.system", -10.0, 50.0, 0.0);
    data
}

#[test]
fn what_drivers_elsewhere_do_not_use_of_the_servers_machine_is_foreign() {
    let found = findings_of(driven_from_elsewhere(1.5, 1.99));
    let foreign = found.iter().find(|finding| finding.id == "foreign-cpu");
    assert!(
        foreign.is_some_and(|foreign| foreign.evidence.contains("12 % of the 4 processors")),
        "{found:?}"
    );
    let found = findings_of(driven_from_elsewhere(1.5, 1.55));
    assert!(found.iter().all(|finding| finding.id != "foreign-cpu"), "{found:?}");
}

#[test]
fn no_advice_is_to_move_a_driver_that_is_elsewhere() {
    let advice = |data: RunData| {
        let limiter = study(&quiet::experiment(1, vec![data])).runs.remove(0).limiter.unwrap();
        (limiter.name.as_str(), limiter.next)
    };
    let mut data = driven_from_elsewhere(3.9, 3.95);
    for tick in data.ticks.iter_mut().filter(|tick| tick.source == TickSource::Server) {
        let samples = [("waits.samples", 20.0), ("waits.processes[client/CPU]", 160.0)];
        tick.values.extend(samples.map(|(key, value)| (key.to_string(), value)));
    }
    assert_eq!(advice(data.clone()), ("server-cpu", "Try more or faster processors."));
    let mut here = data;
    here.record.drivers.clear();
    assert!(advice(here).1.contains("a driver on another machine"));
}

#[test]
fn a_remote_server_needs_no_share_in_the_foreign_cpu_of_the_drivers_machine() {
    let mut data = quiet::run(1);
    data.record.server_is_local = false;
    for tick in &mut data.ticks {
        tick.values.retain(|key, _| !key.starts_with("server.cpu"));
    }
    set_metric(&mut data, "host.cpu.user", -10.0, 50.0, 0.1);
    set_metric(&mut data, "host.cpu.system", -10.0, 50.0, 0.02);
    assert_eq!(findings_of(data.clone()), []);
    set_metric(&mut data, "host.cpu.system", -10.0, 50.0, 0.2);
    let findings = findings_of(data);
    assert!(findings[0].evidence.contains("of the driver's machine"), "{findings:?}");
}
