//! A user's own workload, from what a server has logged and counted. Pure: bytes come in as readers, results go out as values and texts.

pub mod log;
pub mod plan;
