//! One load from its order to its end: connects, starts the threads, gathers what they report.

pub(crate) mod collect;
pub(crate) mod commands;
pub(crate) mod listen;
pub(crate) mod merge;
pub(crate) mod output;
pub(crate) mod process;
pub(crate) mod rights;
pub(crate) mod traced;
pub(crate) mod usage;
