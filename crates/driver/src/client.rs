//! One client: a connection and the transaction that it is in.

use std::io;

use wire::{CancelHandle, Connection, Dialing, Link, ServerError, Units};
use wire::{Flow, Reply, Scanner, TransactionStatus};
use workload::Machine;

use crate::clock::Nanos;
use crate::fetch::Fetched;
use crate::notices::Notices;
use crate::pipeline::Pipeline;
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
    pub(crate) machine: Machine,
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
    /// The server waits for the rows of a COPY, or sends some although scripts may not copy.
    pub(crate) is_copying: bool,
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

/// Prepared statements of a connection, by their number in the whole load.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parsed {
    pub(crate) is_parsed: Box<[bool]>,
    /// Those whose Parse was sent since the last ReadyForQuery, in order, and how many were answered.
    pub(crate) asked: Vec<usize>,
    pub(crate) n_answered: usize,
}

impl Parsed {
    /// Nothing is parsed yet.
    pub(crate) fn none(n_statements: usize) -> Parsed {
        Parsed { is_parsed: vec![false; n_statements].into(), ..Parsed::default() }
    }

    /// Whether the statement must be parsed now; from then on it counts as parsed.
    pub(crate) fn ask(&mut self, number: usize) -> bool {
        let is_new = !std::mem::replace(&mut self.is_parsed[number], true);
        if is_new {
            self.asked.push(number);
        }
        is_new
    }

    /// As [`Parsed::ask`], of a statement that is asked for once: if it cannot be parsed, it is not there.
    pub(crate) fn ask_once(&mut self, number: usize) -> bool {
        !std::mem::replace(&mut self.is_parsed[number], true)
    }

    /// Whether all that was asked is answered.
    #[inline]
    fn is_settled(&self) -> bool {
        self.asked.is_empty() && self.n_answered == 0
    }

    /// All answers have come; those that are missing were errors.
    fn settle(&mut self) {
        for number in self.asked.drain(..).skip(self.n_answered) {
            self.is_parsed[number] = false;
        }
        self.n_answered = 0;
    }
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
    pub(crate) fn new(id: usize, machine: Machine) -> Client {
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
            machine,
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
            is_copying: false,
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
    pub(crate) fn connect(&mut self, connection: Connection, parsed: Option<Parsed>) -> Result<(), String> {
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
        self.scanner = Scanner::new();
        self.outgoing.clear();
        self.n_sent = 0;
        self.receive(&connection.leftover, 0).map(drop)
    }

    /// Has what the client points to brought into the processor's caches: its next message, and its variables.
    #[inline]
    pub(crate) fn prefetch_parts(&self) {
        prefetch::lines(self.outgoing.as_slice());
        prefetch::lines(self.machine.slots());
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
            fetched.begin(fetch, self.machine.takes_rows());
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
    }

    /// The buffer for messages.
    #[inline]
    pub(crate) fn outgoing(&mut self) -> &mut Vec<u8> {
        &mut self.outgoing
    }

    /// What encoding a statement needs: the machine, what is parsed, and the buffer.
    #[inline]
    pub(crate) fn parts(&mut self) -> (&Machine, Option<&mut Parsed>, &mut Vec<u8>) {
        (&self.machine, self.parsed.as_mut(), &mut self.outgoing)
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
    #[inline]
    pub(crate) fn receive(&mut self, input: &[u8], now: Nanos) -> Result<Received, String> {
        if self.awaits_nothing_special()
            && let Some(reply) = self.scanner.ordinary(input)
        {
            self.status = reply.status;
            self.n_results += reply.n_done;
            return Ok(Received::Complete);
        }
        self.receive_any(input, now)
    }

    /// Whether the next ReadyForQuery ends a statement that nobody has questions about but how it went.
    #[inline]
    fn awaits_nothing_special(&self) -> bool {
        let is_settled = self.parsed.as_ref().is_none_or(Parsed::is_settled);
        is_settled && !(self.pipeline.is_on || self.awaits_parse || self.is_copying || self.fetched.is_some())
    }

    fn receive_any(&mut self, input: &[u8], now: Nanos) -> Result<Received, String> {
        let Client {
            scanner,
            status,
            error,
            n_results,
            pipeline,
            refused,
            parsed,
            is_copying,
            may_copy,
            fetched,
            awaits_parse,
            parse_error,
            farewell,
            notices,
            ..
        } = self;
        let mut received = Received::Partial;
        scanner
            .feed(input, |reply| {
                match reply {
                    Reply::ReadyForQuery(word) => {
                        *status = word;
                        if let Some(parsed) = parsed {
                            parsed.settle();
                        }
                        if *awaits_parse {
                            *awaits_parse = false;
                            *parse_error = error.take();
                        } else if !pipeline.is_on || pipeline.synced() {
                            received = Received::Complete;
                        }
                    }
                    Reply::CommandComplete { .. } | Reply::EmptyQuery => {
                        *n_results += 1;
                        if pipeline.is_on {
                            pipeline.acknowledged(now);
                        }
                        if let Some(fetched) = fetched {
                            fetched.end_result();
                        }
                    }
                    // After the reply's end it is no error of the statement: the server ends the connection.
                    Reply::Error(body) if received == Received::Complete => {
                        *farewell = Some(Box::new(wire::parse_error(body)));
                    }
                    Reply::Notice(body) => {
                        if is_farewell(body) {
                            *farewell = Some(Box::new(wire::parse_error(body)));
                        }
                        notices.take_in(body, *awaits_parse);
                    }
                    Reply::Error(body) => match pipeline.parsing() {
                        // The statement will be missing: if it is run, that is the error of the pipeline.
                        Some(statement) => {
                            let error = Box::new(wire::parse_error(body));
                            refused.push(Refused { statement, error, is_told: false });
                        }
                        None => {
                            error.get_or_insert_with(|| Box::new(wire::parse_error(body)));
                            pipeline.failed();
                        }
                    },
                    Reply::ParseComplete => {
                        if let Some(parsed) = parsed {
                            parsed.n_answered += 1;
                        }
                    }
                    Reply::RowDescription(body) => {
                        if let Some(fetched) = fetched {
                            fetched.columns(body);
                        }
                    }
                    Reply::DataRow(body) => {
                        if let Some(fetched) = fetched {
                            fetched.row(body);
                        }
                    }
                    // The rows are received and dropped, as those of a SELECT are.
                    Reply::CopyOut if *may_copy => {}
                    Reply::CopyIn | Reply::CopyOut | Reply::Other(b'W') => *is_copying = true,
                    _ => {}
                }
                Flow::Continue
            })
            .map_err(|e| e.to_string())?;
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

/// A backend that must end at once, in a crash of another one or an immediate shutdown, sends no error but a
/// warning of the class 57P0 (`quickdie` in postgres.c). Scripts may raise any number of other notices.
fn is_farewell(body: &[u8]) -> bool {
    const CODE: &[u8] = b"\0C57P0";
    body.windows(CODE.len()).any(|window| window == CODE)
}
