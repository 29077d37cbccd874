//! The switch of a relay, and what it counts. It is turned while nobody sends: when a cut has returned, nothing gets out any more.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The switch of a relay.
#[derive(Debug, Default)]
pub(crate) struct Switch {
    position: Mutex<Position>,
    forwarded_bytes: AtomicU64,
    swallowed_bytes: AtomicU64,
}

/// How often a switch was turned: it passes at first, and each turn is to the other position.
#[derive(Debug, Default)]
pub(crate) struct Position {
    n_turns: u64,
}

impl Position {
    pub(crate) fn is_cut(&self) -> bool {
        !self.n_turns.is_multiple_of(2)
    }

    pub(crate) fn n_turns(&self) -> u64 {
        self.n_turns
    }

    /// Turns it if it is not yet there.
    pub(crate) fn turn(&mut self, is_cut: bool) {
        self.n_turns += u64::from(self.is_cut() != is_cut);
    }
}

impl Switch {
    /// Its position, which stays while the guard is held.
    pub(crate) fn held(&self) -> MutexGuard<'_, Position> {
        self.position.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn count_forwarded(&self, bytes: u64) {
        self.forwarded_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn count_swallowed(&self, bytes: u64) {
        self.swallowed_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn forwarded_bytes(&self) -> u64 {
        self.forwarded_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn swallowed_bytes(&self) -> u64 {
        self.swallowed_bytes.load(Ordering::Relaxed)
    }
}
