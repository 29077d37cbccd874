//! Runs with eyes on the server's host: two machines, each with parties of its own.

use model::run::eyes::EyesRecord;
use model::telemetry::reading::{Tick, TickSource};

use crate::findings::findings_of;
use crate::quiet::{self, set_metric};

#[test]
fn with_eyes_on_the_servers_host_both_machines_are_judged_each_by_its_own_parties() {
    let mut data = quiet::run(1);
    let eyes = EyesRecord { name: "db1".to_string(), ..EyesRecord::default() };
    data.record.eyes = Some(eyes);
    data.record.driver_host = data.record.host.clone();
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
    assert_eq!(findings_of(data.clone()), []);
    for tick in data.ticks.iter_mut().filter(|tick| tick.source == TickSource::DriverHost) {
        tick.values.insert("host.cpu.user[cpu1]".to_string(), 0.5);
    }
    let findings = findings_of(data);
    assert!(
        findings[0].evidence.contains("of the driver's machine on average")
            && !findings[0].evidence.contains("of the server's machine"),
        "{findings:?}"
    );
}
