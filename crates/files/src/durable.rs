//! Files that survive a power failure whole. Every record that a later decision depends on is written here.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::regular;

/// Mode of files with results: readable by their owner only.
pub const PRIVATE: u32 = 0o600;

/// Replaces the contents of `path` by `bytes`. A reader sees the old contents or the new ones, never a part of them,
/// even after a power failure.
///
/// # Errors
/// I/O errors; the old contents are then still there.
pub fn replace(path: &Path, mode: u32, bytes: &[u8]) -> io::Result<()> {
    replace_by(path, mode, |mut file| {
        file.write_all(bytes)?;
        Ok(file)
    })
}

/// As [`replace`], with the contents that `write` writes. A file that could not be written completely is removed: on a
/// full device it would block everything else.
///
/// # Errors
/// As [`replace`].
pub fn replace_by(path: &Path, mode: u32, write: impl FnOnce(File) -> io::Result<File>) -> io::Result<()> {
    let temporary = temporary_name(path);
    regular::create(&temporary, mode)
        .and_then(write)
        // The rename may reach the disk before the content does, which would leave an empty file.
        .and_then(|file| file.sync_all())
        .and_then(|()| fs::rename(&temporary, path))
        .inspect_err(|_| drop(fs::remove_file(&temporary)))?;
    sync_parent(path)
}

/// Temporary name under which a file is written before it is renamed.
pub fn temporary_name(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    PathBuf::from(name)
}

/// Makes a created, renamed or removed name in the directory of `path` survive a power failure.
pub fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent)?.sync_all()
}

/// Creates a directory that only this user may enter, and its parents. An existing one stays as it is.
pub fn create_private_dir_all(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn a_file_is_replaced_and_no_temporary_file_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("record");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        replace(&path, PRIVATE, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(names(dir.path()), ["record"]);
    }

    #[test]
    fn contents_that_do_not_fit_leave_the_former_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("record");
        replace(&path, PRIVATE, b"old").unwrap();
        let full = |mut file: File| {
            file.write_all(b"part")?;
            fs::OpenOptions::new().write(true).open("/dev/full")?.write_all(b"rest")?;
            Ok(file)
        };
        let error = replace_by(&path, PRIVATE, full).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(
            (fs::read(&path).unwrap(), names(dir.path())),
            (b"old".to_vec(), vec!["record".to_string()])
        );
    }

    #[test]
    fn a_link_in_place_of_the_new_file_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, victim) = (dir.path().join("record"), dir.path().join("victim"));
        fs::write(&victim, "mine").unwrap();
        symlink(&victim, temporary_name(&path)).unwrap();
        replace(&path, PRIVATE, b"new").unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"mine");
    }
}
