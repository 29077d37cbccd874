//! A pipe to a driver over NATS, for machines that may only dial out, and for standing pools of them.
//!
//! [`serve`] is the agent on such a machine: it announces its name and labels, and starts `pgdyno drive` or `pgdyno watch`
//! when it is called. [`dial`] is the other end: it connects its standard input and output with an agent's process, so
//! that to crate `fleet` it is a command like ssh. [`find`] lists the agents that answer. Nothing is stored in the server, and
//! nothing is repeated: a message that is lost on the way ends the pipe at both ends.
//!
//! The client of NATS is most of what this crate compiles: without the feature `nats`, each call is refused with a message.
//!
//! Each call runs an asynchronous runtime on the calling thread, and ends it before it returns.

mod names;
#[cfg(feature = "nats")]
mod nats;
mod types;
#[cfg(not(feature = "nats"))]
mod without;

pub use names::{check_label, check_name};
#[cfg(feature = "nats")]
pub use nats::{dial, find, serve};

pub use types::{Agent, AnsweringAgent, LOAD_ONLY, NatsServer};
#[cfg(not(feature = "nats"))]
pub use without::{dial, find, serve};
