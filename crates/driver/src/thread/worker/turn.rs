//! A client's course through its script: from the start of a transaction, step by step, to its end.

use model::load::OnDisconnect;
use workload::{Action, RunError};

use super::{Worker, execution};
use crate::client::{Client, State};
use crate::clock::{self, Nanos};
use crate::tally::TimeKind;
use crate::thread::log::{LoggedTransaction, TransactionOutcome};

/// Most transactions that send no statement before other clients get their turn.
const TURN_MAX: usize = 256;
/// A pipeline is sent in pieces of this size, as libpq does.
const PIPELINE_BYTES: usize = 64 * 1024;

/// Where a client's steps led.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// It waits for the server, a clock, a connection, or for ever.
    Waits,
    /// The transaction has ended.
    Ended,
}

impl Worker<'_> {
    /// The script of the client's next transaction. If its slot is skipped, the next slot keeps the choice.
    pub(super) fn next_script(&mut self, index: usize, now: Nanos) -> usize {
        let Worker { slots, setup, .. } = self;
        if let Some(next) = setup.clients[index].emulator.next_transaction(now) {
            return next.program;
        }
        let role = &setup.clients[index].role;
        if let Some(script) = role.next() {
            return script;
        }
        let choose = || setup.scripts.choose(role.class, &mut setup.choose);
        *slots.chosen[role.class].get_or_insert_with(choose)
    }

    /// Begins a transaction that was due at `due`, over a connection of its own if each has one.
    pub(super) fn begin(&mut self, index: usize, due: Nanos, now: Nanos) {
        if self.prepare(index, due, now) {
            self.go_on(index, now);
        }
    }

    /// Starts a transaction; `false` if it has to wait: for a connection, for the end of a think time, or for the load's
    /// turn.
    fn prepare(&mut self, index: usize, mut due: Nanos, now: Nanos) -> bool {
        if let Some(until) = self.setup.turns.as_ref().and_then(|turns| turns.waits_until(now)) {
            self.pause(index, until);
            return false;
        }
        if self.setup.schedule.is_none()
            && let Some(next) = self.setup.clients[index].emulator.next_transaction(now)
        {
            due = next.due_ns;
            if due > now {
                self.pause(index, due);
                return false;
            }
        }
        let script = self.next_script(index, now);
        let client = &mut self.setup.clients[index];
        self.slots.chosen[client.role.class] = None;
        client.role.advance();
        (client.transaction.script, client.transaction.statement) = (script, 0);
        let destination = self.setup.scripts.destination(script);
        // A single connection leads to one place.
        if client.destination != destination && !client.has_two_connections() && client.session.link.is_some()
        {
            self.let_go(index);
        }
        let client = &mut self.setup.clients[index];
        client.lead_to(destination);
        if client.session.link.is_some() {
            self.start_transaction(index, due, now);
            return true;
        }
        client.dial.pending_due = Some(due);
        match client.session.lost.take() {
            // It was lost before the first command of this script.
            Some(why) => self.lose(index, now, &why),
            None => self.dial(index, now),
        }
        false
    }

    /// A terminal's next transaction is due at `until`.
    fn pause(&mut self, index: usize, until: Nanos) {
        self.setup.clients[index].state = State::Pausing { until };
        self.roster.sleep(until);
    }

    /// Starts the transaction of the client's script.
    pub(super) fn start_transaction(&mut self, index: usize, due: Nanos, now: Nanos) {
        let scripts = self.setup.scripts;
        let client = &mut self.setup.clients[index];
        client.transaction.due = due;
        client.transaction.started = now;
        client.transaction.tries = 1;
        client.transaction.ended_with = None;
        client.transaction.texts.clear();
        client.emulator.number(client.record.n_ended + 1);
        client.emulator.begin(&scripts.bundle.programs[client.transaction.script]);
        if self.setup.load.trace {
            self.trace_start(index, now);
        }
        let client = &self.setup.clients[index];
        let tally = &mut self.tally.scripts[client.transaction.script];
        tally.counts.due += 1;
        tally.counts.started += 1;
        if self.setup.schedule.is_some() {
            self.slots.n_taken += 1;
        }
    }

    /// Takes the script's next steps; in a closed loop, on into the next transaction.
    pub(super) fn go_on(&mut self, index: usize, mut now: Nanos) {
        for _ in 0..TURN_MAX {
            if self.take_steps(index, &mut now) == Turn::Waits || !self.next_transaction(index, now) {
                return;
            }
        }
        // The transaction has started already; it goes on when the others have had their turn.
        self.setup.clients[index].state = State::Sleeping { until: now };
        self.roster.sleep(now);
    }

    /// What a client does after a transaction: `true` if it has started the next one.
    pub(super) fn next_transaction(&mut self, index: usize, now: Nanos) -> bool {
        self.setup.clients[index].state = State::Idle;
        if self.setup.load.connect_each {
            self.hang_up(index, now);
        }
        if self.has_made_all(index) {
            self.retire(index);
            return false;
        }
        if self.setup.schedule.is_none() && now < self.bounds.end {
            if let Some(until) = self.thinks_until(index, now) {
                self.pause(index, until);
                return false;
            }
            return self.prepare(index, now, now);
        }
        self.await_slot(index, now);
        false
    }

    /// When the client's think time ends, if its last transaction has one. In an open loop the schedule decides alone.
    #[inline]
    fn thinks_until(&self, index: usize, now: Nanos) -> Option<Nanos> {
        let client = &self.setup.clients[index];
        let pause = self.setup.scripts.pause_after(client.transaction.script, client.role.class)?;
        Some(now.saturating_add(pause.length_ns(self.setup.load.seed, client.id, client.record.n_ended)))
    }

    /// The client is free for the next slot of the schedule.
    pub(super) fn await_slot(&mut self, index: usize, now: Nanos) {
        self.setup.clients[index].record.idle_since = now;
        self.roster.idle.push_back(index);
    }

    /// Takes steps until the client has to wait or its transaction has ended.
    fn take_steps(&mut self, index: usize, now: &mut Nanos) -> Turn {
        self.setup.clients[index].state = State::Running;
        loop {
            let scripts = self.setup.scripts;
            let client = &mut self.setup.clients[index];
            let program = &scripts.bundle.programs[client.transaction.script];
            if let Some(traced) = client.emulator.traced() {
                traced.see(*now);
            }
            let action = if self.setup.load.time_commands || self.setup.load.trace {
                self.step_watched(index, now)
            } else {
                client.emulator.step(program)
            };
            if self.setup.clients[index].emulator.has_debug_lines() {
                self.report_debug(index, *now);
            }
            let client = &mut self.setup.clients[index];
            match action {
                Ok(Action::Send { statement }) if !client.exchange.pipeline.is_on => {
                    client.transaction.statement = statement;
                    if let Some(traced) = client.emulator.traced() {
                        let waited_ns = traced.take_waited_ns();
                        client.transaction.due += waited_ns;
                        client.transaction.started += waited_ns;
                    }
                    self.send(index, *now);
                    return Turn::Waits;
                }
                Ok(Action::Send { statement }) => {
                    if !self.send_in_pipeline(index, statement, *now) {
                        return Turn::Waits;
                    }
                }
                Ok(Action::Sleep { ns }) => {
                    let until = now.saturating_add(ns);
                    client.state = State::Sleeping { until };
                    self.roster.sleep(until);
                    return Turn::Waits;
                }
                Ok(Action::End) => return self.end_script(index, *now),
                Ok(Action::Shell | Action::SetShell) => {
                    if let Err(error) = self.run_shell(index, now) {
                        return self.script_error(index, *now, &error);
                    }
                }
                Ok(Action::StartPipeline) => {
                    if let Err(error) = self.start_pipeline(index) {
                        return self.script_error(index, *now, &error);
                    }
                }
                Ok(Action::SyncPipeline) => {
                    if let Err(error) = self.sync_pipeline(index) {
                        return self.script_error(index, *now, &error);
                    }
                }
                Ok(Action::EndPipeline) => match self.end_pipeline(index, *now) {
                    Ok(()) => return Turn::Waits,
                    Err(error) => return self.script_error(index, *now, &error),
                },
                Err(error) => return self.script_error(index, *now, &error),
            }
            self.end_command(index, *now);
        }
    }

    /// Takes one command at a time and reads the clock around it. Commands that wait are counted when they end.
    fn step_watched(&mut self, index: usize, now: &mut Nanos) -> Result<Action, RunError> {
        loop {
            if self.setup.load.trace {
                self.trace_command(index, *now);
            }
            let client = &mut self.setup.clients[index];
            let program = &self.setup.scripts.bundle.programs[client.transaction.script];
            let command = client.emulator.command();
            client.transaction.command_begun = clock::now();
            *now = client.transaction.command_begun;
            if let Some(action) = client.emulator.step_one(program)? {
                return Ok(action);
            }
            if let Some(tally) = self.tally.scripts[client.transaction.script].commands.get_mut(command) {
                tally.n += 1;
                tally.sum_ns += (clock::now() - client.transaction.command_begun) as f64;
            }
        }
    }

    /// The command handed out last is done.
    #[inline]
    pub(super) fn end_command(&mut self, index: usize, now: Nanos) {
        if !self.setup.load.time_commands {
            return;
        }
        let client = &self.setup.clients[index];
        let command = &mut self.tally.scripts[client.transaction.script].commands[client.emulator.current()];
        command.n += 1;
        command.sum_ns += now.saturating_sub(client.transaction.command_begun) as f64;
    }

    /// Sends the client's current statement.
    #[inline]
    fn send(&mut self, index: usize, now: Nanos) {
        let scripts = self.setup.scripts;
        let client = &mut self.setup.clients[index];
        client.state = State::Waiting;
        client.transaction.statement_sent = now;
        client.transaction.was_in_block = client.in_block();
        let (script, statement) = (client.transaction.script, client.transaction.statement);
        client.begin_message();
        client.want_rows(scripts.fetches(script, statement));
        if let Err(unsendable) = scripts.encode(script, statement, client) {
            client.state = State::Running;
            return self.stop_unsendable(index, now, unsendable);
        }
        client.await_reply();
        if self.setup.load.trace {
            self.trace_send(index, statement, now);
        }
        if self.setup.load.each_execution {
            self.keep_text(index, statement);
        }
        self.flush(index);
    }

    /// Writes a statement without waiting for its result; `false` if the connection or the client is gone.
    fn send_in_pipeline(&mut self, index: usize, statement: usize, now: Nanos) -> bool {
        let scripts = self.setup.scripts;
        let client = &mut self.setup.clients[index];
        if scripts.fetches(client.transaction.script, statement) {
            let error = self.fetch_in_pipeline(index, statement);
            self.script_error(index, now, &error);
            return false;
        }
        let script = client.transaction.script;
        if let Err(unsendable) = scripts.encode(script, statement, client) {
            self.stop_unsendable(index, now, unsendable);
            return false;
        }
        client.exchange.pipeline.push(statement, now);
        if self.setup.load.trace {
            self.trace_send(index, statement, now);
        }
        let client = &mut self.setup.clients[index];
        // While the socket is full, what waits is sent when it has room.
        if client.outgoing.unsent().len() >= PIPELINE_BYTES && !client.outgoing.waits_to_write {
            self.flush(index);
        }
        self.setup.clients[index].state == State::Running
    }

    #[inline]
    pub(super) fn flush(&mut self, index: usize) {
        let client = &mut self.setup.clients[index];
        if let Err(e) = self.setup.poller.send(client, index) {
            self.lose(index, clock::now(), &e.to_string());
        }
    }

    /// A statement has ended, with or without an error.
    #[inline]
    pub(super) fn reply_complete(&mut self, index: usize, now: Nanos) {
        if self.setup.load.trace {
            self.trace(index, now, "receiving");
        }
        let client = &mut self.setup.clients[index];
        let error = client.take_error();
        match (client.state, error) {
            (State::Waiting, None) => {
                let tally = &mut self.tally.scripts[client.transaction.script];
                if client.exchange.pipeline.is_ending {
                    self.count_pipeline(index);
                } else {
                    tally.note(
                        TimeKind::Statement(client.transaction.statement as u32),
                        now - client.transaction.statement_sent + self.reply_delay_ns,
                    );
                    tally.rows(client.transaction.statement, client.exchange.n_rows);
                }
                if self.setup.scripts.fetches && !self.store_rows(index, now) {
                    return;
                }
                if self.reply_delay_ns > 0 {
                    return self.delay(index, now);
                }
                self.end_command(index, now);
                self.go_on(index, now);
            }
            (State::Waiting, Some(error)) => self.fail(index, now, &error),
            (State::RollingBack, None) => self.after_error(index, now),
            (State::RollingBack, Some(error)) => self.fail_rollback(index, now, &error),
            _ => {}
        }
    }

    /// The script goes on as if the reply that has come had taken longer. What follows is as after a pause of the script.
    #[cold]
    fn delay(&mut self, index: usize, now: Nanos) {
        let until = now + self.reply_delay_ns;
        self.setup.clients[index].state = State::Sleeping { until };
        self.roster.sleep(until);
    }

    /// The script is over, and the transaction committed, unless the script left its block or pipeline open.
    fn end_script(&mut self, index: usize, now: Nanos) -> Turn {
        if self.setup.clients[index].exchange.pipeline.is_on {
            self.abort_open_pipeline(index, now);
            return Turn::Waits;
        }
        let counted = self.commit(index, now);
        if self.setup.clients[index].in_block() {
            self.abort_open_block(index, now);
            return Turn::Waits;
        }
        match counted {
            Ok(()) => Turn::Ended,
            Err(error) => self.script_error(index, now, &error),
        }
    }

    /// Counts the transaction as committed.
    ///
    /// # Errors
    /// A fact about it that cannot be computed.
    fn commit(&mut self, index: usize, now: Nanos) -> Result<(), RunError> {
        let program = &self.setup.scripts.bundle.programs[self.setup.clients[index].transaction.script];
        let client = &mut self.setup.clients[index];
        let tally = &mut self.tally.scripts[client.transaction.script];
        let latency_ns = now - client.transaction.due;
        tally.counts.committed += 1;
        client.dial.has_committed = true;
        tally.latency_moments.record(latency_ns);
        if client.transaction.started == client.transaction.due {
            tally.note(TimeKind::Punctual, latency_ns);
        } else {
            tally.note(TimeKind::Latency, latency_ns);
            tally.note(TimeKind::Service, now - client.transaction.started);
        }
        if tally.lag.is_some() {
            let lag_ns = client.transaction.started - client.transaction.due;
            tally.note(TimeKind::Lag, lag_ns);
            tally.lag_moments.record(lag_ns);
        }
        let counted = client.emulator.committed(program, &mut tally.facts);
        tally.counts.late += u64::from(latency_ns > self.late_ns);
        if self.bounds.is_measured(now) {
            client.record.n_measured += 1;
        }
        if let Some(turns) = &mut self.setup.turns {
            turns.count(now);
        }
        client.state = State::Idle;
        self.log(index, TransactionOutcome::Committed, now);
        counted
    }

    /// Counts a transaction as ended, or a slot as skipped, and logs it unless it belongs to the ramp-up.
    #[inline(always)]
    pub(super) fn log(&mut self, index: usize, outcome: TransactionOutcome, now: Nanos) {
        self.setup.clients[index].record.n_ended += 1;
        if let Some(traced) = self.setup.clients[index].emulator.traced() {
            traced.ended();
        }
        if self.setup.load.each_execution {
            self.report_execution(index, execution::end_of(outcome), now);
        }
        if self.setup.log.is_some() && now >= self.bounds.measure.0 {
            self.write_log(index, outcome, now);
        }
    }

    fn write_log(&mut self, index: usize, outcome: TransactionOutcome, now: Nanos) {
        let Some(log) = self.setup.log.as_mut() else { return };
        let client = &self.setup.clients[index];
        let is_committed = outcome == TransactionOutcome::Committed;
        // As pgbench: differences of whole microseconds.
        let since_due_us =
            |at: Nanos| if is_committed { at / 1000 - client.transaction.due / 1000 } else { 0 };
        log.record(&LoggedTransaction {
            client: client.id,
            number: client.record.n_ended,
            script: client.transaction.script,
            outcome,
            at_us: self.setup.wall.unix(now) / 1000,
            latency_us: since_due_us(now),
            lag_us: since_due_us(client.transaction.started),
            tries: client.transaction.tries,
        });
    }

    /// Whether the client has made all the transactions that it was to make.
    pub(super) fn has_made_all(&self, index: usize) -> bool {
        let client: &Client = &self.setup.clients[index];
        self.setup.load.transactions_per_client.is_some_and(|n| client.record.n_ended >= n)
            || client.emulator.is_finished()
    }

    /// The client has made all its transactions. If a session is to be asked when the load is over, the first one stays.
    pub(super) fn retire(&mut self, index: usize) {
        let client = &mut self.setup.clients[index];
        client.rest_on_target();
        client.state = State::Gone;
        self.roster.n_gone += 1;
        self.let_resting_go(index);
        let client = &self.setup.clients[index];
        if self.setup.load.ask_settings && self.roster.kept.is_none() && client.session.link.is_some() {
            self.roster.kept = Some(index);
            return;
        }
        self.let_go(index);
    }

    /// Whether a client that loses its connection gets another one, for as long as transactions begin.
    pub(super) fn reconnects(&self) -> bool {
        self.setup.load.on_disconnect == OnDisconnect::Reconnect
    }
}
