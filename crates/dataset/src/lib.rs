//! The data that a workload needs: loads it over several concurrent sessions, determines its state by its marks,
//! verifies and counts it, and tests the ACID properties on it.
//!
//! Not here: the statements and rows themselves (`workload`), and when a run restores the data (`experiment`).

pub mod acid;
pub mod check;
pub mod clearance;
pub mod directory;
pub mod inquiry;
pub mod kind;
pub mod layout;
pub mod load;
pub mod loading;
pub mod own;
pub mod schema;
pub mod session;
pub mod state;
pub mod streams;
pub mod verify;
