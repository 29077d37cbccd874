//! Set up before anything else: memory that nobody can inspect, and what happens when pgdyno panics.

use std::os::fd::RawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, panic, process, thread};

use host::KernelFiles;
use nix::libc;
use nix::sys::prctl;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::stat::{Mode, umask};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork, setsid};
use server::alter_system::undo_max;

use crate::restore_report::{put_back_settings, report_undone};
use crate::{Exit, say, signals};

/// Keeps this process's memory, which holds passwords, out of core files and away from other processes of its user.
/// Programs that it starts dump no core either: a server's is as large as its shared memory.
pub(crate) fn close_memory() {
    // If the kernel lacks one of the two, the other still works.
    setrlimit(Resource::RLIMIT_CORE, 0, 0).ok();
    prctl::set_dumpable(false).ok();
}

/// Lifts what a caller may have put on this process that could keep it from restoring values: limits of resources, a timer,
/// blocked signals, and a signal at its caller's death.
///
/// # Errors
/// Names a limit that is too low and that the kernel does not let us lift.
pub(crate) fn lift_limits() -> Result<(), String> {
    nix::unistd::alarm::cancel();
    SigSet::empty().thread_set_mask().ok();
    prctl::set_pdeathsig(None).ok();
    umask(Mode::from_bits_truncate(0o077));
    NEEDED.into_iter().try_for_each(|(resource, needed)| raise_limit(resource, needed))
}

/// Gives this process, which has one thread, a session of its own, so that no key of its caller's terminal stops or kills it, nor
/// the end of that terminal. Whoever leads a process group cannot have one: then a child goes on in place of this process, which
/// only waits for it.
///
/// # Errors
/// When there can be no child.
pub(crate) fn leave_terminal() -> Result<(), String> {
    let has_terminal = || fs::File::open("/dev/tty").is_ok();
    if setsid().is_ok() || !has_terminal() {
        return Ok(());
    }
    // SAFETY: there is one thread.
    match unsafe { fork() }.map_err(|error| format!("cannot leave the terminal of the caller: {error}"))? {
        ForkResult::Child => {
            // The end of the other one is for this one what it would be for the only one: values are restored.
            let left = setsid().and_then(|_| prctl::set_pdeathsig(Signal::SIGTERM));
            left.map_err(|error| format!("cannot leave the terminal of the caller: {error}"))
        }
        ForkResult::Parent { child } => loop {
            signals::ignore_keys();
            match waitpid(child, None) {
                Ok(WaitStatus::Exited(_, code)) => process::exit(code),
                Ok(WaitStatus::Signaled(..)) => process::exit(Exit::Failed as i32),
                _ => {}
            }
        },
    }
}

/// What restoring values needs: journals of 1 MiB; threads, each with a stack and an arena of malloc (64 MiB); journal,
/// lock, pipes and a kernel file at a time.
const NEEDED: [(Resource, u64); 6] = [
    (Resource::RLIMIT_FSIZE, 4 << 20),
    (Resource::RLIMIT_CPU, RLIM_INFINITY),
    (Resource::RLIMIT_AS, 1 << 30),
    (Resource::RLIMIT_DATA, 256 << 20),
    (Resource::RLIMIT_STACK, 1 << 20),
    (Resource::RLIMIT_NOFILE, 64),
];

/// Raises a limit to what is needed, as far as the kernel allows.
fn raise_limit(resource: Resource, needed: u64) -> Result<(), String> {
    let limits = || getrlimit(resource).map_err(|error| format!("{resource:?}: {error}"));
    let (soft, hard) = limits()?;
    if soft < needed && setrlimit(resource, needed, hard.max(needed)).is_err() {
        setrlimit(resource, needed.min(hard), hard).ok();
    }
    match limits()?.0 {
        soft if soft < needed => Err(format!(
            "{resource:?} of this process is {soft} and cannot be raised, which could keep it from restoring values"
        )),
        _ => Ok(()),
    }
}

/// Closes inherited file descriptors in programs started from here: the server's user could read and write with root's
/// rights whatever root's shell left open. Standard streams are passed to each on purpose.
pub(crate) fn close_inherited() {
    let mut numbers = open_numbers();
    // The number of the directory itself is closed by now.
    numbers.retain(|number| set_flags(*number, libc::FD_CLOEXEC));
    // Set once: `main` calls this before anything else is opened.
    INHERITED.set(numbers).ok();
}

/// Keeps them open for this process restarted with other arguments, which may name what the caller has open, as a
/// shell's `<(...)` does.
pub(crate) fn keep_inherited() {
    for number in INHERITED.get().into_iter().flatten() {
        set_flags(*number, 0);
    }
}

static INHERITED: OnceLock<Vec<RawFd>> = OnceLock::new();

fn open_numbers() -> Vec<RawFd> {
    let Ok(open) = fs::read_dir("/proc/self/fd") else { return Vec::new() };
    let numbers = open.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<RawFd>().ok());
    numbers.filter(|number| *number > 2).collect()
}

/// Returns false if nothing is open under this number.
fn set_flags(number: RawFd, flags: libc::c_int) -> bool {
    // SAFETY: the call sets a flag of a number.
    unsafe { libc::fcntl(number, libc::F_SETFD, flags) == 0 }
}

/// Makes a panic restore what this process has set in the operating system and on servers by URL, and then end the process with all its
/// threads, so that none waits for one that is gone. Our servers and drivers end with it.
pub(crate) fn undo_on_panic() {
    panic::set_hook(Box::new(|panic| {
        static IS_UNDOING: AtomicBool = AtomicBool::new(false);
        if IS_UNDOING.swap(true, Ordering::Relaxed) {
            // Another thread is already doing it, and ends the process. It may have to restart a server.
            thread::sleep(undo_max(true));
            process::abort();
        }
        say(&format!("pgdyno: {panic}"));
        match host::undo_own(&KernelFiles::this()) {
            Ok(undone) => report_undone(&undone),
            Err(error) => say(&format!("values of the operating system: {error:#}")),
        }
        put_back_settings();
        say("this is a bug in pgdyno, please report it; `pgdyno clean` removes what is left behind");
        process::abort();
    }));
}

/// Panics in a debug build if `PGDYNO_TEST_PANIC` names this point, so that tests see what a panic leaves behind.
pub(crate) fn panic_if_asked(point: &str) {
    let is_asked =
        cfg!(debug_assertions) && std::env::var("PGDYNO_TEST_PANIC").is_ok_and(|asked| asked == point);
    assert!(!is_asked, "PGDYNO_TEST_PANIC asks for it");
}
