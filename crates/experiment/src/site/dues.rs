//! The user's commands that put back what others have set: those that are still to be called before the process may end.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::experiment::hooks::Hook;

/// Commands that are due, each with its time limit. Whoever ends the process in the middle of an experiment looks here.
#[derive(Debug, Default)]
pub struct Dues {
    open: Mutex<Vec<(Hook, Duration)>>,
}

impl Dues {
    /// Nothing is due.
    pub const fn new() -> Dues {
        Dues { open: Mutex::new(Vec::new()) }
    }

    /// How long all that is due may take.
    pub fn longest(&self) -> Duration {
        self.lock().iter().map(|(_, timeout)| *timeout).sum()
    }

    /// The hooks that are due; none are named twice.
    pub fn hooks(&self) -> Vec<Hook> {
        self.lock().iter().map(|(hook, _)| *hook).collect()
    }

    pub(crate) fn add(&self, hook: Hook, timeout: Duration) {
        let mut open = self.lock();
        open.retain(|(known, _)| *known != hook);
        open.push((hook, timeout));
    }

    pub(crate) fn remove(&self, hook: Hook) {
        self.lock().retain(|(known, _)| *known != hook);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Hook, Duration)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
