//! What data a workload needs: loads it over several sessions side by side, knows its state by its marks, verifies and
//! counts it, and tests the promises of a transaction on it.
//!
//! Not here: the statements and rows themselves (`workload`), and when in a run data is put back (`experiment`).

pub mod acid;
pub mod check;
mod clearance;
pub mod kind;
pub mod layout;
pub mod load;
pub mod schema;
pub mod session;
pub mod sql_files;
pub mod state;
pub mod streams;
pub mod tpcb;
pub mod tpcc;
pub mod verify;
