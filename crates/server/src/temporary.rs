//! Directories in which a process works for a time. Each has our mark, made before anything else in it and locked as long as the
//! process works; a later process removes what has the mark and is not locked. A name proves nothing: a user may have a directory
//! of any name.
//!
//! The mark names its directory by inode, so that a copy of it, in a copy of the directory, proves nothing either.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use files::trust;
use nix::unistd::geteuid;
use rustix::fs::{OFlags, fstat};

use crate::swept::Swept;
use crate::user::held_dir::HeldDir;

/// The file that marks a directory as ours.
const MARK: &str = ".pgdyno-temporary";
/// What people read in it, after the inode.
const WORDS: &str =
    "pgdyno works in this directory for a time; `pgdyno clean` removes it with everything in it.\n";
const MARK_BYTES_MAX: u64 = 1 << 10;
/// Notes of directories that may be anywhere, in the cache.
const NOTES: &str = "temporary";
const NOTE_BYTES_MAX: u64 = 16 << 10;
/// Each time another process swept a directory away that had no mark yet.
const ATTEMPTS: usize = 100;

/// A directory of this process, removed with all its contents when dropped.
#[derive(Debug)]
pub struct Temporary {
    path: PathBuf,
    /// Holds the lock.
    mark: File,
    note: Option<Note>,
}

#[derive(Debug)]
struct Note {
    path: PathBuf,
    _lock: File,
}

impl Temporary {
    /// Makes a directory with this mode where there is nothing.
    ///
    /// # Errors
    /// I/O errors.
    pub fn make(path: &Path, mode: u32) -> io::Result<Temporary> {
        for _ in 0..ATTEMPTS {
            DirBuilder::new().mode(0o700).create(path)?;
            match marked(path) {
                Ok(Some(mark)) => {
                    let made = Temporary { path: path.to_path_buf(), mark, note: None };
                    fs::set_permissions(path, Permissions::from_mode(mode))?;
                    return Ok(made);
                }
                // Another process has swept it away.
                Ok(None) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => {
                    fs::remove_dir(path).ok();
                    return Err(error);
                }
            }
        }
        Err(io::Error::other("another process removes it again and again"))
    }

    /// As [`Temporary::make`], with a note in the cache, so that `pgdyno clean` finds it wherever it is. Without a cache that can be
    /// trusted there is no note.
    ///
    /// # Errors
    /// I/O errors.
    pub fn make_noted(cache: &Path, path: &Path) -> Result<Temporary> {
        let context = || format!("create `{}`", path.display());
        let note = note(cache, &std::path::absolute(path).with_context(context)?).ok();
        let made = Temporary::make(path, 0o700);
        if let (Err(_), Some(note)) = (&made, &note) {
            fs::remove_file(&note.path).ok();
        }
        let mut made = made.with_context(context)?;
        made.note = note;
        Ok(made)
    }

    /// Leaves it as a process that is killed does.
    #[cfg(test)]
    pub(crate) fn leave(self) {
        self.mark.unlock().ok();
        if let Some(note) = &self.note {
            note._lock.unlock().ok();
        }
        std::mem::forget(self);
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // A later sweep finds what cannot be removed now.
        let removed = HeldDir::open(&self.path).and_then(|held| remove(&held, &self.path));
        self.mark.unlock().ok();
        if let (Ok(()), Some(note)) = (removed, &self.note) {
            fs::remove_file(&note.path).ok();
        }
    }
}

/// Marks a new directory, and locks the mark; `None` if somebody has removed it meanwhile.
fn marked(path: &Path) -> io::Result<Option<File>> {
    let held = HeldDir::open(path)?;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
    let mut mark = held.file(OsStr::new(MARK), flags, files::PRIVATE)?;
    mark.lock()?;
    let is_there = fs::symlink_metadata(path.join(MARK)).is_ok_and(|facts| {
        mark.metadata().is_ok_and(|ours| (ours.dev(), ours.ino()) == (facts.dev(), facts.ino()))
    });
    if !is_there {
        return Ok(None);
    }
    mark.write_all(format!("{}\n{WORDS}", inode(&held)?).as_bytes())?;
    mark.sync_all()?;
    Ok(Some(mark))
}

fn inode(held: &HeldDir) -> io::Result<u64> {
    Ok(fstat(held)?.st_ino)
}

/// Empties one of our directories, the mark last, and removes it.
fn remove(held: &HeldDir, path: &Path) -> io::Result<()> {
    held.empty_marked(MARK)?;
    fs::remove_dir(path)
}

/// The finding at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathState {
    /// Ours, of a process that has ended: it was removed.
    Removed,
    /// Ours, of a process that is still working.
    InUse,
    /// Nothing that we can prove to be ours: it stays.
    Foreign,
}

/// Removes the directory at `path` if it is ours and nobody works in it. One without a mark is removed only if it is empty: a
/// process was killed before it could mark it.
///
/// # Errors
/// When it is ours and cannot be removed.
pub fn sweep_one(path: &Path) -> io::Result<PathState> {
    let is_ours = |uid: u32| uid == geteuid().as_raw();
    let facts = fs::symlink_metadata(path)?;
    if !facts.is_dir() || !is_ours(facts.uid()) {
        return Ok(PathState::Foreign);
    }
    let held = HeldDir::open(path)?;
    let mut mark = match held.file(OsStr::new(MARK), OFlags::RDWR, 0) {
        Ok(mark) => mark,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Ok(if fs::remove_dir(path).is_ok() { PathState::Removed } else { PathState::Foreign });
        }
        Err(_) => return Ok(PathState::Foreign),
    };
    let facts = mark.metadata()?;
    if !is_ours(facts.uid()) || facts.nlink() > 1 {
        return Ok(PathState::Foreign);
    }
    if mark.try_lock().is_err() {
        return Ok(PathState::InUse);
    }
    let mut text = String::new();
    (&mut mark).take(MARK_BYTES_MAX).read_to_string(&mut text)?;
    let is_named = text.lines().next().and_then(|line| line.parse().ok()) == Some(inode(&held)?);
    // A process was killed, or the power failed, before the mark was written.
    let is_begun = text.is_empty() && held.entries()?.len() == 1;
    if !is_named && !is_begun {
        return Ok(PathState::Foreign);
    }
    remove(&held, path).map(|()| PathState::Removed)
}

/// Removes those directories in `dir` whose name fits, that are ours, and that nobody works in; returns them.
pub fn sweep(dir: &Path, is_name: impl Fn(&str) -> bool) -> Vec<Swept> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let fits = |entry: &fs::DirEntry| entry.file_name().to_str().is_some_and(&is_name);
    let found = entries.flatten().filter(fits).map(|entry| entry.path());
    found.filter_map(|path| swept_as(path.clone(), sweep_one(&path))).collect()
}

/// Writes down where a directory will be. The note is locked as long as its process works.
fn note(cache: &Path, path: &Path) -> Result<Note> {
    let dir = trust::make_directory(&cache.join(NOTES))?;
    loop {
        let note = dir.join(files::random_hex(8)?);
        let mut file = files::create_new(&note, files::PRIVATE)?;
        file.lock()?;
        file.write_all(path.as_os_str().as_bytes())?;
        file.sync_all()?;
        files::sync_parent(&note)?;
        // Another process may have taken it for one that was left.
        if note.exists() {
            return Ok(Note { path: note, _lock: file });
        }
    }
}

/// Removes the directories that notes in the cache name, of processes that have ended; returns them.
pub fn sweep_noted(cache: &Path) -> Vec<Swept> {
    let Ok(dir) = trust::check_directory(&cache.join(NOTES)) else { return Vec::new() };
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut swept = Vec::new();
    for note in entries.flatten().map(|entry| entry.path()) {
        let Ok(file) = files::open(&note) else { continue };
        let mut bytes = Vec::new();
        if file.try_lock().is_err() || (&file).take(NOTE_BYTES_MAX).read_to_end(&mut bytes).is_err() {
            continue;
        }
        let path = PathBuf::from(std::ffi::OsString::from_vec(bytes));
        let found = if path.is_absolute() { sweep_one(&path) } else { Ok(PathState::Foreign) };
        let is_gone = matches!(&found, Err(error) if error.kind() == ErrorKind::NotFound);
        // Otherwise somebody works in it, or it cannot be removed now.
        let is_done = is_gone || matches!(found, Ok(PathState::Removed | PathState::Foreign));
        swept.extend(swept_as(path, found));
        if is_done {
            fs::remove_file(&note).ok();
        }
    }
    swept
}

/// What a sweep says about one directory; `None` if it concerns nobody, or is gone.
fn swept_as(path: PathBuf, found: io::Result<PathState>) -> Option<Swept> {
    match found {
        Ok(PathState::Removed) => Some(Swept::from_result(path, Ok::<(), io::Error>(()))),
        Ok(PathState::InUse | PathState::Foreign) => None,
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => Some(Swept::from_result(path, Err(error))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a process that was killed leaves.
    fn leave(path: &Path) {
        Temporary::make(path, 0o700).unwrap().leave();
    }

    /// A child that another test forks holds a lock until its exec.
    fn swept(path: &Path) -> PathState {
        for _ in 0..100 {
            match sweep_one(path).unwrap() {
                PathState::InUse => std::thread::sleep(std::time::Duration::from_millis(20)),
                found => return found,
            }
        }
        PathState::InUse
    }

    #[test]
    fn a_directory_goes_with_what_is_in_it_and_nobody_sweeps_it_before() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("x");
        let made = Temporary::make(&path, 0o755).unwrap();
        assert!(Temporary::make(&path, 0o755).is_err(), "it is there");
        fs::create_dir_all(path.join("a/b")).unwrap();
        fs::write(path.join("a/file"), "x").unwrap();
        assert_eq!(sweep_one(&path).unwrap(), PathState::InUse);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o755);
        drop(made);
        assert!(!path.exists());
    }

    #[test]
    fn only_what_has_our_mark_is_swept() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        leave(&path("left"));
        fs::create_dir_all(path("left/deep")).unwrap();
        // A user's directory of any name, also with a copy of our mark in it.
        fs::create_dir(path("mine")).unwrap();
        fs::write(path("mine/precious"), "kept").unwrap();
        fs::create_dir(path("copy")).unwrap();
        fs::copy(path("left").join(MARK), path("copy").join(MARK)).unwrap();
        fs::create_dir(path("odd")).unwrap();
        nix::unistd::mkfifo(&path("odd").join(MARK), nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::os::unix::fs::symlink(path("left"), path("link")).unwrap();
        fs::write(path("file"), "kept").unwrap();
        for name in ["mine", "copy", "odd", "link", "file"] {
            assert_eq!(swept(&path(name)), PathState::Foreign, "{name}");
            assert!(path(name).symlink_metadata().is_ok(), "{name}");
        }
        // Killed before it was marked, and before the mark was written.
        fs::create_dir(path("empty")).unwrap();
        fs::create_dir(path("begun")).unwrap();
        fs::write(path("begun").join(MARK), "").unwrap();
        for name in ["left", "empty", "begun"] {
            assert_eq!(swept(&path(name)), PathState::Removed, "{name}");
            assert!(!path(name).exists(), "{name}");
        }
        assert!(path("mine/precious").exists());
    }

    #[test]
    fn what_is_noted_is_found_wherever_it_is() {
        let (place, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let cache = place.path().join("cache");
        let path = elsewhere.path().join("x");
        let notes = || fs::read_dir(cache.join(NOTES)).unwrap().count();
        let made = Temporary::make_noted(&cache, &path).unwrap();
        assert_eq!((Swept::removed(sweep_noted(&cache)), notes()), (Vec::new(), 1));
        drop(made);
        assert!(!path.exists());
        assert_eq!(notes(), 0);

        Temporary::make_noted(&cache, &path).unwrap().leave();
        assert_eq!((Swept::removed(sweep_noted(&cache)), notes()), (vec![path.clone()], 0));
        assert!(!path.exists());
        assert!(Temporary::make_noted(&cache, Path::new("/proc/x")).is_err());
        assert_eq!(notes(), 0);
    }
}
