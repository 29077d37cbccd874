//! Offers load to a PostgreSQL server and accounts for every transaction.
//!
//! One thread has one event loop and some clients; a client is a state machine over one connection
//! (`client.rs`). Nothing on the way of a transaction allocates, locks or prints: each thread counts into its
//! own [`tally::Tally`], which goes to the control loop (`process.rs`) once per second.
//!
//! Latency counts from when a transaction was due; in a closed loop that is when its client became free.

mod client;
mod clock;
mod collect;
mod connect;
mod fetch;
mod frame;
mod log;
mod merge;
mod notices;
mod order;
mod output;
mod parsed;
mod pipeline;
mod poller;
mod prefetch;
mod process;
mod rate;
mod rehearsal;
mod report;
mod schedule;
mod script;
mod shell;
mod stop;
mod tally;
mod turns;
mod usage;
mod words;
mod worker;

pub use process::drive;
pub use usage::{expect_open_files, raise_open_files};
