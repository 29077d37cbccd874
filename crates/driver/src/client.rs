//! One client: a connection and the transaction that it is in.

pub(crate) mod fetch;
pub(crate) mod notices;
pub(crate) mod parsed;
pub(crate) mod pipeline;
mod reply;
pub(crate) mod script;

use std::io;

use wire::{CancelHandle, Connection, Dialing, Link, ProtocolError, ServerError, Units};
use wire::{Reply, Scanner, TransactionStatus};
use workload::Emulator;

use crate::client::fetch::Fetched;
use crate::client::notices::Notices;
use crate::client::parsed::Parsed;
use crate::client::pipeline::Pipeline;
use crate::clock::Nanos;
use crate::prefetch;
use crate::tally::SqlState;

/// Where a client stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// No transaction: it takes the next one that is due. Connected, unless each transaction has a connection of its
    /// own.
    Idle,
    /// A terminal's keying and think time: its next transaction is due at the end. Not in flight.
    Pausing {
        /// When the next transaction is due.
        until: Nanos,
    },
    /// A connection is being made, for the first transaction after it or in place of a lost one.
    Dialing,
    /// The connection was lost, or could not be made: the next attempt is due then.
    Down {
        /// When it dials again.
        until: Nanos,
    },
    /// The transaction is taking steps at this very moment. In flight.
    Running,
    /// A statement was sent; its reply ends with ReadyForQuery. The transaction is in flight.
    Waiting,
    /// Between statements, the script asked to sleep until then. The transaction is in flight.
    Sleeping {
        /// When the script goes on.
        until: Nanos,
    },
    /// A statement failed inside a transaction block and ROLLBACK was sent; whether the transaction has failed or is
    /// tried again is decided by its answer. In flight.
    RollingBack,
    /// The client will do no more: it has made its transactions, or an error ended it.
    Gone,
}

/// A client.
pub(crate) struct Client {
    /// Number in the whole load, from 0.
    pub(crate) id: usize,
    pub(crate) link: Option<Link>,
    pub(crate) cancel: Option<CancelHandle>,
    /// The connection that is being made.
    pub(crate) dialing: Option<Box<Dialing>>,
    /// Which of the dialing's sockets is watched.
    pub(crate) dial_generation: u32,
    pub(crate) connect_begun: Nanos,
    /// When the connection was lost that is not replaced yet, and how long the next attempt waits.
    pub(crate) down_since: Option<Nanos>,
    pub(crate) backoff: Nanos,
    /// The slot of the transaction that waits for the connection.
    pub(crate) pending_due: Option<Nanos>,
    pub(crate) emulator: Emulator,
    pub(crate) state: State,
    /// Script and statement that it is at.
    pub(crate) script: usize,
    pub(crate) statement: usize,
    /// When it became free to take a slot of the schedule; 0 before its first.
    pub(crate) idle_since: Nanos,
    /// When the transaction was due, and when its first statement was sent.
    pub(crate) due: Nanos,
    pub(crate) started: Nanos,
    /// When the current statement was sent, and the current command begun (if commands are timed).
    pub(crate) statement_sent: Nanos,
    pub(crate) command_begun: Nanos,
    /// Tries of the transaction, this one included.
    pub(crate) tries: u32,
    /// What the try failed with, while it is rolled back.
    pub(crate) failure: Option<SqlState>,
    /// Transactions that have ended or were skipped: pgbench's `cnt`.
    pub(crate) n_ended: u64,
    /// The server's word on the transaction block, from the last ReadyForQuery.
    pub(crate) status: TransactionStatus,
    /// The load ended and the statement in flight was cancelled.
    pub(crate) cancelled: bool,
    /// The socket is watched for writability, because not all could be sent.
    pub(crate) waits_to_write: bool,
    /// Transactions committed within the measure.
    pub(crate) measured: u64,
    /// Results of the statement so far.
    pub(crate) n_results: u32,
    /// ReadyForQuery messages that are still to come, outside of pipelines. While there are none, nothing is asked.
    n_awaited: u32,
    /// Most results that a statement has: one, except for those of the simple protocol.
    pub(crate) n_results_max: u32,
    /// The server waits for the rows of a COPY, or sends some although scripts may not copy.
    pub(crate) is_copying: bool,
    /// It has asked for rows. If it fails before it has read all of them, it answers early.
    pub(crate) has_copied: bool,
    /// Scripts may COPY.
    pub(crate) may_copy: bool,
    /// A Parse of its own comes before the statement's answer, and what went wrong with it.
    pub(crate) awaits_parse: bool,
    pub(crate) parse_error: Option<Box<ServerError>>,
    pub(crate) pipeline: Pipeline,
    /// Statements of the pipeline that could not be parsed.
    pub(crate) refused: Vec<Refused>,
    /// What `\gset` and `\aset` need; only there if some script has one.
    pub(crate) fetched: Option<Box<Fetched>>,
    /// Which statements the connection has parsed; `None` if all are, or none needs to be.
    pub(crate) parsed: Option<Parsed>,
    scanner: Scanner,
    outgoing: Vec<u8>,
    n_sent: usize,
    error: Option<Box<ServerError>>,
    /// What else the server remarked.
    pub(crate) notices: Notices,
    /// What positions in the server's messages count.
    pub(crate) units: Units,
    /// Why the server is about to close the connection, if it said so in a notice.
    farewell: Option<Box<ServerError>>,
}

/// A statement that could not be parsed.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) statement: usize,
    pub(crate) error: Box<ServerError>,
    /// Whether the user knows.
    pub(crate) is_told: bool,
}

/// What was done with a piece of input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    /// The reply goes on.
    Partial,
    /// ReadyForQuery: the statement, or the pipeline, is over.
    Complete,
    /// The statement is a COPY, which goes no further.
    Copy,
}

impl Client {
    /// A client without a connection.
    pub(crate) fn new(id: usize, emulator: Emulator) -> Client {
        Client {
            id,
            link: None,
            cancel: None,
            dialing: None,
            dial_generation: 0,
            connect_begun: 0,
            down_since: None,
            backoff: 0,
            pending_due: None,
            emulator,
            state: State::Idle,
            script: 0,
            statement: 0,
            idle_since: 0,
            due: 0,
            started: 0,
            statement_sent: 0,
            command_begun: 0,
            tries: 1,
            failure: None,
            n_ended: 0,
            status: TransactionStatus::Idle,
            cancelled: false,
            waits_to_write: false,
            measured: 0,
            n_results: 0,
            n_awaited: 0,
            n_results_max: u32::MAX,
            is_copying: false,
            has_copied: false,
            may_copy: false,
            awaits_parse: false,
            parse_error: None,
            pipeline: Pipeline::default(),
            refused: Vec::new(),
            fetched: None,
            parsed: None,
            scanner: Scanner::new(),
            outgoing: Vec::new(),
            n_sent: 0,
            error: None,
            notices: Notices::default(),
            units: Units::default(),
            farewell: None,
        }
    }

    /// Takes over a fresh connection. `parsed` is what its server session knows.
    ///
    /// # Errors
    /// The server went on talking after it was ready.
    pub(crate) fn connect(
        &mut self,
        connection: Connection,
        parsed: Option<Parsed>,
    ) -> Result<(), ProtocolError> {
        self.cancel = Some(connection.cancel_handle());
        let encoding = connection.parameters.get("client_encoding");
        self.units = encoding.map_or(Units::default(), |name| Units::of(name));
        self.link = Some(connection.link);
        self.parsed = parsed;
        self.status = TransactionStatus::Idle;
        self.waits_to_write = false;
        self.is_copying = false;
        self.pipeline.stop();
        self.refused.clear();
        self.error = None;
        self.awaits_parse = false;
        self.parse_error = None;
        self.farewell = None;
        self.scanner = Scanner::with_limit(self.scanner.message_bytes_max());
        self.outgoing.clear();
        self.n_sent = 0;
        self.n_awaited = 0;
        self.receive_unasked(&connection.leftover)
    }

    /// Has what the client points to brought into the processor's caches: its next message, and its variables.
    #[inline]
    pub(crate) fn prefetch_parts(&self) {
        prefetch::lines(self.outgoing.as_slice());
        prefetch::lines(self.emulator.slots());
    }

    /// Whether a transaction is in flight.
    pub(crate) fn in_flight(&self) -> bool {
        use State::{RollingBack, Running, Sleeping, Waiting};
        matches!(self.state, Running | Waiting | Sleeping { .. } | RollingBack)
    }

    /// Whether a transaction block is open on the server.
    pub(crate) fn in_block(&self) -> bool {
        self.status != TransactionStatus::Idle
    }

    /// Delivers the rows of the next statement, or drops them.
    #[inline]
    pub(crate) fn want_rows(&mut self, fetch: bool) {
        if let Some(fetched) = &mut self.fetched {
            fetched.begin(fetch, self.emulator.takes_rows());
            self.scanner.want_rows(fetch);
        }
    }

    /// Prepares for a new message: no result has come. Nothing is left of the message before, but of the rows of a
    /// COPY that failed early; the server passes over them.
    #[inline]
    pub(crate) fn begin_message(&mut self) {
        match self.n_sent == self.outgoing.len() {
            true => self.outgoing.clear(),
            false => drop(self.outgoing.drain(..self.n_sent)),
        }
        self.n_sent = 0;
        self.n_results = 0;
        self.awaits_parse = false;
        self.has_copied = false;
    }

    /// The message in the buffer asks for a reply, and for one to its Parse if it has a Sync of its own.
    #[inline]
    pub(crate) fn await_reply(&mut self) {
        self.n_awaited = 1 + u32::from(self.awaits_parse);
    }

    /// Limits what the server may send in one message, and what is kept of one statement's rows.
    pub(crate) fn limit_messages(&mut self, n_bytes_max: u32) {
        self.scanner = Scanner::with_limit(n_bytes_max);
    }

    /// The buffer for messages.
    #[inline]
    pub(crate) fn outgoing(&mut self) -> &mut Vec<u8> {
        &mut self.outgoing
    }

    /// What encoding a statement needs: the emulator, what is parsed, and the buffer.
    #[inline]
    pub(crate) fn parts(&mut self) -> (&Emulator, Option<&mut Parsed>, &mut Vec<u8>) {
        (&self.emulator, self.parsed.as_mut(), &mut self.outgoing)
    }

    /// The message in the buffer, as it was written.
    pub(crate) fn sent_bytes(&self) -> &[u8] {
        &self.outgoing
    }

    /// What of the message is not sent yet.
    #[inline]
    pub(crate) fn unsent(&self) -> &[u8] {
        &self.outgoing[self.n_sent..]
    }

    /// The kernel has taken over the whole message; it stays as it is until it is answered.
    #[inline]
    pub(crate) fn mark_sent(&mut self) {
        self.n_sent = self.outgoing.len();
    }

    /// So many bytes at the end of the message did not go, although they were handed over.
    #[cold]
    pub(crate) fn mark_unsent(&mut self, n_bytes: usize) {
        self.n_sent = self.outgoing.len().saturating_sub(n_bytes);
        self.waits_to_write = true;
    }

    /// Sends what the socket takes, and says whether that was all; the rest goes when it is writable again.
    #[inline]
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        let Some(link) = &mut self.link else { return Ok(true) };
        while self.n_sent < self.outgoing.len() {
            match link.send(&self.outgoing[self.n_sent..]) {
                Ok(n) => self.n_sent += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        if !link.wants_write() {
            return Ok(true);
        }
        match link.flush_pending() {
            Err(e) if e.kind() != io::ErrorKind::WouldBlock => Err(e),
            _ => Ok(!link.wants_write()),
        }
    }

    /// Ends the connection: politely when nothing is in flight; the server rolls back what is open.
    pub(crate) fn disconnect(&mut self) {
        if let Some(mut link) = self.link.take() {
            let mut goodbye = Vec::new();
            wire::message::terminate(&mut goodbye);
            // Whether it arrives does not matter: closing the socket says the same.
            link.send(&goodbye).ok();
        }
        self.cancel = None;
        self.dialing = None;
    }

    /// Takes in a piece of input that came at `now`.
    ///
    /// # Errors
    /// The server broke the protocol: the connection is to be ended.
    #[inline]
    pub(crate) fn receive(&mut self, input: &[u8], now: Nanos) -> Result<Received, ProtocolError> {
        if self.awaits_nothing_special()
            && let Some(reply) = self.scanner.ordinary(input)
            && let n_results = self.n_results.wrapping_add(reply.n_done)
            && self.is_answered_by(n_results)
        {
            self.status = reply.status;
            self.n_results = n_results;
            self.n_awaited = 0;
            return Ok(Received::Complete);
        }
        self.receive_any(input, now)
    }

    /// Whether one ReadyForQuery ends a statement that nobody has questions about but how it went.
    #[inline]
    fn awaits_nothing_special(&self) -> bool {
        let is_settled = self.parsed.as_ref().is_none_or(Parsed::is_settled);
        let is_special =
            self.pipeline.is_on || self.is_copying || self.waits_to_write || self.fetched.is_some();
        is_settled && self.n_awaited == 1 && !is_special
    }

    /// Whether a statement without an error may have so many results.
    #[inline]
    fn is_answered_by(&self, n_results: u32) -> bool {
        n_results.wrapping_sub(1) < self.n_results_max
    }

    /// Takes in input that comes while nothing is asked, or before the question has left.
    ///
    /// # Errors
    /// Anything but what may come at any time.
    #[cold]
    pub(crate) fn receive_unasked(&mut self, input: &[u8]) -> Result<(), ProtocolError> {
        let Client { scanner, farewell, notices, .. } = self;
        scanner.feed_unasked(input, |reply| match reply {
            Reply::Error(body) => *farewell = Some(Box::new(wire::parse_error(body))),
            Reply::Notice(body) => take_notice(body, false, farewell, notices),
            _ => {}
        })
    }

    fn receive_any(&mut self, input: &[u8], now: Nanos) -> Result<Received, ProtocolError> {
        if self.n_awaited == 0 && !self.pipeline.is_on {
            return self.receive_unasked(input).map(|()| Received::Partial);
        }
        let (received, n_taken) = self.receive_reply(input, now)?;
        if received == Received::Complete {
            // What is left came together with the end of the reply.
            self.receive_unasked(&input[n_taken..])?;
            // A COPY that failed before its first row waits for none.
            self.is_copying &= self.error.is_none() || !self.may_copy;
        }
        Ok(if self.is_copying { Received::Copy } else { received })
    }

    /// The error that the last reply carried, if it did.
    #[inline]
    pub(crate) fn take_error(&mut self) -> Option<Box<ServerError>> {
        self.error.take()
    }

    /// Why the connection ended, if the server said so; perhaps in what nobody has read yet, when it was a send
    /// that failed.
    pub(crate) fn last_words(&mut self) -> Option<Box<ServerError>> {
        const READS_MAX: usize = 16;
        let mut buffer = [0; 4096];
        for _ in 0..READS_MAX {
            let Some(link) = &mut self.link else { break };
            match link.recv(&mut buffer) {
                Ok(n @ 1..) if self.receive(&buffer[..n], 0).is_ok() => {}
                _ => break,
            }
        }
        self.error.take().or_else(|| self.farewell.take())
    }
}

#[cold]
fn take_notice(
    body: &[u8],
    is_of_parse: bool,
    farewell: &mut Option<Box<ServerError>>,
    notices: &mut Notices,
) {
    if is_farewell(body) {
        *farewell = Some(Box::new(wire::parse_error(body)));
    }
    notices.take_in(body, is_of_parse);
}

/// A backend that must end at once, in a crash of another one or an immediate shutdown, sends no error but a
/// warning of the class 57P0 (`quickdie` in postgres.c). Scripts may raise any number of other notices.
fn is_farewell(body: &[u8]) -> bool {
    const CODE: &[u8] = b"\0C57P0";
    body.windows(CODE.len()).any(|window| window == CODE)
}
