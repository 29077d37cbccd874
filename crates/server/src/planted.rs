//! Open files in directories of the server's user, who could plant a link or a pipe there: as root, we would read or
//! overwrite what only root may. Not for directories of our own.
//!
//! Only the last part of a path is guarded; the directory itself must lie where that user cannot replace it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::fcntl::OFlag;

/// Opens a regular file to read.
///
/// # Errors
/// As the system says, also for a link, and when it is anything but a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    // O_NONBLOCK: opening a pipe that nobody writes would wait for ever. A regular file does not care.
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
    }
}

/// The whole of a regular file.
///
/// # Errors
/// As [`open`].
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Copies a regular file `from` such a directory to `to`, which is ours. Returns the bytes copied.
///
/// # Errors
/// As [`open`], or when `to` cannot be written.
pub fn copy(from: &Path, to: &Path) -> io::Result<u64> {
    let mut from = open(from)?;
    io::copy(&mut from, &mut File::create(to)?)
}

/// A new file, readable by us only, in the place of what was there.
///
/// # Errors
/// As the system says.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // Fails when something was put there meanwhile.
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_and_pipes_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("secret"), "for root").unwrap();
        symlink(path("secret"), path("link")).unwrap();
        nix::unistd::mkfifo(&path("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        for name in ["link", "pipe", "none", "."] {
            assert!(read(&path(name)).is_err(), "{name}");
            assert!(copy(&path(name), &path("copy")).is_err(), "{name}");
        }
        assert!(!path("copy").exists());
        assert_eq!(copy(&path("secret"), &path("copy")).unwrap(), 8);

        create(&path("link")).unwrap().write_all(b"new").unwrap();
        assert_eq!(read(&path("link")).unwrap(), b"new");
        assert_eq!(read(&path("secret")).unwrap(), b"for root", "what the link named is untouched");
    }
}
