//! Files that connection settings name: certificates, keys, revocation lists, service and password files. Links are
//! followed, as in libpq; but a pipe is refused where libpq would wait for its writer, and nothing is read beyond a limit.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::OFlag;

/// Limit of a file. The largest revocation lists in use have some tens of megabytes.
const BYTES_MAX: u64 = 64 << 20;

/// Opens a file without waiting. Accepted are regular files, and character devices for the sake of `/dev/null`. A pipe
/// would be empty for the second connection, as these files are read for each one.
///
/// # Errors
/// I/O errors, and when it is something else.
pub(crate) fn open(path: &Path) -> io::Result<(File, Metadata)> {
    // O_NONBLOCK: opening a pipe without a writer would block forever. O_NOCTTY: a terminal does not become ours.
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)?;
    let metadata = file.metadata()?;
    let kind = metadata.file_type();
    if kind.is_file() || kind.is_char_device() {
        Ok((file, metadata))
    } else {
        Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file"))
    }
}

/// Why root must not believe what a file says, by its metadata: whoever wrote it decides where root connects and with which password.
/// `None` if it is root's, or we are not root.
pub(crate) fn stranger(metadata: &Metadata) -> Option<String> {
    // In a user namespace to which the machine's root does not belong, that is not user 0.
    let is_roots = |uid: u32| uid == 0 || std::fs::metadata("/").is_ok_and(|root| root.uid() == uid);
    let is_written = metadata.mode() & 0o002 != 0 || metadata.mode() & 0o020 != 0 && metadata.gid() != 0;
    match (nix::unistd::geteuid().is_root(), is_roots(metadata.uid())) {
        // What a device says is not what somebody has written to it, and everybody may write to `/dev/null`.
        (true, true) if metadata.file_type().is_char_device() => None,
        (true, false) => {
            Some(format!("belongs to user id {}, and root uses only files of root", metadata.uid()))
        }
        (true, true) if is_written => {
            Some("can be written by others, and root uses only files of root".to_owned())
        }
        _ => None,
    }
}

/// Reads an open file.
///
/// # Errors
/// I/O errors, and when it is longer than 64 MiB.
pub(crate) fn read_open(file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 <= BYTES_MAX {
        Ok(bytes)
    } else {
        Err(io::Error::new(ErrorKind::FileTooLarge, "it is longer than 64 MiB"))
    }
}

/// Opens a file and reads it.
///
/// # Errors
/// Those of [`open`] and [`read_open`].
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    read_open(open(path)?.0)
}

/// The text of such a file, without the byte order mark with which some editors begin it.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)).into_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn pipes_are_not_waited_for_and_nothing_endless_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("file"), "text").unwrap();
        std::os::unix::fs::symlink(path("file"), path("link")).unwrap();
        nix::unistd::mkfifo(&path("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        File::create(path("long")).unwrap().set_len(BYTES_MAX + 1).unwrap();
        let check = |path: &Path, expected: Result<&str, &str>| match (read(path), expected) {
            (Ok(bytes), Ok(text)) => assert_eq!(bytes, text.as_bytes(), "{}", path.display()),
            (Err(error), Err(words)) => assert!(error.to_string().contains(words), "{error}"),
            (found, _) => panic!("{}: {found:?}", path.display()),
        };
        check(&path("link"), Ok("text"));
        check(Path::new("/dev/null"), Ok(""));
        check(&path("pipe"), Err("not a regular file"));
        check(dir.path(), Err("not a regular file"));
        check(&path("long"), Err("longer than 64 MiB"));
        check(Path::new("/dev/zero"), Err("longer than 64 MiB"));
        check(&path("absent"), Err("No such file"));
    }
}
