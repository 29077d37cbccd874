//! Makes one directory tree equal to another, fast: clones where the file system shares blocks; else copies within the
//! kernel for new files, and for files that exist compares page by page and writes only pages that differ.
//!
//! Rewriting what differs took 1.0 to 1.5 s for 1.5 GB with 250 MB changed, against 1.8 to 3.9 s for a full copy.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::user::held_dir::{HeldDir, added_up};
use crate::user::rights::FileRights;

mod equal;
mod plan;

pub(crate) use equal::can_clone;
use equal::{Tally, make_equal};
use plan::{FileJob, Pair};

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

/// The result of a copy.
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

/// What becomes of pages of the target's files in the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cached {
    /// They stay in memory where they are.
    Stays,
    /// They are read again, which places them on the NUMA node of the thread that copies.
    ReadAgain,
}

/// A file or directory, and the rights with which it is touched.
#[derive(Debug, Clone)]
pub(crate) struct CopySide<'a> {
    pub(crate) path: PathBuf,
    pub(crate) rights: FileRights<'a>,
}

/// A directory and the one to become equal to it.
#[derive(Debug, Clone)]
pub(crate) struct CopyTrees<'a> {
    pub(crate) from: CopySide<'a>,
    pub(crate) to: CopySide<'a>,
}

/// Makes each `to` equal to its `from`: same files, contents and modes; what is in `to` alone is removed, and what is
/// made there belongs to the user whose rights are used. Files named in `skip` directly in a `from` are left out.
/// Everything is on disk when this returns. Nothing outside the trees is touched, even if somebody puts links into them
/// meanwhile.
pub(crate) fn mirror(trees: &[CopyTrees], skip: &[&str], cached: Cached) -> Result<CopyReport> {
    let began = Instant::now();
    let pairs = trees.iter().map(Pair::open).collect::<Result<Vec<_>>>()?;
    let mut jobs = Vec::new();
    for pair in &pairs {
        pair.plan(skip, &mut jobs)?;
    }
    // Large files first, so that no thread is left with one at the end.
    jobs.sort_by_key(|job| std::cmp::Reverse(job.bytes));
    let tally = Tally::which_drops(cached == Cached::ReadAgain);
    run(&jobs, &tally)?;
    for pair in &pairs {
        // Otherwise the kernel would write the copy back during the run that follows.
        nix::unistd::syncfs(&pair.to.held)
            .with_context(|| format!("write `{}` to disk", pair.to.side.path.display()))?;
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
pub(crate) fn tree_bytes(dir: &Path, rights: FileRights) -> u64 {
    rights.act(|| HeldDir::open(dir).map(|held| held.bytes())).unwrap_or(0)
}

fn run(jobs: &[FileJob], tally: &Tally) -> Result<()> {
    let next = AtomicUsize::new(0);
    let failure: Mutex<Option<anyhow::Error>> = Mutex::new(None);
    let n_threads = thread::available_parallelism().map_or(2, usize::from).clamp(2, N_THREADS_MAX);
    thread::scope(|scope| {
        for _ in 0..n_threads {
            scope.spawn(|| {
                let mut buffers = equal::buffers();
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let done = make_equal(job, tally, &mut buffers).with_context(|| {
                        let (from, to) = job.paths();
                        format!("copy `{}` to `{}`", from.display(), to.display())
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

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    fn ours(path: &Path) -> CopySide<'static> {
        CopySide { path: path.to_path_buf(), rights: FileRights::Ours }
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
        let tree = CopyTrees { from: ours(&from), to: ours(&to) };
        let report = mirror(std::slice::from_ref(&tree), &["postmaster.pid"], Cached::Stays).unwrap();
        assert_eq!((report.n_files, report.bytes), (4, 13));
        assert_eq!(text(&to.join("a")), "one");
        assert_eq!(text(&to.join("base/1/long")), "short");
        assert_eq!(text(&to.join("was_dir")), "f");
        assert_eq!(fs::metadata(to.join("a")).unwrap().mode() & 0o777, 0o640);
        assert_eq!(fs::read_link(to.join("link")).unwrap(), Path::new("a"));
        assert_eq!(fs::read_link(to.join("other_link")).unwrap(), Path::new("a"));
        assert!(!to.join("gone").exists() && !to.join("postmaster.pid").exists());
        for cached in [Cached::Stays, Cached::ReadAgain] {
            let again = mirror(std::slice::from_ref(&tree), &["postmaster.pid"], cached).unwrap();
            assert_eq!(again.written_bytes, 0);
        }
        assert_eq!(tree_bytes(&to, FileRights::Ours), 13);
    }

    #[test]
    fn sizes_that_add_up_to_more_than_a_u64_do_not_panic() {
        // A file with nothing but a hole has up to 8 EiB in a file system such as tmpfs or XFS.
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        for name in ["a", "b", "c"] {
            File::create(dir.path().join(name)).unwrap().set_len(i64::MAX as u64 & !0xfff).unwrap();
        }
        assert_eq!(tree_bytes(dir.path(), FileRights::Ours), u64::MAX);
    }

    #[test]
    fn the_file_that_could_not_be_copied_is_named() {
        let outer = tempfile::tempdir().unwrap();
        let (from, to) = (ours(&outer.path().join("none")), ours(&outer.path().join("to")));
        let error = mirror(&[CopyTrees { from, to }], &[], Cached::Stays).unwrap_err();
        assert!(format!("{error:#}").contains("none"), "{error:#}");
    }
}
