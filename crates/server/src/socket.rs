//! The directory of a server's unix socket: short enough for the kernel, closed to others, gone with the server.

use std::env;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use nix::unistd::geteuid;

use crate::account::Account;
use crate::names::random_hex;
use crate::process::ProcessId;

/// Longest path of a unix socket (`sun_path` without its final zero byte).
const SOCKET_PATH_BYTES_MAX: usize = 107;
/// Name of the longest socket file.
const SOCKET_FILE: &str = ".s.PGSQL.65535";
const NAME_BEGIN: &str = "pgdyno-";
/// Names the process whose server uses the directory.
pub(crate) const OWNER_FILE: &str = "owner.json";

/// A directory for sockets that is removed when dropped.
#[derive(Debug)]
pub(crate) struct SocketDir {
    pub(crate) path: PathBuf,
}

impl SocketDir {
    /// Makes a directory that only `account` (and root) can enter.
    pub(crate) fn create(account: &Account) -> Result<SocketDir> {
        let mut tried = Vec::new();
        for base in bases(account) {
            let path = base.join(format!("{NAME_BEGIN}{}", random_hex(6)?));
            if path.join(SOCKET_FILE).as_os_str().len() > SOCKET_PATH_BYTES_MAX {
                tried.push(format!("`{}` is too long", base.display()));
                continue;
            }
            if let Err(error) = fs::create_dir(&path) {
                tried.push(format!("`{}`: {error}", base.display()));
                continue;
            }
            let dir = SocketDir { path };
            fs::set_permissions(&dir.path, Permissions::from_mode(0o700))
                .with_context(|| format!("close `{}` to others", dir.path.display()))?;
            fs::write(dir.path.join(OWNER_FILE), serde_json::to_vec(&ProcessId::current())?)
                .with_context(|| format!("write into `{}`", dir.path.display()))?;
            account.own(&dir.path)?;
            return Ok(dir);
        }
        bail!("no place for the server's socket: {}; set TMPDIR to a short writable path", tried.join(", "))
    }
}

impl Drop for SocketDir {
    fn drop(&mut self) {
        // What cannot be removed now is found by `sweep_sockets` later.
        fs::remove_dir_all(&self.path).ok();
    }
}

/// Removes directories of sockets, and those in which settings were tried, whose pgdyno has ended without doing so;
/// returns them.
pub fn sweep_sockets() -> Vec<PathBuf> {
    let Ok(account) = Account::choose() else { return Vec::new() };
    let mut swept = Vec::new();
    for base in bases(&account) {
        let Ok(entries) = fs::read_dir(&base) else { continue };
        let ours = entries.flatten().map(|entry| entry.path()).filter(|path| is_abandoned(path, &account));
        swept.extend(ours.filter(|path| fs::remove_dir_all(path).is_ok()));
    }
    swept
}

fn is_abandoned(path: &Path, account: &Account) -> bool {
    let is_named = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(NAME_BEGIN));
    // Anyone can make such a name in /tmp: only directories of the server's user count.
    let is_ours =
        || fs::symlink_metadata(path).is_ok_and(|facts| facts.is_dir() && facts.uid() == account.uid);
    let owner = || serde_json::from_slice::<ProcessId>(&fs::read(path.join(OWNER_FILE)).ok()?).ok();
    is_named && is_ours() && owner().is_some_and(|owner| !owner.is_alive())
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
    use super::*;

    #[test]
    fn a_socket_directory_is_short_closed_and_gone_when_dropped() {
        let account = Account::choose().unwrap();
        let dir = SocketDir::create(&account).unwrap();
        let path = dir.path.clone();
        let facts = fs::metadata(&path).unwrap();
        assert_eq!((facts.mode() & 0o777, facts.uid()), (0o700, account.uid));
        assert!(path.join(SOCKET_FILE).as_os_str().len() <= SOCKET_PATH_BYTES_MAX);
        assert!(!is_abandoned(&path, &account), "its owner lives");
        let dead = ProcessId { start_ticks: 1, ..ProcessId::current() };
        fs::write(path.join(OWNER_FILE), serde_json::to_vec(&dead).unwrap()).unwrap();
        assert!(is_abandoned(&path, &account));
        drop(dir);
        assert!(!path.exists());
    }
}
