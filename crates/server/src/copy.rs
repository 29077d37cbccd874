//! Make one directory tree equal to another, fast: clones where the file system shares blocks; else copies within the
//! kernel for new files, and for files that exist compares page by page and writes only pages that differ.
//!
//! Rewriting what differs measured 1.0 to 1.5 s for 1.5 GB with 250 MB changed, against 1.8 to 3.9 s for a whole copy.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};
use nix::fcntl::OFlag;

use crate::rights::Rights;

/// Unit of comparing: PostgreSQL's page.
const PAGE_BYTES: usize = 8192;
/// Bytes read at once.
const CHUNK_BYTES: usize = 128 * PAGE_BYTES;
/// Most threads: one device rarely gets faster with more.
const N_THREADS_MAX: usize = 4;

/// How files were copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyMethod {
    /// The file system shares blocks between both copies.
    Reflink,
    /// All bytes were copied.
    Copy,
    /// Files were compared and only what differs was written.
    Rewrite,
}

impl CopyMethod {
    /// The word used in records.
    pub fn as_str(self) -> &'static str {
        match self {
            CopyMethod::Reflink => "reflink",
            CopyMethod::Copy => "copy",
            CopyMethod::Rewrite => "rewrite what differs",
        }
    }
}

/// What a copy did.
#[derive(Debug, Clone, PartialEq)]
pub struct CopyReport {
    /// The method that most of the files took.
    pub method: CopyMethod,
    /// Files in the tree.
    pub n_files: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Bytes that had to be written.
    pub written_bytes: u64,
    /// How long it took until everything was on disk, seconds.
    pub seconds: f64,
}

impl CopyReport {
    /// The report as facts for a phase record.
    pub fn detail(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            ("method".to_string(), self.method.as_str().to_string()),
            ("files".to_string(), self.n_files.to_string()),
            ("bytes".to_string(), self.bytes.to_string()),
            ("written_bytes".to_string(), self.written_bytes.to_string()),
            ("seconds".to_string(), format!("{:.3}", self.seconds)),
        ])
    }
}

/// A file or directory, and the rights with which it is touched.
#[derive(Debug, Clone)]
pub(crate) struct Side<'a> {
    pub(crate) path: PathBuf,
    pub(crate) rights: Rights<'a>,
}

impl Side<'_> {
    fn join(&self, name: &OsStr) -> Self {
        Side { path: self.path.join(name), rights: self.rights }
    }
}

/// A directory and the one to become equal to it.
#[derive(Debug, Clone)]
pub(crate) struct Tree<'a> {
    pub(crate) from: Side<'a>,
    pub(crate) to: Side<'a>,
}

/// One regular file to be made equal.
struct FileJob<'a> {
    from: Side<'a>,
    to: Side<'a>,
    bytes: u64,
}

#[derive(Default)]
struct Tally {
    written_bytes: AtomicU64,
    n_cloned: AtomicU64,
    n_copied: AtomicU64,
    n_rewritten: AtomicU64,
    /// Between which devices files can be clones, as far as it was tried: WAL and tablespaces may be on others.
    can_clone: Mutex<BTreeMap<(u64, u64), bool>>,
}

/// Makes each `to` equal to its `from`: same files, contents and modes; what is in `to` alone is removed, and what is made
/// there belongs to the user whose rights make it. Files named in `skip` directly in a `from` are left out. Everything
/// is on disk when this returns.
pub(crate) fn mirror(trees: &[Tree], skip: &[&str]) -> Result<CopyReport> {
    let began = Instant::now();
    let mut jobs = Vec::new();
    for tree in trees {
        plan(&tree.from, &tree.to, skip, &mut jobs)?;
    }
    // Large files first, so that no thread is left with one at the end.
    jobs.sort_by_key(|job| std::cmp::Reverse(job.bytes));
    let tally = Tally::default();
    run(&jobs, &tally)?;
    for tree in trees {
        // Otherwise the kernel would write the copy back during the run that follows.
        let write_back = || nix::unistd::syncfs(open_dir(&tree.to)?).map_err(io::Error::from);
        write_back().with_context(|| format!("write `{}` to disk", tree.to.path.display()))?;
    }
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let methods = [
        (count(&tally.n_cloned), CopyMethod::Reflink),
        (count(&tally.n_copied), CopyMethod::Copy),
        (count(&tally.n_rewritten), CopyMethod::Rewrite),
    ];
    let method = methods.iter().max_by_key(|(n, _)| *n).map_or(CopyMethod::Copy, |(_, method)| *method);
    Ok(CopyReport {
        method,
        n_files: jobs.len() as u64,
        bytes: added_up(jobs.iter().map(|job| job.bytes)),
        written_bytes: count(&tally.written_bytes),
        seconds: began.elapsed().as_secs_f64(),
    })
}

/// Bytes of all regular files below `dir`, as far as they can be seen with these rights.
pub(crate) fn tree_bytes(dir: &Path, rights: Rights) -> u64 {
    rights.act(|| Ok::<_, io::Error>(bytes_below(dir))).unwrap_or(0)
}

fn bytes_below(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(facts) if facts.is_dir() => bytes_below(&entry.path()),
        Ok(facts) if facts.is_file() => facts.len(),
        _ => 0,
    });
    added_up(sizes)
}

/// As much as can be counted: sizes of files with holes can be of any size together.
pub(crate) fn added_up(sizes: impl Iterator<Item = u64>) -> u64 {
    sizes.fold(0, u64::saturating_add)
}

/// Makes directories and links, removes what is too much, and lists the files to be made equal.
fn plan<'a>(from: &Side<'a>, to: &Side<'a>, skip: &[&str], jobs: &mut Vec<FileJob<'a>>) -> Result<()> {
    let facts = from
        .rights
        .act(|| fs::symlink_metadata(&from.path))
        .with_context(|| format!("read `{}`", from.path.display()))?;
    make_dir(to, &facts).with_context(|| format!("make directory `{}`", to.path.display()))?;
    let wanted = names_in(from)?;
    for (name, facts) in names_in(to)? {
        let is_wanted = wanted.get(&name).is_some_and(|w| w.file_type() == facts.file_type())
            && facts.uid() == to.rights.uid()
            && !skip.iter().any(|skipped| name == *skipped);
        if !is_wanted {
            let path = to.path.join(&name);
            let remove = || if facts.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            to.rights.act(remove).with_context(|| format!("remove `{}`", path.display()))?;
        }
    }
    for (name, facts) in wanted {
        if skip.iter().any(|skipped| name == *skipped) {
            continue;
        }
        let (from, to) = (from.join(&name), to.join(&name));
        if facts.is_dir() {
            plan(&from, &to, &[], jobs)?;
        } else if facts.is_symlink() {
            copy_link(&from, &to)?;
        } else if facts.is_file() {
            jobs.push(FileJob { from, to, bytes: facts.len() });
        }
    }
    Ok(())
}

/// Makes the directory if it is not there, and gives it the mode of another.
fn make_dir(dir: &Side, facts: &fs::Metadata) -> io::Result<()> {
    if !dir.rights.act(|| Ok::<_, io::Error>(dir.path.is_dir()))? {
        dir.rights.act(|| DirBuilder::new().recursive(true).mode(0o700).create(&dir.path))?;
    }
    copy_mode(facts, &open_dir(dir)?, dir.rights)
}

fn names_in(dir: &Side) -> Result<BTreeMap<OsString, fs::Metadata>> {
    let read = || -> io::Result<BTreeMap<OsString, fs::Metadata>> {
        let mut names = BTreeMap::new();
        for entry in fs::read_dir(&dir.path)? {
            let entry = entry?;
            names.insert(entry.file_name(), entry.metadata()?);
        }
        Ok(names)
    };
    dir.rights.act(read).with_context(|| format!("read `{}`", dir.path.display()))
}

fn copy_link(from: &Side, to: &Side) -> Result<()> {
    let target = from
        .rights
        .act(|| fs::read_link(&from.path))
        .with_context(|| format!("read `{}`", from.path.display()))?;
    let path = &to.path;
    let link = || -> Result<()> {
        match fs::read_link(path) {
            Ok(present) if present == target => return Ok(()),
            Ok(_) => fs::remove_file(path).with_context(|| format!("remove `{}`", path.display()))?,
            Err(_) => {}
        }
        symlink(&target, path).with_context(|| format!("link `{}`", path.display()))
    };
    to.rights.act(link)
}

/// Through the open file: its name could have become a link to another one meanwhile. Bits that let a program run with
/// its owner's rights are not data.
fn copy_mode(facts: &fs::Metadata, to: &File, rights: Rights) -> io::Result<()> {
    let mode = facts.mode() & 0o777;
    if to.metadata()?.mode() & 0o7777 != mode {
        rights.act(|| to.set_permissions(fs::Permissions::from_mode(mode)))?;
    }
    Ok(())
}

fn open_dir(dir: &Side) -> io::Result<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_DIRECTORY;
    dir.rights.act(|| OpenOptions::new().read(true).custom_flags(flags.bits()).open(&dir.path))
}

fn run(jobs: &[FileJob], tally: &Tally) -> Result<()> {
    let next = AtomicUsize::new(0);
    let failure: Mutex<Option<anyhow::Error>> = Mutex::new(None);
    let n_threads = thread::available_parallelism().map_or(2, usize::from).clamp(2, N_THREADS_MAX);
    thread::scope(|scope| {
        for _ in 0..n_threads {
            scope.spawn(|| {
                let mut buffers = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let done = make_equal(job, tally, &mut buffers).with_context(|| {
                        format!("copy `{}` to `{}`", job.from.path.display(), job.to.path.display())
                    });
                    if let Err(error) = done {
                        failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                        next.store(jobs.len(), Ordering::Relaxed);
                    }
                }
            });
        }
    });
    failure.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

fn make_equal(job: &FileJob, tally: &Tally, buffers: &mut (Vec<u8>, Vec<u8>)) -> Result<()> {
    let from = job.from.rights.act(|| files::open(&job.from.path))?;
    let facts = from.metadata()?;
    let (to, existed) = job.to.rights.act(|| open_to_write(&job.to.path, facts.mode() & 0o777))?;
    if clone_between(&from, &to, &facts, tally)? {
        tally.n_cloned.fetch_add(1, Ordering::Relaxed);
        return Ok(copy_mode(&facts, &to, job.to.rights)?);
    }
    let written_bytes = if existed {
        tally.n_rewritten.fetch_add(1, Ordering::Relaxed);
        rewrite(&from, &to, facts.len(), buffers)?
    } else {
        tally.n_copied.fetch_add(1, Ordering::Relaxed);
        // The standard library copies between files within the kernel (copy_file_range) where it can. Who owns the
        // source could make it grow for ever.
        io::copy(&mut (&from).take(facts.len()), &mut &to)?
    };
    tally.written_bytes.fetch_add(written_bytes, Ordering::Relaxed);
    Ok(copy_mode(&facts, &to, job.to.rights)?)
}

/// Opens or makes a regular file; also whether it was there.
fn open_to_write(path: &Path, mode: u32) -> io::Result<(File, bool)> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    match files::open_with(path, &mut options) {
        Ok(file) => Ok((file, true)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {
            // Its mode may keep its own owner from writing.
            if error.kind() == io::ErrorKind::PermissionDenied {
                fs::remove_file(path)?;
            }
            let made = OpenOptions::new().read(true).write(true).create_new(true).mode(mode).open(path)?;
            Ok((made, false))
        }
        Err(error) => Err(error),
    }
}

/// Clones a file where its devices allow it, which is tried once.
fn clone_between(from: &File, to: &File, from_facts: &fs::Metadata, tally: &Tally) -> io::Result<bool> {
    let to_facts = to.metadata()?;
    if to_facts.len() > from_facts.len() {
        // A clone leaves what lies beyond the end of its source.
        to.set_len(from_facts.len())?;
    }
    let devices = (from_facts.dev(), to_facts.dev());
    let known = tally.can_clone.lock().unwrap_or_else(PoisonError::into_inner).get(&devices).copied();
    if known == Some(true) {
        // What is not written to disk yet would be, before the kernel shares the blocks, for nothing.
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

/// Lets `to` share the blocks of `from`; false where the file system cannot.
fn clone_file(from: &File, to: &File) -> bool {
    // SAFETY: FICLONE takes the descriptor of the source by value and touches no memory of ours; both
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

/// Whether files in `dir` can be clones of each other.
pub(crate) fn can_clone(dir: &Path) -> bool {
    let (one, other) = (dir.join(".clone-from"), dir.join(".clone-to"));
    let attempt = || -> io::Result<bool> {
        fs::write(&one, [1; 4096])?;
        Ok(clone_file(&File::open(&one)?, &File::create(&other)?))
    };
    let can = attempt().unwrap_or(false);
    for path in [one, other] {
        // They may not have come to be.
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

    fn ours(path: &Path) -> Side<'static> {
        Side { path: path.to_path_buf(), rights: Rights::Ours }
    }

    fn text(path: &Path) -> String {
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn a_tree_becomes_equal_whatever_it_was() {
        let outer = tempfile::tempdir().unwrap();
        let (from, to) = (outer.path().join("from"), outer.path().join("to"));
        let write = |root: &Path, name: &str, content: &str| {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        };
        for (name, content) in [
            ("a", "one"),
            ("base/1/x", "same"),
            ("base/1/long", "short"),
            ("was_dir", "f"),
            ("postmaster.pid", "1"),
        ] {
            write(&from, name, content);
        }
        symlink("a", from.join("link")).unwrap();
        symlink("a", from.join("other_link")).unwrap();
        fs::set_permissions(from.join("a"), fs::Permissions::from_mode(0o640)).unwrap();
        for (name, content) in [
            ("base/1/x", "same"),
            ("base/1/long", "much longer"),
            ("gone/y", "y"),
            ("was_dir/z", "z"),
            ("postmaster.pid", "2"),
        ] {
            write(&to, name, content);
        }
        symlink("b", to.join("other_link")).unwrap();
        let tree = Tree { from: ours(&from), to: ours(&to) };
        let report = mirror(std::slice::from_ref(&tree), &["postmaster.pid"]).unwrap();
        assert_eq!((report.n_files, report.bytes), (4, 13));
        assert_eq!(text(&to.join("a")), "one");
        assert_eq!(text(&to.join("base/1/long")), "short");
        assert_eq!(text(&to.join("was_dir")), "f");
        assert_eq!(fs::metadata(to.join("a")).unwrap().mode() & 0o777, 0o640);
        assert_eq!(fs::read_link(to.join("link")).unwrap(), Path::new("a"));
        assert_eq!(fs::read_link(to.join("other_link")).unwrap(), Path::new("a"));
        assert!(!to.join("gone").exists() && !to.join("postmaster.pid").exists());
        let again = mirror(&[tree], &["postmaster.pid"]).unwrap();
        assert_eq!(again.written_bytes, 0);
        assert_eq!(tree_bytes(&to, Rights::Ours), 13);
    }

    #[test]
    fn sizes_beyond_what_can_be_counted_are_no_panic() {
        // A file with nothing but a hole has up to 8 EiB in a file system such as tmpfs or XFS.
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        for name in ["a", "b", "c"] {
            File::create(dir.path().join(name)).unwrap().set_len(i64::MAX as u64 & !0xfff).unwrap();
        }
        assert_eq!(tree_bytes(dir.path(), Rights::Ours), u64::MAX);
    }

    #[test]
    fn the_file_that_could_not_be_copied_is_named() {
        let outer = tempfile::tempdir().unwrap();
        let (from, to) = (ours(&outer.path().join("none")), ours(&outer.path().join("to")));
        let error = mirror(&[Tree { from, to }], &[]).unwrap_err();
        assert!(format!("{error:#}").contains("none"), "{error:#}");
    }
}
