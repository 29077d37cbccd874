//! Processes of PostgreSQL: how they are started, watched and ended.

pub(crate) mod command;
pub(crate) mod environment;
pub mod postmaster;
pub(crate) mod segments;
pub mod socket;
pub(crate) mod spawn;
pub mod start_error;
