//! A database of a running server: what it contains, and how it is brought into a known state.

pub mod definitions;
mod digest;
pub mod facts;
pub mod fingerprint;
pub mod plans;
pub mod prewarm;
pub(crate) mod relations;
pub mod residency;
pub mod rights;
pub mod target;
pub mod template;
pub mod tend;
pub mod touched;
