//! The driver against a real server: Debian's PostgreSQL, started here, and compared with its own pgbench.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod cluster;
mod driven;
mod hostile;
mod logs;
mod options;
mod outages;
mod pollers;
mod scripts;
mod tpcc;
mod tprocc;
