//! One run through its phases.

pub(crate) mod adapt;
pub(crate) mod follow;
pub(crate) mod meeting;
pub(crate) mod outcome;
pub mod phases;
pub(crate) mod search;
pub(crate) mod survey;
pub(crate) mod telemetry;
