//! Runs a plan in its order: what comes next, what is repeated, and how an interrupted experiment continues.

pub mod agenda;
pub(crate) mod case_hooks;
pub mod conduct;
pub mod duet;
pub mod replaced;
pub mod resume;
