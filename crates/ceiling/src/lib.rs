//! What the parts of a machine can give at most: devices below a directory, processors, memory, and the way to a server.
//!
//! Each part is measured for a bounded time, as the median of three rounds, and never while a run is measured. Nothing
//! here judges a run by the values.

mod blocks;
mod disk;
pub mod kept;
mod machine;
mod network;
mod rounds;
mod scratch;
mod sync;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use model::run::ceilings::Calibration;
use model::telemetry::host::HostRecord;

pub use disk::{PLACES_BYTES_MIN, disk, place_of};
pub use machine::{clock_s, machine};
pub use network::{network, way_to};
pub use scratch::sweep as sweep_scratch;

/// The place of processors and memory.
pub const MACHINE: &str = "machine";

/// How to measure.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Longest time of each part; a third of it for each round.
    pub part: Duration,
    /// Raised when the user wants to stop.
    pub stop: &'static AtomicBool,
}

impl Effort {
    /// Time of each part unless the user asks for another one: as `pg_test_fsync` takes for each method.
    pub const PART: Duration = Duration::from_secs(5);
}

/// Values by key, and reasons for those that could not be measured.
#[derive(Debug, Default)]
struct Found {
    values: BTreeMap<String, f64>,
    unavailable: BTreeMap<String, String>,
}

impl Found {
    fn put(&mut self, name: &str, instance: Option<&str>, value: f64) {
        let key = instance.map_or_else(|| name.to_string(), |instance| format!("{name}[{instance}]"));
        self.values.insert(key, value);
    }

    fn lack(&mut self, what: &str, reason: impl std::fmt::Display) {
        self.unavailable.insert(what.to_string(), reason.to_string());
    }

    fn of_place(self, place: String, effort: &Effort) -> Calibration {
        let host = observe::host::facts::record(&BTreeMap::new());
        Calibration {
            machine: fingerprint(&host),
            place,
            measured_unix_ns: now_unix_ns(),
            part_ms: effort.part.as_millis() as u64,
            values: self.values,
            unavailable: self.unavailable,
        }
    }
}

/// The machine as far as its speed depends on it: another one has other ceilings, even under the same name.
pub fn fingerprint(host: &HostRecord) -> String {
    let memory_gib = host.memory_bytes as f64 / (1u64 << 30) as f64;
    format!("{}, {} x {}, {memory_gib:.0} GiB", host.hostname, host.n_cpus, host.cpu_model)
}

/// The fingerprint of this machine.
pub fn this_machine() -> String {
    fingerprint(&observe::host::facts::record(&BTreeMap::new()))
}

/// The wall clock, nanoseconds since the Unix epoch.
pub fn now_unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
