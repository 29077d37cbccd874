//! One run through its phases.

pub(crate) mod adapt;
mod admission;
pub(crate) mod duet_barrier;
pub(crate) mod eyes;
pub(crate) mod follow;
pub mod hooks;
pub(crate) mod live;
pub(crate) mod load;
pub mod outage;
pub(crate) mod outcome;
pub mod phases;
pub(crate) mod place;
mod run_checks;
pub(crate) mod search;
pub(crate) mod telemetry;
