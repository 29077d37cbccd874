//! Processes of a test: run to their end, or started so that they end with the test, and ended.
//!
//! The kernel sends a child its parent-death signal when the *thread* that made the child ends. A test is a thread, and
//! tests share servers, so one thread that lives as long as the process makes all children.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpid, getppid};

/// Longest wait for a start or an end.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(60);

/// The time after which a process that has not ended gets the signal again.
const SIGNAL_AGAIN_AFTER: Duration = Duration::from_secs(1);

type Job = Box<dyn FnOnce() + Send>;

/// Runs a program, which must succeed, and returns its standard output.
///
/// # Panics
/// If it does not start or fails.
#[track_caller]
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The child processes of a process.
#[must_use]
pub fn children_of(pid: i32) -> Vec<i32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let texts = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    texts
        .flat_map(|text| text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>())
        .collect()
}

/// Starts `command` in a process group of its own; it gets SIGQUIT when the process of the tests ends, in whatever way.
///
/// Ctrl-C in the terminal is for the tests, whose end ends the server.
pub(crate) fn spawn(mut command: Command) -> Child {
    let parent = getpid();
    let in_child = move || {
        nix::sys::prctl::set_pdeathsig(Signal::SIGQUIT)?;
        // The parent may have ended between the fork and the line above.
        if getppid() != parent {
            return Err(io::Error::from_raw_os_error(nix::libc::ESRCH));
        }
        Ok(())
    };
    // SAFETY: between fork and exec only async-signal-safe functions may be called; these are prctl(2) and getppid(2), and
    // the error is a number. The closure runs after the switch of user, which would clear the signal.
    unsafe { command.process_group(0).pre_exec(in_child) };
    let (reply, answer) = channel();
    let job: Job = Box::new(move || {
        // The receiver waits below, so somebody takes the answer.
        reply.send(command.spawn()).ok();
    });
    starter().lock().unwrap_or_else(PoisonError::into_inner).send(job).unwrap();
    answer.recv().unwrap().unwrap()
}

fn starter() -> &'static Mutex<Sender<Job>> {
    static STARTER: OnceLock<Mutex<Sender<Job>>> = OnceLock::new();
    STARTER.get_or_init(|| {
        let (sender, jobs) = channel::<Job>();
        std::thread::spawn(move || jobs.into_iter().for_each(|job| job()));
        Mutex::new(sender)
    })
}

/// Ends a postmaster and its children, also if a test has stopped them with SIGSTOP.
pub(crate) fn end(postmaster: &mut Child, signal: Signal) {
    let pid = pid_of(postmaster);
    let pids: Vec<i32> = [pid].into_iter().chain(children_of(pid)).collect();
    let signal_all = |signal: Signal| {
        for pid in &pids {
            // One that has ended needs no signal.
            let _ = kill(Pid::from_raw(*pid), signal);
        }
    };
    let began = Instant::now();
    while began.elapsed() < WAIT_MAX {
        // Again and again: one that is just starting may miss the first.
        let _ = kill(Pid::from_raw(pid), signal);
        signal_all(Signal::SIGCONT);
        let asked = Instant::now();
        while asked.elapsed() < SIGNAL_AGAIN_AFTER {
            if !matches!(postmaster.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    signal_all(Signal::SIGKILL);
    let _ = postmaster.wait();
}

/// The id of a child, as the kernel's own type.
pub(crate) fn pid_of(child: &Child) -> i32 {
    i32::try_from(child.id()).unwrap()
}
