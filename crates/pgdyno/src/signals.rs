//! Ctrl-C, SIGTERM and SIGHUP: the first asks to stop in order, the second, of whatever kind, ends at once.

use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, raise, sigaction};

static STOP: AtomicBool = AtomicBool::new(false);

/// Only atomics, sigaction and raise: all are safe in a handler (signal-safety(7)).
extern "C" fn on_signal(number: i32) {
    if STOP.swap(true, Ordering::Relaxed)
        && let Ok(signal) = Signal::try_from(number)
    {
        // The default action is to end; it comes when this handler returns. Children of ours end with us.
        let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
        // SAFETY: no handler is installed. Neither call fails for a signal that could be handled.
        unsafe { sigaction(signal, &default) }.ok();
        raise(signal).ok();
    }
}

/// The flag that the first signal raises. Every part of a run looks at it.
pub(crate) fn stop_flag() -> &'static AtomicBool {
    let handled = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
    // One at a time: the second must find the flag that the first has raised.
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
