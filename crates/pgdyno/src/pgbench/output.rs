//! What pgbench prints and writes: progress, results, logs, and the same as JSON.

pub(crate) mod json;
pub(crate) mod log;
pub(crate) mod progress;
pub(crate) mod results;
pub(crate) mod server_text;
pub(crate) mod totals;
