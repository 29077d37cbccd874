//! What the parent changes while a load runs, for every thread to see.

use std::sync::atomic::AtomicU8;

use crate::thread::frame::Frame;
use crate::thread::rate::Rate;

/// The controls of a load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Controls<'a> {
    /// Ends the load early, see [`crate::thread::stop`].
    pub(crate) stop: &'a AtomicU8,
    /// The rate that is offered instead of the load's own, once one was ordered.
    pub(crate) rate: &'a Rate,
    /// When the load counts, and when it ends.
    pub(crate) frame: &'a Frame,
}
