//! Monotonic time in nanoseconds, and its place in the wall clock.

use nix::time::{ClockId, clock_gettime};

/// Monotonic time; unaffected by steps of the wall clock.
pub(crate) type Nanos = u64;

/// Nanoseconds in a second.
pub(crate) const SECOND_NS: Nanos = 1_000_000_000;
/// How often both clocks are read to find their offset.
const READINGS: usize = 10;

/// Now, on the monotonic clock.
#[inline]
pub(crate) fn now() -> Nanos {
    #[cfg(test)]
    if let Some(now) = simulated::now() {
        return now;
    }
    read(ClockId::CLOCK_MONOTONIC)
}

/// CPU time of the calling thread.
pub(crate) fn thread_cpu() -> Nanos {
    read(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

#[inline]
fn read(clock: ClockId) -> Nanos {
    let t = clock_gettime(clock).expect("the clocks used here exist on every Linux");
    t.tv_sec() as u64 * SECOND_NS + t.tv_nsec() as u64
}

/// Microseconds of the wall clock since the Unix epoch: what a transaction sends as the time of now.
pub(crate) fn wall_us() -> i64 {
    (read(ClockId::CLOCK_REALTIME) / 1000) as i64
}

/// The offset between the monotonic and the wall clock, read once: a later step of the wall clock
/// cannot bend the time line of a run.
#[derive(Debug, Clone, Copy)]
pub struct WallClock {
    offset_ns: i128,
}

impl WallClock {
    /// Reads both clocks several times, for a thread may be interrupted between two readings: the closest ones count.
    pub fn read() -> WallClock {
        let readings = (0..READINGS).map(|_| {
            let before = now();
            let wall = read(ClockId::CLOCK_REALTIME);
            let after = now();
            (after - before, i128::from(wall) - i128::from(before.midpoint(after)))
        });
        let (_, offset_ns) = readings.min().expect("READINGS is above 0");
        WallClock { offset_ns }
    }

    /// The wall time of a monotonic moment, nanoseconds since the Unix epoch.
    pub fn unix(&self, at: Nanos) -> u64 {
        (i128::from(at) + self.offset_ns).max(0) as u64
    }

    /// The wall time of now, nanoseconds since the Unix epoch.
    pub fn unix_now(&self) -> u64 {
        self.unix(now())
    }

    /// How far this time line is ahead of another one, nanoseconds.
    pub fn less(&self, other: WallClock) -> i64 {
        (self.offset_ns - other.offset_ns).clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    /// The monotonic moment of a wall time.
    pub fn monotonic(&self, unix_ns: u64) -> Nanos {
        (i128::from(unix_ns) - self.offset_ns).max(0) as u64
    }
}

/// A clock for unit tests, which stands still unless it is set. Each thread has its own.
#[cfg(test)]
pub(crate) mod simulated {
    use std::cell::Cell;

    use super::Nanos;

    thread_local! {
        static NOW: Cell<Option<Nanos>> = const { Cell::new(None) };
    }

    pub(crate) fn now() -> Option<Nanos> {
        NOW.get()
    }

    /// Sets the calling thread's clock, which is the system's until the first call.
    pub(crate) fn set(now: Nanos) {
        NOW.set(Some(now));
    }
}
