//! Ctrl-C, SIGTERM and SIGHUP: the first one asks for an orderly stop, the second, of any kind, ends the process at
//! once.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, raise, sigaction};

static STOP: AtomicBool = AtomicBool::new(false);
/// Number of the last signal; 0 before the first.
static LAST: AtomicI32 = AtomicI32::new(0);
/// Whether a signal has come; a notice that the machine will be taken away does not count.
static SIGNALLED: AtomicBool = AtomicBool::new(false);

/// Uses only atomics, sigaction and raise, which are safe in a handler (signal-safety(7)).
extern "C" fn on_signal(number: i32) {
    LAST.store(number, Ordering::Relaxed);
    STOP.store(true, Ordering::Relaxed);
    if SIGNALLED.swap(true, Ordering::Relaxed)
        && let Ok(signal) = Signal::try_from(number)
    {
        // The signal is blocked while its handler runs, and ends the process when this returns. Our children end with it.
        die_of(signal);
    }
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

/// How long a run may take for an orderly stop: a cloud gives half a minute before it takes a machine away.
const END_IN_ORDER_MAX: Duration = Duration::from_secs(25);
const PAUSE: Duration = Duration::from_millis(200);

/// Ends this process with `exit`, after `last_words`, if it was asked to stop and has not ended in time. Our servers
/// and drivers end with it; the results on disk can be resumed.
pub(crate) fn end_in_time(exit: i32, last_words: impl FnOnce() + Send + 'static) {
    std::thread::spawn(move || {
        while !STOP.load(Ordering::Relaxed) {
            std::thread::sleep(PAUSE);
        }
        std::thread::sleep(END_IN_ORDER_MAX);
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
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let action = SigAction::new(SigHandler::Handler(on_request), SaFlags::empty(), SigSet::empty());
        // SAFETY: the handler only stores a value.
        unsafe { sigaction(signal, &action) }.expect("these signals can be handled");
    }
    &STOP
}

/// The flag that the first signal raises. Every part of a run looks at it.
pub(crate) fn stop_flag() -> &'static AtomicBool {
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
    &STOP
}
