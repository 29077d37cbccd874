//! Runs with eyes on the server's host: two machines, each with parties of its own.

use analysis::comparison::Difference;
use analysis::study;
use model::experiment::case::ServerSource;
use model::run::eyes::HostObserverRecord;
use model::run::host::HostRecord;
use model::run::{ExperimentData, RunData};
use model::telemetry::reading::{Tick, TickSource};

use crate::comparison::{compare_cases, pairs};
use crate::findings::findings_of;
use crate::quiet::{self, set_metric};

/// A quiet run with eyes on the server's host.
fn run_on_two_machines() -> RunData {
    let mut data = quiet::run(1);
    observe_at(&mut data, "db1");
    // The driver's share of the server's machine is now on the other one.
    let of_driver: Vec<Tick> =
        data.ticks.iter().filter(|tick| tick.source == TickSource::Host).cloned().collect();
    set_metric(&mut data, "host.cpu.user", -10.0, 50.0, 0.385);
    set_metric(&mut data, "host.cpu.system", -10.0, 50.0, 0.0);
    for mut tick in of_driver {
        tick.source = TickSource::DriverHost;
        tick.values.retain(|key, _| !key.starts_with("server.") && !key.starts_with("disk."));
        for (key, value) in tick.values.iter_mut().filter(|(key, _)| key.starts_with("host.cpu.user")) {
            *value = if key.ends_with("[cpu0]") { 0.46 } else { 0.0 };
        }
        tick.values
            .iter_mut()
            .filter(|(key, _)| key.starts_with("host.cpu.system"))
            .for_each(|(_, v)| *v = 0.0);
        data.ticks.push(tick);
    }
    data.ticks.sort_by_key(|tick| tick.end_unix_ns);
    data
}

#[test]
fn with_eyes_on_the_servers_host_both_machines_are_judged_each_by_its_own_parties() {
    let mut data = run_on_two_machines();
    assert_eq!(findings_of(data.clone()), []);
    for tick in data.ticks.iter_mut().filter(|tick| tick.source == TickSource::DriverHost) {
        tick.values.insert("host.cpu.user[cpu1]", 0.5);
    }
    let findings = findings_of(data);
    assert!(
        findings[0].evidence.contains("of the driver's machine on average")
            && !findings[0].evidence.contains("of the server's machine"),
        "{findings:?}"
    );
}

/// The server of this run was on a machine with eyes, called `hostname`.
fn observe_at(data: &mut RunData, hostname: &str) {
    let record = &mut data.record;
    record.eyes = Some(HostObserverRecord { name: hostname.to_string(), ..HostObserverRecord::default() });
    record.driver_host = record.host.clone();
    record.host.as_mut().unwrap().hostname = hostname.to_string();
    record.server_is_local = true;
}

#[test]
fn clocks_and_frequencies_are_judged_on_the_machine_that_they_belong_to() {
    let set = |source: TickSource| {
        let mut data = run_on_two_machines();
        for tick in data.ticks.iter_mut().filter(|tick| tick.source == source) {
            let offset_s = if tick.end_unix_ns > quiet::at(20.5) { 0.5 } else { 0.0 };
            tick.values.insert("host.clock_offset", offset_s);
        }
        findings_of(data)
    };
    assert_eq!(set(TickSource::Host), []);
    let found = set(TickSource::DriverHost);
    assert!(found[0].evidence.contains("of the driver's machine was set by +0.500 s"), "{found:?}");
    let mut data = run_on_two_machines();
    let facts = |host: &mut HostRecord, clock: &str, governor: &str| {
        host.facts.insert("clocksource".to_string(), clock.to_string());
        host.facts.insert("cpu_governor".to_string(), governor.to_string());
    };
    facts(data.record.driver_host.as_mut().unwrap(), "hpet", "powersave");
    facts(data.record.host.as_mut().unwrap(), "tsc", "ondemand");
    let evidence: Vec<String> = findings_of(data).into_iter().map(|finding| finding.evidence).collect();
    let expected = [
        "the clock source is hpet on the driver's machine",
        "the governor is ondemand on the server's machine, and powersave on the driver's machine",
    ];
    assert_eq!(evidence, expected);
}

/// The servers of A and B, on machines of their own, that eyes look at.
fn two_hosts() -> ExperimentData {
    let mut data = pairs(6, 1.0);
    for run in &mut data.runs {
        observe_at(run, if run.record.spec.case == 1 { "db1" } else { "db2" });
    }
    data
}

#[test]
fn servers_may_be_on_different_machines_if_different_servers_were_asked_for() {
    let whats = |list: &[Difference]| list.iter().map(|one| one.what.clone()).collect::<Vec<String>>();
    let mut data = two_hosts();
    let found = compare_cases(&data);
    assert_eq!(whats(&found.undeclared), ["server's host"]);
    for (case, host) in data.plan.cases.iter_mut().zip(["db1", "db2"]) {
        let keywords = [("host".to_string(), host.to_string())].into();
        case.server.source = ServerSource::Url(keywords);
    }
    let found = compare_cases(&data);
    assert_eq!(
        (whats(&found.declared), whats(&found.undeclared).len()),
        (vec!["server".into(), "server's host".into()], 0)
    );
    // The machine of pgdyno is never asked for.
    for run in data.runs.iter_mut().filter(|run| run.record.spec.case == 2) {
        run.record.driver_host.as_mut().unwrap().hostname = "other".to_string();
    }
    assert_eq!(whats(&compare_cases(&data).undeclared), ["host"]);
}

#[test]
fn the_machine_has_changed_if_that_of_pgdyno_has_or_that_of_a_cases_server() {
    let changed = |data: &ExperimentData| {
        let findings = study(data).findings.into_iter();
        findings.filter(|one| one.id == "machine-changed").map(|one| one.evidence).collect::<Vec<String>>()
    };
    let mut data = two_hosts();
    assert_eq!(changed(&data), [""; 0]);
    data.runs[2].record.host.as_mut().unwrap().hostname = "db3".to_string();
    let found = changed(&data);
    assert!(found[0].contains("(run 3: the server's host name `db1`, then `db3`)"), "{found:?}");
    data.runs[2].record.host.as_mut().unwrap().hostname = "db1".to_string();
    data.runs[3].record.driver_host.as_mut().unwrap().hostname = "other".to_string();
    let found = changed(&data);
    assert!(found[0].contains("(run 4: host name `") && found[0].contains("then `other`)"), "{found:?}");
}
