//! Limits how long the sessions of a thread may wait. A phase of a run belongs to the thread that executes it, and its
//! waits happen deep below, in sessions that outlive the phase: they check this limit at each wait.

use std::cell::Cell;
use std::time::{Duration, Instant};

thread_local! {
    static CURRENT: Cell<Limit> = const { Cell::new(Limit::NONE) };
}

/// The limits on a thread's waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// When every wait must have ended.
    pub until: Option<Instant>,
    /// How long sessions that administer wait for a lock that another session holds.
    pub lock_wait_max: Duration,
}

impl Limit {
    /// No end, and half a minute for a lock.
    pub const NONE: Limit = Limit { until: None, lock_wait_max: Duration::from_secs(30) };

    /// A limit of `length` from now on. A single lock may take half of it: then there is time to report who holds it.
    pub fn new(length: Duration) -> Limit {
        let lock_wait_max = Limit::NONE.lock_wait_max.min(length / 2);
        Limit { until: Instant::now().checked_add(length), lock_wait_max }
    }

    /// The limit of this thread; a thread that works for it enters the same limit.
    pub fn current() -> Limit {
        CURRENT.get()
    }

    /// Limits this thread until the returned value is dropped. A nested limit never ends later than the outer one.
    pub fn enter(self) -> Entered {
        let outer = CURRENT.get();
        let until = self.until.into_iter().chain(outer.until).min();
        CURRENT.set(Limit { until, lock_wait_max: self.lock_wait_max.min(outer.lock_wait_max) });
        Entered { outer }
    }

    /// Lifts the limit until the returned value is dropped, for work after the end that has its own limit.
    pub(crate) fn suspend() -> Entered {
        Entered { outer: CURRENT.replace(Limit::NONE) }
    }

    /// Whether the limit has passed.
    pub fn is_over(self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }
}

/// A limit in effect; dropping it restores the outer limit.
#[derive(Debug)]
#[must_use = "a limit ends when this is dropped"]
pub struct Entered {
    outer: Limit,
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.outer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_within_another_never_ends_later() {
        assert_eq!(Limit::current(), Limit::NONE);
        let outer = Limit::new(Duration::from_secs(10));
        let entered = outer.enter();
        {
            let _inner = Limit::new(Duration::from_secs(100)).enter();
            assert_eq!(Limit::current(), outer);
        }
        {
            let _inner = Limit::new(Duration::from_secs(2)).enter();
            assert!(Limit::current().until < outer.until);
            assert_eq!(Limit::current().lock_wait_max, Duration::from_secs(1));
        }
        assert_eq!(Limit::current(), outer);
        assert!(!outer.is_over() && Limit::new(Duration::ZERO).is_over());
        assert_eq!(std::thread::spawn(Limit::current).join().unwrap(), Limit::NONE);
        drop(entered);
        assert_eq!(Limit::current(), Limit::NONE);
    }
}
