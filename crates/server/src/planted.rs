//! Files in directories of the server's user, who could plant a link or a pipe there: as root, we would read or
//! overwrite what only root may. Not for directories of our own.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Opens a regular file to read.
///
/// # Errors
/// As [`files::open`].
pub fn open(path: &Path) -> io::Result<File> {
    files::open(path)
}

/// The whole of a regular file.
///
/// # Errors
/// As [`files::open`].
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Copies a regular file `from` such a directory to `to`, which is ours. Returns the bytes copied.
///
/// # Errors
/// As [`files::open`], or when `to` cannot be written.
pub fn copy(from: &Path, to: &Path) -> io::Result<u64> {
    let mut from = open(from)?;
    io::copy(&mut from, &mut files::create(to, 0o600)?)
}

/// A new file, readable by us only, in the place of what was there.
///
/// # Errors
/// As [`files::create`].
pub(crate) fn create(path: &Path) -> io::Result<File> {
    files::create(path, 0o600)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_neither_copied_nor_written_through() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("secret"), "for root").unwrap();
        symlink(path("secret"), path("link")).unwrap();
        assert!(copy(&path("link"), &path("copy")).is_err() && !path("copy").exists());
        fs::write(path("log"), "words").unwrap();
        assert_eq!(copy(&path("log"), &path("link")).unwrap(), 5);
        assert_eq!(read(&path("secret")).unwrap(), b"for root");
    }
}
