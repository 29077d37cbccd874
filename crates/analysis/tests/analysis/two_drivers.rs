//! Changes to the records of a quiet run: two drivers on other machines, and runs of other hosts at the same time.

use model::load::interval::Moments;
use model::run::RunData;
use model::run::concurrent::ConcurrentRun;
use model::run::driver::{ClockOffset, DriverRecord};

use crate::quiet::set_metric;

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
