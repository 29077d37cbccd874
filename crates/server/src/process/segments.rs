//! Shared memory of a server that was killed. No process is left to remove it, and it stays until a server starts on the same
//! directory, which may be never.
//!
//! The System V segment names its creator, and the control segment of dynamic shared memory (`/dev/shm/PostgreSQL.N`), which
//! names all others. So the System V segment goes last: a later start of the server needs it to find the others.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use nix::libc;

use crate::user::account::Account;

/// How long the children of a killed postmaster may take to end.
const CHILDREN_END_MAX: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);
/// Where the C library has POSIX shared memory (shm_overview(7)).
const POSIX_DIR: &str = "/dev/shm";
/// Beginning of the names of dynamic shared memory (`PG_DYNSHMEM_MMAP_FILE_PREFIX` of `dsm_impl.c` without its slash).
const POSIX_NAME: &str = "PostgreSQL.";
/// A control segment of a server with thousands of backends has some 100 kB.
const CONTROL_BYTES_MAX: u64 = 16 << 20;
/// `PGShmemMagic` of `pg_shmem.h`.
const HEADER_MAGIC: u32 = 679_834_894;
/// `PG_DYNSHMEM_CONTROL_MAGIC` of `dsm.c`.
const CONTROL_MAGIC: u32 = 0x9a50_3d32;
/// Bytes of `PGShmemHeader` up to and with `dsm_control`, since 9.4.
const HEADER_BYTES: usize = 28;
/// Bytes before the items of a `dsm_control_header`.
const CONTROL_HEAD_BYTES: usize = 16;

/// Removes segments that process `pid`, run as `account`, and its children created, once nobody uses them. `pid` must have
/// been reaped only a moment ago, so that no other process has its id yet.
pub(crate) fn remove_of(pid: u32, account: &Account) {
    let end = Instant::now() + CHILDREN_END_MAX;
    loop {
        let left =
            segments_of(pid, account.uid, &fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default());
        for segment in left.iter().filter(|segment| segment.n_attached == 0) {
            if let Some(control) = header_of(segment).and_then(|header| control_of(&header, pid)) {
                // What the server's user keeps from being read or removed stays.
                account.act(|| remove_dynamic(Path::new(POSIX_DIR), control, account.uid)).ok();
            }
            // SAFETY: with IPC_RMID the last argument is not used.
            unsafe { libc::shmctl(segment.id, libc::IPC_RMID, std::ptr::null_mut()) };
        }
        if left.iter().all(|segment| segment.n_attached == 0) || Instant::now() >= end {
            return;
        }
        thread::sleep(PAUSE);
    }
}

/// The beginning of a System V segment.
fn header_of(segment: &Segment) -> Option<[u8; HEADER_BYTES]> {
    if segment.n_bytes < HEADER_BYTES as u64 {
        return None;
    }
    let mut header = [0; HEADER_BYTES];
    // SAFETY: the kernel chooses the address; nothing is mapped if it fails.
    let address = unsafe { libc::shmat(segment.id, std::ptr::null(), libc::SHM_RDONLY) };
    if address.addr() == usize::MAX {
        return None;
    }
    // SAFETY: the segment, which cannot shrink, is mapped there, has as many bytes, and is not used any more after the call
    // that unmaps it.
    unsafe {
        std::ptr::copy_nonoverlapping(address.cast::<u8>(), header.as_mut_ptr(), HEADER_BYTES);
        libc::shmdt(address);
    }
    Some(header)
}

/// The number of the control segment in the header of a System V segment that `pid` created: magic, creator, total size,
/// free offset, control segment.
fn control_of(header: &[u8], pid: u32) -> Option<u32> {
    let is_its = number_at(header, 0) == Some(HEADER_MAGIC) && number_at(header, 4) == Some(pid);
    number_at(header, 24).filter(|number| is_its && *number != 0)
}

/// Removes the segments that a control segment names, and that itself.
fn remove_dynamic(dir: &Path, control: u32, uid: u32) -> io::Result<()> {
    let path = dir.join(format!("{POSIX_NAME}{control}"));
    expect_owner(&path, uid)?;
    let named = numbers_in(&files::read(&path, CONTROL_BYTES_MAX)?).ok_or(io::ErrorKind::InvalidData)?;
    for name in fs::read_dir(dir)?.flatten().map(|entry| entry.file_name()) {
        let number = name.to_str().and_then(|name| name.strip_prefix(POSIX_NAME)?.parse::<u32>().ok());
        let path: PathBuf = dir.join(&name);
        if number.is_some_and(|number| number != control && named.contains(&number)) {
            expect_owner(&path, uid).and_then(|()| fs::remove_file(&path)).ok();
        }
    }
    fs::remove_file(&path)
}

fn expect_owner(path: &Path, uid: u32) -> io::Result<()> {
    if fs::symlink_metadata(path)?.uid() == uid {
        Ok(())
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

/// What may be numbers of segments in a control segment, if it is one. The items differ between releases (24 bytes before 14,
/// 40 since), but each begins with number and references, on a multiple of 8 bytes.
fn numbers_in(control: &[u8]) -> Option<BTreeSet<u32>> {
    if number_at(control, 0) != Some(CONTROL_MAGIC) {
        return None;
    }
    let places = (CONTROL_HEAD_BYTES..control.len()).step_by(8);
    let used = places.filter(|place| number_at(control, place + 4).is_some_and(|references| references > 0));
    Some(used.filter_map(|place| number_at(control, place)).collect())
}

fn number_at(bytes: &[u8], place: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(place..place + 4)?.try_into().ok()?))
}

#[derive(Debug, PartialEq)]
struct Segment {
    id: i32,
    n_bytes: u64,
    n_attached: u32,
}

/// The segments in a table such as `/proc/sysvipc/shm` (proc_sysvipc(5)): key, id, mode, size, creator, last process,
/// number of attachments, owner.
fn segments_of(pid: u32, uid: u32, table: &str) -> Vec<Segment> {
    let of = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let number = |n: usize| fields.get(n)?.parse::<u32>().ok();
        let is_its = number(4) == Some(pid) && number(7) == Some(uid);
        let (id, n_bytes) = (fields.get(1)?.parse().ok()?, fields.get(3)?.parse().ok()?);
        is_its.then_some(Segment { id, n_bytes, n_attached: number(6)? })
    };
    table.lines().skip(1).filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_segments_of_that_process_and_user_are_found() {
        let table = "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid\n \
                     14030   7   600    56  4711  4711   0   101   102   101\n \
                     14031   8   600    56  4711  4711   3   101   102   101\n \
                     14032   9   600    56  4711  4711   0     0     0     0\n \
                     14033  10   600    56  4712  4711   0   101   102   101\n";
        let segment = |id, n_attached| Segment { id, n_bytes: 56, n_attached };
        let expected = [segment(7, 0), segment(8, 3)];
        assert_eq!(segments_of(4711, 101, table), expected);
        assert_eq!(segments_of(4711, 101, ""), []);
    }

    fn bytes(numbers: &[u32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
    }

    #[test]
    fn the_control_segment_is_believed_only_in_the_header_of_that_process() {
        let header = |magic, creator, control| bytes(&[magic, creator, 56, 0, 56, 0, control]);
        assert_eq!(control_of(&header(HEADER_MAGIC, 4711, 99), 4711), Some(99));
        assert_eq!(control_of(&header(HEADER_MAGIC, 4712, 99), 4711), None);
        assert_eq!(control_of(&header(1, 4711, 99), 4711), None);
        assert_eq!(control_of(&header(HEADER_MAGIC, 4711, 0), 4711), None);
        assert_eq!(control_of(&header(HEADER_MAGIC, 4711, 99)[..26], 4711), None);
    }

    #[test]
    fn segments_that_the_control_segment_names_are_removed_and_no_others() {
        let dir = tempfile::tempdir().unwrap();
        let uid = nix::unistd::geteuid().as_raw();
        let write = |name: &str, content: &[u8]| fs::write(dir.path().join(name), content).unwrap();
        let left = || {
            let names = fs::read_dir(dir.path()).unwrap().flatten().map(|entry| entry.file_name());
            names.map(|name| name.into_string().unwrap()).collect::<BTreeSet<_>>()
        };
        // Two items of 40 bytes: number, references, first page, pages, handle, whether it is pinned.
        let item = |number: u32| [number, 2, 0, 0, 0, 0, 0, 0, 1, 0];
        let control = bytes(&[&[CONTROL_MAGIC, 2, 600, 0][..], &item(20), &item(40)].concat());
        let all = ["PostgreSQL.20", "PostgreSQL.40", "PostgreSQL.50", "other.20"];
        all.iter().for_each(|name| write(name, b""));
        write("PostgreSQL.10", &control);
        assert!(remove_dynamic(dir.path(), 10, uid + 1).is_err());
        assert_eq!(left().len(), 5);
        remove_dynamic(dir.path(), 10, uid).unwrap();
        assert_eq!(left().into_iter().collect::<Vec<_>>(), ["PostgreSQL.50", "other.20"]);
        // One that is no control segment names none.
        write("PostgreSQL.10", &bytes(&[1, 0, 0, 0, 50]));
        assert!(remove_dynamic(dir.path(), 10, uid).is_err());
        assert_eq!(left().len(), 3);
    }
}
