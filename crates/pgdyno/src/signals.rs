//! Whatever signal arrives asks for an orderly stop, however many come: a logout or a service manager sends several of different
//! kinds. Only a second Ctrl-C, at least a second after the first, is impatience: it ends the process at once, with a line that
//! says so.

mod terminal;

use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, raise, sigaction};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::write;

/// The signal of a request by another process. One that does not know it ignores it, unlike SIGUSR1, of which it would die.
pub(crate) const REQUEST: Signal = Signal::SIGURG;

/// Signals that would end a process that does not know them, and that somebody may send to it; SIGINT is apart, and so is
/// SIGKILL, which nobody can handle.
const ENDING: [Signal; 12] = [
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGVTALRM,
    Signal::SIGPROF,
    Signal::SIGIO,
    Signal::SIGPWR,
    Signal::SIGXCPU,
    // The write that exceeds the limit then fails.
    Signal::SIGXFSZ,
];

/// Signals that would stop a process: Ctrl-Z, and reading from or writing to a terminal in the background.
const STOPPING: [Signal; 3] = [Signal::SIGTSTP, Signal::SIGTTIN, Signal::SIGTTOU];

/// How long after the first Ctrl-C another one is a second decision, and no key that was held down.
const SECOND_THOUGHT_NS: u64 = 1_000_000_000;

static STOP: AtomicBool = AtomicBool::new(false);
/// Number of the last signal; 0 before the first.
static LAST: AtomicI32 = AtomicI32::new(0);
/// Whether SIGHUP has come.
static HAS_HUNG_UP: AtomicBool = AtomicBool::new(false);
/// When the first Ctrl-C came, nanoseconds of the monotonic clock; 0 before.
static INTERRUPTED_NS: AtomicU64 = AtomicU64::new(0);
/// Whether this process stands in for pgbench, which dies of its signals.
static IS_PGBENCH: AtomicBool = AtomicBool::new(false);
/// Whether standard error is a terminal; asked before, because a handler must not.
static IS_TERMINAL: AtomicBool = AtomicBool::new(false);

/// What is said when the process ends at once. On a terminal it begins on a line of its own, below `^C` and a bar.
const LAST_WORDS: &[u8] = b"\npgdyno: ended at once; `pgdyno clean` says what is left behind\n";
/// The answer to Ctrl-Z.
const GOES_ON: &[u8] =
    b"\npgdyno: goes on: a server must not keep what is changed for a run that is paused; Ctrl-C stops it\n";

/// Uses only atomics, clock_gettime, poll, write, sigaction and raise, which are safe in a handler (signal-safety(7)).
extern "C" fn on_signal(number: i32) {
    let is_first = LAST.swap(number, Ordering::Relaxed) == 0;
    STOP.store(true, Ordering::Relaxed);
    HAS_HUNG_UP.fetch_or(number == Signal::SIGHUP as i32, Ordering::Relaxed);
    let is_pgbench = IS_PGBENCH.load(Ordering::Relaxed);
    let is_last = if is_pgbench { !is_first } else { number == Signal::SIGINT as i32 && is_second_thought() };
    if is_last && let Ok(signal) = Signal::try_from(number) {
        if !is_pgbench {
            say_at_once(LAST_WORDS);
        }
        // The signal is blocked while its handler runs, and ends the process when this returns. Our children end with it.
        die_of(signal);
    }
}

/// Whether this Ctrl-C comes at least a second after the first one.
fn is_second_thought() -> bool {
    // No clock, no second thought.
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(0, |now| now.tv_sec().unsigned_abs() * 1_000_000_000 + now.tv_nsec().unsigned_abs());
    match INTERRUPTED_NS.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => false,
        Err(first) => now.saturating_sub(first) >= SECOND_THOUGHT_NS,
    }
}

extern "C" fn on_pause(_: i32) {
    say_at_once(GOES_ON);
}

/// Says something from a handler. It does not wait for a terminal that is held or a full pipe: then it says nothing.
fn say_at_once(words: &[u8]) {
    let stderr = std::io::stderr();
    let mut ready = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
    if poll(&mut ready, PollTimeout::ZERO) == Ok(1) {
        let begin = usize::from(!IS_TERMINAL.load(Ordering::Relaxed));
        write(&stderr, &words[begin..]).ok();
    }
}

/// Has the second signal, of any kind, end this process without a word, as it ends pgbench.
pub(crate) fn end_as_pgbench() {
    IS_PGBENCH.store(true, Ordering::Relaxed);
}

/// Whether an orderly stop was asked for, by a signal or otherwise.
pub(crate) fn is_stopping() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// Raises the flag as a signal does.
pub(crate) fn ask_to_stop() {
    STOP.store(true, Ordering::Relaxed);
}

/// The last signal, if one has come.
pub(crate) fn last() -> Option<Signal> {
    Signal::try_from(LAST.load(Ordering::Relaxed)).ok()
}

/// Whether the terminal of this process has hung up, or a service manager said so.
pub(crate) fn has_hung_up() -> bool {
    HAS_HUNG_UP.load(Ordering::Relaxed)
}

/// Ends this process by `signal` itself, as if it had never been handled: a shell whose child dies of SIGINT ends its
/// loop, and one whose child exits with a code goes on.
pub(crate) fn die_of(signal: Signal) {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: no handler is installed.
    unsafe { sigaction(signal, &default) }.ok();
    raise(signal).ok();
}

/// Keeps signals from ending or stopping this process: only the end of another one ends it.
pub(crate) fn ignore() {
    for signal in ending().chain(STOPPING) {
        set(signal, SigHandler::SigIgn);
    }
}

/// Keeps keys of a terminal, and its end, from ending or stopping this process.
pub(crate) fn ignore_keys() {
    for signal in [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGHUP].into_iter().chain(STOPPING) {
        set(signal, SigHandler::SigIgn);
    }
}

/// Keeps a terminal from stopping this process: what it has changed on a server would stay for as long as it is stopped.
pub(crate) fn refuse_to_pause() {
    // Reading from a terminal in the background fails then, and writing to it works.
    for signal in [Signal::SIGTTIN, Signal::SIGTTOU] {
        set(signal, SigHandler::SigIgn);
    }
    set(Signal::SIGTSTP, SigHandler::Handler(on_pause));
}

/// How long a run may take for an orderly stop: a cloud gives half a minute before it takes a machine away.
const END_IN_ORDER_MAX: Duration = Duration::from_secs(25);
const PAUSE: Duration = Duration::from_millis(200);

/// Ends this process with `exit`, after `last_words`, if it was asked to stop and has not ended in time. As long as
/// something is `due`, which would be cut off, it has that much longer; `waits` is called once then, with the time left.
/// Our servers and drivers end with the process; the results on disk can be resumed.
pub(crate) fn end_in_time(
    exit: i32,
    due: impl Fn() -> Duration + Send + 'static,
    waits: impl FnOnce(Duration) + Send + 'static,
    last_words: impl FnOnce() + Send + 'static,
) {
    std::thread::spawn(move || {
        while !STOP.load(Ordering::Relaxed) {
            std::thread::sleep(PAUSE);
        }
        let begun = Instant::now();
        let mut patience = Patience::new(due());
        let mut waits = Some(waits);
        while !patience.is_over(begun.elapsed(), due()) {
            if begun.elapsed() >= END_IN_ORDER_MAX
                && let Some(waits) = waits.take()
            {
                waits(patience.longest.saturating_sub(begun.elapsed()));
            }
            std::thread::sleep(PAUSE);
        }
        last_words();
        std::process::exit(exit);
    });
}

extern "C" fn on_request(_: i32) {
    STOP.store(true, Ordering::Relaxed);
}

/// The flag that signals raise, however many come: for a process that ends by itself at once, and has something to restore
/// before. Nothing stops it.
pub(crate) fn patient_flag() -> &'static AtomicBool {
    ending().for_each(take_as_request);
    for signal in STOPPING {
        set(signal, SigHandler::SigIgn);
    }
    &STOP
}

fn ending() -> impl Iterator<Item = Signal> {
    [Signal::SIGINT].into_iter().chain(ENDING)
}

/// Has a signal raise the flag, however often it comes.
fn take_as_request(signal: Signal) {
    set(signal, SigHandler::Handler(on_request));
}

/// Sets what a signal does; returns what it did before.
fn set(signal: Signal, handler: SigHandler) -> SigAction {
    // One signal at a time within a thread; two threads may take one each, and the exchange of a value decides which is second.
    let action = SigAction::new(handler, SaFlags::empty(), ending().collect());
    // SAFETY: our handlers do only what a handler may do.
    unsafe { sigaction(signal, &action) }.expect("these signals can be handled")
}

/// How long an orderly stop is waited for, since the request.
struct Patience {
    end: Duration,
    longest: Duration,
}

impl Patience {
    /// What is `due` at first bounds it all: nothing begins any more.
    fn new(due: Duration) -> Patience {
        Patience { end: END_IN_ORDER_MAX, longest: END_IN_ORDER_MAX * 2 + due }
    }

    /// Whether it is over `since` the request. When nothing is due any more, records are still to be written.
    fn is_over(&mut self, since: Duration, due: Duration) -> bool {
        if !due.is_zero() {
            self.end = (since + END_IN_ORDER_MAX).min(self.longest);
        }
        since >= self.end
    }
}

/// The flag that signals and requests raise. Every part of a run looks at it.
pub(crate) fn stop_flag() -> &'static AtomicBool {
    IS_TERMINAL.store(std::io::stderr().is_terminal(), Ordering::Relaxed);
    let known: &[Signal] = if IS_PGBENCH.load(Ordering::Relaxed) {
        // Of others it dies, as pgbench does.
        &[Signal::SIGTERM, Signal::SIGHUP]
    } else {
        &ENDING
    };
    for signal in [Signal::SIGINT].iter().chain(known) {
        let before = set(*signal, SigHandler::Handler(on_signal));
        if *signal == Signal::SIGHUP && matches!(before.handler(), SigHandler::SigIgn) {
            // `nohup` asks to outlive the terminal.
            set(*signal, SigHandler::SigIgn);
        } else if *signal == Signal::SIGHUP {
            terminal::watch();
        }
    }
    take_as_request(REQUEST);
    &STOP
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_prolongs_an_orderly_stop_within_a_bound() {
        // What is due for how long after the request, and when the process ends at the latest.
        let check = |due_s: u64, for_s: u64, expected_s: u64| {
            let due = |at: u64| Duration::from_secs(if at < for_s { due_s } else { 0 });
            let mut patience = Patience::new(due(0));
            let end = (0..10_000).find(|at| patience.is_over(Duration::from_secs(*at), due(*at)));
            assert_eq!(end, Some(expected_s), "{due_s} s for {for_s} s");
        };
        check(0, 0, 25);
        check(600, 5, 29);
        check(600, 100, 124);
        check(600, 9_999, 650);
        check(1, 9_999, 51);
    }
}
