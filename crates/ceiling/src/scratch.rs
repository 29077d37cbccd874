//! A file to measure a device with, in a directory that we make next to the user's files and remove again, also when the
//! user stops us. One that a killed pgdyno left is removed by the next calibration there.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nix::fcntl::{OFlag, openat};
use nix::libc;
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};
use server::Account;
use server::process_id::ProcessId;

const PREFIX: &str = "pgdyno-calibrate-";
const FILE: &str = "blocks";

/// The directory with its file, opened in each way that is measured.
#[derive(Debug)]
pub(crate) struct ScratchFile {
    place: PathBuf,
    name: String,
    account: Account,
    pub(crate) plain: File,
    /// `None` where the file system has no O_DIRECT.
    pub(crate) direct: Option<File>,
    pub(crate) datasync: File,
    pub(crate) sync: File,
}

impl ScratchFile {
    /// Makes one in `place`. As root, with the rights of the user who owns `place`, who could put links in the way.
    ///
    /// # Errors
    /// When that user cannot create files there.
    pub(crate) fn make(place: &Path) -> Result<ScratchFile> {
        let place = place.canonicalize().with_context(|| format!("cannot find `{}`", place.display()))?;
        let account = Account::of_owner(&place)?;
        account.act(|| sweep_as(&place, acting(&account)))?;
        let me = ProcessId::current();
        let name = format!("{PREFIX}{}-{}-{}", me.pid, me.start_ticks, files::random_hex(4)?);
        let dir = place.join(&name);
        let context = || format!("create a file to measure with in `{}`", place.display());
        account.act(|| DirBuilder::new().mode(0o700).create(&dir)).with_context(context)?;
        let opened = account.act(|| open_all(&dir.join(FILE)));
        if opened.is_err() {
            account.act(|| remove(&place, &name, acting(&account))).ok();
        }
        let (plain, direct, datasync, sync) = opened.with_context(context)?;
        Ok(ScratchFile { place, name, account, plain, direct, datasync, sync })
    }
}

impl Drop for ScratchFile {
    fn drop(&mut self) {
        // The next calibration here removes what cannot be removed now.
        self.account.act(|| remove(&self.place, &self.name, acting(&self.account))).ok();
    }
}

/// The user whose rights are used.
fn acting(account: &Account) -> u32 {
    if account.is_switched { account.uid } else { geteuid().as_raw() }
}

type Opened = (File, Option<File>, File, File);

fn open_all(path: &Path) -> io::Result<Opened> {
    let open = |flags: i32| {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(flags | libc::O_NOFOLLOW).open(path)
    };
    let plain = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)?;
    let direct = match open(libc::O_DIRECT) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => None,
        other => Some(other?),
    };
    Ok((plain, direct, open(libc::O_DSYNC)?, open(libc::O_SYNC)?))
}

/// Removes the file and its directory, and nothing else that somebody may have put there. The directory is held open, and
/// must belong to `uid`: where others can write, a link or a directory of theirs may have the name.
fn remove(place: &Path, name: &str, uid: u32) -> io::Result<()> {
    let place = OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY).open(place)?;
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let dir = File::from(openat(&place, name, flags, Mode::empty())?);
    if dir.metadata()?.uid() != uid {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    unlinkat(&dir, FILE, UnlinkatFlags::NoRemoveDir).ok();
    Ok(unlinkat(&place, name, UnlinkatFlags::RemoveDir)?)
}

/// Removes what processes that have ended left in `place`, with the rights of its owner; returns the directories.
pub fn sweep(place: &Path) -> Vec<PathBuf> {
    let Ok(account) = Account::of_owner(place) else { return Vec::new() };
    account.act(|| sweep_as(place, acting(&account))).unwrap_or_default()
}

fn sweep_as(place: &Path, uid: u32) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    // One that somebody has put something into stays.
    let swept = names.filter(|name| is_abandoned(name) && remove(place, name, uid).is_ok());
    Ok(swept.map(|name| place.join(name)).collect())
}

/// Whether a name is that of our directory whose process has ended.
fn is_abandoned(name: &str) -> bool {
    let owner = || {
        let mut parts = name.strip_prefix(PREFIX)?.split('-');
        let (pid, start_ticks) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let is_ours = parts.next()?.len() == 8 && parts.next().is_none();
        is_ours.then_some(ProcessId { pid, start_ticks, ..ProcessId::current() })
    };
    owner().is_some_and(|owner| !owner.is_alive())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_goes_with_its_directory_and_only_our_own_of_dead_processes_are_swept() {
        let place = tempfile::tempdir().unwrap();
        let names = || {
            let mut names: Vec<String> = fs::read_dir(place.path())
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        let me = ProcessId::current();
        let dead = format!("{PREFIX}{}-{}-0123abcd", me.pid, me.start_ticks + 1);
        for (name, file) in [(&dead, FILE), (&format!("{PREFIX}mine"), FILE), (&format!("{dead}-x"), FILE)] {
            fs::create_dir(place.path().join(name)).unwrap();
            fs::write(place.path().join(name).join(file), "x").unwrap();
        }
        // A link with such a name leads to a file that is not ours.
        let link = format!("{PREFIX}{}-{}-4567abcd", me.pid, me.start_ticks + 1);
        std::os::unix::fs::symlink(place.path().join(format!("{PREFIX}mine")), place.path().join(&link))
            .unwrap();
        let scratch = ScratchFile::make(place.path()).unwrap();
        let mut kept = vec![format!("{PREFIX}mine"), format!("{dead}-x"), link];
        kept.sort();
        assert_eq!(names().len(), 4, "{:?}", names());
        drop(scratch);
        assert_eq!(names(), kept);
        assert!(place.path().join(format!("{PREFIX}mine")).join(FILE).exists());
    }

    #[test]
    fn a_place_that_takes_no_files_is_named() {
        let refused = format!("{:#}", ScratchFile::make(Path::new("/proc/self")).unwrap_err());
        assert!(refused.contains("`/proc/"), "{refused}");
    }
}
