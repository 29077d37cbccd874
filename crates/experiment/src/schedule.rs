//! Runs a plan in its order: what comes next, what is repeated, and how an interrupted experiment continues.

pub mod agenda;
pub(crate) mod case_hooks;
pub mod conduct;
pub mod duet;
mod in_time;
mod lanes;
pub mod replaced;
pub mod resume;
pub(crate) mod sequence;
pub(crate) mod stages;
mod unfinished;
