//! What each message of a reply does to the client that waits for it. The plain replies of most statements take a shorter
//! way, see [`Client::receive`].

use wire::{Flow, ProtocolError, Reply, TransactionStatus};

use crate::client::exchange::{Exchange, Refused};
use crate::client::fetch::Fetched;
use crate::client::notices::Notices;
use crate::client::session::ClientSession;
use crate::client::{Client, ClientRecord, Received, take_notice};
use crate::clock::Nanos;

/// The parts of a client that a reply changes while its scanner reads it.
struct Awaiting<'a> {
    received: Received,
    exchange: &'a mut Exchange,
    session: &'a mut ClientSession,
    notices: &'a mut Notices,
    record: &'a mut ClientRecord,
    /// The client's message is not sent to its end.
    waits_to_write: bool,
}

impl Client {
    /// Takes in input up to the end of the reply, and says how much that was.
    #[inline]
    pub(super) fn receive_reply(
        &mut self,
        input: &[u8],
        now: Nanos,
    ) -> Result<(Received, usize), ProtocolError> {
        let mut awaiting = Awaiting {
            received: Received::Partial,
            exchange: &mut self.exchange,
            session: &mut self.session,
            notices: &mut self.notices,
            record: &mut self.record,
            waits_to_write: self.outgoing.waits_to_write,
        };
        let mut fault = None;
        let n_taken = self.scanner.feed(input, |reply| match awaiting.take(&reply, now) {
            true if awaiting.received == Received::Complete => Flow::Stop,
            true => Flow::Continue,
            false => {
                fault = Some(fault_of(&reply, awaiting.exchange.fetched.as_deref()));
                Flow::Stop
            }
        })?;
        fault.map_or(Ok((awaiting.received, n_taken)), Err)
    }
}

impl Awaiting<'_> {
    /// Takes one message, and returns whether the client had asked for it.
    #[inline]
    fn take(&mut self, reply: &Reply, now: Nanos) -> bool {
        match *reply {
            Reply::ReadyForQuery(status) => self.take_ready(status),
            Reply::CommandComplete { tag } => self.end_result(now, wire::reply::rows_of_tag(tag)),
            Reply::EmptyQuery => self.end_result(now, 0),
            Reply::Notice(body) => {
                take_notice(body, self.exchange.awaits_parse, &mut self.session.farewell, self.notices);
                true
            }
            Reply::Error(body) => {
                self.take_server_error(body);
                true
            }
            Reply::ParseComplete => {
                if let Some(parsed) = &mut self.session.parsed {
                    parsed.n_answered = parsed.n_answered.saturating_add(1);
                }
                true
            }
            Reply::RowDescription(body) => {
                self.exchange.fetched.as_mut().is_none_or(|fetched| fetched.columns(body))
            }
            Reply::DataRow(body) => self.exchange.fetched.as_mut().is_none_or(|fetched| fetched.row(body)),
            // The rows are received and dropped, as those of a SELECT are.
            Reply::CopyOut if self.exchange.may_copy => true,
            // It has not received all of the last rows yet.
            Reply::CopyIn if self.waits_to_write => false,
            Reply::CopyIn | Reply::CopyOut | Reply::Other(b'W') => {
                self.exchange.is_copying = true;
                true
            }
            Reply::CloseComplete | Reply::PortalSuspended | Reply::Other(_) => false,
            _ => true,
        }
    }

    /// The end of a statement, of its Parse alone, or of a pipeline's part.
    #[inline]
    fn take_ready(&mut self, status: TransactionStatus) -> bool {
        self.session.status = status;
        self.record.n_server_transactions += u64::from(status == TransactionStatus::Idle);
        if let Some(parsed) = &mut self.session.parsed {
            parsed.settle();
        }
        if self.exchange.awaits_parse {
            self.exchange.awaits_parse = false;
            self.exchange.n_awaited = self.exchange.n_awaited.saturating_sub(1);
            self.exchange.parse_error = self.exchange.error.take();
            true
        } else if self.exchange.pipeline.is_on {
            let synced = self.exchange.pipeline.synced();
            if synced == Some(true) {
                self.received = Received::Complete;
            }
            synced.is_some()
        } else {
            self.exchange.n_awaited = 0;
            self.received = Received::Complete;
            let has_answered =
                self.exchange.n_results > 0 || self.exchange.error.is_some() || self.exchange.is_copying;
            // A COPY may fail before its rows are all read. Any other early answer is made up.
            has_answered && (!self.waits_to_write || self.exchange.has_copied)
        }
    }

    /// The end of one result of the statement.
    #[inline]
    fn end_result(&mut self, now: Nanos, n_rows: u64) -> bool {
        self.exchange.n_results = self.exchange.n_results.saturating_add(1);
        self.exchange.n_rows = self.exchange.n_rows.saturating_add(n_rows);
        let has_room = self.exchange.fetched.as_mut().is_none_or(|fetched| fetched.end_result());
        has_room
            && if self.exchange.pipeline.is_on {
                self.exchange.pipeline.acknowledged(now, n_rows)
            } else {
                self.exchange.n_results <= self.exchange.n_results_max
            }
    }

    fn take_server_error(&mut self, body: &[u8]) {
        match self.exchange.pipeline.parsing() {
            // The statement will be missing: if it is run, that is the error of the pipeline.
            Some(statement) => {
                if self.exchange.refused.last().is_none_or(|refused| refused.statement != statement) {
                    let error = Box::new(wire::parse_error(body));
                    self.exchange.refused.push(Refused { statement, error, is_reported: false });
                }
            }
            None => {
                self.exchange.error.get_or_insert_with(|| Box::new(wire::parse_error(body)));
                self.exchange.pipeline.failed();
            }
        }
    }
}

/// What is wrong with a reply that was not asked for.
#[cold]
fn fault_of(reply: &Reply, fetched: Option<&Fetched>) -> ProtocolError {
    match reply {
        Reply::ReadyForQuery(_) => ProtocolError::Unanswered(reply.tag()),
        Reply::DataRow(_) | Reply::RowDescription(_) | Reply::CommandComplete { .. }
            if fetched.is_some_and(Fetched::is_full) =>
        {
            ProtocolError::TooMuch { what: "rows for one statement", limit: "`max_message_mib`" }
        }
        _ => ProtocolError::Unasked(reply.tag()),
    }
}
