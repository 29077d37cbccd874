//! Directories that we create and give to the server's user. Their contents belong to that user from then on, and are
//! removed with that user's rights; the directory itself is where only we can replace it.

use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use files::trust;

use crate::process_id::ProcessId;
use crate::swept::Swept;
use crate::user::account::Account;
use crate::user::held_dir::{HeldDir, remove_tree};

/// Names the process that uses a [`ScratchDir`].
const OWNER_FILE: &str = "owner.json";
const OWNER_BYTES_MAX: u64 = 4 << 10;
const GIVEN: &str = "d";

/// Creates our directory in which the server's user can reach a directory of that user, but change nothing.
pub(crate) fn make_outer(dir: &Path, account: &Account) -> std::io::Result<()> {
    let mode = if account.is_switched { 0o711 } else { 0o700 };
    DirBuilder::new().mode(0o700).create(dir)?;
    fs::set_permissions(dir, Permissions::from_mode(mode))
}

/// Creates a directory that belongs to the user and is closed to all others.
pub(crate) fn make(dir: &Path, account: &Account) -> Result<()> {
    DirBuilder::new().mode(0o700).create(dir).with_context(|| format!("create `{}`", dir.display()))?;
    account.own(dir)
}

/// Removes such a directory with its contents, if it exists.
pub(crate) fn remove(dir: &Path) -> Result<()> {
    if fs::symlink_metadata(dir).is_err() {
        return Ok(());
    }
    let owner = Account::of_owner(dir)?;
    let context =
        || format!("remove the contents of `{}` as user `{}`, its owner", dir.display(), owner.name);
    owner.act(|| HeldDir::open(dir)?.empty()).with_context(context)?;
    fs::remove_dir(dir).with_context(|| format!("remove `{}`", dir.display()))
}

/// A temporary directory that contains one of the server's user; removed when dropped.
#[derive(Debug)]
pub(crate) struct ScratchDir {
    /// The outer directory, owned by this process's user.
    pub(crate) outer: PathBuf,
    /// The inner directory, owned by the server's user.
    pub(crate) given: PathBuf,
}

impl ScratchDir {
    /// Creates one in `base`, with this prefix of the name.
    pub(crate) fn make(base: &Path, name_begin: &str, account: &Account) -> Result<ScratchDir> {
        let outer = trust::check_place(base)?.join(format!("{name_begin}{}", files::random_hex(6)?));
        let context = || format!("make `{}`", outer.display());
        make_outer(&outer, account).with_context(context)?;
        let scratch = ScratchDir { given: outer.join(GIVEN), outer: outer.clone() };
        fs::write(outer.join(OWNER_FILE), serde_json::to_vec(&ProcessId::current())?)
            .with_context(context)?;
        make(&scratch.given, account)?;
        Ok(scratch)
    }

    /// Path of the user's directory in a scratch directory in `base`.
    pub(crate) fn longest_path(base: &Path, name_begin: &str) -> PathBuf {
        base.join(format!("{name_begin}{}", "x".repeat(12))).join(GIVEN)
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        // A later sweep finds what cannot be removed now.
        remove_scratch(&self.outer).ok();
    }
}

/// Removes the scratch directories in `base` that a pgdyno left behind; returns them.
pub(crate) fn sweep(base: &Path, name_begin: &str) -> Vec<Swept> {
    let Ok(entries) = fs::read_dir(base) else { return Vec::new() };
    let named = entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(name_begin));
    let abandoned = named.map(|entry| entry.path()).filter(|path| is_abandoned(path));
    abandoned.map(|path| Swept::from_result(path.clone(), remove_scratch(&path))).collect()
}

/// Anyone can create such a name in `/tmp`: only what we created counts.
fn is_abandoned(path: &Path) -> bool {
    let is_dir = || fs::symlink_metadata(path).is_ok_and(|facts| facts.is_dir());
    let owner = || {
        trust::check_directory(path).ok()?;
        let text = trust::read(&path.join(OWNER_FILE), OWNER_BYTES_MAX).ok()?;
        serde_json::from_slice::<ProcessId>(&text).ok()
    };
    is_dir() && owner().is_some_and(|owner| !owner.is_alive())
}

fn remove_scratch(outer: &Path) -> Result<()> {
    remove(&outer.join(GIVEN))?;
    remove_tree(outer).with_context(|| format!("remove `{}`", outer.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_given_directory_is_removed_without_what_its_links_name() {
        let account = Account::choose().unwrap();
        let base = tempfile::tempdir().unwrap();
        fs::write(base.path().join("precious"), "kept").unwrap();
        let scratch = ScratchDir::make(base.path(), "t-", &account).unwrap();
        let (outer, given) = (scratch.outer.clone(), scratch.given.clone());
        symlink(base.path(), given.join("link")).unwrap();
        fs::create_dir(given.join("dir")).unwrap();
        account.own(&given.join("dir")).unwrap();
        symlink(base.path().join("precious"), given.join("dir/link")).unwrap();
        assert!(!is_abandoned(&outer), "its owner is still running");
        drop(scratch);
        assert!(!outer.exists());
        assert!(base.path().join("precious").exists());
    }

    #[test]
    fn only_our_directories_of_dead_processes_are_swept() {
        let account = Account::choose().unwrap();
        let base = tempfile::tempdir().unwrap();
        let scratch = ScratchDir::make(base.path(), "t-", &account).unwrap();
        assert_eq!(sweep(base.path(), "t-"), Vec::<Swept>::new());
        let dead = ProcessId { start_ticks: 1, ..ProcessId::current() };
        let owner = scratch.outer.join(OWNER_FILE);
        fs::write(&owner, serde_json::to_vec(&dead).unwrap()).unwrap();
        assert_eq!(sweep(base.path(), "u-"), Vec::<Swept>::new());
        assert_eq!(Swept::removed(sweep(base.path(), "t-")), std::slice::from_ref(&scratch.outer));
        assert!(!scratch.outer.exists());
        let planted = base.path().join("t-planted");
        fs::create_dir(&planted).unwrap();
        nix::unistd::mkfifo(&planted.join(OWNER_FILE), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(sweep(base.path(), "t-"), Vec::<Swept>::new(), "a pipe is not waited for");
    }
}
