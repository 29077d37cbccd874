//! The machine of a remote database, observed through its exporter.

pub(crate) mod exposition;
pub(crate) mod service;
pub(crate) mod watch;
