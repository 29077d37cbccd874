//! Ends of ticks, and the messages to and between the observer's threads: stop, driver's pid, alignment, and whose
//! backends are whose.

use std::cell::Cell;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use model::telemetry::watch::Backends;

/// A tick that ends later than this is reported as an event: the machine did not schedule the observer, or the server
/// did not answer.
pub(crate) const LATE_NS: u64 = 100_000_000;

/// The same moment on both clocks. Each observer has its own: two may observe at the same time, and one that begins
/// after a step of the wall clock must not move the time line of the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Anchor {
    at: Instant,
    wall_ns: u64,
}

thread_local! {
    static ANCHOR: Cell<Option<Anchor>> = const { Cell::new(None) };
}

impl Anchor {
    /// Reads both clocks.
    pub(crate) fn now() -> Anchor {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Anchor { at: Instant::now(), wall_ns: u64::try_from(since.as_nanos()).unwrap_or_default() }
    }

    /// Makes this thread one of the observer with this anchor. Until the next call, a step of the wall clock does not distort
    /// its time line; it would otherwise deviate from that of the driver, which reads both clocks once per run.
    pub(crate) fn hold(self) {
        ANCHOR.set(Some(self));
    }
}

/// Current time, nanoseconds since the Unix epoch.
pub(crate) fn unix_ns() -> u64 {
    let anchor = ANCHOR.get().unwrap_or_else(|| {
        let anchor = Anchor::now();
        anchor.hold();
        anchor
    });
    anchor.wall_ns + u64::try_from(anchor.at.elapsed().as_nanos()).unwrap_or_default()
}

/// End of the tick after `now_ns`: the next multiple of `tick_ns` from `align_ns`. Skips one that is closer than a
/// tenth of a tick, because rates over such a short time are noise.
pub(crate) fn next_end_ns(now_ns: u64, align_ns: u64, tick_ns: u64) -> u64 {
    let tick_ns = tick_ns.max(1);
    let from = now_ns + tick_ns / 10;
    let phase = align_ns % tick_ns;
    // `from` is far more than one tick after the epoch, so the subtraction never saturates in practice.
    let whole = from.saturating_sub(phase) / tick_ns;
    phase + (whole + 1) * tick_ns
}

/// End of this tick on the wall clock and on the clock that we wait by, so that setting the wall clock back does not
/// prolong the wait.
fn next_end(align_ns: u64, tick_ns: u64) -> (u64, Instant) {
    let (now_ns, now) = (unix_ns(), Instant::now());
    let end_ns = next_end_ns(now_ns, align_ns, tick_ns);
    (end_ns, now + Duration::from_nanos(end_ns.saturating_sub(now_ns)))
}

/// The ends of a thread's ticks.
#[derive(Debug)]
pub(crate) struct TickEnds {
    tick_ns: u64,
    /// Alignment and end of the tick in progress.
    pending: Option<(u64, (u64, Instant))>,
}

impl TickEnds {
    pub(crate) fn every(tick_ns: u64) -> TickEnds {
        TickEnds { tick_ns, pending: None }
    }

    /// The end of the tick in progress, which moves only with the alignment.
    pub(crate) fn next(&mut self, align_ns: u64) -> (u64, Instant) {
        match self.pending {
            Some((of, end)) if of == align_ns => end,
            _ => {
                let end = next_end(align_ns, self.tick_ns);
                self.pending = Some((align_ns, end));
                end
            }
        }
    }
}

/// Values that may change while the threads run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wishes {
    pub(crate) stop: bool,
    pub(crate) align_unix_ns: u64,
    pub(crate) driver_pid: Option<i32>,
    pub(crate) server_pid: Option<i32>,
    pub(crate) n_ended: usize,
}

/// [`Wishes`] and [`Backends`] shared by all threads, with a condition variable for the wishes.
#[derive(Debug, Default)]
pub(crate) struct ObserverControl {
    wishes: Mutex<Wishes>,
    bell: Condvar,
    backends: Mutex<Backends>,
}

impl ObserverControl {
    pub(crate) fn new(wishes: Wishes, backends: Backends) -> ObserverControl {
        ObserverControl { wishes: Mutex::new(wishes), bell: Condvar::new(), backends: Mutex::new(backends) }
    }

    /// The known backends. The lock is held until the returned value is dropped.
    pub(crate) fn backends(&self) -> MutexGuard<'_, Backends> {
        self.backends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Wishes> {
        // The lock is only held for plain assignments, which cannot be left half done.
        self.wishes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self) -> Wishes {
        *self.lock()
    }

    /// Changes the wishes and wakes all threads.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Wishes)) {
        change(&mut self.lock());
        self.bell.notify_all();
    }

    /// Waits for `length` or until stop; returns whether to stop.
    pub(crate) fn sleep(&self, length: Duration) -> bool {
        let guard = self.lock();
        let waited = self.bell.wait_timeout_while(guard, length, |wishes| !wishes.stop);
        waited.map_or(true, |(wishes, _)| wishes.stop)
    }

    /// Waits until the end of the next tick, even if the alignment changes meanwhile, or until stop. Returns the
    /// intended end, and whether to stop.
    pub(crate) fn sleep_tick(&self, tick_ns: u64) -> (u64, bool) {
        let mut ends = TickEnds::every(tick_ns);
        loop {
            if let Some(ended) = self.sleep_tick_or(&mut ends, None) {
                return ended;
            }
        }
    }

    /// [`ObserverControl::sleep_tick`], but returns nothing at `early`, if that comes first.
    pub(crate) fn sleep_tick_or(&self, ends: &mut TickEnds, early: Option<Instant>) -> Option<(u64, bool)> {
        let mut wishes = self.lock();
        loop {
            let (end_ns, end) = ends.next(wishes.align_unix_ns);
            let now = Instant::now();
            let left = end.saturating_duration_since(now);
            if wishes.stop || left.is_zero() {
                ends.pending = None;
                return Some((end_ns, wishes.stop));
            }
            let early = early.map(|early| early.saturating_duration_since(now));
            if early == Some(Duration::ZERO) {
                return None;
            }
            let waited = self.bell.wait_timeout(wishes, early.map_or(left, |early| left.min(early)));
            wishes = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until `n` threads have ended, at most `limit`; returns whether they have.
    pub(crate) fn wait_ended(&self, n: usize, limit: Duration) -> bool {
        let waited = self.bell.wait_timeout_while(self.lock(), limit, |wishes| wishes.n_ended < n);
        waited.is_ok_and(|(wishes, _)| wishes.n_ended >= n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_end_on_whole_ticks_after_the_alignment() {
        const S: u64 = 1_000_000_000;
        for (now, align, expected) in [
            (100 * S, 0, 101 * S),
            (100 * S + 1, 0, 101 * S),
            (100 * S + S / 2, S / 4, 101 * S + S / 4),
            (100 * S + S / 4, 7000 * S + S / 4, 101 * S + S / 4),
            // Too close to the end of a tick: the next one.
            (101 * S - S / 20, 0, 102 * S),
        ] {
            assert_eq!(next_end_ns(now, align, S), expected, "{now} {align}");
        }
    }

    #[test]
    fn the_time_line_of_an_observer_does_not_move_when_another_one_begins() {
        let apart_ns = 60_000_000_000;
        let of_this = Anchor::now();
        of_this.hold();
        let stepped = Anchor { wall_ns: of_this.wall_ns + apart_ns, ..of_this };
        let of_other = std::thread::spawn(move || {
            stepped.hold();
            unix_ns()
        });
        let of_other = of_other.join().unwrap();
        assert!(of_other >= stepped.wall_ns && unix_ns() < stepped.wall_ns, "{of_other} {of_this:?}");
    }

    #[test]
    fn what_is_done_within_a_tick_does_not_move_its_end() {
        let control = ObserverControl::new(Wishes::default(), Backends::default());
        let mut ends = TickEnds::every(300_000_000);
        let first = ends.next(0);
        for _ in 0..1000 {
            let early = Instant::now() + Duration::from_millis(7);
            match control.sleep_tick_or(&mut ends, Some(early)) {
                None => assert_eq!(ends.next(0), first),
                Some(ended) => return assert_eq!(ended, (first.0, false)),
            }
        }
        panic!("the tick never ended");
    }

    #[test]
    fn a_stop_ends_every_wait() {
        let control = ObserverControl::new(Wishes { stop: true, ..Wishes::default() }, Backends::default());
        assert!(control.sleep(Duration::from_secs(60)));
        assert!(control.sleep_tick(60_000_000_000).1);
        assert!(!control.wait_ended(1, Duration::from_millis(1)));
        control.change(|wishes| wishes.n_ended = 1);
        assert!(control.wait_ended(1, Duration::from_secs(60)));
    }
}
