//! Files that the user names: scripts, data, experiments. Links are followed and pipes are read, such as `<(...)` of a
//! shell; but no wait outlasts a request to stop, and nothing is read beyond a limit, not even from `/dev/zero`.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::regular::too_long;

/// Limit for noticing a request to stop.
const LOOK_MS: u16 = 100;
const PIECE_BYTES: usize = 64 * 1024;

/// Reads the whole file that the user named, at most `bytes_max` bytes. A pipe is read to its end; its writer may open
/// it later.
///
/// # Errors
/// I/O errors; when the file is longer; `Interrupted` when `stop` is set before its end.
pub fn read_named(path: &Path, bytes_max: u64, stop: &AtomicBool) -> io::Result<Vec<u8>> {
    // O_NONBLOCK: opening a pipe without a writer would block forever. O_NOCTTY: a terminal does not become ours.
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    read_to_end(OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)?, bytes_max, stop)
}

/// Reads all of standard input, as [`read_named`] does.
///
/// # Errors
/// As [`read_named`].
pub fn read_standard_input(bytes_max: u64, stop: &AtomicBool) -> io::Result<Vec<u8>> {
    read_to_end(File::from(io::stdin().as_fd().try_clone_to_owned()?), bytes_max, stop)
}

fn read_to_end(mut file: File, bytes_max: u64, stop: &AtomicBool) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        wait(&file, stop)?;
        match file.read(&mut piece) {
            Ok(0) => return Ok(bytes),
            Ok(n_bytes) => bytes.extend_from_slice(&piece[..n_bytes]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
        if bytes.len() as u64 > bytes_max {
            return Err(too_long(bytes_max));
        }
    }
}

/// Waits until there is something to read, including the end. A pipe that had no writer yet is not at its end
/// (poll(2)).
fn wait(file: &File, stop: &AtomicBool) -> io::Result<()> {
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(io::Error::new(ErrorKind::Interrupted, "stopped on request"));
        }
        match poll(&mut [PollFd::new(file.as_fd(), PollFlags::POLLIN)], PollTimeout::from(LOOK_MS)) {
            Ok(0) | Err(Errno::EINTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::thread;
    use std::time::Duration;

    use super::*;

    static GO_ON: AtomicBool = AtomicBool::new(false);

    #[test]
    fn links_are_followed_and_pipes_are_read_to_their_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("file"), "12345").unwrap();
        std::os::unix::fs::symlink(path("file"), path("link")).unwrap();
        assert_eq!(read_named(&path("link"), 5, &GO_ON).unwrap(), b"12345");
        assert!(
            read_named(&path("link"), 4, &GO_ON).unwrap_err().to_string().contains("longer than 4 bytes")
        );
        assert_eq!(read_named(Path::new("/dev/null"), 0, &GO_ON).unwrap(), b"");
        let endless = read_named(Path::new("/dev/zero"), 1_000_000, &GO_ON).unwrap_err().to_string();
        assert!(endless.contains("longer than 1000000 bytes"), "{endless}");

        nix::unistd::mkfifo(&path("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let pipe = path("pipe");
        // Late data and pauses: neither is the end.
        let writer = thread::spawn(move || {
            thread::sleep(Duration::from_millis(300));
            let mut writer = OpenOptions::new().write(true).open(pipe).unwrap();
            writer.write_all(b"one ").unwrap();
            thread::sleep(Duration::from_millis(300));
            writer.write_all(b"two").unwrap();
        });
        assert_eq!(read_named(&path("pipe"), 100, &GO_ON).unwrap(), b"one two");
        writer.join().unwrap();
    }

    #[test]
    fn the_wait_for_a_pipe_ends_on_a_request_to_stop() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let reader = scope.spawn(|| read_named(&pipe, 100, &stop));
            thread::sleep(Duration::from_millis(200));
            stop.store(true, Ordering::Relaxed);
            assert_eq!(reader.join().unwrap().unwrap_err().kind(), ErrorKind::Interrupted);
        });
    }
}
