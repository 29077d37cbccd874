//! Readings and events of a run, and how they are asked for on another machine.

pub mod event;
pub mod host;
pub mod import;
pub mod metric;
pub mod reading;
pub mod wait;
pub mod watch;
