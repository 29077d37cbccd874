//! Ctrl-C and SIGTERM: the first asks to stop in order, the second ends at once.

use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn raise(_signal: i32) {
    STOP.store(true, Ordering::Relaxed);
}

/// The flag that the first signal raises. Every part of a run looks at it.
pub(crate) fn stop_flag() -> &'static AtomicBool {
    // With SA_RESETHAND the second signal finds the default action: to end. Children of ours end with us.
    let action = SigAction::new(SigHandler::Handler(raise), SaFlags::SA_RESETHAND, SigSet::empty());
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        // SAFETY: the handler only stores to an atomic.
        unsafe { sigaction(signal, &action) }.expect("these signals can be handled");
    }
    &STOP
}
