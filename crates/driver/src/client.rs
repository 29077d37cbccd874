//! One client: a connection and the transaction that it is in.

pub(crate) mod exchange;
pub(crate) mod fetch;
pub(crate) mod notices;
pub(crate) mod outgoing;
pub(crate) mod parsed;
pub(crate) mod pipeline;
mod reply;
mod resting;
pub(crate) mod script;
pub(crate) mod session;
pub(crate) mod transaction;

use std::io;

use wire::{Connection, ProtocolError, Reply, Scanner, ServerError, TransactionStatus, Units};
use workload::Emulator;

use crate::client::exchange::Exchange;
use crate::client::notices::Notices;
use crate::client::outgoing::Outgoing;
use crate::client::parsed::PreparedStatements;
use crate::client::resting::RestingConnection;
use crate::client::session::{ClientSession, Destination, Dial};
use crate::client::transaction::{ClientRole, CurrentTransaction};
use crate::clock::Nanos;
use crate::prefetch;

/// Most reads from a connection of which nothing is expected: last words, notices, changed settings.
const READS_MAX: usize = 16;

/// State of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// No transaction: it takes the next one that is due. Connected, unless each transaction has a connection of its
    /// own.
    Idle,
    /// A terminal's keying and think time, at the end of which its next transaction is due. Not in flight.
    Pausing {
        /// When the next transaction is due.
        until: Nanos,
    },
    /// A connection is being made, for the first transaction after it or in place of a lost one.
    Dialing,
    /// The connection was lost or could not be made. The next attempt is due at `until`.
    Down {
        /// When it dials again.
        until: Nanos,
    },
    /// The transaction is taking steps at this very moment. In flight.
    Running,
    /// A statement was sent; its reply ends with ReadyForQuery. The transaction is in flight.
    Waiting,
    /// Between statements, the script sleeps, or a reply is held back. The transaction is in flight.
    Sleeping {
        /// When the script goes on.
        until: Nanos,
    },
    /// A statement failed inside a transaction block and ROLLBACK was sent; its answer decides whether the transaction
    /// has failed or is tried again. In flight.
    RollingBack,
    /// The client has made all its transactions, or an error ended it.
    Gone,
}

/// A client.
pub(crate) struct Client {
    /// Number in the whole load, from 0.
    pub(crate) id: usize,
    pub(crate) state: State,
    /// Produces the client's next step.
    pub(crate) emulator: Emulator,
    /// Which transactions it runs.
    pub(crate) role: ClientRole,
    pub(crate) transaction: CurrentTransaction,
    pub(crate) record: ClientRecord,
    pub(crate) session: ClientSession,
    /// Where `session` leads.
    pub(crate) destination: Destination,
    /// The connection to elsewhere, if it has two.
    resting: Option<Box<RestingConnection>>,
    pub(crate) dial: Dial,
    pub(crate) exchange: Exchange,
    pub(crate) outgoing: Outgoing,
    scanner: Scanner,
    /// Notices of the server that nobody has looked at yet.
    pub(crate) notices: Notices,
}

/// What a client has done so far, and since when it is free to do more.
#[derive(Default)]
pub(crate) struct ClientRecord {
    /// Transactions that have ended or were skipped: pgbench's `cnt`.
    pub(crate) n_ended: u64,
    /// Transactions committed within the measurement window.
    pub(crate) n_measured: u64,
    /// Transactions that the server has reported as ended: ReadyForQuery messages outside of a transaction block.
    pub(crate) n_server_transactions: u64,
    /// When it became free to take a slot of the schedule; 0 before its first.
    pub(crate) idle_since: Nanos,
}

/// The result of taking in a piece of input.
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
            state: State::Idle,
            emulator,
            role: ClientRole::default(),
            transaction: CurrentTransaction::default(),
            record: ClientRecord::default(),
            session: ClientSession::default(),
            destination: Destination::default(),
            resting: None,
            dial: Dial::default(),
            exchange: Exchange::default(),
            outgoing: Outgoing::default(),
            scanner: Scanner::new(),
            notices: Notices::default(),
        }
    }

    /// Takes over a fresh connection. `parsed` lists the statements that its server session has parsed.
    ///
    /// # Errors
    /// The server went on talking after it was ready.
    pub(crate) fn connect(
        &mut self,
        connection: Connection,
        parsed: Option<PreparedStatements>,
    ) -> Result<(), ProtocolError> {
        let encoding = connection.parameters.get("client_encoding");
        self.session = ClientSession {
            cancel: Some(connection.cancel_handle()),
            units: encoding.map_or(Units::default(), |name| Units::from_encoding(name)),
            link: Some(connection.link),
            parsed,
            ..ClientSession::default()
        };
        self.exchange.reset();
        self.outgoing.reset();
        self.scanner = Scanner::with_limit(self.scanner.message_bytes_max());
        self.receive_unasked(&connection.leftover)
    }

    /// Prefetches what the client points to: its next message, and its variables.
    #[inline]
    pub(crate) fn prefetch_parts(&self) {
        prefetch::lines(self.outgoing.bytes.as_slice());
        prefetch::lines(self.emulator.slots());
    }

    /// Whether a transaction is in flight.
    pub(crate) fn in_flight(&self) -> bool {
        use State::{RollingBack, Running, Sleeping, Waiting};
        matches!(self.state, Running | Waiting | Sleeping { .. } | RollingBack)
    }

    /// Whether the server owes an answer to the transaction in flight.
    pub(crate) fn awaits_server(&self) -> bool {
        matches!(self.state, State::Waiting | State::RollingBack)
    }

    /// Whether a transaction in flight has to be cancelled now that the load has ended: a request that came too late for one
    /// statement says nothing to the next. It `may_repeat` what it asked for once the server has taken all requests.
    pub(crate) fn is_to_be_cancelled(&self, may_repeat: bool) -> bool {
        match self.transaction.cancelled {
            None => self.in_flight(),
            Some(at) => may_repeat && self.state == State::Waiting && self.transaction.statement_sent > at,
        }
    }

    /// Whether a transaction block is open on the server.
    pub(crate) fn in_block(&self) -> bool {
        self.session.status != TransactionStatus::Idle
    }

    /// Says whether the rows of the next statement are kept.
    #[inline]
    pub(crate) fn want_rows(&mut self, fetch: bool) {
        if let Some(fetched) = &mut self.exchange.fetched {
            fetched.begin(fetch, self.emulator.takes_rows());
            self.scanner.want_rows(fetch);
        }
    }

    /// Prepares for a new message.
    #[inline]
    pub(crate) fn begin_message(&mut self) {
        self.outgoing.begin();
        self.exchange.begin();
    }

    /// Forgets what has not left yet, so that nothing sends it.
    #[cold]
    pub(crate) fn drop_message(&mut self) {
        self.outgoing.drop_unsent();
    }

    /// The message in the buffer asks for a reply, and for one to its Parse if that has a Sync of its own.
    #[inline]
    pub(crate) fn await_reply(&mut self) {
        self.exchange.n_awaited = 1 + u32::from(self.exchange.awaits_parse);
    }

    /// Limits what the server may send in one message, and what is kept of one statement's rows.
    pub(crate) fn limit_messages(&mut self, n_bytes_max: u32) {
        self.scanner = Scanner::with_limit(n_bytes_max);
    }

    /// The buffer for messages.
    #[inline]
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.outgoing.bytes
    }

    /// What encoding a statement needs: the emulator, what is parsed, and the buffer.
    #[inline]
    pub(crate) fn parts(&mut self) -> (&Emulator, Option<&mut PreparedStatements>, &mut Vec<u8>) {
        (&self.emulator, self.session.parsed.as_mut(), &mut self.outgoing.bytes)
    }

    /// The message in the buffer, as it was written.
    pub(crate) fn sent_bytes(&self) -> &[u8] {
        &self.outgoing.bytes
    }

    /// Sends what the socket takes, and says whether that was all; the rest goes when it is writable again.
    #[inline]
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        let Some(link) = &mut self.session.link else { return Ok(true) };
        self.outgoing.flush(link)
    }

    /// Ends the connection with a Terminate message. The server rolls back an open transaction.
    pub(crate) fn disconnect(&mut self) {
        if let Some(mut link) = self.session.link.take() {
            let mut goodbye = Vec::new();
            wire::message::terminate(&mut goodbye);
            // Whether it arrives does not matter: closing the socket has the same effect.
            link.send(&goodbye).ok();
        }
        self.session.cancel = None;
        self.dial.attempt = None;
    }

    /// Takes in a piece of input that came at `now`.
    ///
    /// # Errors
    /// The server broke the protocol: the connection has to be closed.
    #[inline]
    pub(crate) fn receive(&mut self, input: &[u8], now: Nanos) -> Result<Received, ProtocolError> {
        if self.awaits_nothing_special()
            && let Some(reply) = self.scanner.ordinary(input)
            && let n_results = self.exchange.n_results.wrapping_add(reply.n_done)
            && self.exchange.is_answered_by(n_results)
        {
            self.session.status = reply.status;
            self.exchange.n_results = n_results;
            self.exchange.n_rows = self.exchange.n_rows.saturating_add(reply.n_rows);
            self.exchange.n_awaited = 0;
            self.record.n_server_transactions += u64::from(reply.status == TransactionStatus::Idle);
            return Ok(Received::Complete);
        }
        self.receive_any(input, now)
    }

    /// Whether the reply is plain: one statement, one ReadyForQuery, and only the outcome matters.
    #[inline]
    fn awaits_nothing_special(&self) -> bool {
        let is_settled = self.session.parsed.as_ref().is_none_or(PreparedStatements::is_settled);
        let is_special = self.exchange.pipeline.is_on
            || self.exchange.is_copying
            || self.outgoing.waits_to_write
            || self.exchange.fetched.is_some();
        is_settled && self.exchange.n_awaited == 1 && !is_special
    }

    /// Takes in input that comes while no reply is due, or before the message has left.
    ///
    /// # Errors
    /// Any message except those that a server may send at any time.
    #[cold]
    pub(crate) fn receive_unasked(&mut self, input: &[u8]) -> Result<(), ProtocolError> {
        let Client { scanner, session, notices, .. } = self;
        scanner.feed_unasked(input, |reply| match reply {
            Reply::Error(body) => session.farewell = Some(Box::new(wire::parse_error(body))),
            Reply::Notice(body) => take_notice(body, false, &mut session.farewell, notices),
            _ => {}
        })
    }

    fn receive_any(&mut self, input: &[u8], now: Nanos) -> Result<Received, ProtocolError> {
        if self.exchange.n_awaited == 0 && !self.exchange.pipeline.is_on {
            return self.receive_unasked(input).map(|()| Received::Partial);
        }
        let (received, n_taken) = self.receive_reply(input, now)?;
        if received == Received::Complete {
            // What is left came together with the end of the reply.
            self.receive_unasked(&input[n_taken..])?;
            // A COPY that failed before its first row waits for none.
            self.exchange.is_copying &= self.exchange.error.is_none() || !self.exchange.may_copy;
        }
        Ok(if self.exchange.is_copying { Received::Copy } else { received })
    }

    /// The error in the last reply, if there was one.
    #[inline]
    pub(crate) fn take_error(&mut self) -> Option<Box<ServerError>> {
        self.exchange.error.take()
    }

    /// Why the connection ended, if the server said so. After a failed send, that might not have been read yet.
    pub(crate) fn last_words(&mut self) -> Option<Box<ServerError>> {
        let mut buffer = [0; 4096];
        for _ in 0..READS_MAX {
            let Some(link) = &mut self.session.link else { break };
            match link.recv(&mut buffer) {
                Ok(n @ 1..) if self.receive(&buffer[..n], 0).is_ok() => {}
                _ => break,
            }
        }
        self.exchange.error.take().or_else(|| self.session.farewell.take())
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
