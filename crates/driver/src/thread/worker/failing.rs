//! Error handling: transactions fail or are tried again, clients end.

use model::load::execution::ExecutionEnd;
use model::load::{OnDisconnect, OnError, Protocol, drive};
use model::telemetry::event::{Event, EventKind};
use wire::{ProtocolError, ServerError, Units};
use workload::RunError;

use super::turn::Turn;
use super::{Worker, execution};
use crate::client::{Client, State};
use crate::clock::Nanos;
use crate::tally::{ERRORS_MAX, LIMIT, LOST, PROTOCOL, SCRIPT, SqlState, sqlstate, sqlstate_text};
use crate::thread::log::TransactionOutcome;
use crate::thread::messages::{self, CommandRef, TryCount};
use crate::thread::stop;

const SERIALIZATION_FAILURE: SqlState = *b"40001 ";
const DEADLOCK_DETECTED: SqlState = *b"40P01 ";

/// Why a client ends.
pub(super) struct Abort {
    pub(super) state: SqlState,
    /// pgbench's message.
    pub(super) text: String,
    /// The message that pgbench writes before it.
    pub(super) cause: Option<String>,
}

impl Worker<'_> {
    /// The server reported an error. It ends the client, or the transaction is rolled back and then tried again or failed.
    #[cold]
    pub(super) fn fail(&mut self, index: usize, now: Nanos, error: &ServerError) {
        // If the statement could not be parsed, its second error only says that there is no such statement.
        let units = self.setup.clients[index].session.units;
        let cause = self.setup.clients[index].exchange.parse_error.take();
        let text = cause
            .as_ref()
            .map(|_| self.statement_text(index, self.setup.clients[index].transaction.statement));
        let cause_text = cause.as_ref().map(|error| error.libpq_text(text.as_deref(), units));
        let refused = self.refusal(index).cloned();
        let shown = cause.as_deref().or(refused.as_ref()).unwrap_or(error);
        let state = sqlstate(shown.sqlstate.as_bytes());
        if self.reconnects() && ends_session(shown) && self.may_be_committed(index) {
            // It is about a session, and not the transaction: whoever says it need not know what became of the commit.
            let why = shown.to_string();
            self.setup.clients[index].session.farewell = Some(Box::new(shown.clone()));
            return self.lose(index, now, &why);
        }
        if self.setup.clients[index].emulator.expects(&shown.sqlstate) {
            // The transaction is undone as it should be.
            self.end_command(index, now);
            return self.go_on(index, now);
        }
        self.count_statement_error(index, state);
        let client = &self.setup.clients[index];
        let (scripts, script) = (self.setup.scripts, client.transaction.script);
        let is_refusal = scripts.expects(script, state);
        let is_expected = self.is_foreseen(index, state, is_refusal) || is_refusal;
        let client = &self.setup.clients[index];
        let goes_on = client.transaction.cancelled.is_some()
            || is_retryable(state)
            || is_expected
            || scripts.retries(script, state)
            || self.setup.load.on_error == OnError::Continue;
        if client.exchange.pipeline.is_ending {
            self.count_pipeline(index);
        }
        let client = &self.setup.clients[index];
        let (place, query) = (self.place(index), self.query_number(index));
        if !goes_on {
            let message = error.libpq_text(self.query_text(index).as_deref(), units);
            let text = messages::aborted_by_server(place, query, &message);
            self.keep_message(state, || shown.to_string());
            self.setup.clients[index].transaction.failure = Some(state);
            return self.abort(index, now, Abort { state, text, cause: cause_text });
        }
        if client.transaction.cancelled.is_none() {
            if self.setup.load.verbose_errors {
                let message = error.libpq_text(self.query_text(index).as_deref(), units);
                let event = Event::new(0, EventKind::ErrorReported, messages::got_error(place, &message));
                self.report_event(now, located(event, place, state).with("message", message));
            }
            if !is_expected {
                self.keep_message(state, || shown.to_string());
            }
        }
        let client = &mut self.setup.clients[index];
        client.transaction.failure = Some(state);
        if !client.in_block() {
            return self.after_error(index, now);
        }
        client.state = State::RollingBack;
        client.transaction.statement_sent = now;
        client.begin_message();
        client.want_rows(false);
        wire::message::query(client.buffer(), "ROLLBACK");
        client.await_reply();
        self.flush(index);
    }

    /// Whether the source of a trace had this error here, too. What was cancelled at the end of the load says nothing.
    fn is_foreseen(&mut self, index: usize, state: SqlState, is_refusal: bool) -> bool {
        let client = &mut self.setup.clients[index];
        if client.transaction.cancelled.is_some() {
            return false;
        }
        client.emulator.traced().is_some_and(|traced| traced.failed(&sqlstate_text(&state), is_refusal))
    }

    /// Counts an error with the statement that it is of. What was cancelled at the end of the load has none.
    fn count_statement_error(&mut self, index: usize, state: SqlState) {
        let client = &self.setup.clients[index];
        let statement = match &client.exchange.pipeline {
            pipeline if pipeline.is_ending => pipeline.failure().map(|(statement, _)| statement),
            _ => Some(client.transaction.statement),
        };
        if let (Some(statement), None) = (statement, client.transaction.cancelled) {
            self.tally.scripts[client.transaction.script].statement_error(statement as u32, state, 1);
        }
    }

    /// Nothing of the failed try is left on the server: the transaction is tried again, or has failed.
    pub(super) fn after_error(&mut self, index: usize, now: Nanos) {
        let can_retry = self.can_retry(index, now);
        let client = &mut self.setup.clients[index];
        let Some(state) = client.transaction.failure.take() else { return };
        let tally = &mut self.tally.scripts[client.transaction.script];
        client.transaction.ended_with = Some(state);
        if client.transaction.cancelled.is_some() {
            tally.counts.aborted += 1;
            self.report_uncounted(index, ExecutionEnd::Aborted, now);
            return self.rest(index, now);
        }
        let tries = client.transaction.tries;
        let command = client.emulator.current();
        if can_retry {
            tally.counts.retries += 1;
            tally.counts.retried += u64::from(tries == 1);
            if let Some(command) = tally.commands.get_mut(command) {
                command.retries += 1;
            }
            client.transaction.tries = tries.saturating_add(1);
            client.transaction.texts.clear();
            client.emulator.rewind(&self.setup.scripts.bundle.programs[client.transaction.script]);
            self.report_tries(index, now, tries, EventKind::ErrorRetried);
            return self.go_on(index, now);
        }
        let is_foreseen = client.emulator.traced().is_some_and(|traced| traced.has_foreseen());
        if is_foreseen || self.setup.scripts.expects(client.transaction.script, state) {
            tally.counts.expected += 1;
            self.log(index, TransactionOutcome::Expected, now);
            return self.rest(index, now);
        }
        tally.counts.failed += 1;
        tally.error(state, 1);
        if let Some(command) = tally.commands.get_mut(command) {
            command.failed += 1;
        }
        self.report_tries(index, now, tries, EventKind::ErrorFailed);
        let outcome = match state {
            SERIALIZATION_FAILURE => TransactionOutcome::Serialization,
            DEADLOCK_DETECTED => TransactionOutcome::Deadlock,
            _ => TransactionOutcome::Other,
        };
        self.log(index, outcome, now);
        self.rest(index, now);
    }

    /// A transaction has ended outside of the client's own steps: on to the next.
    fn rest(&mut self, index: usize, now: Nanos) {
        if self.next_transaction(index, now) {
            self.go_on(index, now);
        }
    }

    fn can_retry(&self, index: usize, now: Nanos) -> bool {
        let (load, client) = (self.setup.load, &self.setup.clients[index]);
        let (scripts, script) = (self.setup.scripts, client.transaction.script);
        let tries_max = scripts.tries_max(script, load.max_tries);
        let is_to_be_retried = |state| is_retryable(state) || scripts.retries(script, state);
        client.transaction.failure.is_some_and(is_to_be_retried)
            && (tries_max == 0 || client.transaction.tries < tries_max)
            && load.latency_limit_ns.is_none_or(|limit_ns| now - client.transaction.due <= limit_ns)
            && now < self.bounds.end
    }

    fn report_tries(&mut self, index: usize, now: Nanos, n: u32, kind: EventKind) {
        let load = self.setup.load;
        if !load.verbose_errors {
            return;
        }
        let client = &self.setup.clients[index];
        let share = |limit_ns: u64| (now - client.transaction.due) as f64 / limit_ns as f64;
        let max = self.setup.scripts.tries_max(client.transaction.script, load.max_tries);
        let tries = TryCount { n, max, time_share: load.latency_limit_ns.map(share) };
        let text = messages::after_error(client.id, kind == EventKind::ErrorRetried, tries);
        self.report_event(now, Event::new(0, kind, text).with("client", client.id).with("tries", n));
    }

    /// The ROLLBACK after an error failed: the state of the session is unknown.
    #[cold]
    pub(super) fn fail_rollback(&mut self, index: usize, now: Nanos, error: &ServerError) {
        if self.setup.clients[index].transaction.cancelled.is_some() {
            // A late request to cancel has hit it. The load is over, and the session ends with it.
            return self.after_error(index, now);
        }
        let message = error.libpq_text(None, Units::default());
        let text = format!(
            "client {} aborted while rolling back the transaction after an error; {message}",
            self.setup.clients[index].id
        );
        self.abort(index, now, Abort { state: sqlstate(error.sqlstate.as_bytes()), text, cause: None });
    }

    /// The script itself went wrong.
    #[cold]
    pub(super) fn script_error(&mut self, index: usize, now: Nanos, error: &RunError) -> Turn {
        let place = CommandRef { command: error.command, ..self.place(index) };
        let text = messages::command_failed(place, error.command_name, error.outcome);
        let cause = (!error.cause.is_empty()).then(|| error.cause.clone());
        self.record.messages.entry(SCRIPT).or_insert_with(|| match &cause {
            Some(_) => format!("script error: {error}"),
            None => text.clone(),
        });
        self.abort(index, now, Abort { state: SCRIPT, text, cause });
        Turn::Waits
    }

    /// A COPY began, which scripts must not use.
    #[cold]
    pub(super) fn refuse_copy(&mut self, index: usize, now: Nanos) {
        let text = "COPY is not supported in pgbench, aborting".to_string();
        self.abort(index, now, Abort { state: SCRIPT, text, cause: None });
    }

    /// The script ended inside a pipeline.
    #[cold]
    pub(super) fn abort_open_pipeline(&mut self, index: usize, now: Nanos) {
        let id = self.setup.clients[index].id;
        let text = format!("client {id} aborted: end of script reached with pipeline open");
        self.abort(index, now, Abort { state: SCRIPT, text, cause: None });
    }

    /// The script ended inside a transaction block.
    #[cold]
    pub(super) fn abort_open_block(&mut self, index: usize, now: Nanos) {
        let id = self.setup.clients[index].id;
        let text =
            format!("client {id} aborted: end of script reached without completing the last transaction");
        self.abort(index, now, Abort { state: SCRIPT, text, cause: None });
    }

    /// The connection ended. A transaction in flight has failed, unless the server may have committed it.
    #[cold]
    pub(super) fn lose(&mut self, index: usize, now: Nanos, why: &str) {
        self.lose_as(index, now, LOST, why);
    }

    /// As [`Worker::lose`], with a word for why, unless the server has said so itself.
    #[cold]
    pub(super) fn lose_as(&mut self, index: usize, now: Nanos, word: SqlState, why: &str) {
        let place = self.place(index);
        let client = &mut self.setup.clients[index];
        if client.state == State::Gone {
            // Its session was kept, and cannot be asked any more.
            return self.let_go(index);
        }
        let last_words = client.last_words();
        let query = self.query_number(index);
        let client = &self.setup.clients[index];
        let text = match last_words.as_deref().filter(|error| error.is_error()) {
            Some(error) => {
                messages::aborted_by_server(place, query, &error.libpq_text(None, Units::default()))
            }
            None => messages::command_failed(place, "SQL", "perhaps the backend died while processing"),
        };
        let (state, message) = last_words.map_or((word, why.to_string()), |error| {
            (sqlstate(error.sqlstate.as_bytes()), error.to_string())
        });
        if !client.notices.is_empty() {
            self.report_notices(index, now);
        }
        self.keep_message(state, || message.clone());
        let event = Event::new(0, EventKind::ConnectionLost, message)
            .with("client", place.client)
            .with("sqlstate", sqlstate_text(&state));
        self.report_event(now, event);
        let is_failed = self.setup.clients[index].in_flight() && !self.may_be_committed(index);
        let connects = &mut self.tally.scripts[place.script].connects;
        connects.lost += 1;
        connects.failed += u64::from(is_failed);
        if self.reconnects() {
            self.count_lost(index, state, now);
            if !self.has_made_all(index) {
                return self.go_down(index, now);
            }
            self.let_go(index);
            return self.retire(index);
        }
        self.abort_lost(index, now, Abort { state, text, cause: None });
    }

    /// The server broke the protocol, and cannot be trusted any more: the client ends, even where lost connections are
    /// replaced, and the event voids the run.
    #[cold]
    pub(super) fn distrust(&mut self, index: usize, now: Nanos, error: &ProtocolError) {
        if self.setup.clients[index].state == State::Gone {
            return self.let_go(index);
        }
        if error.is_our_limit() {
            return self.exceed_limit(index, now, error);
        }
        let place = self.place(index);
        let message = error.to_string();
        let event = Event::new(0, EventKind::ProtocolBroken, &message).with("client", place.client);
        self.report_event(now, event);
        let text = messages::command_failed(place, "SQL", &message);
        self.abort_lost(index, now, Abort { state: PROTOCOL, text, cause: None });
    }

    /// The server sent more than is taken here. It did nothing wrong, but what follows on the connection is lost: the client
    /// ends, even where lost connections are replaced, because its next transaction would most likely end the same way.
    #[cold]
    fn exceed_limit(&mut self, index: usize, now: Nanos, error: &ProtocolError) {
        let place = self.place(index);
        let label = self.statement_label(index);
        let message = format!("{error}, for the statement `{label}`");
        let event = Event::new(0, EventKind::LimitExceeded, &message);
        self.report_event(now, located(event, place, LIMIT));
        let text = messages::command_failed(place, "SQL", &message);
        self.abort_lost(index, now, Abort { state: LIMIT, text, cause: None });
    }

    /// The first line of the client's current statement.
    fn statement_label(&self, index: usize) -> String {
        let client = &self.setup.clients[index];
        let program = &self.setup.scripts.bundle.programs[client.transaction.script];
        program.statements.get(client.transaction.statement).map_or(String::new(), |one| one.label.clone())
    }

    /// Keeps the first message of each SQLSTATE that is counted separately.
    pub(super) fn keep_message(&mut self, state: SqlState, message: impl FnOnce() -> String) {
        if self.record.messages.len() < ERRORS_MAX || self.record.messages.contains_key(&state) {
            self.record.messages.entry(state).or_insert_with(message);
        }
    }

    /// As [`Worker::abort`], for a client without a connection.
    pub(super) fn abort_lost(&mut self, index: usize, now: Nanos, abort: Abort) {
        let load = self.setup.load;
        let ends_load = load.on_disconnect == OnDisconnect::EndLoad || load.on_error == OnError::EndLoad;
        self.abort_as(index, now, abort, ends_load);
    }

    /// An error ends the client, and with it the load if the load says so.
    pub(super) fn abort(&mut self, index: usize, now: Nanos, abort: Abort) {
        let ends_load = self.setup.load.on_error == OnError::EndLoad;
        self.abort_as(index, now, abort, ends_load);
    }

    fn abort_as(&mut self, index: usize, now: Nanos, abort: Abort, ends_load: bool) {
        let Abort { state, text, cause } = abort;
        let place = self.place(index);
        self.count_lost(index, state, now);
        let client = &mut self.setup.clients[index];
        if client.state == State::Gone {
            return;
        }
        if matches!(client.state, State::Dialing | State::Down { .. }) {
            self.roster.n_connecting -= 1;
        }
        client.state = State::Gone;
        if let Some(traced) = client.emulator.traced() {
            traced.leave();
        }
        // An open transaction block must not keep its locks while the others continue.
        self.let_go(index);
        self.let_resting_go(index);
        self.roster.n_gone += 1;
        self.record.clients_lost += 1;
        self.keep_message(state, || text.clone());
        let mut event = located(Event::new(0, EventKind::ClientAborted, text), place, state);
        if let Some(cause) = cause {
            event = event.with("cause", cause);
        }
        self.report_event(now, event);
        if ends_load {
            self.setup.controls.stop.fetch_max(stop::AT_ONCE, std::sync::atomic::Ordering::Relaxed);
        }
    }

    /// Counts the transaction in flight, if there is one, as failed or unknown: its client cannot go on with it.
    fn count_lost(&mut self, index: usize, state: SqlState, now: Nanos) {
        let client = &mut self.setup.clients[index];
        if matches!(client.state, State::Sleeping { .. } | State::Pausing { .. }) {
            self.roster.n_sleeping -= 1;
        }
        if !client.in_flight() {
            return;
        }
        let is_unknown = state != SCRIPT && self.may_be_committed(index);
        let reconnects = self.reconnects();
        let client = &mut self.setup.clients[index];
        client.state = State::Idle;
        client.transaction.failure = None;
        client.transaction.ended_with = Some(state);
        let tally = &mut self.tally.scripts[client.transaction.script];
        let (count, outcome) = if is_unknown {
            (&mut tally.counts.unknown, TransactionOutcome::Unknown)
        } else {
            (&mut tally.counts.failed, TransactionOutcome::Other)
        };
        *count += 1;
        tally.error(state, 1);
        // As in pgbench, an error that ends a client is not logged and fails no command.
        if !reconnects {
            return self.report_uncounted(index, execution::end_of(outcome), now);
        }
        if is_unknown {
            client.emulator.may_be_committed();
        }
        if !is_unknown && let Some(command) = tally.commands.get_mut(client.emulator.current()) {
            command.failed += 1;
        }
        self.log(index, outcome, now);
    }

    /// Whether the server may have committed the transaction in flight without our knowing.
    pub(super) fn may_be_committed(&self, index: usize) -> bool {
        let (scripts, client) = (self.setup.scripts, &self.setup.clients[index]);
        let script = client.transaction.script;
        if client.transaction.failure.is_some() {
            return false;
        }
        if client.exchange.pipeline.is_on {
            let control = |statement| scripts.control(script, statement);
            return client.exchange.pipeline.may_be_committed(client.in_block(), control);
        }
        let Client { state, transaction, .. } = client;
        *state == State::Waiting && scripts.decides(script, transaction.statement, transaction.was_in_block)
    }

    /// The client's position in its script.
    pub(super) fn place(&self, index: usize) -> CommandRef {
        let client = &self.setup.clients[index];
        CommandRef {
            client: client.id,
            script: client.transaction.script,
            command: client.emulator.current(),
        }
    }

    fn is_at_sql(&self, index: usize) -> bool {
        let client = &self.setup.clients[index];
        let program = &self.setup.scripts.bundle.programs[client.transaction.script];
        // Of a script that has not begun, the client's place is that in the script before.
        program.commands.get(client.emulator.current()).is_some_and(|step| step.command.name() == "SQL")
    }

    /// The number of the failed statement among the results that libpq returns. A pipeline's errors are found at its end.
    fn query_number(&self, index: usize) -> u32 {
        let client = &self.setup.clients[index];
        if self.is_at_sql(index) {
            client.exchange.n_results
        } else {
            client.exchange.pipeline.failure().map_or(0, |(_, n_before)| n_before)
        }
    }

    /// The error of the Parse, if the first failed statement of a pipeline could not be parsed.
    fn refusal(&self, index: usize) -> Option<&ServerError> {
        let client = &self.setup.clients[index];
        if self.is_at_sql(index) {
            return None;
        }
        let (failed, _) = client.exchange.pipeline.failure()?;
        let refused = client.exchange.refused.iter().find(|refused| refused.statement == failed)?;
        Some(&refused.error)
    }

    /// Reports the statements of a pipeline that could not be parsed, whether or not they are run.
    #[cold]
    pub(super) fn report_refused(&mut self, index: usize, now: Nanos) {
        let place = self.place(index);
        let refused = self.setup.clients[index].exchange.refused.iter_mut();
        let unreported: Vec<(usize, Box<ServerError>)> = refused
            .filter_map(|refused| {
                let is_new = !std::mem::replace(&mut refused.is_reported, true);
                is_new.then(|| (refused.statement, refused.error.clone()))
            })
            .collect();
        let units = self.setup.clients[index].session.units;
        for (statement, error) in unreported {
            let text = error.libpq_text(Some(&self.statement_text(index, statement)), units);
            let event = Event::new(0, EventKind::StatementRefused, text);
            self.report_event(now, located(event, place, sqlstate(error.sqlstate.as_bytes())));
        }
    }

    /// The text of a statement of the client's script, as sent in its Parse.
    pub(super) fn statement_text(&self, index: usize, statement: usize) -> String {
        let client = &self.setup.clients[index];
        self.setup.scripts.parsed_text(client.transaction.script, statement, &client.emulator)
    }

    /// The client's current statement, or the first of its pipeline that failed.
    fn failed_statement(&self, index: usize) -> Option<usize> {
        let client = &self.setup.clients[index];
        if self.is_at_sql(index) {
            Some(client.transaction.statement)
        } else {
            client.exchange.pipeline.failure().map(|(statement, _)| statement)
        }
    }

    /// The text that positions in errors refer to, where libpq knows it.
    pub(super) fn query_text(&self, index: usize) -> Option<String> {
        let client = &self.setup.clients[index];
        let statement = self.failed_statement(index)?;
        match self.setup.scripts.protocol_of(client.transaction.script, statement) {
            // The whole Query message: type, length, text, zero.
            Protocol::Simple => {
                let bytes = client.sent_bytes();
                let text = bytes.get(5..bytes.len().saturating_sub(1))?;
                Some(String::from_utf8_lossy(text).into_owned())
            }
            Protocol::Extended => Some(self.statement_text(index, statement)),
            Protocol::Prepared => None,
        }
    }
}

/// Whether an error says that a session has ended: a server's own, or what a pooler says of the session behind it, whatever its words.
fn ends_session(error: &ServerError) -> bool {
    error.is_fatal() || drive::ends_session(&error.sqlstate)
}

fn is_retryable(state: SqlState) -> bool {
    matches!(state, SERIALIZATION_FAILURE | DEADLOCK_DETECTED)
}

fn located(event: Event, place: CommandRef, state: SqlState) -> Event {
    event
        .with("client", place.client)
        .with("script", place.script)
        .with("command", place.command)
        .with("sqlstate", sqlstate_text(&state))
}
