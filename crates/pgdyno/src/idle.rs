//! `pgdyno wait`: the first process of a container that holds nothing but pgdyno. Drivers are started next to it from outside.
//! Like any first process it handles the signals that end a container, and reaps processes whose parents have gone.

use anyhow::{Context, Result};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::Exit;

/// Waits until SIGTERM, SIGINT or SIGHUP.
pub(crate) fn wait() -> Result<Exit> {
    let ends = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP];
    let awaited: SigSet = ends.into_iter().chain([Signal::SIGCHLD]).collect();
    // Blocked, they stay until they are taken: none is missed, and the kernel keeps them even for the first process.
    awaited.thread_block().context("cannot block signals")?;
    loop {
        reap();
        if awaited.wait().context("cannot wait for signals")? != Signal::SIGCHLD {
            return Ok(Exit::Done);
        }
    }
}

/// Takes the exit codes of all children that have ended; one signal may stand for several.
fn reap() {
    let any = Pid::from_raw(-1);
    while waitpid(any, Some(WaitPidFlag::WNOHANG)).is_ok_and(|status| status != WaitStatus::StillAlive) {}
}
