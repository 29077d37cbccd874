//! Offers load to a PostgreSQL server and accounts for every transaction.
//!
//! One thread has one event loop and some clients; a client is a state machine over one connection
//! (`client.rs`). Nothing on the way of a transaction allocates, locks or prints: each thread counts into its
//! own [`tally::IntervalTally`], which goes to the control loop (`process.rs`) once per second.
//!
//! Latency counts from when a transaction was due; in a closed loop that is when its client became free.

mod client;
mod clock;
mod control;
mod poller;
mod prefetch;
mod tally;
mod thread;

pub use control::process::{PollSpotNotice, drive};
pub use control::rights::SenderTrust;

/// The far end of a pipe to another machine: greeting, hello, beats, and lines that wait for nobody.
pub mod far {
    pub use crate::clock::WallClock;
    pub use crate::control::commands::{Commands, ParentInput};
    pub use crate::control::listen::{Begin, ParentCommand, begin, until_the_parent_has_gone};
    pub use crate::control::output::{Outbox, with_outbox};
}
pub use control::usage::{expect_open_files, expect_pipes, raise_open_files};
