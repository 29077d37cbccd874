//! pgbench's command line: its options, and its exact error messages.

pub(crate) mod getopt;
pub(crate) mod help;
pub(crate) mod limits;
pub(crate) mod options;
pub(crate) mod parse;
