//! What each message of a reply does to the client that waits for it, wherever more is asked or comes than most
//! statements need.

use wire::{Flow, ProtocolError, Reply, ServerError, TransactionStatus};

use crate::client::fetch::Fetched;
use crate::client::notices::Notices;
use crate::client::parsed::Parsed;
use crate::client::pipeline::Pipeline;
use crate::client::{Client, Received, Refused, take_notice};
use crate::clock::Nanos;

/// The fields of a client that a reply changes while its scanner reads it.
struct Awaiting<'a> {
    received: Received,
    status: &'a mut TransactionStatus,
    error: &'a mut Option<Box<ServerError>>,
    n_results: &'a mut u32,
    pipeline: &'a mut Pipeline,
    refused: &'a mut Vec<Refused>,
    parsed: &'a mut Option<Parsed>,
    is_copying: &'a mut bool,
    fetched: &'a mut Option<Box<Fetched>>,
    awaits_parse: &'a mut bool,
    parse_error: &'a mut Option<Box<ServerError>>,
    farewell: &'a mut Option<Box<ServerError>>,
    notices: &'a mut Notices,
    n_awaited: &'a mut u32,
    n_results_max: u32,
    may_copy: bool,
    has_copied: bool,
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
            status: &mut self.status,
            error: &mut self.error,
            n_results: &mut self.n_results,
            pipeline: &mut self.pipeline,
            refused: &mut self.refused,
            parsed: &mut self.parsed,
            is_copying: &mut self.is_copying,
            fetched: &mut self.fetched,
            awaits_parse: &mut self.awaits_parse,
            parse_error: &mut self.parse_error,
            farewell: &mut self.farewell,
            notices: &mut self.notices,
            n_awaited: &mut self.n_awaited,
            n_results_max: self.n_results_max,
            may_copy: self.may_copy,
            has_copied: self.has_copied,
            waits_to_write: self.waits_to_write,
        };
        let mut fault = None;
        let n_taken = self.scanner.feed(input, |reply| match awaiting.take(&reply, now) {
            true if awaiting.received == Received::Complete => Flow::Stop,
            true => Flow::Continue,
            false => {
                fault = Some(fault_of(&reply, awaiting.fetched.as_deref()));
                Flow::Stop
            }
        })?;
        fault.map_or(Ok((awaiting.received, n_taken)), Err)
    }
}

impl Awaiting<'_> {
    /// Takes one message; whether it is as asked.
    #[inline]
    fn take(&mut self, reply: &Reply, now: Nanos) -> bool {
        match *reply {
            Reply::ReadyForQuery(status) => self.take_ready(status),
            Reply::CommandComplete { .. } | Reply::EmptyQuery => self.end_result(now),
            Reply::Notice(body) => {
                take_notice(body, *self.awaits_parse, self.farewell, self.notices);
                true
            }
            Reply::Error(body) => {
                self.take_server_error(body);
                true
            }
            Reply::ParseComplete => {
                if let Some(parsed) = self.parsed {
                    parsed.n_answered = parsed.n_answered.saturating_add(1);
                }
                true
            }
            Reply::RowDescription(body) => self.fetched.as_mut().is_none_or(|fetched| fetched.columns(body)),
            Reply::DataRow(body) => self.fetched.as_mut().is_none_or(|fetched| fetched.row(body)),
            // The rows are received and dropped, as those of a SELECT are.
            Reply::CopyOut if self.may_copy => true,
            // It has not got all of the last ones yet.
            Reply::CopyIn if self.waits_to_write => false,
            Reply::CopyIn | Reply::CopyOut | Reply::Other(b'W') => {
                *self.is_copying = true;
                true
            }
            Reply::CloseComplete | Reply::PortalSuspended | Reply::Other(_) => false,
            _ => true,
        }
    }

    /// The end of a statement, of its Parse alone, or of a pipeline's part.
    #[inline]
    fn take_ready(&mut self, status: TransactionStatus) -> bool {
        *self.status = status;
        if let Some(parsed) = self.parsed {
            parsed.settle();
        }
        if *self.awaits_parse {
            *self.awaits_parse = false;
            *self.n_awaited = self.n_awaited.saturating_sub(1);
            *self.parse_error = self.error.take();
            true
        } else if self.pipeline.is_on {
            let synced = self.pipeline.synced();
            if synced == Some(true) {
                self.received = Received::Complete;
            }
            synced.is_some()
        } else {
            *self.n_awaited = 0;
            self.received = Received::Complete;
            let has_answered = *self.n_results > 0 || self.error.is_some() || *self.is_copying;
            // A COPY that fails does so before its rows are all read. Any other answer is made up.
            has_answered && (!self.waits_to_write || self.has_copied)
        }
    }

    /// The end of one result of the statement.
    #[inline]
    fn end_result(&mut self, now: Nanos) -> bool {
        *self.n_results = self.n_results.saturating_add(1);
        let has_room = self.fetched.as_mut().is_none_or(|fetched| fetched.end_result());
        has_room
            && match self.pipeline.is_on {
                true => self.pipeline.acknowledged(now),
                false => *self.n_results <= self.n_results_max,
            }
    }

    fn take_server_error(&mut self, body: &[u8]) {
        match self.pipeline.parsing() {
            // The statement will be missing: if it is run, that is the error of the pipeline.
            Some(statement) => {
                if self.refused.last().is_none_or(|refused| refused.statement != statement) {
                    let error = Box::new(wire::parse_error(body));
                    self.refused.push(Refused { statement, error, is_told: false });
                }
            }
            None => {
                self.error.get_or_insert_with(|| Box::new(wire::parse_error(body)));
                self.pipeline.failed();
            }
        }
    }
}

/// What is wrong with a reply that is not as asked.
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
