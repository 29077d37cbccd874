//! What puts back what was changed for an experiment, and is still to be done before the process may end: the user's
//! commands, and settings of servers by URL.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::experiment::hooks::Hook;

/// Something that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owed {
    /// A command of the user.
    Hook(Hook),
    /// Putting back settings of servers by URL.
    Settings,
    /// The command that undoes an outage.
    Outage,
}

impl From<Hook> for Owed {
    fn from(hook: Hook) -> Owed {
        Owed::Hook(hook)
    }
}

impl fmt::Display for Owed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Owed::Hook(hook) => write!(f, "hooks.{hook}"),
            Owed::Settings => f.write_str("settings of the server, which are put back"),
            Owed::Outage => f.write_str("the command that undoes an outage"),
        }
    }
}

/// What is due, each with its time limit. Whoever ends the process in the middle of an experiment looks here.
#[derive(Debug, Default)]
pub struct PendingUndo {
    open: Mutex<Vec<(Owed, Duration)>>,
}

impl PendingUndo {
    /// Nothing is due.
    pub const fn new() -> PendingUndo {
        PendingUndo { open: Mutex::new(Vec::new()) }
    }

    /// How long all that is due may take.
    pub fn longest(&self) -> Duration {
        self.lock().iter().map(|(_, timeout)| *timeout).sum()
    }

    /// All that is due; nothing is named twice.
    pub fn all(&self) -> Vec<Owed> {
        self.lock().iter().map(|(due, _)| *due).collect()
    }

    pub(crate) fn add(&self, due: impl Into<Owed>, timeout: Duration) {
        let due = due.into();
        let mut open = self.lock();
        open.retain(|(known, _)| *known != due);
        open.push((due, timeout));
    }

    pub(crate) fn remove(&self, due: impl Into<Owed>) {
        let due = due.into();
        self.lock().retain(|(known, _)| *known != due);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Owed, Duration)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
