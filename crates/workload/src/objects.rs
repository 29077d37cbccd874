//! The tables and routines of a workload: how they are named, marked and partitioned.

pub(crate) mod check;
pub mod filling;
pub(crate) mod hash_partition;
pub mod marker;
pub(crate) mod schema;
pub(crate) mod signature;
