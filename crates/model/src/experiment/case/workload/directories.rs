//! The workload directories that are built in, by name. Their files are in crate `workload`.

/// Their names, in the order in which they are listed.
pub const BUILTIN: [&str; 9] =
    ["oltp", "ycsb", "queue", "tpch-like", "ch-like", "vector", "timeseries", "documents", "churn"];
