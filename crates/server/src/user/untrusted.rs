//! Files in directories of the server's user, who could put a link or a pipe there: as root, we would read or
//! overwrite files that are root's alone. Not for our own directories.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// Opens a regular file to read.
///
/// # Errors
/// As [`files::open`].
pub fn open(path: &Path) -> io::Result<File> {
    files::open(path)
}

/// Most bytes that are read of a program's output.
pub(crate) const OUTPUT_BYTES_MAX: u64 = 16 << 20;

/// The output of a program, or its end if it is very long: its writer can make it as long as it likes.
///
/// # Errors
/// As [`files::open`].
pub(crate) fn read_output(path: &Path) -> io::Result<String> {
    read_end(open(path)?)
}

/// As [`read_output`], of an open file.
///
/// # Errors
/// I/O errors.
pub(crate) fn read_end(mut file: File) -> io::Result<String> {
    file.seek(SeekFrom::Start(file.metadata()?.len().saturating_sub(OUTPUT_BYTES_MAX)))?;
    let mut bytes = Vec::new();
    file.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Copies a regular file `from` such a directory to `to`, in one of our directories. Returns the bytes copied.
///
/// # Errors
/// As [`files::open`], or when `to` cannot be written.
pub fn copy(from: &Path, to: &Path) -> io::Result<u64> {
    let mut from = open(from)?;
    io::copy(&mut from, &mut files::create(to, 0o600)?)
}

/// A new file that only we can read, which replaces what was there.
///
/// # Errors
/// As [`files::create`].
pub(crate) fn create(path: &Path) -> io::Result<File> {
    files::create(path, 0o600)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
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
        assert_eq!(fs::read(path("secret")).unwrap(), b"for root");
    }

    #[test]
    fn only_the_end_of_very_long_output_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        fs::write(&path, "LOG:  ready\n").unwrap();
        assert_eq!(read_output(&path).unwrap(), "LOG:  ready\n");
        // A sparse file, which any process that has the log open can make.
        let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.set_len(1 << 40).unwrap();
        file.write_all(b"FATAL:  end\n").unwrap();
        let said = read_output(&path).unwrap();
        assert!(said.len() as u64 == OUTPUT_BYTES_MAX && said.ends_with("FATAL:  end\n"));
    }
}
