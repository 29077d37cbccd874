//! Ctrl-C, SIGTERM and SIGHUP: the first asks to stop in order, the second, of whatever kind, ends at once.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, raise, sigaction};

static STOP: AtomicBool = AtomicBool::new(false);
/// Number of the last signal; 0 before the first.
static LAST: AtomicI32 = AtomicI32::new(0);
/// A signal has come; a notice that the machine will be taken away is none.
static SIGNALLED: AtomicBool = AtomicBool::new(false);

/// Only atomics, sigaction and raise: all are safe in a handler (signal-safety(7)).
extern "C" fn on_signal(number: i32) {
    LAST.store(number, Ordering::Relaxed);
    STOP.store(true, Ordering::Relaxed);
    if SIGNALLED.swap(true, Ordering::Relaxed)
        && let Ok(signal) = Signal::try_from(number)
    {
        // The default action is to end; it comes when this handler returns. Children of ours end with us.
        let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
        // SAFETY: no handler is installed. Neither call fails for a signal that could be handled.
        unsafe { sigaction(signal, &default) }.ok();
        raise(signal).ok();
    }
}

/// Raises the flag as the first signal does; a signal that follows is the first one.
pub(crate) fn ask_to_stop() {
    STOP.store(true, Ordering::Relaxed);
}

/// The exit code of a program that the last signal ended, as shells know it: 130 for Ctrl-C, which is the default.
pub(crate) fn exit_code() -> u8 {
    let number = u8::try_from(LAST.load(Ordering::Relaxed)).unwrap_or_default();
    128 + if number == 0 { Signal::SIGINT as u8 } else { number }
}

/// How long a run may take to end in order once it was asked to: who takes a machine away gives it half a minute.
const END_IN_ORDER_MAX: Duration = Duration::from_secs(25);
const PAUSE: Duration = Duration::from_millis(200);

/// Ends this process with `exit` when it was asked to stop and has not ended in time, after `last_words`. Servers and
/// drivers of ours end with it; what is on disk can be resumed.
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

/// The flag that the first signal raises. Every part of a run looks at it.
pub(crate) fn stop_flag() -> &'static AtomicBool {
    let handled = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
    // Within a thread one at a time; two threads may take one each, and the exchange of the flag tells which is second.
    let action =
        SigAction::new(SigHandler::Handler(on_signal), SaFlags::empty(), handled.into_iter().collect());
    for signal in handled {
        // SAFETY: the handler does what a handler may do.
        let before = unsafe { sigaction(signal, &action) }.expect("these signals can be handled");
        if signal == Signal::SIGHUP && matches!(before.handler(), SigHandler::SigIgn) {
            // `nohup` asks to outlive the terminal.
            // SAFETY: as it was before.
            unsafe { sigaction(signal, &before) }.expect("this signal can be ignored");
        }
    }
    &STOP
}
