//! The user that PostgreSQL runs as. PostgreSQL refuses to run as root, so root's tests switch to another user.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::statvfs::statvfs;
use nix::unistd::{User, chown, geteuid};
use tempfile::TempDir;

/// Users that may run the server for root; the first one that exists does.
const USERS: [&str; 2] = ["postgres", "nobody"];

/// A dozen servers with a gigabyte of WAL each; containers often have 64 MB.
const ROOM_BYTES: u64 = 12 << 30;

/// A temporary directory far from those of other tests on the disk; it goes when this is dropped.
///
/// ext4 without a journal does not use the entry of a removed file again for a minute, and looks at each of them for every new
/// file. It puts directories next to the one that they are in, so that the files of all clusters in /tmp would be in one table:
/// to copy a cluster took half a second of a processor, and takes a twentieth of it here. Directories in one that is marked as the
/// top of a hierarchy (`chattr +T`) are put wherever their name falls.
#[derive(Debug)]
pub struct Apart {
    path: PathBuf,
    /// With nothing in it but `path`.
    _outer: TempDir,
}

impl Apart {
    /// A directory that everybody can enter, below one in `parent` whose name begins with `prefix`.
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    pub fn make(parent: &Path, prefix: &str) -> Apart {
        let outer = tempfile::Builder::new().prefix(prefix).tempdir_in(parent).unwrap();
        // Other file systems know no such mark, and need none.
        let _ = Command::new("chattr").arg("+T").arg(outer.path()).stderr(Stdio::null()).status();
        let name = outer.path().file_name().unwrap().to_string_lossy().into_owned();
        // As short as a name can be that falls elsewhere: that of a unix socket may have only 107 bytes.
        let path = outer.path().join(&name[prefix.len()..]);
        fs::create_dir(&path).unwrap();
        for dir in [outer.path(), &path] {
            fs::set_permissions(dir, Permissions::from_mode(0o755)).unwrap();
        }
        Apart { path, _outer: outer }
    }

    /// The directory that is apart.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// A temporary directory that the server's user can enter.
///
/// # Panics
/// If it cannot be made.
#[must_use]
pub fn place() -> Apart {
    // Not in TMPDIR: the name of a unix socket may have only 107 bytes.
    place_in(Path::new("/tmp"))
}

/// The same in memory; `None` where there is too little room for the servers of tests that run at the same time.
pub(crate) fn place_in_memory() -> Option<Apart> {
    let memory = Path::new("/dev/shm");
    let facts = statvfs(memory).ok()?;
    let free_bytes = facts.blocks_available() * facts.fragment_size();
    (free_bytes >= ROOM_BYTES).then(|| place_in(memory))
}

fn place_in(parent: &Path) -> Apart {
    Apart::make(parent, "pgdyno-test-")
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
