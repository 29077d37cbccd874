//! Ends a load before its window does: a number that all threads see and that only grows.

use wire::CancelHandle;

/// The load goes on.
pub(crate) const NOT: u8 = 0;
/// No transaction begins; those in flight have the grace of the window.
pub(crate) const GENTLY: u8 = 1;
/// Transactions in flight are cancelled.
pub(crate) const AT_ONCE: u8 = 2;

/// Cancels statements from a separate thread: a server that hangs may not delay the others.
pub(crate) fn cancel_all(handles: Vec<CancelHandle>) {
    std::thread::spawn(move || {
        for handle in handles {
            // A server that does not take the request is reported by the transaction that stays open.
            handle.cancel().ok();
        }
    });
}
