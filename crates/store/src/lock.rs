//! One writer per directory: a lock file with `flock`, so that a lock ends with its process.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

use crate::names;

/// The right to write to a directory. Released on drop, or by the kernel when the process ends: a lock file left by a
/// crash is taken over silently.
#[derive(Debug)]
pub(crate) struct WriteLock {
    path: PathBuf,
    _file: File,
}

/// Attempts to lock a file that its previous holder removes at the same moment.
const TRIES: u32 = 100;

impl WriteLock {
    /// Acquires the lock of `dir`, or reports who has it.
    pub(crate) fn take(dir: &Path) -> Result<WriteLock> {
        let path = dir.join(names::LOCK);
        for _ in 0..TRIES {
            let mut file =
                files::lock_file(&path).with_context(|| format!("cannot write `{}`", path.display()))?;
            match file.try_lock() {
                Ok(()) => {}
                // Some network file systems do not support locks; nothing prevents two writers there.
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
                Err(TryLockError::Error(error)) => {
                    return Err(error).with_context(|| format!("cannot lock `{}`", path.display()));
                }
                Err(TryLockError::WouldBlock) => bail!(
                    "another pgdyno{} is writing to `{}`; wait for it, or choose another directory",
                    holder(&file),
                    dir.display()
                ),
            }
            if is_still_named(&file, &path) {
                sign(&mut file).with_context(|| format!("cannot write `{}`", path.display()))?;
                return Ok(WriteLock { path, _file: file });
            }
        }
        bail!("cannot lock `{}`: other processes keep removing it", path.display())
    }
}

impl Drop for WriteLock {
    fn drop(&mut self) {
        // Removed while still locked. A process that opened it meanwhile finds that the name is gone, and opens it
        // again.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The process that writes to a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Writer {
    /// Process id, if it is known.
    pub pid: Option<u32>,
}

/// The current writer of `dir`, for readers. Without lock support, there is none.
pub fn writer_of(dir: &Path) -> Option<Writer> {
    let file = files::open(&dir.join(names::LOCK)).ok()?;
    // A shared lock, released at once: several readers may ask.
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Some(Writer { pid: pid_in(&file) }),
        Ok(()) | Err(TryLockError::Error(_)) => None,
    }
}

/// Whether the open file still has this name.
fn is_still_named(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(ours), Ok(named)) => (ours.dev(), ours.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

/// Writes into the lock file who holds it, for people and for the message of [`WriteLock::take`].
fn sign(file: &mut File) -> io::Result<()> {
    let since_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    file.set_len(0)?;
    file.write_all(format!("pid {} since_unix_s {since_s}\n", std::process::id()).as_bytes())
}

fn holder(file: &File) -> String {
    pid_in(file).map_or(String::new(), |pid| format!(" (pid {pid})"))
}

/// The process id that the holder wrote.
fn pid_in(file: &File) -> Option<u32> {
    let mut text = String::new();
    file.take(200).read_to_string(&mut text).ok()?;
    text.strip_prefix("pid ")?.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_writers_error_names_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let first = WriteLock::take(dir.path()).unwrap();
        let error = WriteLock::take(dir.path()).unwrap_err().to_string();
        assert!(error.contains(&format!("pid {}", std::process::id())), "{error}");
        drop(first);
        drop(WriteLock::take(dir.path()).unwrap());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "no lock file stays");
    }

    #[test]
    fn a_reader_can_find_out_who_writes() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(writer_of(dir.path()), None);
        let lock = WriteLock::take(dir.path()).unwrap();
        assert_eq!(writer_of(dir.path()), Some(Writer { pid: Some(std::process::id()) }));
        drop(lock);
        std::fs::write(dir.path().join(names::LOCK), "pid 1 since_unix_s 1700000000\n").unwrap();
        assert_eq!(writer_of(dir.path()), None, "left by a crash");
        drop(WriteLock::take(dir.path()).unwrap());
    }

    #[test]
    fn a_lock_file_left_by_a_crash_is_taken_over() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(names::LOCK), "pid 1 since_unix_s 1700000000 and much more text\n")
            .unwrap();
        let _lock = WriteLock::take(dir.path()).unwrap();
        let text = std::fs::read_to_string(dir.path().join(names::LOCK)).unwrap();
        assert!(text.starts_with(&format!("pid {} ", std::process::id())), "{text}");
    }

    #[test]
    fn two_threads_never_hold_the_lock_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let held = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        if let Ok(lock) = WriteLock::take(dir.path()) {
                            assert_eq!(held.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                            held.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                            drop(lock);
                        }
                    }
                });
            }
        });
    }
}
