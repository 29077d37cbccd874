//! The user that PostgreSQL runs as. PostgreSQL refuses to run as root, so root's tests switch to another user.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::{User, chown, geteuid};
use tempfile::TempDir;

/// Users that may run the server for root; the first one that exists does.
const USERS: [&str; 2] = ["postgres", "nobody"];

/// A dozen servers with a gigabyte of WAL each; containers often have 64 MB.
const ROOM_BYTES: u64 = 12 << 30;

/// Before the names of directories of servers.
const PREFIX: &str = "pgdyno-test-";

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

    /// The same in memory, below `PGDYNO_TEST_MEMORY` if that is set; `None` where there is too little room for the servers of tests
    /// that run at the same time, or where nothing can be executed.
    #[must_use]
    pub fn in_memory(prefix: &str) -> Option<Apart> {
        let memory = PathBuf::from(std::env::var_os("PGDYNO_TEST_MEMORY").unwrap_or("/dev/shm".into()));
        let facts = statvfs(&memory).ok()?;
        let free_bytes = facts.blocks_available() * facts.fragment_size();
        let is_usable = free_bytes >= ROOM_BYTES && !facts.flags().contains(FsFlags::ST_NOEXEC);
        is_usable.then(|| Apart::make(&memory, prefix))
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
    Apart::make(Path::new("/tmp"), PREFIX)
}

/// The same in memory, if there is room.
pub(crate) fn place_in_memory() -> Apart {
    Apart::in_memory(PREFIX).unwrap_or_else(place)
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
