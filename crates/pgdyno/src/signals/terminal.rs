//! The end of the terminal that this process began at. The kernel sends SIGHUP to the leader of the session alone, which need not pass it on
//! (`runuser` and `su` do not): then nobody sees what goes on, and what is changed for a run would stay until its end.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Once;
use std::sync::atomic::Ordering;

use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::getpgrp;

/// How often it is looked at, milliseconds: the end of a terminal need not wake whoever waits for nothing else.
const PERIOD_MS: u16 = 1_000;

/// Asks for an orderly stop, as SIGHUP does, when the terminal hangs up. One whose shell began this process in the background (`&`) may go:
/// that is how some let a run outlive it.
pub(super) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let mut options = File::options();
        let Ok(terminal) = options.read(true).custom_flags(libc::O_NOCTTY).open("/dev/tty") else { return };
        // SAFETY: the descriptor is open.
        let in_front = unsafe { libc::tcgetpgrp(terminal.as_raw_fd()) };
        if in_front == getpgrp().as_raw() {
            std::thread::spawn(move || ask_at_end(&terminal));
        }
    });
}

fn ask_at_end(terminal: &File) {
    let mut ends = [PollFd::new(terminal.as_fd(), PollFlags::empty())];
    loop {
        match poll(&mut ends, PollTimeout::from(PERIOD_MS)) {
            Ok(0) | Err(Errno::EINTR) => {}
            Ok(_) => break,
            Err(_) => return,
        }
    }
    super::HAS_HUNG_UP.store(true, Ordering::Relaxed);
    super::ask_to_stop();
}
