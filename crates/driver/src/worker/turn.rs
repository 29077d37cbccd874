//! A client's way through its script: from the start of a transaction, step by step, to its end.

use workload::Action;

use super::Worker;
use crate::client::State;
use crate::clock::{self, Nanos};
use crate::tally::SCRIPT;

/// Transactions without any statement to send, before other clients get their turn.
const TURN_MAX: usize = 256;

impl Worker<'_> {
    /// Begins a transaction that was due at `due`.
    pub(super) fn begin(&mut self, index: usize, due: Nanos, now: Nanos) {
        self.start_transaction(index, due, now);
        self.go_on(index, now);
    }

    pub(super) fn start_transaction(&mut self, index: usize, due: Nanos, now: Nanos) {
        let scripts = self.setup.scripts;
        let script = scripts.bundle.choose(&mut self.setup.choose);
        let client = &mut self.setup.clients[index];
        client.script = script;
        client.due = due;
        client.started = now;
        client.machine.begin(&scripts.bundle.programs[script]);
        let tally = &mut self.tally.scripts[script];
        tally.counts.due += 1;
        tally.counts.started += 1;
        if let Some(lag) = &mut tally.lag {
            lag.record(now - due);
            self.n_taken += 1;
        }
    }

    /// Takes the script's next step; in a closed loop, on into the next transaction.
    pub(super) fn go_on(&mut self, index: usize, now: Nanos) {
        for _ in 0..TURN_MAX {
            let scripts = self.setup.scripts;
            let client = &mut self.setup.clients[index];
            match client.machine.step(&scripts.bundle.programs[client.script]) {
                Ok(Action::Send { statement }) => {
                    client.statement = statement;
                    return self.send(index, now);
                }
                Ok(Action::Sleep { ns }) => {
                    client.state = State::Sleeping { until: now + ns };
                    self.n_sleeping += 1;
                    return;
                }
                Ok(Action::End) => self.commit(index, now),
                Err(error) => {
                    return self.give_up(index, now, SCRIPT, format!("script error: {error}"));
                }
            }
            if self.setup.schedule.is_some() || now >= self.end {
                break;
            }
            self.start_transaction(index, now, now);
        }
        self.setup.clients[index].state = State::Idle;
        self.idle.push_back(index);
    }

    /// Sends the client's current statement.
    #[inline]
    pub(super) fn send(&mut self, index: usize, now: Nanos) {
        let scripts = self.setup.scripts;
        let client = &mut self.setup.clients[index];
        client.state = State::Waiting;
        client.statement_sent = now;
        let (script, statement) = (client.script, client.statement);
        let (machine, out) = client.machine_and_outgoing();
        scripts.encode(script, statement, machine, out);
        self.flush(index);
    }

    #[inline]
    pub(super) fn flush(&mut self, index: usize) {
        let client = &mut self.setup.clients[index];
        let flushed = match client.flush() {
            Ok(all_sent) => self.setup.poller.watch_writable(client, index, !all_sent),
            Err(e) => Err(e),
        };
        if let Err(e) = flushed {
            self.lose(index, clock::now(), &e.to_string());
        }
    }

    /// A statement is over, well or not.
    #[inline]
    pub(super) fn reply_complete(&mut self, index: usize, now: Nanos) {
        let client = &mut self.setup.clients[index];
        let error = client.take_error();
        match (client.state, error) {
            (State::Waiting, None) => {
                let tally = &mut self.tally.scripts[client.script];
                tally.statements[client.statement].record(now - client.statement_sent);
                self.go_on(index, now);
            }
            (State::Waiting, Some(error)) => self.fail(index, now, error),
            (State::RollingBack, _) => self.become_free(index, now),
            _ => {}
        }
    }

    pub(super) fn commit(&mut self, index: usize, now: Nanos) {
        let client = &mut self.setup.clients[index];
        let tally = &mut self.tally.scripts[client.script];
        tally.counts.committed += 1;
        tally.latency.record(now - client.due);
        tally.service.record(now - client.started);
        if now >= self.measure.0 && now < self.measure.1 {
            client.measured += 1;
        }
    }

    pub(super) fn become_free(&mut self, index: usize, now: Nanos) {
        self.setup.clients[index].state = State::Idle;
        if self.setup.schedule.is_none() && now < self.end {
            self.begin(index, now, now);
        } else {
            self.idle.push_back(index);
        }
    }
}
