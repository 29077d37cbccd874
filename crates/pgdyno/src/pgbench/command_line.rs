//! The command line of pgbench: its options, and the exact words of its complaints.

pub(crate) mod cnum;
pub(crate) mod getopt;
pub(crate) mod help;
pub(crate) mod limits;
pub(crate) mod options;
pub(crate) mod parse;
