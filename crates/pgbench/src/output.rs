//! pgbench's output: progress, results, logs, and the results as JSON.

pub(crate) mod json;
pub(crate) mod progress;
pub(crate) mod results;
pub(crate) mod totals;
