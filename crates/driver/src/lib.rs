//! Offers load to a PostgreSQL server and accounts for every transaction.
//!
//! One thread has one event loop and some clients; a client is a state machine over one connection
//! (`client.rs`). Nothing on the way of a transaction allocates, locks or prints: each thread counts into its
//! own [`tally::Tally`], which goes to the control loop (`process.rs`) once per second.
//!
//! Latency counts from when a transaction was due; in a closed loop that is when its client became free.

mod client;
mod clock;
mod control;
mod poller;
mod prefetch;
mod tally;
mod thread;

pub use control::process::drive;
pub use control::usage::{expect_open_files, raise_open_files};
