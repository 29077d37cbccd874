//! Starts child processes that end when pgdyno ends and have no terminal.
//!
//! A child gets its parent-death signal when the *thread* that started it ends, not the process. All children are
//! therefore started by one thread that lives as long as the process.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::Signal;
use nix::unistd::{getpid, getppid, setsid};

use crate::process::command::wait_until;

/// How long a program may take for a short answer.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// What a pipe holds; a program that prints more blocks, and is ended at the deadline.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

type Job = Box<dyn FnOnce() + Send>;

/// Starts `command` in its own session; it gets the signal `on_death` when this process ends, however it ends.
///
/// Ctrl-C in the terminal does not reach it, and it cannot reach the terminal: otherwise another user's program could
/// type commands into ours (TIOCSTI, ioctl_tty(2)), for root's shell to run.
///
/// # Errors
/// When it cannot be started.
pub fn spawn(command: Command, on_death: Signal) -> io::Result<Child> {
    begin(command, Some(on_death))
}

/// As [`spawn`], for a command that must not be left half done: it goes on if this process ends.
pub(crate) fn spawn_to_outlive(command: Command) -> io::Result<Child> {
    begin(command, None)
}

fn begin(mut command: Command, on_death: Option<Signal>) -> io::Result<Child> {
    let parent = getpid();
    let in_child = move || {
        setsid()?;
        let Some(on_death) = on_death else { return Ok(()) };
        nix::sys::prctl::set_pdeathsig(on_death)?;
        // The parent may have ended between the fork and the line above.
        if getppid() != parent {
            return Err(io::Error::other("the parent process has ended"));
        }
        Ok(())
    };
    // SAFETY: between fork and exec only async-signal-safe functions may be called; these are setsid(2), prctl(2) and
    // getppid(2), and the error that is built when the parent is gone allocates only then, with no one left to wait.
    // The closure runs after the switch of user, which would clear the signal.
    unsafe { command.pre_exec(in_child) };
    let (reply, answer) = channel();
    let job: Job = Box::new(move || {
        // The receiver waits below, so the answer is always taken.
        reply.send(command.spawn()).ok();
    });
    let gone = || io::Error::other("the thread that starts processes has ended");
    let keeper = keeper().lock().unwrap_or_else(PoisonError::into_inner);
    keeper.send(job).map_err(|_| gone())?;
    drop(keeper);
    answer.recv().map_err(|_| gone())?
}

/// Runs a program that prints a short answer and ends.
pub(crate) fn output_of(mut command: Command) -> io::Result<Output> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = spawn(command, Signal::SIGKILL)?;
    let ended = wait_until(&mut child, Instant::now() + ANSWER_MAX).map_err(io::Error::other)?;
    let Some(status) = ended else {
        child.kill()?;
        child.wait()?;
        let words = format!("it did not end within {} s", ANSWER_MAX.as_secs());
        return Err(io::Error::new(io::ErrorKind::TimedOut, words));
    };
    let stdout = child.stdout.take().map(what_came).unwrap_or_default();
    let stderr = child.stderr.take().map(what_came).unwrap_or_default();
    Ok(Output { status, stdout, stderr })
}

/// The contents of the pipe, without waiting for its end: a child of the program could keep it open for ever.
fn what_came(mut pipe: impl Read + AsFd) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Reading an empty pipe that is still open ends with an error, and what was read stays.
    fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))
        .map_err(io::Error::from)
        .and_then(|_| pipe.by_ref().take(ANSWER_BYTES_MAX).read_to_end(&mut bytes))
        .ok();
    bytes
}

fn keeper() -> &'static Mutex<Sender<Job>> {
    static KEEPER: OnceLock<Mutex<Sender<Job>>> = OnceLock::new();
    KEEPER.get_or_init(|| {
        let (sender, jobs) = channel::<Job>();
        thread::spawn(move || jobs.into_iter().for_each(|job| job()));
        Mutex::new(sender)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_outlives_the_thread_that_asked_for_it() {
        let mut child = thread::spawn(|| {
            let mut command = Command::new("sleep");
            command.arg("60");
            spawn(command, Signal::SIGKILL).unwrap()
        })
        .join()
        .unwrap();
        thread::sleep(std::time::Duration::from_millis(100));
        assert!(child.try_wait().unwrap().is_none(), "the child was killed with the thread");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_child_cannot_open_our_terminal() {
        // In its own session it has no terminal, whether we have one or not.
        let mut command = Command::new("sh");
        command
            .args(["-c", "cut -d' ' -f6 /proc/$$/stat; echo $$; (: </dev/tty) 2>/dev/null && echo terminal"]);
        let said = String::from_utf8(output_of(command).unwrap().stdout).unwrap();
        let words: Vec<&str> = said.split_whitespace().collect();
        assert!(matches!(words[..], [session, process] if session == process), "{said}");
    }

    #[test]
    fn an_answer_that_does_not_end_is_cut_off() {
        let mut command = Command::new("sh");
        command.args(["-c", "yes & exec sleep 0.2"]);
        let output = output_of(command).unwrap();
        assert!(output.stdout.len() as u64 <= ANSWER_BYTES_MAX);
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        assert!(spawn(Command::new("/nonexistent/program"), Signal::SIGKILL).is_err());
    }
}
