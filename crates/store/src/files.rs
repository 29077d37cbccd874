//! Writing files so that a crash or a full disk never costs what was already written. Not for reading.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;

/// Writes a whole file: a reader sees the former content or the new one, never a part of it, also
/// after a power failure.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    write_whole_io(path, bytes).with_context(|| format!("cannot write `{}`", path.display()))
}

fn write_whole_io(path: &Path, bytes: &[u8]) -> io::Result<()> {
    in_place_of(path, |mut file| {
        file.write_all(bytes)?;
        Ok(file)
    })
}

/// Puts what `write` writes into a file in place of `path`, once it is whole and on disk. What could not be written is
/// removed: on a full device it would be in the way of everything else.
pub(crate) fn in_place_of(path: &Path, write: impl FnOnce(File) -> io::Result<File>) -> io::Result<()> {
    let temporary = temporary_name(path);
    File::create(&temporary)
        .and_then(write)
        .and_then(|file| file.sync_all())
        .and_then(|()| std::fs::rename(&temporary, path))
        .inspect_err(|_| drop(std::fs::remove_file(&temporary)))?;
    sync_parent(path)
}

/// Where a file is written before it takes its name.
pub(crate) fn temporary_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    PathBuf::from(name)
}

/// Makes a new, renamed or removed name in the directory of `path` survive a power failure.
pub(crate) fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent)?.sync_all()
}

/// A file to which whole lines are appended, each with one write: nothing waits in memory, and
/// nothing is forced to disk before `sync`, because that would disturb the device under test.
#[derive(Debug)]
pub(crate) struct LineFile {
    path: PathBuf,
    file: File,
    /// Length up to the last whole line.
    length: u64,
    /// A part of a line is in the file and could not be taken back.
    torn: bool,
}

impl LineFile {
    /// Opens a file for appending, and makes it if there is none.
    pub(crate) fn open(path: &Path) -> Result<LineFile> {
        let open = || -> io::Result<LineFile> {
            let file = OpenOptions::new().append(true).create(true).open(path)?;
            let length = file.metadata()?.len();
            Ok(LineFile { path: path.to_path_buf(), file, length, torn: false })
        };
        open().with_context(|| format!("cannot write `{}`", path.display()))
    }

    /// Appends a value as one line of JSON.
    pub(crate) fn append_json<T: Serialize>(&mut self, value: &T) -> Result<()> {
        let mut line = serde_json::to_vec(value)
            .with_context(|| format!("cannot write a line of `{}`", self.path.display()))?;
        line.push(b'\n');
        self.append(&line)
    }

    /// Appends whole lines, given with their line ends. After an error (disk full) the file ends with
    /// the last whole line again, so that a later success leaves no damage.
    pub(crate) fn append(&mut self, lines: &[u8]) -> Result<()> {
        self.append_io(lines).with_context(|| format!("cannot write `{}`", self.path.display()))
    }

    fn append_io(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.torn {
            // The torn line cannot be taken back; at least it does not swallow the next one.
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

    /// Forces what was appended to the disk.
    pub(crate) fn sync(&self) -> Result<()> {
        self.file.sync_all().with_context(|| format!("cannot write `{}` to disk", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_an_error_that_names_the_file_and_the_reason() {
        let mut file = LineFile::open(Path::new("/dev/full")).unwrap();
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
    fn a_whole_file_is_replaced_and_no_temporary_file_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.json");
        write_whole(&path, b"old").unwrap();
        write_whole(&path, b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_whole_file_that_does_not_fit_leaves_the_former_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.json");
        write_whole(&path, b"old").unwrap();
        std::os::unix::fs::symlink("/dev/full", temporary_name(&path)).unwrap();
        assert!(write_whole(&path, b"new").is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "no part of it is left");
    }
}
