//! One client: a connection and the transaction that it is in.

use std::io;
use std::os::fd::AsRawFd;

use nix::sys::socket::{Shutdown, shutdown};
use wire::{CancelHandle, Link};
use wire::{Flow, Reply, Scanner, TransactionStatus};
use workload::Machine;

use crate::clock::Nanos;
use crate::tally::{SqlState, sqlstate};

/// Where a client stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Connected, with no transaction: it takes the next one that is due.
    Idle,
    /// A statement was sent; its reply ends with ReadyForQuery. The transaction is in flight.
    Waiting,
    /// Between statements, the script asked to sleep until then. The transaction is in flight.
    Sleeping {
        /// When the script goes on.
        until: Nanos,
    },
    /// A statement failed inside a transaction block and ROLLBACK was sent. The transaction has ended
    /// (failed), the client is not free yet.
    RollingBack,
    /// The connection is gone, or the client will do no more.
    Gone,
}

/// A client.
pub(crate) struct Client {
    /// Number in the whole load, from 0.
    pub(crate) id: usize,
    pub(crate) link: Link,
    /// Protocol and cipher, when the connection is encrypted.
    pub(crate) tls: Option<String>,
    pub(crate) cancel: CancelHandle,
    pub(crate) machine: Machine,
    pub(crate) state: State,
    /// Script and statement that it is at.
    pub(crate) script: usize,
    pub(crate) statement: usize,
    /// When the transaction was due, and when its first statement was sent.
    pub(crate) due: Nanos,
    pub(crate) started: Nanos,
    /// When the current statement was sent.
    pub(crate) statement_sent: Nanos,
    /// The server's word on the transaction block, from the last ReadyForQuery.
    pub(crate) status: TransactionStatus,
    /// The load ended and the statement in flight was cancelled.
    pub(crate) cancelled: bool,
    /// The socket is watched for writability, because not all could be sent.
    pub(crate) waits_to_write: bool,
    /// Transactions committed within the measure.
    pub(crate) measured: u64,
    scanner: Scanner,
    outgoing: Vec<u8>,
    n_sent: usize,
    error: Option<ReplyError>,
    /// Why the server is about to close the connection, if it said so in a notice.
    farewell: Option<ReplyError>,
}

/// An error that a reply carried.
#[derive(Debug, Clone)]
pub(crate) struct ReplyError {
    pub(crate) sqlstate: SqlState,
    pub(crate) message: String,
}

impl ReplyError {
    fn read(body: &[u8]) -> ReplyError {
        let error = wire::scan::parse_error(body);
        ReplyError { sqlstate: sqlstate(error.sqlstate.as_bytes()), message: error.to_string() }
    }
}

/// What was done with a piece of input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    /// The reply goes on.
    Partial,
    /// ReadyForQuery: the statement is over.
    Complete,
}

impl Client {
    /// A client of a fresh connection.
    pub(crate) fn new(id: usize, connection: wire::Connection, machine: Machine) -> Client {
        Client {
            id,
            cancel: connection.cancel_handle(),
            link: connection.link,
            tls: connection.tls,
            machine,
            state: State::Idle,
            script: 0,
            statement: 0,
            due: 0,
            started: 0,
            statement_sent: 0,
            status: TransactionStatus::Idle,
            cancelled: false,
            waits_to_write: false,
            measured: 0,
            scanner: Scanner::new(),
            outgoing: Vec::with_capacity(1024),
            n_sent: 0,
            error: None,
            farewell: None,
        }
    }

    /// Whether a transaction is in flight.
    pub(crate) fn in_flight(&self) -> bool {
        matches!(self.state, State::Waiting | State::Sleeping { .. })
    }

    /// Whether a transaction block is open on the server.
    pub(crate) fn in_block(&self) -> bool {
        self.status != TransactionStatus::Idle
    }

    /// The buffer for the next messages, empty.
    #[inline]
    pub(crate) fn outgoing(&mut self) -> &mut Vec<u8> {
        self.outgoing.clear();
        self.n_sent = 0;
        &mut self.outgoing
    }

    /// Takes the machine and the (emptied) outgoing buffer apart, so that one can be written into the other.
    #[inline]
    pub(crate) fn machine_and_outgoing(&mut self) -> (&Machine, &mut Vec<u8>) {
        self.outgoing.clear();
        self.n_sent = 0;
        (&self.machine, &mut self.outgoing)
    }

    /// Sends what the socket takes, and says whether that was all; the rest goes when it is writable again.
    #[inline]
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        while self.n_sent < self.outgoing.len() {
            match self.link.send(&self.outgoing[self.n_sent..]) {
                Ok(n) => self.n_sent += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        if !self.link.wants_write() {
            return Ok(true);
        }
        match self.link.flush_pending() {
            Err(e) if e.kind() != io::ErrorKind::WouldBlock => Err(e),
            _ => Ok(!self.link.wants_write()),
        }
    }

    /// Ends the connection at once; the server rolls back what is open.
    pub(crate) fn disconnect(&mut self) {
        shutdown(self.link.as_raw_fd(), Shutdown::Both).ok();
    }

    /// Takes in a piece of input.
    #[inline]
    pub(crate) fn receive(&mut self, input: &[u8]) -> Result<Received, String> {
        let Client { scanner, status, error, farewell, .. } = self;
        let mut received = Received::Partial;
        scanner
            .feed(input, |reply| {
                match reply {
                    Reply::ReadyForQuery(now) => {
                        *status = now;
                        received = Received::Complete;
                    }
                    // After the reply's end it is no error of the statement: the server ends the connection.
                    Reply::Error(body) if received == Received::Complete => {
                        *farewell = Some(ReplyError::read(body));
                    }
                    Reply::Error(body) => *error = Some(ReplyError::read(body)),
                    Reply::Notice(body) if is_farewell(body) => *farewell = Some(ReplyError::read(body)),
                    _ => {}
                }
                Flow::Continue
            })
            .map_err(|e| e.to_string())?;
        Ok(received)
    }

    /// The error that the last reply carried, if it did.
    #[inline]
    pub(crate) fn take_error(&mut self) -> Option<ReplyError> {
        self.error.take()
    }

    /// Why the connection ended, if the server said so; perhaps in what nobody has read yet, when it was a send
    /// that failed.
    pub(crate) fn last_words(&mut self) -> Option<ReplyError> {
        const READS_MAX: usize = 16;
        let mut buffer = [0; 4096];
        for _ in 0..READS_MAX {
            match self.link.recv(&mut buffer) {
                Ok(n @ 1..) if self.receive(&buffer[..n]).is_ok() => {}
                _ => break,
            }
        }
        self.error.take().or_else(|| self.farewell.take())
    }
}

/// A backend that must end at once, in a crash of another one or an immediate shutdown, sends no error but a
/// warning of the class 57P0 (`quickdie` in postgres.c). Scripts may raise any number of other notices.
fn is_farewell(body: &[u8]) -> bool {
    const CODE: &[u8] = b"\0C57P0";
    body.windows(CODE.len()).any(|window| window == CODE)
}
