//! What a plan takes on this machine, what would make it fail, and how to make it fit.

pub mod builds;
mod commit;
pub mod fit;
pub mod intent;
pub mod outlook;
pub mod preflight;
pub mod present;
pub mod protocol;
