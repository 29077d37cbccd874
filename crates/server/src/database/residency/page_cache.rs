//! How much of files is in the kernel's page cache: by cachestat(2), since Linux 6.5, else by mincore(2). No page is read.

use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::libc;

/// Number of the system call, the same on all architectures that are new enough to share numbers.
const CACHESTAT: libc::c_long = 451;
/// Files that PostgreSQL splits a relation into: more than 32 TB, its largest.
const SEGMENTS_MAX: u32 = 1 << 16;

/// Bytes of the relations whose first files these are, below `data_dir`; `None` if one of them cannot be looked at.
pub(super) fn cached_bytes<'a>(data_dir: &Path, files: impl Iterator<Item = &'a str>) -> Option<u64> {
    let page_bytes = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok()?? as u64;
    let mut pages = 0;
    for file in files {
        for segment in 0..SEGMENTS_MAX {
            let path = match segment {
                0 => data_dir.join(file),
                n => data_dir.join(format!("{file}.{n}")),
            };
            match files::open(&path) {
                Ok(file) => pages += cached_pages(&file, page_bytes)?,
                Err(error) if segment > 0 && error.kind() == std::io::ErrorKind::NotFound => break,
                Err(_) => return None,
            }
        }
    }
    Some(pages * page_bytes)
}

fn cached_pages(file: &File, page_bytes: u64) -> Option<u64> {
    let bytes = file.metadata().ok()?.size();
    if bytes == 0 {
        return Some(0);
    }
    by_cachestat(file.as_raw_fd(), bytes).or_else(|| by_mincore(file.as_raw_fd(), bytes, page_bytes))
}

/// `struct cachestat_range`.
#[repr(C)]
struct Range {
    offset: u64,
    bytes: u64,
}

/// `struct cachestat`.
#[repr(C)]
#[derive(Default)]
struct Counts {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

fn by_cachestat(fd: RawFd, bytes: u64) -> Option<u64> {
    let range = Range { offset: 0, bytes };
    let mut counts = Counts::default();
    // SAFETY: both structures have the layout of the kernel's and live until the call returns; it writes to the second.
    let result =
        unsafe { libc::syscall(CACHESTAT, fd, &range as *const Range, &mut counts as *mut Counts, 0) };
    (result == 0).then_some(counts.cached)
}

/// Asks for each page of a mapping. Of a file that neither belongs to us nor may be written by us the kernel says that all
/// pages are there (mincore(2)): then the answer is none.
fn by_mincore(fd: RawFd, bytes: u64, page_bytes: u64) -> Option<u64> {
    let length = usize::try_from(bytes).ok()?;
    let n_pages = bytes.div_ceil(page_bytes);
    let mut present = vec![0_u8; usize::try_from(n_pages).ok()?];
    // SAFETY: a new private mapping of a file, which nothing reads or writes; it is removed before this function returns, and
    // `present` has a byte for each of its pages.
    let asked = unsafe {
        let at = libc::mmap(std::ptr::null_mut(), length, libc::PROT_NONE, libc::MAP_PRIVATE, fd, 0);
        if at == libc::MAP_FAILED {
            return None;
        }
        let asked = libc::mincore(at, length, present.as_mut_ptr());
        libc::munmap(at, length);
        asked
    };
    let may_know = nix::unistd::geteuid().is_root();
    (asked == 0 && may_know).then(|| present.iter().filter(|page| **page & 1 == 1).count() as u64)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_that_was_just_written_is_in_the_cache() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = File::create(dir.path().join("1")).unwrap();
        file.write_all(&vec![7; 1 << 20]).unwrap();
        std::fs::write(dir.path().join("1.1"), [7; 5000]).unwrap();
        let cached = cached_bytes(dir.path(), ["1"].into_iter());
        let page = 4096;
        if let Some(cached) = cached {
            assert!(cached >= (1 << 20) + 2 * page && cached < (2 << 20), "{cached}");
        }
        let fd = File::open(dir.path().join("1")).unwrap();
        if let (Some(one), Some(other)) =
            (by_cachestat(fd.as_raw_fd(), 1 << 20), by_mincore(fd.as_raw_fd(), 1 << 20, page))
        {
            assert_eq!((one, other), (256, 256));
        }
        assert_eq!(cached_bytes(dir.path(), ["gone"].into_iter()), None);
    }
}
