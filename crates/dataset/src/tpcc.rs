//! The tables of TPC-C and TPROC-C: loading and verifying them.

pub mod check;
pub mod copy;
pub mod load;
