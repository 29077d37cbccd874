//! Ends a load before its window does, by a number that all threads see and that only increases, and cancels what is in
//! flight at the end.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use wire::CancelHandle;

use crate::clock::{Nanos, SECOND_NS};

/// The load goes on.
pub(crate) const NOT: u8 = 0;
/// No transaction begins; those in flight have the grace of the window.
pub(crate) const GENTLY: u8 = 1;
/// Transactions in flight are cancelled.
pub(crate) const AT_ONCE: u8 = 2;

/// Time for the server's answers since it took the last request to cancel.
const ANSWERS_NS: Nanos = 2 * SECOND_NS;
/// Longest time for the server to take all requests. A driver whose parent is gone ends within 9 s, of which it has waited
/// for 5 s before.
const REQUESTS_NS_MAX: Nanos = 3 * SECOND_NS / 2;
/// Requests of a thread under way at once: each is a connection and a process of the server.
const REQUESTS_MAX: usize = 8;

/// A thread's requests to cancel, which other threads make, so that a server that hangs delays nobody.
#[derive(Debug, Default)]
pub(crate) struct Cancels {
    begun: Option<Nanos>,
    /// Requests that the server has not taken.
    n_open: Arc<AtomicUsize>,
    /// When there were none any more.
    taken: Option<Nanos>,
}

impl Cancels {
    /// Asks the server to cancel what these sessions do; from `now` on, the time for its answers runs.
    pub(crate) fn send(&mut self, handles: Vec<CancelHandle>, now: Nanos) {
        self.begun.get_or_insert(now);
        if handles.is_empty() {
            return;
        }
        self.taken = None;
        self.n_open.fetch_add(handles.len(), Ordering::Relaxed);
        let n_threads = handles.len().min(REQUESTS_MAX);
        let waiting = Arc::new(Mutex::new(handles));
        for _ in 0..n_threads {
            let (waiting, n_open) = (Arc::clone(&waiting), Arc::clone(&self.n_open));
            let next = move || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let request = move || {
                while let Some(handle) = next() {
                    // If the server does not take the request, the transaction that stays open is reported.
                    handle.cancel().ok();
                    n_open.fetch_sub(1, Ordering::Relaxed);
                }
            };
            // Without a thread, they stay open until the time is over.
            std::thread::Builder::new().spawn(request).ok();
        }
    }

    /// Whether the server has taken all requests so far.
    pub(crate) fn are_taken(&self) -> bool {
        self.n_open.load(Ordering::Relaxed) == 0
    }

    /// Whether the server has had its time to answer.
    pub(crate) fn are_over(&mut self, now: Nanos) -> bool {
        let Some(begun) = self.begun else { return false };
        if self.are_taken() {
            self.taken.get_or_insert(now);
        }
        let taken_by = self.taken.unwrap_or(Nanos::MAX).min(begun + REQUESTS_NS_MAX);
        now >= taken_by + ANSWERS_NS
    }
}
