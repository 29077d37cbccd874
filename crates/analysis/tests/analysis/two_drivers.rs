//! Changes to the records of a quiet run: two drivers on other machines.

use model::load::interval::Moments;
use model::run::RunData;
use model::run::driver::{ClockOffset, DriverRecord};

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
