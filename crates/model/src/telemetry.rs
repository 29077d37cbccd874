//! Readings and events of a run.

pub mod event;
pub mod metric;
pub mod reading;
