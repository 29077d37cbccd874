//! A process that outlives pgdyno for as long as it takes to restore the values of this machine's operating system.
//!
//! It is this program (`pgdyno undo`) in a session of its own, and reads a pipe whose other end only pgdyno has. A pgdyno
//! that ends in order says so. The end of the pipe without that word means that it was killed.

pub(crate) mod thaw;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, ensure};
use experiment::run::outage::thaw::FAREWELL;
use host::KernelFiles;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::{dup2_stderr, dup2_stdout};

use crate::{Exit, guard, signals};

/// The command that this program executes as a watchdog.
const COMMAND: &str = "undo";
/// What a watchdog says that no signal of a terminal ends any more.
const READY: &[u8] = b"ready\n";
/// How long a watchdog may take until it is ready, milliseconds.
const READY_MS_MAX: u16 = 10_000;
/// How long a watchdog may take to end.
const END_MAX: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(5);
/// How long the lock of a killed pgdyno is waited for: the kernel closes its files one after the other.
const PATIENCE: Duration = Duration::from_secs(5);

/// The watchdog of this process. Dropping it says that this process ends in order.
#[derive(Debug)]
pub(crate) struct Watchdog {
    child: Child,
    /// `None` after the farewell.
    pipe: Option<ChildStdin>,
}

impl Watchdog {
    /// Starts it, and waits until nothing but the end of this process or a SIGKILL ends it.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) fn start() -> Result<Watchdog> {
        let mut command = Command::new("/proc/self/exe");
        command.arg0("pgdyno").arg(COMMAND);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child =
            command.spawn().context("start the process that restores values if this one is killed")?;
        let (pipe, said) = (child.stdin.take(), child.stdout.take());
        let watchdog = Watchdog { child, pipe };
        let mut said = said.context("its output is a pipe")?;
        let mut waited = [PollFd::new(said.as_fd(), PollFlags::POLLIN)];
        poll(&mut waited, PollTimeout::from(READY_MS_MAX)).context("wait for `pgdyno undo`")?;
        let has_spoken = waited[0].any().unwrap_or(false);
        let mut word = [0; READY.len()];
        let is_ready = has_spoken && said.read_exact(&mut word).is_ok() && word == READY;
        ensure!(is_ready, "the process that restores values if this one is killed does not start");
        Ok(watchdog)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        if let Some(mut pipe) = self.pipe.take() {
            // One that is gone needs no farewell.
            pipe.write_all(FAREWELL).ok();
        }
        let begun = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && begun.elapsed() < END_MAX {
            std::thread::sleep(PAUSE);
        }
    }
}

/// The watchdog's own process: waits for the end of its input, and restores what a killed pgdyno has set.
///
/// # Errors
/// When the values cannot be restored; they stay in the journal, and nobody hears of it here.
pub(crate) fn undo() -> Result<Exit> {
    signals::ignore();
    // Before the first value is set: pgdyno waits for the word.
    guard::leave_terminal().map_err(Error::msg)?;
    // One that stays is this process's as it was pgdyno's.
    guard::lift_limits().ok();
    // No mount stays in use because of it.
    std::env::set_current_dir("/").context("enter `/`")?;
    let null = File::options().read(true).write(true).open("/dev/null").context("open `/dev/null`")?;
    let mut out = std::io::stdout();
    out.write_all(READY).and_then(|()| out.flush()).context("say that the watchdog is ready")?;
    dup2_stdout(&null)?;
    dup2_stderr(&null)?;
    if hears_farewell() {
        return Ok(Exit::Done);
    }
    let undone = host::undo_left_within(&KernelFiles::this(), PATIENCE)?;
    let is_all = undone.iter().all(|value| value.problem.is_none());
    Ok(if is_all { Exit::Done } else { Exit::Failed })
}

/// Waits for the end of the input, and returns whether the pgdyno at its other end has said farewell.
fn hears_farewell() -> bool {
    let mut said = Vec::new();
    // A pipe that cannot be read is a pgdyno that cannot be heard.
    std::io::stdin().take(FAREWELL.len() as u64).read_to_end(&mut said).ok();
    said == FAREWELL
}
