//! How a load is told to end before its window does: a number that all threads see and that only grows.

/// The load goes on.
pub(crate) const NOT: u8 = 0;
/// No transaction begins; those in flight have the grace of the window.
pub(crate) const GENTLY: u8 = 1;
/// Those in flight are cancelled.
pub(crate) const AT_ONCE: u8 = 2;
