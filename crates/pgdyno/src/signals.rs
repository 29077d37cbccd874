//! Ctrl-C, SIGTERM and SIGHUP: the first one asks for an orderly stop, the second, of any kind, ends the process at
//! once, with a line that says so. Requests of other processes of pgdyno ask for an orderly stop, however many come.

use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, raise, sigaction};
use nix::unistd::write;

/// The signal of a request by another process. One that does not know it ignores it, unlike SIGUSR1, of which it would die.
pub(crate) const REQUEST: Signal = Signal::SIGURG;

static STOP: AtomicBool = AtomicBool::new(false);
/// Number of the last signal; 0 before the first.
static LAST: AtomicI32 = AtomicI32::new(0);
/// Whether a signal has come; a notice that the machine will be taken away does not count.
static SIGNALLED: AtomicBool = AtomicBool::new(false);
/// Whether the second signal ends the process without a word.
static IS_SILENT: AtomicBool = AtomicBool::new(false);
/// Whether standard error is a terminal; asked before, because a handler may not.
static IS_TERMINAL: AtomicBool = AtomicBool::new(false);

/// What is said when the process ends at once. On a terminal it begins on a line of its own, below `^C` and a bar.
const LAST_WORDS: &[u8] = b"\npgdyno: ended at once; `pgdyno clean` says what is left behind\n";

/// Uses only atomics, poll, write, sigaction and raise, which are safe in a handler (signal-safety(7)).
extern "C" fn on_signal(number: i32) {
    LAST.store(number, Ordering::Relaxed);
    STOP.store(true, Ordering::Relaxed);
    if SIGNALLED.swap(true, Ordering::Relaxed)
        && let Ok(signal) = Signal::try_from(number)
    {
        say_end();
        // The signal is blocked while its handler runs, and ends the process when this returns. Our children end with it.
        die_of(signal);
    }
}

/// Says that the process ends at once. It does not wait for a terminal that is held or a full pipe: then it says nothing.
fn say_end() {
    if IS_SILENT.load(Ordering::Relaxed) {
        return;
    }
    let stderr = std::io::stderr();
    let mut ready = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
    if poll(&mut ready, PollTimeout::ZERO) == Ok(1) {
        let begin = usize::from(!IS_TERMINAL.load(Ordering::Relaxed));
        write(&stderr, &LAST_WORDS[begin..]).ok();
    }
}

/// Has the second signal end this process without a word, as it ends pgbench.
pub(crate) fn end_silently() {
    IS_SILENT.store(true, Ordering::Relaxed);
}

/// Whether an orderly stop was asked for, by a signal or otherwise.
pub(crate) fn is_stopping() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// Raises the flag as the first signal does; the next signal still counts as the first.
pub(crate) fn ask_to_stop() {
    STOP.store(true, Ordering::Relaxed);
}

/// The last signal, if one has come.
pub(crate) fn last() -> Option<Signal> {
    Signal::try_from(LAST.load(Ordering::Relaxed)).ok()
}

/// Ends this process by `signal` itself, as if it had never been handled: a shell whose child dies of SIGINT ends its
/// loop, and one whose child exits with a code goes on.
pub(crate) fn die_of(signal: Signal) {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: no handler is installed.
    unsafe { sigaction(signal, &default) }.ok();
    raise(signal).ok();
}

/// Keeps SIGINT, SIGTERM and SIGHUP from ending this process: only the end of another one does.
pub(crate) fn ignore() {
    let ignored = SigAction::new(SigHandler::SigIgn, SaFlags::empty(), SigSet::empty());
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        // SAFETY: no handler is installed.
        unsafe { sigaction(signal, &ignored) }.expect("these signals can be ignored");
    }
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

/// The flag that SIGINT, SIGTERM and SIGHUP raise, however many come: for a process that ends by itself at once, and has
/// something to restore before.
pub(crate) fn patient_flag() -> &'static AtomicBool {
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().for_each(take_as_request);
    &STOP
}

/// Has a signal raise the flag, however often it comes.
fn take_as_request(signal: Signal) {
    let action = SigAction::new(SigHandler::Handler(on_request), SaFlags::empty(), SigSet::empty());
    // SAFETY: the handler only stores a value.
    unsafe { sigaction(signal, &action) }.expect("this signal can be handled");
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

/// The flag that the first signal raises, and each request. Every part of a run looks at it.
pub(crate) fn stop_flag() -> &'static AtomicBool {
    IS_TERMINAL.store(std::io::stderr().is_terminal(), Ordering::Relaxed);
    let handled = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
    // One signal at a time within a thread; two threads may take one each, and the exchange of the flag decides which
    // is second.
    let action =
        SigAction::new(SigHandler::Handler(on_signal), SaFlags::empty(), handled.into_iter().collect());
    for signal in handled {
        // SAFETY: the handler does only what a handler may do.
        let before = unsafe { sigaction(signal, &action) }.expect("these signals can be handled");
        if signal == Signal::SIGHUP && matches!(before.handler(), SigHandler::SigIgn) {
            // `nohup` asks to outlive the terminal.
            // SAFETY: restores the previous action.
            unsafe { sigaction(signal, &before) }.expect("this signal can be ignored");
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
