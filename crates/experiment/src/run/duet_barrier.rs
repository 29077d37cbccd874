//! Where the two sides of a duet wait for each other before their loads begin.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail};
use dataset::session::STOPPED;
use model::load::Turns;

use crate::site::clock::{GO_DELAY, unix_now};

/// One side of a duet.
pub(crate) struct DuetSide<'a> {
    pub(crate) barrier: &'a DuetBarrier,
    pub(crate) turns: Turns,
}

/// Interval between checks for a request to stop.
const STOP_GRAIN: Duration = Duration::from_millis(100);

/// Where both sides agree on the moment to begin.
#[derive(Debug, Default)]
pub(crate) struct DuetBarrier {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    n_there: u32,
    /// Server processes that serve either side.
    backends: BTreeSet<i32>,
    go_unix_ns: Option<u64>,
    is_off: bool,
}

impl DuetBarrier {
    /// Waits for the other side, and calls `meanwhile` again and again. Both get the same moment, nanoseconds since the Unix
    /// epoch, and the server processes of both: the sides may use two databases of one server.
    ///
    /// # Errors
    /// When the other side will not come, the user wants to stop, or `meanwhile` fails.
    pub(crate) fn meet(
        &self,
        backends: &BTreeSet<i32>,
        meanwhile: &mut dyn FnMut() -> Result<()>,
        stop: &AtomicBool,
    ) -> Result<(u64, BTreeSet<i32>)> {
        let mut state = self.lock();
        state.n_there += 1;
        state.backends.extend(backends);
        if state.n_there == 2 {
            state.go_unix_ns = Some(unix_now() + GO_DELAY.as_nanos() as u64);
            self.changed.notify_all();
        }
        loop {
            match state.go_unix_ns {
                Some(go) => return Ok((go, state.backends.clone())),
                None if state.is_off => bail!("the other side of the duet could not begin"),
                None if stop.load(Ordering::Relaxed) => bail!(STOPPED),
                None => {}
            }
            let waited = self.changed.wait_timeout(state, STOP_GRAIN);
            // The other side may come in the meantime.
            drop(waited.unwrap_or_else(PoisonError::into_inner));
            meanwhile()?;
            state = self.lock();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notifies the other side, which may be waiting, that this one will not come.
    pub(crate) fn call_off(&self) {
        self.lock().is_off = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_get_the_same_moment_and_know_each_others_backends() {
        let (barrier, stop) = (DuetBarrier::default(), AtomicBool::new(false));
        let moments = std::thread::scope(|scope| {
            let meet = |pid| {
                let (barrier, stop) = (&barrier, &stop);
                scope.spawn(move || barrier.meet(&[pid].into(), &mut || Ok(()), stop).unwrap())
            };
            [meet(1), meet(2)].map(|thread| thread.join().unwrap())
        });
        assert_eq!(moments[0], moments[1]);
        assert_eq!(moments[0].1, [1, 2].into());
    }

    #[test]
    fn a_partner_that_waits_in_vain_is_notified() {
        let (barrier, stop) = (DuetBarrier::default(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let waits = scope
                .spawn(|| barrier.meet(&BTreeSet::new(), &mut || Ok(()), &stop).unwrap_err().to_string());
            barrier.call_off();
            assert!(waits.join().unwrap().contains("could not begin"));
        });
        let stopped = AtomicBool::new(true);
        let refused = DuetBarrier::default().meet(&BTreeSet::new(), &mut || Ok(()), &stopped);
        assert_eq!(refused.unwrap_err().to_string(), STOPPED);
    }

    #[test]
    fn the_drivers_of_the_one_who_waits_are_kept_waiting_until_the_other_comes() {
        let (barrier, stop) = (DuetBarrier::default(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let mut n = 0;
            let mut meanwhile = || {
                n += 1;
                if n == 3 {
                    scope.spawn(|| barrier.meet(&[2].into(), &mut || Ok(()), &stop).unwrap());
                }
                Ok(())
            };
            let (_, of_both) = barrier.meet(&[1].into(), &mut meanwhile, &stop).unwrap();
            assert_eq!((n >= 3, of_both), (true, [1, 2].into()));
        });
        let mut dies = || bail!("a driver is gone");
        let error = DuetBarrier::default().meet(&BTreeSet::new(), &mut dies, &stop).unwrap_err();
        assert_eq!(error.to_string(), "a driver is gone");
    }
}
