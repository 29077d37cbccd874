//! Connections made while the load runs: one for each transaction, or in place of a lost one.

use std::time::Instant;

use model::load::RECONNECT_WAIT_MS;
use model::telemetry::event::{Event, EventKind};
use wire::{ConnectError, Connection, DialProgress, Dialing};
use workload::random::Prng;

use super::failing::Abort;
use super::{Setup, Worker};
use crate::client::fetch::Fetched;
use crate::client::{Client, State};
use crate::clock::{self, Nanos, SECOND_NS};
use crate::poller::{Poller, Signal};
use crate::tally::{LOST, sqlstate};

/// The wait before a connection is made in place of one that led to no commit; see [`reconnect_wait`].
const RECONNECT_WAIT_NS: Nanos = RECONNECT_WAIT_MS as Nanos * (SECOND_NS / 1000);
/// Connections under way are checked at least this often, for their deadlines.
const TEND_NS: Nanos = SECOND_NS / 10;

impl Worker<'_> {
    /// Begins to connect.
    pub(super) fn dial(&mut self, index: usize, now: Nanos) {
        let client = &mut self.setup.clients[index];
        if !matches!(client.state, State::Dialing | State::Down { .. }) {
            self.roster.n_connecting += 1;
        }
        client.state = State::Dialing;
        client.dial.begun = now;
        match Dialing::start_shared(self.setup.conninfos.of(client.role.class, client.destination)) {
            Ok(dialing) => {
                client.dial.generation = dialing.generation();
                client.dial.attempt = Some(Box::new(dialing));
                match self.setup.poller.watch_dialing(client, index) {
                    Ok(()) => self.advance_dialing(index),
                    Err(e) => self.fail_dialing(index, now, LOST, &e.to_string()),
                }
            }
            Err(e) => self.refuse_dialing(index, now, &e),
        }
    }

    /// Continues with the connection under way.
    pub(super) fn advance_dialing(&mut self, index: usize) {
        let client = &mut self.setup.clients[index];
        let Some(dialing) = &mut client.dial.attempt else { return };
        match dialing.advance() {
            Ok(DialProgress::Done(connection)) => self.connected(index, connection),
            Ok(_) if dialing.generation() != client.dial.generation => {
                client.dial.generation = dialing.generation();
                if let Err(e) = self.setup.poller.watch_dialing(client, index) {
                    self.fail_dialing(index, clock::now(), LOST, &e.to_string());
                }
            }
            Ok(_) => {}
            Err(e) => self.refuse_dialing(index, clock::now(), &e),
        }
    }

    /// Dials again where it is time, and checks deadlines.
    pub(super) fn tend_connections(&mut self, now: Nanos) {
        if self.roster.n_connecting == 0 || now < self.roster.next_tend {
            return;
        }
        let wall = Instant::now();
        self.roster.next_tend = now + TEND_NS;
        for index in 0..self.setup.clients.len() {
            let client = &self.setup.clients[index];
            match client.state {
                State::Down { until } if now >= self.bounds.end => {
                    debug_assert!(until > 0);
                    self.roster.n_connecting -= 1;
                    self.setup.clients[index].state = State::Idle;
                }
                State::Down { until } if until <= now => self.dial(index, now),
                State::Down { until } => self.roster.next_tend = self.roster.next_tend.min(until),
                State::Dialing => {
                    let deadline = client.dial.attempt.as_ref().and_then(|dialing| dialing.deadline());
                    if deadline.is_some_and(|deadline| deadline <= wall) {
                        self.advance_dialing(index);
                    }
                }
                _ => {}
            }
        }
    }

    fn connected(&mut self, index: usize, connection: Connection) {
        let now = clock::now();
        let scripts = self.setup.scripts;
        let client = &mut self.setup.clients[index];
        let connects = &mut self.tally.scripts[client.transaction.script].connects;
        connects.opened += 1;
        connects.sum_ns += (now - client.dial.begun) as f64;
        client.dial.attempt = None;
        if let Err(e) = client.connect(connection, scripts.nothing_parsed()) {
            return self.distrust(index, now, &e);
        }
        if let Err(e) = self.setup.poller.watch_made(client, index) {
            return self.fail_dialing(index, now, LOST, &e.to_string());
        }
        if scripts.fetches && client.exchange.fetched.is_none() {
            client.exchange.fetched = Some(Box::new(Fetched::new(self.setup.load.message_bytes_max)));
        }
        self.roster.n_connecting -= 1;
        client.state = State::Idle;
        // A login proves little: a pooler lets sessions in while its server is gone.
        client.dial.has_committed = false;
        self.count_outage(index, now);
        let client = &mut self.setup.clients[index];
        if let Some(since) = client.dial.down_since.take() {
            let (id, outage_s) = (client.id, (now - since) as f64 / 1e9);
            let text = format!("client {id} has a connection again after {outage_s:.3} s");
            let event = Event::new(0, EventKind::ConnectionRestored, text);
            self.report_event(now, event.with("client", id).with("outage_s", outage_s));
        }
        self.use_connection(index, now);
    }

    /// Begins the transaction that waited for the connection, or the next one.
    fn use_connection(&mut self, index: usize, now: Nanos) {
        let is_closed_loop = self.setup.schedule.is_none();
        if now >= self.bounds.end {
            return self.roster.idle.push_back(index);
        }
        let client = &mut self.setup.clients[index];
        match client.dial.pending_due.take() {
            Some(due) => {
                let is_due_now = is_closed_loop && self.setup.load.due_when_connected;
                self.start_transaction(index, if is_due_now { now } else { due }, now);
                self.go_on(index, now);
            }
            None if is_closed_loop => self.begin(index, now, now),
            None => self.await_slot(index, now),
        }
    }

    fn refuse_dialing(&mut self, index: usize, now: Nanos, error: &ConnectError) {
        let state = error.server_error().map_or(LOST, |error| sqlstate(error.sqlstate.as_bytes()));
        self.fail_dialing(index, now, state, &error.to_string());
    }

    /// No connection could be made: the client tries again later, or ends.
    fn fail_dialing(&mut self, index: usize, now: Nanos, state: [u8; 6], why: &str) {
        let reconnects = self.reconnects();
        self.keep_message(state, || why.to_string());
        self.let_go(index);
        let client = &mut self.setup.clients[index];
        if !reconnects {
            let text = format!("client {} aborted while establishing connection", client.id);
            return self.abort_lost(index, now, Abort { state, text, cause: Some(why.to_string()) });
        }
        client.dial.down_since.get_or_insert(client.dial.begun);
        self.wait_to_dial(index, now);
    }

    /// The client connects again after a while.
    fn wait_to_dial(&mut self, index: usize, now: Nanos) {
        let seed = self.setup.load.seed;
        let client = &mut self.setup.clients[index];
        client.dial.n_waits += 1;
        let until = now + reconnect_wait(seed, client.id, client.dial.n_waits);
        client.state = State::Down { until };
        self.roster.next_tend = self.roster.next_tend.min(until);
    }

    /// Drops a lost connection, to be replaced: at once if a transaction was committed on it.
    pub(super) fn go_down(&mut self, index: usize, now: Nanos) {
        self.let_go(index);
        let client = &mut self.setup.clients[index];
        client.dial.down_since = Some(now);
        self.roster.n_connecting += 1;
        if std::mem::take(&mut client.dial.has_committed) {
            client.state = State::Down { until: now };
            self.roster.next_tend = now;
        } else {
            self.wait_to_dial(index, now);
        }
    }

    /// Closes the connection of a transaction that has ended.
    pub(super) fn hang_up(&mut self, index: usize, now: Nanos) {
        self.let_go(index);
        let script = self.setup.clients[index].transaction.script;
        self.tally.scripts[script].connects.sum_ns += clock::now().saturating_sub(now) as f64;
    }

    /// Closes the client's connection, if it has one. If its session was kept to be asked, another one may be.
    pub(super) fn let_go(&mut self, index: usize) {
        let client = &mut self.setup.clients[index];
        self.setup.poller.forget(client, index);
        client.disconnect();
        self.roster.kept.take_if(|kept| *kept == index);
    }
}

impl Worker<'_> {
    /// News of the connection that a client does not use at the moment. Its end shows when a transaction needs it.
    #[cold]
    pub(super) fn hear_resting(&mut self, index: usize, signal: Signal) {
        let now = clock::now();
        let Worker { setup: Setup { poller, clients, .. }, buffer, .. } = self;
        clients[index].at_rest(|client| {
            let heard = match signal {
                Signal::Input(piece) | Signal::Early(piece) => {
                    let heard =
                        client.receive_unasked(poller.input(&piece)).map_err(|error| error.to_string());
                    poller.release(piece);
                    heard
                }
                Signal::Ready { closing, .. } => read_resting(poller, client, index, closing, buffer),
                Signal::Unsent { .. } => Ok(()),
                Signal::Ended(why) => Err(why.to_string()),
            };
            if let Err(why) = heard {
                poller.forget(client, index);
                client.lose_at_rest(why);
            }
        });
        if !self.setup.clients[index].notices.is_empty() {
            self.report_notices(index, now);
        }
    }

    /// Closes the other connection of a client that will do no more.
    pub(super) fn let_resting_go(&mut self, index: usize) {
        let Setup { poller, clients, .. } = &mut self.setup;
        let client = &mut clients[index];
        if client.has_two_connections() {
            client.at_rest(|client| {
                poller.forget(client, index);
                client.disconnect();
            });
        }
    }
}

/// Reads what a connection at rest has to say, and sends the end of a message that nobody waits for any more, as of a COPY that failed
/// early.
fn read_resting(
    poller: &mut Poller,
    client: &mut Client,
    index: usize,
    closing: bool,
    buffer: &mut [u8],
) -> Result<(), String> {
    let has_more = client.read_unasked(buffer)?;
    let sent = if client.outgoing.waits_to_write { poller.send(client, index) } else { Ok(()) };
    let looks = if has_more { poller.look_again(client, index, closing) } else { Ok(()) };
    sent.and(looks).map_err(|error| error.to_string())
}

/// The `n`th wait of a client: drawn from half of the mean to one and a half, so that clients that lost their
/// connections together do not return together. Its numbers are those of no other stream.
fn reconnect_wait(seed: u64, client: usize, n: u64) -> Nanos {
    let mut prng = Prng::seed(seed ^ (client as u64).rotate_left(40) ^ n.rotate_left(20));
    prng.uint64_range(RECONNECT_WAIT_NS / 2, RECONNECT_WAIT_NS * 3 / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_short_spread_and_the_same_for_the_same_seed() {
        let waits: Vec<Nanos> = (0..1000).map(|n| reconnect_wait(7, (n % 8) as usize, n)).collect();
        let mean = waits.iter().sum::<Nanos>() / 1000;
        assert!(waits.iter().all(|wait| (25_000_000..=75_000_000).contains(wait)));
        assert!((48_000_000..52_000_000).contains(&mean), "{mean}");
        assert_eq!(reconnect_wait(7, 3, 4), reconnect_wait(7, 3, 4));
        assert_ne!(reconnect_wait(7, 3, 4), reconnect_wait(7, 4, 4));
        assert_ne!(reconnect_wait(7, 3, 4), reconnect_wait(8, 3, 4));
    }
}
