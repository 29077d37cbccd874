//! Have a PostgreSQL: fetch, initialize, start, set, snapshot, restore, tend and stop one; or adopt a running one.
//!
//! Nothing here knows workloads or measures anything.

pub mod account;
pub mod binaries;
pub mod fetch;
mod names;
pub mod pins;
mod spawn;
mod unpack;
