//! An instant PostgreSQL look-alike: answers every message at once, or after a programmed service time.
//!
//! It has no data and runs no SQL. Against it a driver shows its own ceiling, and how far its latencies are from the
//! true ones. One thread, one event loop; only for this machine.

mod delay;
mod record;
mod serve;
mod session;

pub use delay::{ServiceTime, Silence};
pub use serve::{Manner, NullAddress, serve};
