//! A pipe to a driver over NATS, for machines that may only dial out, and for standing pools of them.
//!
//! [`serve`] is the agent on such a machine: it announces its name and labels, and starts `pgdyno drive` or `pgdyno watch`
//! when it is called. [`dial`] is the other end: it connects its standard input and output with an agent's process, so
//! that to crate `fleet` it is a command like ssh. [`find`] lists the agents that answer. Nothing is stored in the server, and
//! nothing is repeated: a message that is lost on the way ends the pipe at both ends.
//!
//! Each call runs an asynchronous runtime on the calling thread, and ends it before it returns.

mod agent;
mod connect;
mod dial;
mod find;
mod frame;
mod pump;
mod subject;

pub use agent::{Agent, LOAD_ONLY, serve};
pub use connect::Server;
pub use dial::dial;
pub use find::{Found, find};
pub use subject::{check_label, check_name};
