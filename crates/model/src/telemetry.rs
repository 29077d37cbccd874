//! What was read and what happened while a run lasted.

pub mod event;
pub mod metric;
pub mod reading;
