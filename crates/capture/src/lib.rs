//! A user's own workload, from what a server has logged and counted. Pure: bytes come in as readers, results go out as values and texts.

pub mod balance;
pub mod counted;
pub mod directory;
pub mod forms;
pub mod log;
pub mod plan;
pub mod privacy;
pub mod reader;
pub mod role;
pub mod session;
pub mod statement;
pub mod statistics;
pub mod template;
pub mod transaction;
pub mod value;
