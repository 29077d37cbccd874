//! Makes one file equal to another: by a clone, a copy, or a comparison that writes what differs.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::Result;
use rustix::fs::{Advice, Mode, OFlags, fadvise, fchmod, fdatasync, fstat};

use super::plan::FileJob;
use crate::user::held_dir::HeldDir;
use crate::user::rights::FileRights;

/// Unit of comparing: PostgreSQL's page.
const PAGE_BYTES: usize = 8192;
/// Bytes read at once.
const CHUNK_BYTES: usize = 128 * PAGE_BYTES;

/// What was done so far, by all threads.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) written_bytes: AtomicU64,
    pub(super) n_cloned: AtomicU64,
    pub(super) n_copied: AtomicU64,
    pub(super) n_rewritten: AtomicU64,
    /// Whether pages of the target leave the page cache before they are compared.
    pub(super) drops_cached: bool,
    /// Between which pairs of devices files can be cloned, as far as it was tried: WAL and tablespaces may be on
    /// others.
    can_clone: Mutex<BTreeMap<(u64, u64), bool>>,
}

impl Tally {
    /// Nothing was done yet; whether pages of the targets leave the page cache.
    pub(super) fn which_drops(drops_cached: bool) -> Tally {
        Tally { drops_cached, ..Tally::default() }
    }
}

/// A thread's buffers.
pub(super) fn buffers() -> (Vec<u8>, Vec<u8>) {
    (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES])
}

/// Makes one file equal to another, in the cheapest way there is.
pub(super) fn make_equal(job: &FileJob, tally: &Tally, buffers: &mut (Vec<u8>, Vec<u8>)) -> Result<()> {
    let from = job.open_from()?;
    let facts = from.metadata()?;
    let rights = job.pair.to.side.rights;
    let (to, existed) = rights
        .act(|| open_to_write(&job.pair.to.held.descend(&job.way)?, &job.name, facts.mode() & 0o777))?;
    if clone_between(&from, &to, &facts, tally)? {
        tally.n_cloned.fetch_add(1, Ordering::Relaxed);
        return Ok(copy_mode(facts.mode(), &to, rights)?);
    }
    let written_bytes = if existed {
        tally.n_rewritten.fetch_add(1, Ordering::Relaxed);
        if tally.drops_cached {
            drop_cached(&to)?;
        }
        rewrite(&from, &to, facts.len(), buffers)?
    } else {
        tally.n_copied.fetch_add(1, Ordering::Relaxed);
        // The standard library copies between files within the kernel (copy_file_range) where it can. The owner of the
        // source could make it grow without end.
        io::copy(&mut (&from).take(facts.len()), &mut &to)?
    };
    tally.written_bytes.fetch_add(written_bytes, Ordering::Relaxed);
    Ok(copy_mode(facts.mode(), &to, rights)?)
}

/// Removes a file's pages from the page cache, which keeps those that are not on disk yet.
fn drop_cached(file: &File) -> io::Result<()> {
    fdatasync(file)?;
    Ok(fadvise(file, 0, None, Advice::DontNeed)?)
}

/// Opens or creates a regular file; also returns whether it existed.
fn open_to_write(dir: &HeldDir, name: &OsStr, mode: u32) -> io::Result<(File, bool)> {
    match dir.file(name, OFlags::RDWR, 0) {
        Ok(file) => Ok((file, true)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {
            // Its mode may deny writing even to its owner.
            if error.kind() == io::ErrorKind::PermissionDenied {
                dir.remove_file(name)?;
            }
            Ok((dir.file(name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, mode)?, false))
        }
        Err(error) => Err(error),
    }
}

/// The permissions of a mode, without the bits that let a program run with its owner's rights.
pub(super) fn copy_mode(mode: u32, to: impl AsFd, rights: FileRights) -> io::Result<()> {
    let mode = mode & 0o777;
    if fstat(&to)?.st_mode & 0o7777 != mode {
        rights.act(|| fchmod(&to, Mode::from_raw_mode(mode)).map_err(io::Error::from))?;
    }
    Ok(())
}

/// Clones a file where its devices allow it, which is tried once.
fn clone_between(from: &File, to: &File, from_facts: &fs::Metadata, tally: &Tally) -> io::Result<bool> {
    let to_facts = to.metadata()?;
    if to_facts.len() > from_facts.len() {
        // A clone keeps what lies beyond the end of its source.
        to.set_len(from_facts.len())?;
    }
    let devices = (from_facts.dev(), to_facts.dev());
    let known = tally.can_clone.lock().unwrap_or_else(PoisonError::into_inner).get(&devices).copied();
    if known == Some(true) {
        // Otherwise the kernel would first write dirty pages of the old contents to disk, for nothing.
        to.set_len(0)?;
    }
    let is_cloned = known != Some(false) && clone_file(from, to);
    if known.is_none() {
        tally.can_clone.lock().unwrap_or_else(PoisonError::into_inner).insert(devices, is_cloned);
    }
    Ok(is_cloned)
}

mod ioctl {
    // FICLONE of linux/fs.h: _IOW(0x94, 9, int).
    nix::ioctl_write_int!(ficlone, 0x94, 9);
}

/// Makes `to` share the blocks of `from`; false if the file system cannot.
fn clone_file(from: &File, to: &File) -> bool {
    // SAFETY: FICLONE takes the descriptor of the source by value and touches none of our memory; both
    // descriptors are open during the call.
    unsafe { ioctl::ficlone(to.as_raw_fd(), from.as_raw_fd() as _) }.is_ok()
}

/// Writes the pages of `to` that differ from `from`; returns the bytes written.
fn rewrite(from: &File, to: &File, from_bytes: u64, buffers: &mut (Vec<u8>, Vec<u8>)) -> io::Result<u64> {
    if to.metadata()?.len() > from_bytes {
        to.set_len(from_bytes)?;
    }
    let (wanted, present) = buffers;
    let mut at = 0;
    let mut written_bytes = 0;
    while at < from_bytes {
        let n_wanted = read_full(from, wanted, at)?;
        if n_wanted == 0 {
            break;
        }
        let n_present = read_full(to, &mut present[..n_wanted], at)?;
        for (begin, end) in differing(&wanted[..n_wanted], &present[..n_present]) {
            to.write_all_at(&wanted[begin..end], at + begin as u64)?;
            written_bytes += (end - begin) as u64;
        }
        at += n_wanted as u64;
    }
    Ok(written_bytes)
}

fn read_full(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let mut n_read = 0;
    while n_read < buffer.len() {
        match file.read_at(&mut buffer[n_read..], at + n_read as u64) {
            Ok(0) => break,
            Ok(n) => n_read += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(n_read)
}

/// Ranges of `wanted`, in whole pages, that `present` does not have; adjoining pages are one range.
fn differing(wanted: &[u8], present: &[u8]) -> Vec<(usize, usize)> {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for (i, page) in wanted.chunks(PAGE_BYTES).enumerate() {
        let begin = i * PAGE_BYTES;
        let end = begin + page.len();
        if present.get(begin..end) == Some(page) {
            continue;
        }
        match ranges.last_mut() {
            Some(last) if last.1 == begin => last.1 = end,
            _ => ranges.push((begin, end)),
        }
    }
    ranges
}

/// Whether files in `dir` can be cloned.
pub(crate) fn can_clone(dir: &Path) -> bool {
    let (one, other) = (dir.join(".clone-from"), dir.join(".clone-to"));
    let attempt = || -> io::Result<bool> {
        fs::write(&one, [1; 4096])?;
        Ok(clone_file(&File::open(&one)?, &File::create(&other)?))
    };
    let can = attempt().unwrap_or(false);
    for path in [one, other] {
        // They might not exist.
        fs::remove_file(path).ok();
    }
    can
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_that_differ_are_found() {
        let page = |byte: u8| vec![byte; PAGE_BYTES];
        let wanted = [page(1), page(2), page(3), page(4), vec![5; 10]].concat();
        let check = |present: &[u8], expected: &[(usize, usize)]| {
            let expected: Vec<_> =
                expected.iter().map(|(a, b)| (a * PAGE_BYTES, (b * PAGE_BYTES).min(wanted.len()))).collect();
            assert_eq!(differing(&wanted, present), expected);
        };
        check(&wanted, &[]);
        check(&[], &[(0, 5)]);
        check(&wanted[..wanted.len() - 1], &[(4, 5)]);
        check(&[page(1), page(9), page(9), page(4), vec![5; 10]].concat(), &[(1, 3)]);
        check(&[page(9), page(2), page(9), page(4), vec![6; 10]].concat(), &[(0, 1), (2, 3), (4, 5)]);
    }
}
