//! What follows from errors: failed transactions, lost connections, clients that do no more.

use super::{Report, Worker};
use crate::client::{ReplyError, State};
use crate::clock::Nanos;
use crate::tally::{LOST, SCRIPT, SqlState};

impl Worker<'_> {
    /// The server reported an error: the transaction has failed, or was cancelled by us at the end.
    pub(super) fn fail(&mut self, index: usize, now: Nanos, error: ReplyError) {
        let client = &mut self.setup.clients[index];
        let tally = &mut self.tally.scripts[client.script];
        if client.cancelled {
            tally.counts.aborted += 1;
        } else {
            tally.counts.failed += 1;
            tally.error(error.sqlstate, 1);
            self.messages.entry(error.sqlstate).or_insert(error.message);
        }
        if !client.in_block() {
            return self.become_free(index, now);
        }
        client.state = State::RollingBack;
        wire::message::query(client.outgoing(), "ROLLBACK");
        self.flush(index);
    }

    /// The connection ended. A transaction in flight has failed, unless the server may have committed it.
    pub(super) fn lose(&mut self, index: usize, now: Nanos, why: &str) {
        let error = self.setup.clients[index].take_error();
        let (sqlstate, message) = match error {
            Some(error) => (error.sqlstate, error.message),
            None => (LOST, why.to_string()),
        };
        self.give_up(index, now, sqlstate, message);
    }

    pub(super) fn give_up(&mut self, index: usize, now: Nanos, sqlstate: SqlState, message: String) {
        let client = &mut self.setup.clients[index];
        if client.in_flight() || sqlstate == SCRIPT {
            let tally = &mut self.tally.scripts[client.script];
            let waiting = client.state == State::Waiting && sqlstate != SCRIPT;
            if waiting && self.setup.scripts.decides(client.script, client.statement, client.in_block()) {
                tally.counts.unknown += 1;
            } else {
                tally.counts.failed += 1;
            }
            tally.error(sqlstate, 1);
        }
        if matches!(client.state, State::Sleeping { .. }) {
            self.n_sleeping -= 1;
        }
        client.state = State::Gone;
        self.setup.poller.forget(client);
        // An open transaction block must not keep its locks while the others go on.
        client.disconnect();
        let client = client.id;
        self.n_gone += 1;
        self.clients_lost += 1;
        self.messages.entry(sqlstate).or_insert_with(|| message.clone());
        self.report(Report::Lost { at: now, client, sqlstate, message });
    }
}
