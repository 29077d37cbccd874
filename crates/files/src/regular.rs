//! Regular files in a directory where somebody may have put a link, a pipe or a device in their place: running as root,
//! we would read or overwrite files that only root may access.
//!
//! Only the last component of a path is guarded here; the directory itself has to be where nobody else can replace it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::OFlag;
use nix::unistd::geteuid;

/// Opens a regular file for reading.
///
/// # Errors
/// I/O errors, and when it is a symbolic link or not a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    open_with(path, OpenOptions::new().read(true))
}

/// Opens a regular file with `options`; flags set earlier by `custom_flags` are lost.
///
/// # Errors
/// As [`open`].
pub fn open_with(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    // O_NONBLOCK: opening a pipe without a writer would block forever. It has no effect on regular files.
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = options.custom_flags(flags.bits()).open(path).map_err(|error| explained(path, error))?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(not_regular()) }
}

/// Reads a regular file of at most `bytes_max` bytes.
///
/// # Errors
/// As [`open`], and when the file is longer.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    read_bounded(open(path)?, bytes_max)
}

pub(crate) fn read_bounded(file: File, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let n_bytes = file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if n_bytes as u64 <= bytes_max { Ok(bytes) } else { Err(too_long(bytes_max)) }
}

pub(crate) fn too_long(bytes_max: u64) -> io::Error {
    io::Error::new(ErrorKind::FileTooLarge, format!("it is longer than {bytes_max} bytes"))
}

/// Creates a file where there is nothing, not even a dangling link.
pub fn create_new(path: &Path, mode: u32) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(mode).open(path)
}

/// Creates a file in place of an existing one; the target of a link stays as it is.
pub fn create(path: &Path, mode: u32) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        // Fails if somebody has put something there in the meantime.
        _ => create_new(path, mode),
    }
}

/// Opens a file for locking and writing, and creates it if it does not exist. Its contents stay. Other users cannot
/// open it, and so cannot hold its lock.
///
/// # Errors
/// As [`open`], and when the file belongs to another user or has a second hard link: writing would change a foreign
/// file.
pub fn lock_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = open_with(path, options.read(true).write(true).create(true).truncate(false).mode(0o600))?;
    let facts = file.metadata()?;
    if ![geteuid().as_raw(), 0].contains(&facts.uid()) {
        let reason = format!("it belongs to user id {}, who may have planted it; remove it", facts.uid());
        return Err(io::Error::new(ErrorKind::PermissionDenied, reason));
    }
    if facts.nlink() > 1 {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is a hard link of another file; remove it"));
    }
    Ok(file)
}

/// The system reports a link as "too many levels of symbolic links", and a pipe without a reader as "no such device".
fn explained(path: &Path, error: io::Error) -> io::Error {
    match fs::symlink_metadata(path).map(|facts| facts.file_type()) {
        Ok(kind) if kind.is_symlink() => {
            io::Error::new(ErrorKind::InvalidInput, "it is a symbolic link, which is not followed here")
        }
        Ok(kind) if !kind.is_file() && !kind.is_dir() => not_regular(),
        _ => error,
    }
}

fn not_regular() -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, "it is not a regular file")
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::{chown, symlink};

    use super::*;

    #[test]
    fn links_are_not_followed_and_pipes_do_not_block() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("secret"), "for root").unwrap();
        symlink(path("secret"), path("link")).unwrap();
        symlink(path("made"), path("nowhere")).unwrap();
        nix::unistd::mkfifo(&path("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        for (name, expected) in [("link", "symbolic link"), ("pipe", "not a regular file"), (".", "")] {
            let refused = |result: io::Result<()>| {
                let words = result.unwrap_err().to_string();
                assert!(words.contains(expected), "{name}: {words}");
            };
            refused(read(&path(name), 100).map(drop));
            refused(lock_file(&path(name)).map(drop));
            refused(open_with(&path(name), OpenOptions::new().append(true)).map(drop));
        }
        assert!(lock_file(&path("nowhere")).is_err() && !path("made").exists());
        assert!(create_new(&path("nowhere"), 0o600).is_err() && !path("made").exists());

        create(&path("link"), 0o600).unwrap().write_all(b"new").unwrap();
        assert_eq!(read(&path("link"), 100).unwrap(), b"new");
        assert_eq!(fs::read(path("secret")).unwrap(), b"for root", "what the link named is untouched");
    }

    #[test]
    fn a_file_is_read_up_to_a_bound() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "12345").unwrap();
        assert_eq!(read(&path, 5).unwrap(), b"12345");
        let refused = read(&path, 4).unwrap_err().to_string();
        assert!(refused.contains("longer than 4 bytes"), "{refused}");
    }

    #[test]
    fn a_lock_file_keeps_its_contents_and_no_other_user_can_open_it() {
        let dir = tempfile::tempdir().unwrap();
        let (lock, victim) = (dir.path().join("lock"), dir.path().join("victim"));
        fs::write(&lock, "pid 1").unwrap();
        drop(lock_file(&lock).unwrap());
        assert_eq!(fs::read(&lock).unwrap(), b"pid 1");
        fs::write(&victim, "mine").unwrap();
        fs::remove_file(&lock).unwrap();
        fs::hard_link(&victim, &lock).unwrap();
        assert!(lock_file(&lock).unwrap_err().to_string().contains("hard link"));
        if geteuid().is_root() {
            fs::remove_file(&victim).unwrap();
            chown(&lock, Some(65_534), None).unwrap();
            assert!(lock_file(&lock).unwrap_err().to_string().contains("belongs to user id 65534"));
        }
    }
}
