//! Statements on their way to the sink, and the counts of what became of each record.

use std::borrow::Cow;
use std::collections::VecDeque;

use crate::log::combine::batch;
use crate::log::combine::prepared;
use crate::log::combine::session::{Bound, PARSES_MAX, Pending, SessionState, text_hash};
use crate::log::combine::values::{self, Cut};
use crate::log::executed::{
    BatchPart, ExecutedStatement, LoggedValue, Protocol, SessionId, StatementSink, UNKNOWN_STATE,
};
use crate::log::format::record::LogRecord;
use crate::log::reading::{LogReading, SkipReason};

/// SQLSTATE of messages that are the same in all releases, for logs without `%e`.
const STATES: &[(&str, &[u8; 5])] = &[
    ("deadlock detected", b"40P01"),
    ("could not serialize access", b"40001"),
    ("duplicate key value violates unique constraint", b"23505"),
    ("canceling statement due to", b"57014"),
    ("current transaction is aborted", b"25P02"),
    ("division by zero", b"22012"),
    ("syntax error at", b"42601"),
    ("canceling statement due to lock timeout", b"55P03"),
    ("could not obtain lock on", b"55P03"),
    ("terminating connection due to administrator command", b"57P01"),
];

/// An `execute` line.
pub(super) struct ExecuteStep<'a> {
    pub(super) name: &'a [u8],
    pub(super) text: &'a [u8],
    pub(super) duration_us: Option<u64>,
    pub(super) is_fetch: bool,
}

/// The sink and the counts.
pub(super) struct Output<'a> {
    sink: &'a mut dyn StatementSink,
    pub(super) reading: LogReading,
    next_id: SessionId,
    cut: Cut,
}

impl<'a> Output<'a> {
    pub(super) fn new(sink: &'a mut dyn StatementSink) -> Output<'a> {
        Output { sink, reading: LogReading::default(), next_id: 0, cut: Cut::default() }
    }

    pub(super) fn decode<'b>(&mut self, bytes: &'b [u8]) -> Cow<'b, str> {
        decode(bytes, &mut self.reading.foreign_texts)
    }

    /// `statement: …`, with or without a duration.
    pub(super) fn simple(
        &mut self,
        state: &mut SessionState,
        text: &[u8],
        duration_us: Option<u64>,
        record: &LogRecord,
        now_us: i64,
    ) {
        self.reading.counts.statements += 1;
        self.push_pending(state);
        self.skip_loose(state);
        let mut statement = new_statement(record, now_us, duration_us);
        statement.text = self.decode(text).into_owned();
        let mut logged = None;
        if let Some((name, text)) = prepared::prepared(&statement.text) {
            state.prepare(name, text);
        } else if let Some((name, Some(parameters))) = prepared::executed(&statement.text) {
            let detail = record.detail.strip_prefix(b"prepare: ").map(|detail| self.decode(detail));
            let of_detail = detail.as_deref().and_then(prepared::prepared).map(|(_, text)| text);
            if let Some(text) = of_detail.or_else(|| state.prepared(&name)) {
                logged = Some(std::mem::replace(&mut statement.text, text.to_string()));
                statement.parameters = parameters;
                statement.protocol = Protocol::Named(name);
            }
        }
        self.push_or_wait(state, statement, logged);
    }

    /// `execute NAME: …`, with or without a duration.
    pub(super) fn execute(
        &mut self,
        state: &mut SessionState,
        step: &ExecuteStep,
        record: &LogRecord,
        now_us: i64,
    ) {
        self.reading.counts.statements += 1;
        self.push_pending(state);
        let mut statement = new_statement(record, now_us, step.duration_us);
        statement.text = self.decode(step.text).into_owned();
        statement.protocol = self.protocol(step.name);
        statement.is_fetch = step.is_fetch;
        if let Some(list) = values::list_of_detail(&record.detail) {
            statement.parameters = self.values(list).unwrap_or_default();
        }
        match state.bound.take() {
            Some(bound) if bound.name == step.name => {
                self.reading.counts.binds += 1;
                statement.bind_us = bound.us;
            }
            Some(bound) => self.reading.skip(SkipReason::BindAlone, bound.us),
            None => {}
        }
        statement.parse_us = self.take_parse(state, step.name);
        // With log_duration, the durations of parse and bind are lines without text before it.
        let mut loose: VecDeque<u64> = state.loose_us.drain(..).collect();
        self.reading.counts.durations += loose.len() as u64;
        statement.bind_us += loose.pop_back().unwrap_or(0);
        statement.parse_us += loose.iter().sum::<u64>();
        self.push_or_wait(state, statement, None);
    }

    /// `duration: N ms` without a text.
    pub(super) fn duration(&mut self, state: &mut SessionState, us: u64, record: &LogRecord, now_us: i64) {
        let Some(mut pending) = state.pending.take() else {
            if state.loose_us.len() == 2 {
                self.reading.skip(SkipReason::DurationWithoutText, state.loose_us.remove(0));
            }
            state.loose_us.push(us);
            return;
        };
        self.reading.counts.durations += 1;
        let statement = &mut pending.statement;
        statement.duration_us = Some(us);
        statement.start_us = before(now_us, us);
        statement.xid = statement.xid.max(record.xid);
        if statement.query_id == 0 {
            statement.query_id = record.query_id;
        }
        self.push(state, pending.statement);
    }

    /// `parse NAME: …`.
    pub(super) fn parse(&mut self, state: &mut SessionState, name: &[u8], us: u64) {
        self.push_pending(state);
        self.skip_loose(state);
        if let Some(at) = state.parses.iter().position(|(parsed, _)| parsed == name) {
            let (_, us) = state.parses.remove(at);
            self.reading.skip(SkipReason::ParseAlone, us);
        }
        if state.parses.len() >= PARSES_MAX {
            let (_, us) = state.parses.remove(0);
            self.reading.skip(SkipReason::ParseAlone, us);
        }
        state.parses.push((name.to_vec(), us));
    }

    /// `bind NAME: …`.
    pub(super) fn bind(
        &mut self,
        state: &mut SessionState,
        name: &[u8],
        text: &[u8],
        us: u64,
        record: &LogRecord,
    ) {
        self.push_pending(state);
        self.skip_loose(state);
        let detail = values::list_of_detail(&record.detail).unwrap_or_default().to_vec();
        let bound = Bound { name: name.to_vec(), text_hash: text_hash(text), us, detail };
        if let Some(earlier) = state.bound.replace(Box::new(bound)) {
            self.reading.skip(SkipReason::BindAlone, earlier.us);
        }
    }

    /// An error: of the statement that waits for its duration, or of one whose text comes with the error.
    pub(super) fn error(&mut self, state: &mut SessionState, record: &LogRecord, now_us: i64) {
        let error = Some(record.state.unwrap_or_else(|| known_state(&record.message)));
        let text = (!record.statement.is_empty()).then(|| self.decode(&record.statement).into_owned());
        let is_pending = state.pending.as_ref().is_some_and(|pending| match &text {
            Some(text) => pending.logged() == text,
            // Where durations are logged, a statement without one has not ended otherwise.
            None => self.reading.timed > 0,
        });
        if is_pending && let Some(mut pending) = state.pending.take() {
            self.reading.counts.errors += 1;
            pending.statement.error = error;
            if pending.statement.parameters.is_empty() {
                pending.statement.parameters = self.values_of_error(record, None);
            }
            self.push(state, pending.statement);
            return;
        }
        let Some(text) = text else {
            self.reading.skip(SkipReason::ErrorWithoutStatement, 0);
            return;
        };
        self.reading.counts.statements += 1;
        self.push_pending(state);
        self.skip_loose(state);
        let mut statement = new_statement(record, now_us, None);
        let bound = state.bound.take_if(|bound| bound.text_hash == text_hash(&record.statement));
        statement.protocol = match &bound {
            Some(bound) => self.protocol(&bound.name),
            None if is_extended(record, &text) => Protocol::Extended,
            None => Protocol::Simple,
        };
        if let Some(bound) = &bound {
            self.reading.counts.binds += 1;
            statement.bind_us = bound.us;
            statement.parse_us = self.take_parse(state, &bound.name);
        }
        statement.parameters = self.values_of_error(record, bound.as_deref());
        statement.error = error;
        statement.text = text;
        self.push(state, statement);
    }

    fn values_of_error(&mut self, record: &LogRecord, bound: Option<&Bound>) -> Vec<LoggedValue> {
        let list = values::list_of_context(&record.context).or(bound.map(|bound| bound.detail.as_slice()));
        list.and_then(|list| self.values(list)).unwrap_or_default()
    }

    fn values(&mut self, list: &[u8]) -> Option<Vec<LoggedValue>> {
        let foreign = &mut self.reading.foreign_texts;
        values::values(list, &mut self.cut, &mut |bytes| decode(bytes, foreign).into_owned())
    }

    fn protocol(&mut self, name: &[u8]) -> Protocol {
        if name == b"<unnamed>" {
            Protocol::Extended
        } else {
            Protocol::Named(self.decode(name).into_owned())
        }
    }

    fn take_parse(&mut self, state: &mut SessionState, name: &[u8]) -> u64 {
        let Some(at) = state.parses.iter().position(|(parsed, _)| parsed == name) else { return 0 };
        self.reading.counts.parses += 1;
        state.parses.remove(at).1
    }

    /// Pushes a statement that has its duration; the others wait for it.
    fn push_or_wait(
        &mut self,
        state: &mut SessionState,
        statement: ExecutedStatement,
        logged: Option<String>,
    ) {
        if statement.duration_us.is_some() {
            self.push(state, statement);
        } else {
            state.pending = Some(Box::new(Pending { statement, logged }));
        }
    }

    /// The statement that waited for a duration has none.
    fn push_pending(&mut self, state: &mut SessionState) {
        if let Some(pending) = state.pending.take() {
            self.push(state, pending.statement);
        }
    }

    fn skip_loose(&mut self, state: &mut SessionState) {
        for us in state.loose_us.drain(..) {
            self.reading.skip(SkipReason::DurationWithoutText, us);
        }
    }

    /// Everything that waits in a session is given up.
    pub(super) fn close(&mut self, state: &mut SessionState) {
        self.push_pending(state);
        self.skip_loose(state);
        for (_, us) in state.parses.drain(..) {
            self.reading.skip(SkipReason::ParseAlone, us);
        }
        if let Some(bound) = state.bound.take() {
            self.reading.skip(SkipReason::BindAlone, bound.us);
        }
        state.forget_prepared();
    }

    /// The end of a session.
    pub(super) fn end(&mut self, state: &mut SessionState) {
        self.close(state);
        if let Some(id) = state.id {
            self.sink.session_ended(id, &state.facts);
        }
    }

    fn push(&mut self, state: &mut SessionState, mut statement: ExecutedStatement) {
        let id = *state.id.get_or_insert_with(|| {
            let id = self.next_id;
            self.next_id += 1;
            self.reading.sessions += 1;
            self.sink.session_began(id, &state.facts);
            id
        });
        statement.session = id;
        let parts = match statement.protocol {
            Protocol::Simple if statement.error.is_none() => batch::statements(&statement.text),
            _ => Vec::new(),
        };
        if parts.len() < 2 {
            self.count(&statement);
            self.sink.executed(statement);
            return;
        }
        let of = u32::try_from(parts.len()).unwrap_or(u32::MAX);
        for (number, text) in (1..).zip(parts) {
            let part = ExecutedStatement {
                text: text.to_string(),
                duration_us: if number == 1 { statement.duration_us } else { None },
                batch: BatchPart { number, of },
                ..statement.clone()
            };
            self.count(&part);
            self.sink.executed(part);
        }
    }

    fn count(&mut self, statement: &ExecutedStatement) {
        let reading = &mut self.reading;
        reading.statements += 1;
        reading.failed += u64::from(statement.error.is_some());
        reading.timed += u64::from(statement.duration_us.is_some());
        reading.batched += u64::from(statement.batch.number > 1);
        reading.extended += u64::from(statement.protocol != Protocol::Simple);
        reading.with_transaction += u64::from(statement.transaction.is_some());
        reading.with_query_id += u64::from(statement.query_id != 0);
        let has_values = !statement.parameters.is_empty();
        reading.with_values += u64::from(has_values);
        let is_parameterized =
            has_values || (statement.protocol != Protocol::Simple && has_placeholder(&statement.text));
        reading.parameterized += u64::from(is_parameterized);
    }
}

fn new_statement(record: &LogRecord, now_us: i64, duration_us: Option<u64>) -> ExecutedStatement {
    ExecutedStatement {
        session: 0,
        start_us: before(now_us, duration_us.unwrap_or(0)),
        duration_us,
        parse_us: 0,
        bind_us: 0,
        protocol: Protocol::Simple,
        text: String::new(),
        parameters: Vec::new(),
        transaction: record.transaction,
        xid: record.xid,
        query_id: record.query_id,
        error: None,
        batch: BatchPart::ALONE,
        is_fetch: false,
    }
}

/// An instant minus a duration.
fn before(now_us: i64, us: u64) -> i64 {
    now_us.saturating_sub(i64::try_from(us).unwrap_or(i64::MAX))
}

/// Text of the server's encoding: UTF-8, or each byte as in Latin-1.
fn decode<'a>(bytes: &'a [u8], foreign: &mut u64) -> Cow<'a, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => {
            *foreign += 1;
            Cow::Owned(bytes.iter().map(|byte| *byte as char).collect())
        }
    }
}

/// Whether an error is of the extended protocol: by what the process did, or by its text.
fn is_extended(record: &LogRecord, text: &str) -> bool {
    matches!(record.tag, b"PARSE" | b"BIND")
        || values::list_of_context(&record.context).is_some()
        || has_placeholder(text)
}

/// Whether a text has `$1`.
fn has_placeholder(text: &str) -> bool {
    text.as_bytes().windows(2).any(|pair| pair[0] == b'$' && pair[1].is_ascii_digit())
}

fn known_state(message: &[u8]) -> [u8; 5] {
    let known = STATES.iter().filter(|(words, _)| message.starts_with(words.as_bytes()));
    known.max_by_key(|(words, _)| words.len()).map_or(UNKNOWN_STATE, |(_, state)| **state)
}
