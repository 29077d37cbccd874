//! The server: its statistics in each tick, and its log.

pub(crate) mod archive;
pub(crate) mod identity;
pub(crate) mod log;
pub(crate) mod log_events;
pub(crate) mod roots;
pub(crate) mod sampling;
pub(crate) mod sessions;
pub(crate) mod spans;
pub(crate) mod statement_text;
pub(crate) mod statements;
pub(crate) mod statistics;
pub(crate) mod tail;
pub(crate) mod uncounted;
pub(crate) mod waits;
pub(crate) mod watch;
