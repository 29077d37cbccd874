//! Start child processes that end when pgdyno ends.
//!
//! A child gets its parent-death signal when the *thread* that made it ends, not the process. All children are
//! therefore made by one thread that lives as long as the process.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;

use nix::sys::signal::Signal;
use nix::unistd::{getpid, getppid};

type Job = Box<dyn FnOnce() + Send>;

/// Starts `command` in a process group of its own (Ctrl-C in the terminal does not reach it); it gets `on_death` when
/// this process ends in whatever way.
pub(crate) fn spawn(mut command: Command, on_death: Signal) -> io::Result<Child> {
    let parent = getpid();
    command.process_group(0);
    let in_child = move || {
        nix::sys::prctl::set_pdeathsig(on_death)?;
        // The parent may have ended between the fork and the line above.
        if getppid() != parent {
            return Err(io::Error::other("the parent process has ended"));
        }
        Ok(())
    };
    // SAFETY: between fork and exec only async-signal-safe functions may be called; these are prctl(2) and
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
    fn a_program_that_is_not_there_is_an_error() {
        assert!(spawn(Command::new("/nonexistent/program"), Signal::SIGKILL).is_err());
    }
}
