//! The TPC-B-like tables: loading and verifying them.

pub mod check;
pub mod copy;
pub mod load;
