//! A pooler between the load and our own server: found, configured, started for a run, and stopped after it.
//!
//! It listens on a unix socket in a closed directory; several processes of pgbouncer share a port of 127.0.0.1 instead, with a
//! password that is drawn for the start. When pgdyno ends, however it ends, the kernel ends it.

mod config;
mod console;
pub mod program;
mod running;

pub use running::{OwnPooler, PoolerOptions, PoolerStart};
