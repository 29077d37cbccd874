//! What changes while a load runs, for every thread to see: by the parent's orders, and by how fast it reads.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};

use crate::thread::frame::WindowFrame;
use crate::thread::rate::OrderedRate;

/// The controls of a load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Controls<'a> {
    /// Ends the load early, see [`crate::thread::stop`].
    pub(crate) stop: &'a AtomicU8,
    /// The rate that is offered instead of the load's own, once one was ordered.
    pub(crate) rate: &'a OrderedRate,
    /// When the load counts, and when it ends.
    pub(crate) frame: &'a WindowFrame,
    /// Events on their way to the parent.
    pub(crate) events: &'a Events,
    /// Threads that have clients left.
    pub(crate) n_with_clients: &'a AtomicUsize,
}

/// Reports that the control loop has not taken before threads wait of which none may be left out: events of a load that reports every
/// notice, and slots that nobody took. A report of executions has 20 kB, so that these stay below what may wait for the parent.
const UNTAKEN_MAX: usize = 1000;

/// Events and executions on their way to the parent, which may read slowly or not at all.
#[derive(Debug, Default)]
pub(crate) struct Events {
    /// Those that the control loop has not taken yet.
    n_untaken: AtomicUsize,
    /// Too much waits for the parent.
    is_parent_behind: AtomicBool,
}

impl Events {
    /// One more is reported.
    pub(crate) fn add(&self) {
        self.n_untaken.fetch_add(1, Ordering::Relaxed);
    }

    /// The control loop has taken one.
    pub(crate) fn take(&self) {
        self.n_untaken.fetch_sub(1, Ordering::Relaxed);
    }

    /// Says whether too much waits for the parent.
    pub(crate) fn set_parent_behind(&self, is_behind: bool) {
        self.is_parent_behind.store(is_behind, Ordering::Relaxed);
    }

    /// Whether there are more than anybody takes.
    pub(crate) fn are_too_many(&self) -> bool {
        self.is_parent_behind.load(Ordering::Relaxed) || self.n_untaken.load(Ordering::Relaxed) >= UNTAKEN_MAX
    }
}
