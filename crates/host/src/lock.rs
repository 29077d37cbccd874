//! The lock of the one pgdyno that sets kernel values.

use std::fs::{File, TryLockError};
use std::time::{Duration, Instant};

/// Pause before the lock is tried again.
const PAUSE: Duration = Duration::from_millis(50);

/// The lock as long as it is ours. Processes that other threads are about to start have copies of its descriptor until they execute
/// their program, so closing it does not suffice.
#[derive(Debug)]
pub(crate) struct Lock(pub(crate) File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Without this, the last process with a copy releases it.
        self.0.unlock().ok();
    }
}

/// Takes the lock, for which it waits so long.
pub(crate) fn lock_within(file: File, patience: Duration) -> Result<Lock, TryLockError> {
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Lock(file)),
            Err(TryLockError::WouldBlock) if begun.elapsed() < patience => std::thread::sleep(PAUSE),
            Err(error) => return Err(error),
        }
    }
}
