//! Builds that this process uses; none of them is removed meanwhile.

use std::fs::File;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use anyhow::{Context, Result};

/// The locks of the builds that this process uses.
static IN_USE: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// Notes that the build with this lock is used, and keeps it from being removed while this process needs it.
///
/// # Errors
/// When the lock cannot be written.
pub(crate) fn hold_build(lock: &Path) -> Result<()> {
    let hold = || -> std::io::Result<File> {
        let file = files::lock_file(lock)?;
        // This waits for a build that is just being made or removed.
        file.lock_shared()?;
        file.set_modified(SystemTime::now())?;
        Ok(file)
    };
    let file = hold().with_context(|| format!("write `{}`", lock.display()))?;
    IN_USE.lock().unwrap_or_else(PoisonError::into_inner).push(file);
    Ok(())
}

/// Releases the builds that this process used, so that they may be removed.
pub(crate) fn release_builds() {
    IN_USE.lock().unwrap_or_else(PoisonError::into_inner).clear();
}
