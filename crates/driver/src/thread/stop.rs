//! Ends a load before its window does: a number that all threads see and that only increases.

use wire::CancelHandle;

/// The load goes on.
pub(crate) const NOT: u8 = 0;
/// No transaction begins; those in flight have the grace of the window.
pub(crate) const GENTLY: u8 = 1;
/// Transactions in flight are cancelled.
pub(crate) const AT_ONCE: u8 = 2;

/// Cancels statements from a separate thread, so that a server that hangs delays nobody.
pub(crate) fn cancel_all(handles: Vec<CancelHandle>) {
    std::thread::spawn(move || {
        for handle in handles {
            // If the server does not take the request, the transaction that stays open is reported.
            handle.cancel().ok();
        }
    });
}
