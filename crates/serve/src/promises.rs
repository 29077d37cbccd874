//! Reports that pages were promised: a server that ends with what it shows does not end before they have them, if it does not take long.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What is promised, and what is on its way.
#[derive(Debug, Default)]
pub(crate) struct Promises(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Pages that were sent to a report and have not got one since.
    n_open: usize,
    /// When the last one was sent there.
    latest: Option<Instant>,
    /// Reports that are being made or sent.
    n_under_way: usize,
}

impl Promises {
    /// A page is sent to a report.
    pub(crate) fn make(&self) {
        let mut state = self.lock();
        state.n_open += 1;
        state.latest = Some(Instant::now());
    }

    /// A report is asked for. It is under way until what is returned is dropped.
    pub(crate) fn begin(&self) -> UnderWay<'_> {
        self.lock().n_under_way += 1;
        UnderWay(self)
    }

    /// Whether a page waits for its report. One that does not ask for it within `patience` does not want it.
    pub(crate) fn are_open(&self, patience: Duration) -> bool {
        let state = self.lock();
        let is_expected = state.n_open > 0 && state.latest.is_some_and(|at| at.elapsed() < patience);
        state.n_under_way > 0 || is_expected
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A report that is being made.
pub(crate) struct UnderWay<'a>(&'a Promises);

impl UnderWay<'_> {
    /// It is made.
    pub(crate) fn keep(self) {
        let mut state = self.0.lock();
        state.n_open = state.n_open.saturating_sub(1);
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.lock().n_under_way -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_is_open_until_its_report_is_made_or_nobody_asks() {
        let long = Duration::from_secs(60);
        let promises = Promises::default();
        assert!(!promises.are_open(long));
        promises.make();
        assert!(promises.are_open(long) && !promises.are_open(Duration::ZERO));
        let left = promises.begin();
        assert!(promises.are_open(Duration::ZERO), "it is being made");
        drop(left);
        assert!(promises.are_open(long), "its reader left without it, and may come again");
        promises.begin().keep();
        assert!(!promises.are_open(long));
    }
}
