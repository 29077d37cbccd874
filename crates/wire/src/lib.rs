//! PostgreSQL's protocol version 3 for offering load: prebuilt messages, a scanner of replies that does not allocate,
//! connections with TLS and authentication, and a blocking session for everything that is not load.
//!
//! Only `link` touches sockets. Not here: pooling, typed rows, async, and anything specific to a workload.

mod answer;
pub mod conninfo;
pub mod dial;
mod libpq_text;
pub mod link;
pub mod message;
mod parameters;
mod protocol_error;
pub mod quote;
pub mod reply;
mod rows;
pub mod scan;
mod secret;
pub mod session;
pub mod tls;

pub use conninfo::{Conninfo, ConninfoError, Host, Secret, TcpLimits, Verifier};
pub use dial::{CancelHandle, ConnectError, Connection, DialProgress, Dialing, address_toward, connect};
pub use libpq_text::Units;
pub use link::{Link, Want};
pub use protocol_error::ProtocolError;
pub use quote::{quote_ident, quote_literal};
pub use reply::{ServerError, parse_error};
pub use scan::{Flow, Reply, Scanner, TransactionStatus};
pub use session::{Copied, Limit, Rows, Session, SessionError};
