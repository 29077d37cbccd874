//! Writes files so that a crash or a full disk never loses what was already written.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use model::secret::hide_json;
use serde::Serialize;

/// Writes a whole file, readable only by this user. A reader sees the old contents or the new ones, never a part of
/// them, even after a power failure.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    files::replace(path, files::PRIVATE, bytes).with_context(|| format!("cannot write `{}`", path.display()))
}

/// zstd level: most of the compression at a fraction of the CPU time of higher levels.
const ZSTD_LEVEL: i32 = 3;

/// As [`write_whole`], with what `write` writes, compressed.
pub(crate) fn write_compressed(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    files::replace_by(path, files::PRIVATE, |file| {
        let mut encoder = zstd::Encoder::new(file, ZSTD_LEVEL)?;
        encoder.include_checksum(true)?;
        write(&mut encoder)?;
        encoder.finish()
    })
}

/// Replaces `path` by a record as JSON, with secrets masked.
pub(crate) fn write_record<T: Serialize>(path: &Path, record: &T) -> Result<()> {
    let text = record_text(record).with_context(|| format!("cannot write `{}`", path.display()))?;
    write_whole(path, text.as_bytes())
}

/// A record as JSON, with secrets masked.
pub(crate) fn record_text<T: Serialize>(record: &T) -> serde_json::Result<String> {
    Ok(hide_json(&serde_json::to_string_pretty(record)?).into_owned())
}

/// A file to which complete lines are appended, each with one write. Nothing is buffered in memory, and nothing is
/// forced to disk before `sync`, because that would disturb the device under test.
#[derive(Debug)]
pub(crate) struct LineFile {
    path: PathBuf,
    file: File,
    /// Length up to the last complete line.
    length: u64,
    /// The file ends with a part of a line that could not be removed.
    torn: bool,
}

impl LineFile {
    /// Opens a file for appending, and creates it if it does not exist.
    pub(crate) fn open(path: &Path) -> Result<LineFile> {
        let open = || -> io::Result<LineFile> {
            let mut options = OpenOptions::new();
            options.append(true).create(true).mode(files::PRIVATE);
            let file = files::open_with(path, &mut options)?;
            let length = file.metadata()?.len();
            Ok(LineFile { path: path.to_path_buf(), file, length, torn: false })
        };
        open().with_context(|| format!("cannot write `{}`", path.display()))
    }

    /// Appends a value as one line of JSON, with secrets masked.
    pub(crate) fn append_json<T: Serialize>(&mut self, value: &T) -> Result<()> {
        let line = serde_json::to_string(value)
            .with_context(|| format!("cannot write a line of `{}`", self.path.display()))?;
        self.append(format!("{}\n", hide_json(&line)).as_bytes())
    }

    /// Appends complete lines, passed with their line ends. After an error (disk full) the file again ends with the
    /// last complete line, so that a later success leaves no damage.
    pub(crate) fn append(&mut self, lines: &[u8]) -> Result<()> {
        self.append_io(lines).with_context(|| format!("cannot write `{}`", self.path.display()))
    }

    fn append_io(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.torn {
            // The torn line cannot be removed; a line end keeps it from joining the next one.
            self.file.write_all(b"\n")?;
            self.torn = false;
            self.length = self.file.metadata()?.len();
        }
        match self.file.write_all(lines) {
            Ok(()) => {
                self.length += lines.len() as u64;
                Ok(())
            }
            Err(error) => {
                self.torn = self.file.set_len(self.length).is_err();
                Err(error)
            }
        }
    }

    /// A file on a full device.
    #[cfg(test)]
    pub(crate) fn full() -> LineFile {
        let path = PathBuf::from("/dev/full");
        let file = OpenOptions::new().append(true).open(&path).expect("Linux has /dev/full");
        LineFile { path, file, length: 0, torn: false }
    }

    /// Forces the appended lines to disk.
    pub(crate) fn sync(&self) -> Result<()> {
        self.file.sync_all().with_context(|| format!("cannot write `{}` to disk", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_an_error_that_names_the_file_and_the_reason() {
        let mut file = LineFile::full();
        let error = format!("{:#}", file.append_json(&1).unwrap_err());
        assert!(error.contains("`/dev/full`") && error.contains("No space left"), "{error}");
        assert!(file.append(b"2\n").is_err(), "a second write fails as well");
    }

    #[test]
    fn lines_are_in_the_file_as_soon_as_they_are_appended() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.jsonl");
        let mut file = LineFile::open(&path).unwrap();
        file.append_json(&"a").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"\"a\"\n");
        file.append_json(&2).unwrap();
        drop(file);
        LineFile::open(&path).unwrap().append(b"3\n").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"\"a\"\n2\n3\n");
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_and_no_temporary_file_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.json");
        write_whole(&path, b"old").unwrap();
        write_whole(&path, b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
