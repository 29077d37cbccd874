//! A database's machine that is not ours: its exporter.

pub(crate) mod exposition;
pub(crate) mod watch;
