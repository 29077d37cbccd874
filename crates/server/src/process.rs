//! PostgreSQL's processes: starting, watching and ending them.

pub mod command;
pub(crate) mod environment;
pub mod postmaster;
pub(crate) mod segments;
pub mod socket;
pub mod spawn;
pub mod start_error;
