//! A client's connections, and what is known of the server's session at their other end.

use wire::{CancelHandle, Dialing, Link, ServerError, TransactionStatus, Units};

use crate::client::parsed::PreparedStatements;
use crate::clock::Nanos;

/// Where a transaction goes, and the connection that leads there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Destination {
    /// To the load's target.
    #[default]
    Target,
    /// To [`model::load::ReadTarget`].
    Reads,
}

/// The session, made afresh with each connection.
pub(crate) struct ClientSession {
    /// The connection; `None` before the first one, between two, and after the last.
    pub(crate) link: Option<Link>,
    /// Cancels the statement that the server runs.
    pub(crate) cancel: Option<CancelHandle>,
    /// The state of the transaction block, from the last ReadyForQuery.
    pub(crate) status: TransactionStatus,
    /// What positions in the server's messages count.
    pub(crate) units: Units,
    /// Which statements the connection has parsed; `None` if all are, or none needs to be.
    pub(crate) parsed: Option<PreparedStatements>,
    /// Why the server is about to close the connection, if it said so in a notice.
    pub(crate) farewell: Option<Box<ServerError>>,
    /// Why the connection ended while the client used its other one.
    pub(crate) lost: Option<String>,
}

impl Default for ClientSession {
    fn default() -> ClientSession {
        ClientSession {
            link: None,
            cancel: None,
            status: TransactionStatus::Idle,
            units: Units::default(),
            parsed: None,
            farewell: None,
            lost: None,
        }
    }
}

/// A connection that is made while the load runs: one for each transaction, or in place of a lost one.
#[derive(Default)]
pub(crate) struct Dial {
    /// The attempt under way, when it began, and which of its sockets is watched.
    pub(crate) attempt: Option<Box<Dialing>>,
    pub(crate) begun: Nanos,
    pub(crate) generation: u32,
    /// When the connection was lost, until it is replaced.
    pub(crate) down_since: Option<Nanos>,
    /// Whether a transaction was committed on the current connection.
    pub(crate) has_committed: bool,
    /// How often the client has waited before it connected again.
    pub(crate) n_waits: u64,
    /// When the transaction was due that waits for the connection.
    pub(crate) pending_due: Option<Nanos>,
}
