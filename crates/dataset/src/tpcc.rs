//! The tables of TPC-C and TPROC-C: verifying them.

pub mod check;
