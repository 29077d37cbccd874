//! The directory of a server's unix socket: short enough for the kernel, closed to other users, removed with the
//! server.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, ensure};
use files::trust;
use nix::unistd::geteuid;

use crate::swept::Swept;
use crate::user::account::Account;
use crate::user::given::{self, ScratchDir};

/// Longest path of a unix socket (`sun_path` without its final zero byte).
const SOCKET_PATH_BYTES_MAX: usize = 107;
/// The port in the name of a socket's file; each has a directory of its own.
pub(crate) const SOCKET_PORT: u16 = 5432;
/// Prefix of the names of all temporary directories that are swept.
pub(crate) const NAME_BEGIN: &str = "pgdyno-";

/// A directory for sockets that is removed when dropped.
#[derive(Debug)]
pub(crate) struct SocketDir {
    pub(crate) path: PathBuf,
    scratch: ScratchDir,
}

impl SocketDir {
    /// Makes a directory that only `account` (and root) can enter.
    pub(crate) fn create(account: &Account) -> Result<SocketDir> {
        let is_short = |base: &Path| {
            let longest = ScratchDir::longest_path(base, NAME_BEGIN).join(socket_file(u16::MAX));
            ensure!(longest.as_os_str().len() <= SOCKET_PATH_BYTES_MAX, "it is too long");
            Ok(())
        };
        let scratch = scratch_where(account, is_short).map_err(|tried| {
            anyhow!("no place for the server's socket: {tried}; set TMPDIR to a short writable path")
        })?;
        Ok(SocketDir { path: scratch.given.clone(), scratch })
    }

    /// The directory around it, where only this process's user can change anything.
    pub(crate) fn outer(&self) -> &Path {
        &self.scratch.outer
    }
}

/// Name of the socket's file of a server with this port.
pub(crate) fn socket_file(port: u16) -> String {
    format!(".s.PGSQL.{port}")
}

/// A temporary directory with one of `account` in it, where that user can reach it: the directory for temporary files may be
/// closed to all others.
///
/// # Errors
/// When there is no such place.
pub(crate) fn scratch(account: &Account) -> Result<ScratchDir> {
    scratch_where(account, |_| Ok(()))
        .map_err(|tried| anyhow!("no place for temporary files: {tried}; set TMPDIR to a writable path"))
}

/// Made in the first place that `fits`; the error lists those that were tried.
fn scratch_where(account: &Account, fits: impl Fn(&Path) -> Result<()>) -> Result<ScratchDir, String> {
    let mut tried = Vec::new();
    for base in bases(account) {
        let made = trust::check_place(&base).and_then(|base| {
            fits(&base)?;
            ScratchDir::make(&base, NAME_BEGIN, account)
        });
        match made {
            Ok(scratch) => return Ok(scratch),
            Err(error) => tried.push(format!("`{}`: {error:#}", base.display())),
        }
    }
    Err(tried.join(", "))
}

/// Removes socket directories, and those in which settings were tried, that a pgdyno left behind;
/// returns them.
pub fn sweep_sockets() -> Vec<Swept> {
    let Ok(account) = Account::choose() else { return Vec::new() };
    bases(&account).iter().flat_map(|base| given::sweep(base, NAME_BEGIN)).collect()
}

fn bases(account: &Account) -> Vec<PathBuf> {
    let mut bases = Vec::new();
    if !account.is_switched && !geteuid().is_root() {
        bases.extend(env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_dir()));
    }
    for base in [env::temp_dir(), PathBuf::from("/tmp")] {
        if !bases.contains(&base) && base.is_absolute() && account.check_reach(&base.join(".")).is_ok() {
            bases.push(base);
        }
    }
    bases
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_socket_directory_is_short_closed_and_gone_when_dropped() {
        let account = Account::choose().unwrap();
        let dir = SocketDir::create(&account).unwrap();
        let path = dir.path.clone();
        let facts = fs::metadata(&path).unwrap();
        assert_eq!((facts.mode() & 0o777, facts.uid()), (0o700, account.uid));
        let outer = fs::metadata(path.parent().unwrap()).unwrap();
        assert_eq!((outer.mode() & 0o022, outer.uid()), (0, geteuid().as_raw()));
        assert!(path.join(socket_file(u16::MAX)).as_os_str().len() <= SOCKET_PATH_BYTES_MAX);
        drop(dir);
        assert!(!path.parent().unwrap().exists());
    }
}
