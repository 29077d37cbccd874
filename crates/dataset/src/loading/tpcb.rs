//! The TPC-B-like tables: loading them.

pub mod copy;
pub mod load;
