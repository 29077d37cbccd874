//! A user's own workload, from what a server has logged and counted. Pure: bytes come in as readers, results go out as values and texts.

pub mod balance;
pub mod forms;
pub mod log;
pub mod plan;
pub mod reader;
pub mod session;
pub mod statement;
pub mod statistics;
pub mod template;
pub mod transaction;
