//! The user that PostgreSQL runs as. PostgreSQL refuses to run as root, so root's tests switch to another user.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use nix::sys::statvfs::statvfs;
use nix::unistd::{User, chown, geteuid};

/// Users that may run the server for root; the first one that exists does.
const USERS: [&str; 2] = ["postgres", "nobody"];

/// A dozen servers with a gigabyte of WAL each; containers often have 64 MB.
const ROOM_BYTES: u64 = 12 << 30;

/// A temporary directory that the server's user can enter.
///
/// # Panics
/// If it cannot be made.
#[must_use]
pub fn place() -> tempfile::TempDir {
    // Not in TMPDIR: the name of a unix socket may have only 107 bytes.
    place_in(Path::new("/tmp"))
}

/// The same in memory; `None` where there is too little room for the servers of tests that run at the same time.
pub(crate) fn place_in_memory() -> Option<tempfile::TempDir> {
    let memory = Path::new("/dev/shm");
    let facts = statvfs(memory).ok()?;
    let free_bytes = facts.blocks_available() * facts.fragment_size();
    (free_bytes >= ROOM_BYTES).then(|| place_in(memory))
}

fn place_in(parent: &Path) -> tempfile::TempDir {
    let dir = tempfile::Builder::new().prefix("pgdyno-test-").tempdir_in(parent).unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    dir
}

/// Lets `command` run as the server's user if we are root.
pub fn as_server_user(command: &mut Command) -> &mut Command {
    if let Some(user) = server_user() {
        command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
    }
    command
}

/// Makes the server's user the owner of `path` if we are root.
pub(crate) fn give_to_server_user(path: &Path) {
    if let Some(user) = server_user() {
        chown(path, Some(user.uid), Some(user.gid)).unwrap();
    }
}

/// The other user, if we are root.
pub(crate) fn server_user() -> Option<User> {
    if !geteuid().is_root() {
        return None;
    }
    let user = USERS.iter().find_map(|name| User::from_name(name).unwrap());
    Some(user.expect("no user `postgres`; `./check` installs PostgreSQL"))
}
