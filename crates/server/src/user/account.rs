//! The user that a server runs as.
//!
//! PostgreSQL refuses to run as root. When pgdyno is root, the server runs as `$PGDYNO_SERVER_USER` if set, else as
//! `postgres` if that user exists, else as `nobody`; otherwise as the user that runs pgdyno. `nobody` is the last
//! choice because other daemons may share it: data in a cluster is then readable by them.
//! Only directories that pgdyno made itself are given to that user, and root touches what is in them with that user's
//! rights only.

use std::env;
use std::fs;
use std::os::unix::fs::{MetadataExt, lchown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use nix::unistd::{Uid, User, getegid, geteuid};

/// A user of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Name in the password database.
    pub name: String,
    /// User id.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
    /// Whether children must be switched to this user, because we are root.
    pub is_switched: bool,
}

impl Account {
    /// The user that servers run as, chosen as described at the top of this file.
    pub fn choose() -> Result<Account> {
        let euid = geteuid();
        if !euid.is_root() {
            let user = User::from_uid(euid).ok().flatten().with_context(|| {
                format!(
                    "user id {euid} has no name in the password database, which PostgreSQL requires; add one"
                )
            })?;
            return Ok(Account::new(user, false));
        }
        if let Some(name) = env::var_os("PGDYNO_SERVER_USER") {
            let name = name.to_string_lossy().into_owned();
            let user = User::from_name(&name).ok().flatten();
            let user =
                user.with_context(|| format!("PGDYNO_SERVER_USER names `{name}`, which does not exist"))?;
            ensure!(
                user.uid != Uid::from_raw(0),
                "PGDYNO_SERVER_USER is root; PostgreSQL refuses to run as root"
            );
            return Ok(Account::new(user, true));
        }
        for name in ["postgres", "nobody"] {
            if let Ok(Some(user)) = User::from_name(name) {
                return Ok(Account::new(user, true));
            }
        }
        bail!(
            "PostgreSQL refuses to run as root, and neither user `postgres` nor `nobody` exists; \
             run pgdyno as another user or set PGDYNO_SERVER_USER"
        )
    }

    /// The user of this process.
    pub(crate) fn ourselves() -> Account {
        let euid = geteuid();
        let user = User::from_uid(euid).ok().flatten();
        let name = user.map_or(format!("#{euid}"), |user| user.name);
        Account { name, uid: euid.as_raw(), gid: getegid().as_raw(), is_switched: false }
    }

    /// The user who owns `dir`. Where others could replace it, only that user's rights may be used there.
    ///
    /// # Errors
    /// When there is no such directory.
    pub fn of_owner(dir: &Path) -> Result<Account> {
        let facts = fs::symlink_metadata(dir).with_context(|| format!("read `{}`", dir.display()))?;
        ensure!(facts.is_dir(), "`{}` is not a directory", dir.display());
        let is_switched = geteuid().is_root() && facts.uid() != 0;
        let user = User::from_uid(Uid::from_raw(facts.uid())).ok().flatten();
        let name = user.map_or(format!("#{}", facts.uid()), |user| user.name);
        Ok(Account { name, uid: facts.uid(), gid: facts.gid(), is_switched })
    }

    fn new(user: User, is_switched: bool) -> Account {
        Account { name: user.name, uid: user.uid.as_raw(), gid: user.gid.as_raw(), is_switched }
    }

    /// Makes this user the owner of `path`, which pgdyno created.
    pub fn own(&self, path: &Path) -> Result<()> {
        if self.is_switched {
            lchown(path, Some(self.uid), Some(self.gid))
                .with_context(|| format!("give `{}` to user `{}`", path.display(), self.name))?;
        }
        Ok(())
    }

    /// Makes `command` run as this user, without our supplementary groups.
    pub(crate) fn apply(&self, command: &mut Command) {
        if self.is_switched {
            command.gid(self.gid).uid(self.uid);
        }
    }

    /// Checks that this user can reach `path`: the user must be able to pass every directory above it.
    pub fn check_reach(&self, path: &Path) -> Result<()> {
        if !self.is_switched {
            return Ok(());
        }
        let path = path.canonicalize().with_context(|| format!("cannot find `{}`", path.display()))?;
        for dir in path.ancestors().skip(1) {
            let facts = fs::metadata(dir).with_context(|| format!("cannot read `{}`", dir.display()))?;
            let bit = if facts.uid() == self.uid {
                0o100
            } else if facts.gid() == self.gid {
                0o010
            } else {
                0o001
            };
            ensure!(
                facts.mode() & bit != 0,
                "user `{}`, which runs the server, cannot reach `{}` because `{}` is closed to it; \
                 use another directory (PGDYNO_CACHE sets the one of the cache)",
                self.name,
                path.display(),
                dir.display()
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_closed_directory_above_is_named() {
        let outer = tempfile::tempdir().unwrap();
        let closed = outer.path().join("closed");
        let inner = closed.join("inner");
        fs::create_dir_all(&inner).unwrap();
        let stranger = Account { name: "stranger".into(), uid: 54_321, gid: 54_321, is_switched: true };
        let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        set(outer.path(), 0o755);
        set(&closed, 0o755);
        stranger.check_reach(&inner).unwrap();
        set(&closed, 0o700);
        let text = format!("{:#}", stranger.check_reach(&inner).unwrap_err());
        assert!(text.contains("user `stranger`") && text.contains("closed` is closed to it"), "{text}");
        Account { is_switched: false, ..stranger }.check_reach(&inner).unwrap();
    }

    #[test]
    fn the_chosen_user_is_never_root() {
        let account = Account::choose().unwrap();
        assert_ne!(account.uid, 0);
        assert_eq!(account.is_switched, geteuid().is_root());
    }
}
