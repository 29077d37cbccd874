//! Directories that are kept open, and access to what is directly in them.
//!
//! The owner of a directory can replace it by a link at any moment, even by one through /proc/self to what this process
//! has open, past every closed directory on the way. So no path is looked up below somebody else's directory:
//! each step opens one name in the directory opened before, and follows no link.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, mkdirat, openat, openat2, readlinkat,
    renameat, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;

/// Deepest nesting of directories: PostgreSQL has four, and each stays open while its contents are processed.
pub(crate) const DEPTH_MAX: usize = 64;

/// Begin of the names of directories that are moved up to be removed.
const ASIDE: &str = "pgdyno-removed-";

/// An open directory, which stays the same one whatever happens to its name.
#[derive(Debug)]
pub(crate) struct HeldDir(OwnedFd);

/// Facts about one name in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NameFacts {
    pub(crate) kind: FileType,
    pub(crate) uid: u32,
    /// Permissions, including the bits that let a program run with its owner's rights.
    pub(crate) mode: u32,
    pub(crate) bytes: u64,
    /// When its contents or its facts were changed, seconds and nanoseconds: no program can set it.
    pub(crate) changed: (i64, u64),
}

impl HeldDir {
    /// The directory at `path`. Links in the path are resolved first, and none is followed when the result is opened:
    /// with a user's rights, only directories are reached that this user could walk to from `/`.
    ///
    /// # Errors
    /// Those of the system, also when the path changes meanwhile.
    pub(crate) fn open(path: &Path) -> io::Result<HeldDir> {
        reach(path, HeldDir::step)?.readable()
    }

    /// The same, created if it does not exist, with those above it.
    pub(crate) fn open_or_make(path: &Path) -> io::Result<HeldDir> {
        reach(path, HeldDir::step_or_make)?.readable()
    }

    /// The directory of this name in it.
    pub(crate) fn child(&self, name: &OsStr) -> io::Result<HeldDir> {
        open_dir(self.as_fd(), name, OFlags::RDONLY)
    }

    /// The same, created if it does not exist.
    pub(crate) fn child_or_make(&self, name: &OsStr) -> io::Result<HeldDir> {
        self.step_or_make(name)?.readable()
    }

    /// The directory that these names lead to.
    pub(crate) fn descend(&self, way: &Path) -> io::Result<HeldDir> {
        names_of(way)
            .try_fold(open_dir(self.as_fd(), OsStr::new("."), OFlags::PATH)?, |held, name| held.step(name))
    }

    /// Opens a directory only to pass through it, which may be allowed where listing it is not.
    fn step(&self, name: &OsStr) -> io::Result<HeldDir> {
        open_dir(self.as_fd(), name, OFlags::PATH)
    }

    fn step_or_make(&self, name: &OsStr) -> io::Result<HeldDir> {
        match self.step(name) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                mkdirat(&self.0, name, Mode::RWXU)?;
                self.step(name)
            }
            found => found,
        }
    }

    fn readable(&self) -> io::Result<HeldDir> {
        self.child(OsStr::new("."))
    }

    /// A regular file in it, opened with these flags and those that keep links and pipes out.
    pub(crate) fn file(&self, name: &OsStr, flags: OFlags, mode: u32) -> io::Result<File> {
        // Opening a pipe without a writer would block otherwise; the flag does not matter for a regular file.
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&self.0, name, flags, Mode::from_raw_mode(mode)).map(File::from);
        let file = file.map_err(|error| match error {
            Errno::LOOP => refused("it is a symbolic link, which is not followed here"),
            Errno::NXIO => refused("it is not a regular file"),
            error => error.into(),
        })?;
        if file.metadata()?.is_file() { Ok(file) } else { Err(refused("it is not a regular file")) }
    }

    /// Its entries with their facts; those that are gone meanwhile are left out.
    pub(crate) fn entries(&self) -> io::Result<Vec<(OsString, NameFacts)>> {
        let mut entries = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_os_string();
            if name == "." || name == ".." {
                continue;
            }
            match statat(&self.0, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => entries.push((name, NameFacts::from_stat(&stat))),
                Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(entries)
    }

    /// The facts about the directory itself.
    pub(crate) fn facts(&self) -> io::Result<NameFacts> {
        Ok(NameFacts::from_stat(&fstat(&self.0)?))
    }

    /// Where a link in it leads.
    pub(crate) fn link(&self, name: &OsStr) -> io::Result<OsString> {
        Ok(OsString::from_vec(readlinkat(&self.0, name, Vec::new())?.into_bytes()))
    }

    /// Creates a link in it.
    pub(crate) fn make_link(&self, target: &OsStr, name: &OsStr) -> io::Result<()> {
        Ok(symlinkat(target, &self.0, name)?)
    }

    /// Removes an entry that is not a directory.
    pub(crate) fn remove_file(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, AtFlags::empty())?)
    }

    /// Removes the entry of this name, with all its contents, however deep they are.
    pub(crate) fn remove(&self, name: &OsStr) -> io::Result<()> {
        if self.is_directory(name)? {
            self.child_to_empty(name)?.empty()?;
            Ok(unlinkat(&self.0, name, AtFlags::REMOVEDIR)?)
        } else {
            self.remove_file(name)
        }
    }

    /// Removes everything in it, this file last: it shows whose the directory is as long as anything else is there.
    pub(crate) fn empty_marked(&self, marker: &str) -> io::Result<()> {
        for (name, _) in self.entries()?.iter().filter(|(name, _)| name != marker) {
            self.remove(name)?;
        }
        match self.remove_file(OsStr::new(marker)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes everything in it, directories first.
    ///
    /// Directories that are nested too deep are moved up here and removed from here, so that neither open directories
    /// nor the stack have to grow with the depth. Going back up through `..` would not do: by moving a directory, its owner
    /// could lead us anywhere.
    pub(crate) fn empty(&self) -> io::Result<()> {
        let (mut due, files): (Vec<_>, Vec<_>) =
            self.entries()?.into_iter().partition(|(_, facts)| facts.kind == FileType::Directory);
        while let Some((name, _)) = due.pop() {
            self.remove_from(&name, DEPTH_MAX, self)?;
            if due.is_empty() {
                due = self.entries()?;
                due.retain(|(_, facts)| facts.kind == FileType::Directory);
            }
        }
        files.iter().try_for_each(|(name, _)| self.remove_file(name))
    }

    fn remove_from(&self, name: &OsStr, n_deeper: usize, top: &HeldDir) -> io::Result<()> {
        if !self.is_directory(name)? {
            return self.remove_file(name);
        }
        if n_deeper == 0 {
            let aside = format!("{ASIDE}{}", files::random_hex(8).map_err(io::Error::other)?);
            return Ok(renameat(&self.0, name, &top.0, aside)?);
        }
        let child = self.child_to_empty(name)?;
        for (name, _) in child.entries()? {
            child.remove_from(&name, n_deeper - 1, top)?;
        }
        Ok(unlinkat(&self.0, name, AtFlags::REMOVEDIR)?)
    }

    /// The directory of this name in it, unless something else is mounted there: that is not ours, wherever it is mounted.
    fn child_to_empty(&self, name: &OsStr) -> io::Result<HeldDir> {
        let is_mounted =
            || refused(&format!("something is mounted at `{}` in it; unmount it", name.display()));
        match openat2(&self.0, name, DIRECTORY, Mode::empty(), ResolveFlags::NO_XDEV) {
            Ok(child) => Ok(HeldDir(child)),
            Err(Errno::XDEV) => Err(is_mounted()),
            // Linux before 5.6, or a sandbox that does not know the call.
            Err(Errno::NOSYS | Errno::PERM) => {
                let child = self.child(name)?;
                if child.is_mounted_with(self)? { Ok(child) } else { Err(is_mounted()) }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether no mount is between it and this directory above it, as far as the system says. What is mounted may be of the same
    /// file system.
    fn is_mounted_with(&self, above: &HeldDir) -> io::Result<bool> {
        let is_same_file_system = fstat(&self.0)?.st_dev == fstat(&above.0)?.st_dev;
        Ok(is_same_file_system && self.mount_number() == above.mount_number())
    }

    /// What the kernel calls the mount that it is on; `None` without /proc.
    fn mount_number(&self) -> Option<String> {
        let facts = fs::read_to_string(format!("/proc/self/fdinfo/{}", self.0.as_raw_fd())).ok()?;
        facts.lines().find_map(|line| line.strip_prefix("mnt_id:")).map(|number| number.trim().to_string())
    }

    fn is_directory(&self, name: &OsStr) -> io::Result<bool> {
        let stat = statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
    }

    /// Path, size and time of change of each file below it, in the order of their names: others if anybody has
    /// changed one, or put another one in its place.
    ///
    /// # Errors
    /// Those of the system, and when directories are nested too deep.
    pub(crate) fn versions(&self) -> io::Result<String> {
        let mut lines = Vec::new();
        self.add_versions(Path::new(""), DEPTH_MAX, &mut lines)?;
        lines.sort();
        Ok(lines.concat())
    }

    fn add_versions(&self, above: &Path, n_deeper: usize, lines: &mut Vec<String>) -> io::Result<()> {
        for (name, facts) in self.entries()? {
            let path = above.join(&name);
            match facts.kind {
                FileType::Directory if n_deeper == 0 => return Err(too_deep()),
                FileType::Directory => self.child(&name)?.add_versions(&path, n_deeper - 1, lines)?,
                _ => {
                    let (s, ns) = facts.changed;
                    lines.push(format!("{path:?} {} {s} {ns}\n", facts.bytes));
                }
            }
        }
        Ok(())
    }

    /// Bytes of all regular files below it, as far as they can be seen.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes_to(DEPTH_MAX)
    }

    fn bytes_to(&self, n_deeper: usize) -> u64 {
        let sizes = self.entries().unwrap_or_default().into_iter().map(|(name, facts)| match facts.kind {
            FileType::RegularFile => facts.bytes,
            FileType::Directory if n_deeper > 0 => {
                self.child(&name).map_or(0, |child| child.bytes_to(n_deeper - 1))
            }
            _ => 0,
        });
        added_up(sizes)
    }
}

impl AsFd for HeldDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl NameFacts {
    fn from_stat(stat: &rustix::fs::Stat) -> NameFacts {
        NameFacts {
            kind: FileType::from_raw_mode(stat.st_mode),
            uid: stat.st_uid,
            mode: stat.st_mode & 0o7777,
            bytes: stat.st_size.try_into().unwrap_or(0),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }
}

/// Removes the directory at `path` with all its contents, as [`HeldDir::empty`] does; a link in its place is removed itself.
/// What is mounted in it stays, and is an error. For contents that another user can have made.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.is_dir() {
        return fs::remove_file(path);
    }
    HeldDir::open(path)?.empty()?;
    fs::remove_dir(path)
}

/// Adds up to `u64::MAX`: sizes of sparse files can have any sum.
pub(crate) fn added_up(sizes: impl Iterator<Item = u64>) -> u64 {
    sizes.fold(0, u64::saturating_add)
}

/// Why nothing is copied below a certain depth.
pub(crate) fn too_deep() -> io::Error {
    refused(&format!("more than {DEPTH_MAX} directories are nested here; PostgreSQL has four"))
}

fn refused(words: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, words)
}

/// Walks from `/` to `path`, whose links have been resolved, as far as it exists.
fn reach(path: &Path, step: impl Fn(&HeldDir, &OsStr) -> io::Result<HeldDir>) -> io::Result<HeldDir> {
    let path = std::path::absolute(path)?;
    let mut missing: Vec<&OsStr> = Vec::new();
    let mut present = path.as_path();
    let resolved = loop {
        match (present.canonicalize(), present.file_name(), present.parent()) {
            (Err(error), Some(name), Some(above)) if error.kind() == ErrorKind::NotFound => {
                missing.push(name);
                present = above;
            }
            (found, ..) => break found?,
        }
    };
    let root = open_dir(CWD, OsStr::new("/"), OFlags::PATH)?;
    names_of(&resolved).chain(missing.into_iter().rev()).try_fold(root, |held, name| step(&held, name))
}

fn names_of(path: &Path) -> impl Iterator<Item = &OsStr> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name),
        _ => None,
    })
}

/// How directories are opened.
const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

fn open_dir(at: BorrowedFd, name: &OsStr, flags: OFlags) -> io::Result<HeldDir> {
    Ok(HeldDir(openat(at, name, flags | DIRECTORY, Mode::empty())?))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn nothing_is_reached_through_a_link() {
        let outer = tempfile::tempdir().unwrap();
        let path = |name: &str| outer.path().join(name);
        fs::create_dir_all(path("tree/real/deep")).unwrap();
        fs::create_dir(path("elsewhere")).unwrap();
        fs::write(path("elsewhere/kept"), "kept").unwrap();
        let elsewhere = fs::File::open(path("elsewhere")).unwrap();
        let magic = format!("/proc/self/fd/{}", elsewhere.as_raw_fd());
        for (target, name) in [("../elsewhere", "link"), (&magic, "magic")] {
            symlink(target, path("tree").join(name)).unwrap();
        }
        symlink(path("elsewhere/kept"), path("tree/file")).unwrap();
        let tree = HeldDir::open(&path("tree")).unwrap();
        for name in ["link", "magic"] {
            let name = OsStr::new(name);
            assert!(tree.child(name).is_err() && tree.child_or_make(name).is_err(), "{}", name.display());
            assert!(tree.descend(Path::new(name)).is_err(), "{}", name.display());
        }
        let words = tree.file(OsStr::new("file"), OFlags::RDONLY, 0).unwrap_err().to_string();
        assert!(words.contains("symbolic link"), "{words}");
        assert!(tree.descend(Path::new("real/deep")).is_ok());
        assert_eq!(tree.bytes(), 0);
        for (name, _) in tree.entries().unwrap() {
            tree.remove(&name).unwrap();
        }
        assert_eq!(tree.entries().unwrap(), []);
        assert_eq!(fs::read(path("elsewhere/kept")).unwrap(), b"kept");
        // Links above the tree are allowed; missing directories are created.
        symlink(path("tree"), path("way")).unwrap();
        HeldDir::open_or_make(&path("way/new/one")).unwrap();
        assert!(path("tree/new/one").is_dir());
        assert!(HeldDir::open(&path("way/none")).is_err());
    }

    #[test]
    fn what_is_mounted_in_a_directory_is_not_opened_to_be_emptied() {
        let outer = tempfile::tempdir().unwrap();
        fs::create_dir(outer.path().join("plain")).unwrap();
        assert!(HeldDir::open(outer.path()).unwrap().child_to_empty(OsStr::new("plain")).is_ok());
        // It is on every machine.
        let root = HeldDir::open(Path::new("/")).unwrap();
        let words = root.child_to_empty(OsStr::new("proc")).unwrap_err();
        assert!(words.to_string().contains("something is mounted at `proc`"), "{words}");
        // Where the kernel cannot be asked to stay on a mount.
        let held = HeldDir::open(outer.path()).unwrap();
        assert!(held.child(OsStr::new("plain")).unwrap().is_mounted_with(&held).unwrap());
        let proc = root.child(OsStr::new("proc")).unwrap();
        assert!(!proc.is_mounted_with(&root).unwrap());
        // Some sandboxes say nothing about mounts.
        let (above, below) = (root.mount_number(), proc.mount_number());
        assert!(above.is_none() || above != below, "{above:?} {below:?}");
    }

    #[test]
    fn directories_within_each_other_have_a_bound() {
        let outer = tempfile::tempdir().unwrap();
        let way: PathBuf = (0..=DEPTH_MAX + 1).map(|_| "d").collect();
        fs::create_dir_all(outer.path().join(way)).unwrap();
        let held = HeldDir::open(outer.path()).unwrap();
        fs::write(outer.path().join("d/file"), "1234").unwrap();
        assert_eq!(held.bytes(), 4);
        held.remove(OsStr::new("d")).unwrap();
        assert_eq!(held.entries().unwrap(), []);
    }

    /// More than a process may have open, and than a stack could take.
    #[test]
    fn directories_are_removed_however_deep_they_are() {
        let outer = tempfile::tempdir_in("/dev/shm").unwrap();
        fs::write(outer.path().join("kept"), "kept").unwrap();
        let mut deepest = HeldDir::open(outer.path()).unwrap().child_or_make(OsStr::new("tree")).unwrap();
        for n in 0..25_000 {
            deepest = deepest.child_or_make(OsStr::new("d")).unwrap();
            if n % 1000 == 0 {
                deepest.make_link(outer.path().join("kept").as_os_str(), OsStr::new("link")).unwrap();
            }
        }
        remove_tree(&outer.path().join("tree")).unwrap();
        let left: Vec<_> = HeldDir::open(outer.path()).unwrap().entries().unwrap();
        assert!(left.len() == 1 && left[0].0 == "kept", "{left:?}");
        assert!(remove_tree(&outer.path().join("tree")).is_err());
    }
}
