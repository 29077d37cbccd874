//! Sessions that are not idle, by what they do: what a chart stacks over time.

use model::telemetry::reading::split_key;
use model::telemetry::wait::{self, WaitStage};

use crate::run::timeline::Placed;

/// What sessions do, in the order in which they are stacked: neighbours have colours that every kind of colour vision tells
/// apart. Idle sessions are left out.
pub(crate) const KINDS: [&str; 7] = ["CPU", "LWLocks", "other", "idle in transaction", "I/O", "WAL", "locks"];

/// What a session with this wait does; none of an idle one, and of one that is hidden.
pub(crate) fn kind(what: &str) -> Option<&'static str> {
    Some(match WaitStage::from_event(what, true) {
        Some(WaitStage::WalFlush | WaitStage::WalInit | WaitStage::Standby) => "WAL",
        Some(WaitStage::DataRead | WaitStage::DataWrite | WaitStage::Spill | WaitStage::Slru) => "I/O",
        Some(WaitStage::Lock) => "locks",
        None => match what {
            // Of a hidden session it is not known whether it is idle.
            wait::IDLE | wait::HIDDEN => return None,
            wait::IDLE_IN_TRANSACTION => "idle in transaction",
            wait::CPU => "CPU",
            wait::KERNEL_SLEEP => "other",
            _ if what.starts_with("LWLock:") => "LWLocks",
            _ if what.starts_with("IO:") || what.starts_with("Kernel:") => "I/O",
            _ => "other",
        },
    })
}

/// Sessions of each of [`KINDS`] in a tick, the mean of its samples; none without a sample.
pub(super) fn by_kind(placed: &Placed) -> Option<[f64; KINDS.len()]> {
    let values = &placed.tick.values;
    let n_samples = values.get("waits.samples").filter(|n| *n > 0.0)?;
    let mut sums = [0.0; KINDS.len()];
    for (key, n) in values.starting_with("waits.processes[client/") {
        let what = split_key(key).1.and_then(|instance| instance.strip_prefix("client/"));
        let place = what.and_then(kind).and_then(|kind| KINDS.iter().position(|one| *one == kind));
        if let Some(place) = place {
            sums[place] += n / n_samples;
        }
    }
    Some(sums)
}

#[cfg(test)]
mod tests {
    use model::telemetry::reading::{Tick, TickSource, Values};

    use super::*;

    #[test]
    fn each_wait_is_of_one_kind() {
        for (what, expected) in [
            ("CPU", Some("CPU")),
            ("idle", None),
            ("idle in transaction", Some("idle in transaction")),
            ("IO:WalSync", Some("WAL")),
            ("LWLock:WALWrite", Some("WAL")),
            ("LWLock:WALInsert", Some("LWLocks")),
            ("IO:DataFileRead", Some("I/O")),
            ("IPC:BufferIo", Some("I/O")),
            ("IO:BuffileWrite", Some("I/O")),
            ("IO:CopyFileRead", Some("I/O")),
            ("Kernel:WalFlush", Some("WAL")),
            ("Kernel:PageFault", Some("I/O")),
            ("Kernel:Sleep", Some("other")),
            ("Lock:transactionid", Some("locks")),
            ("Timeout:SpinDelay", Some("other")),
            ("hidden", None),
        ] {
            assert_eq!(kind(what), expected, "{what}");
            assert!(expected.is_none_or(|kind| KINDS.contains(&kind)));
        }
    }

    #[test]
    fn a_tick_has_the_mean_of_its_samples_and_only_sessions_of_clients() {
        let values = [
            ("waits.samples", 20.0),
            ("waits.processes[autovacuum worker/CPU]", 20.0),
            ("waits.processes[client/CPU]", 10.0),
            ("waits.processes[client/IO:WalSync]", 15.0),
            ("waits.processes[client/LWLock:WALWrite]", 45.0),
            ("waits.processes[client/idle]", 80.0),
            ("waits.processes[walwriter/IO:WalSync]", 20.0),
        ];
        let values = Values::from(values);
        let of = |values: Values| {
            let tick = Tick { source: TickSource::Server, end_unix_ns: 1, length_ns: 1, values };
            by_kind(&Placed { from_s: 0.0, to_s: 1.0, tick: &tick })
        };
        assert_eq!(of(values.clone()), Some([0.5, 0.0, 0.0, 0.0, 0.0, 3.0, 0.0]));
        assert_eq!(of(Values::from([("waits.samples", 0.0)])), None);
        assert_eq!(of(Values::default()), None);
    }
}
