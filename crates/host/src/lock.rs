//! The lock of the one pgdyno that sets kernel values.

use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use nix::sys::stat::{major, minor};

use crate::kernel_files::KernelFiles;

/// Pause before the lock is tried again.
const PAUSE: Duration = Duration::from_millis(50);

/// The lock as long as it is ours. Processes that other threads are about to start have copies of its descriptor until they execute
/// their program, so closing it does not suffice.
#[derive(Debug)]
pub(crate) struct HostLock(pub(crate) File);

impl Drop for HostLock {
    fn drop(&mut self) {
        // Without this, the last process with a copy releases it.
        self.0.unlock().ok();
    }
}

/// Takes the lock, for which it waits so long.
pub(crate) fn lock_within(file: File, patience: Duration) -> Result<HostLock, TryLockError> {
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(HostLock(file)),
            Err(TryLockError::WouldBlock) if begun.elapsed() < patience => std::thread::sleep(PAUSE),
            Err(error) => return Err(error),
        }
    }
}

/// The process that holds the lock of a file which this user cannot open, as the kernel lists it (proc_locks(5)). A file of another file
/// system can have the same number: then the process must be a pgdyno, too. A file system in layers shows its files under another device.
pub(crate) fn holder_by_kernel(machine: &KernelFiles, path: &str) -> Option<u32> {
    let facts = std::fs::metadata(machine.path(path)).ok()?;
    let device = format!("{:02x}:{:02x}:", major(facts.dev()), minor(facts.dev()));
    let locks = machine.text("/proc/locks").ok()?;
    locks.lines().filter(|line| !line.contains("->")).find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (pid, file): (u32, &str) = (words.get(4)?.parse().ok()?, words.get(5)?);
        let is_same = file.rsplit(':').next()?.parse() == Ok(facts.ino());
        let is_pgdyno =
            || machine.read(&format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with("pgdyno"));
        (is_same && (file.starts_with(&device) || is_pgdyno())).then_some(pid)
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn who_holds_a_lock_is_known_without_opening_its_file() {
        let root = tempfile::tempdir().unwrap();
        let machine = KernelFiles::at(root.path());
        let lock = "/run/pgdyno/os.lock";
        for dir in ["run/pgdyno", "proc/41"] {
            fs::create_dir_all(root.path().join(dir)).unwrap();
        }
        fs::write(machine.path(lock), "").unwrap();
        let facts = fs::metadata(machine.path(lock)).unwrap();
        let (inode, device) = (facts.ino(), format!("{:02x}:{:02x}", major(facts.dev()), minor(facts.dev())));
        let check = |locks: &str, name: &str, expected: Option<u32>| {
            fs::write(machine.path("/proc/locks"), locks).unwrap();
            fs::write(machine.path("/proc/41/comm"), name).unwrap();
            assert_eq!(holder_by_kernel(&machine, lock), expected, "{locks}{name}");
        };
        let line =
            |device: &str, inode: u64| format!("1: FLOCK  ADVISORY  WRITE 41 {device}:{inode} 0 EOF\n");
        check(&line(&device, inode), "renamed", Some(41));
        check(&line("ff:ff", inode), "pgdyno", Some(41));
        check(&line("ff:ff", inode), "sshd", None);
        check(&line(&device, inode + 1), "pgdyno", None);
        check(&format!("1: -> FLOCK  ADVISORY  WRITE 41 {device}:{inode} 0 EOF\n"), "pgdyno", None);
        // What opens it as this user does, too.
        let file = File::open(machine.path(lock)).unwrap();
        let locked = lock_within(file, Duration::ZERO).unwrap();
        fs::create_dir_all(machine.path(&format!("/proc/{}", std::process::id()))).unwrap();
        fs::write(machine.path(&format!("/proc/{}/comm", std::process::id())), "pgdyno").unwrap();
        let look = || {
            fs::write(machine.path("/proc/locks"), fs::read_to_string("/proc/locks").unwrap()).unwrap();
            holder_by_kernel(&machine, lock)
        };
        // The kernel lists page by page: a lock can slip past while others come and go.
        let found = (0..100).find_map(|_| look());
        assert_eq!(found, Some(std::process::id()));
        drop(locked);
    }
}
