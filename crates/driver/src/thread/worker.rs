//! One thread of the driver: its event loop, its clients, its schedule.

mod execution;
mod failing;
mod interval;
mod line;
mod pace;
mod patience;
mod remarks;
mod settings;
mod special;
mod state;
#[cfg(test)]
mod tests;
mod trace;
mod turn;

use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender};

use model::load::LoadSpec;
use model::telemetry::event::Event;
use wire::ProtocolError;
use workload::Prng;

use crate::client::script::Scripts;
use crate::client::{Client, Received, State};
use crate::clock::{self, Nanos, WallClock};
use crate::poller::{Poller, ReceivedPiece, Signal};
use crate::prefetch;
use crate::tally::{IntervalTally, TallyShape};
use crate::thread::controls::Controls;
use crate::thread::log::{ThreadLog, TransactionOutcome};
use crate::thread::order::Conninfos;
use crate::thread::rehearsal::Rehearsal;
use crate::thread::report::Report;
use crate::thread::schedule::{LoadShare, Schedule};
use crate::thread::stop::{self, Cancels};
use crate::thread::turns::TurnClock;
use crate::thread::worker::patience::Patience;
use crate::thread::worker::state::{Bounds, Current, Record, Roster, Slots};

/// What a thread needs before its load begins.
pub(crate) struct Setup<'a> {
    pub(crate) thread: usize,
    pub(crate) load: &'a LoadSpec,
    pub(crate) scripts: &'a Scripts,
    /// Where connections are made while the load runs; names are looked up already.
    pub(crate) conninfos: Conninfos,
    pub(crate) wall: WallClock,
    /// Declared before the clients, so that it is dropped before the messages that it may be sending.
    pub(crate) poller: Poller,
    /// What the thread does while it polls without news.
    pub(crate) rehearsal: Option<Box<Rehearsal<'a>>>,
    pub(crate) clients: Vec<Client>,
    /// Stream of script choices.
    pub(crate) choose: Prng,
    /// The thread's share of rates that are ordered later, and the random stream of their gaps.
    pub(crate) share: LoadShare,
    pub(crate) throttle: Prng,
    pub(crate) schedule: Option<Schedule>,
    pub(crate) turns: Option<TurnClock>,
    pub(crate) shape: TallyShape,
    pub(crate) log: Option<ThreadLog>,
    pub(crate) go: Nanos,
    pub(crate) controls: Controls<'a>,
    pub(crate) reports: Sender<Report>,
    /// Tallies that the control loop has emptied.
    pub(crate) spare: Receiver<IntervalTally>,
}

/// A worker at work.
pub(crate) struct Worker<'a> {
    setup: Setup<'a>,
    tally: IntervalTally,
    roster: Roster,
    slots: Slots,
    interval: Current,
    bounds: Bounds,
    cancels: Cancels,
    record: Record,
    /// Transactions that take longer are late, nanoseconds.
    late_ns: u64,
    /// See [`LoadSpec::reply_delay_ns`].
    reply_delay_ns: Nanos,
    patience: Option<Patience>,
    /// What is read from a connection that epoll reports.
    buffer: Box<[u8]>,
}

/// Longest wait of the loop, so that it sees a stop and notices a pause.
const WAIT_MAX_NS: Nanos = 100_000_000;
/// A thread that comes back this much later than it asked for was paused (validity.md 4: driver_paused).
const PAUSE_MIN_NS: Nanos = 100_000_000;
/// How late a thread notices that events are read again.
const EVENTS_GRAIN: std::time::Duration = std::time::Duration::from_millis(1);
/// How many clients ahead to prefetch: serving these takes longer than fetching from memory.
const AHEAD: usize = 2;
/// Big enough for the replies of any built-in script; larger results come in several pieces.
const BUFFER_BYTES: usize = 16 * 1024;
/// Most reads from one connection in a turn, 256 KiB: the other clients wait meanwhile.
const READS_MAX: usize = 16;

impl<'a> Worker<'a> {
    pub(crate) fn new(setup: Setup<'a>) -> Worker<'a> {
        let due_counter = setup.schedule.clone();
        let chosen = vec![None; setup.scripts.n_classes()].into();
        Worker {
            tally: IntervalTally::new(&setup.shape),
            roster: Roster::new(setup.clients.len()),
            slots: Slots { due_counter, backlog: 0, n_taken: 0, rate_order: 0, chosen },
            interval: Current::new(setup.go),
            bounds: Bounds::new(setup.controls.frame.seen(), setup.load.window.grace_s),
            cancels: Cancels::default(),
            record: Record::default(),
            late_ns: pace::late_ns(setup.load),
            reply_delay_ns: setup.load.reply_delay_ns,
            patience: Patience::new(setup.load),
            buffer: vec![0; BUFFER_BYTES].into(),
            setup,
        }
    }

    /// Offers the load from `go` until the last transaction has ended.
    pub(crate) fn run(mut self) {
        if let Err(error) = self.watch_all() {
            return self.report(Report::Broken(error));
        }
        while clock::now() < self.setup.go && self.setup.controls.stop.load(Ordering::Relaxed) == stop::NOT {
            std::thread::sleep(std::time::Duration::from_nanos(
                self.setup.go.saturating_sub(clock::now()).min(WAIT_MAX_NS),
            ));
        }
        self.interval.thread_cpu_at_start = clock::thread_cpu();
        let mut now = clock::now();
        self.record.late = now.saturating_sub(self.setup.go);
        if let Some(log) = &mut self.setup.log {
            log.begin(self.setup.wall.unix(now.max(self.bounds.measure.0)) / 1000);
        }
        loop {
            self.attend(now);
            if self.is_over(now) {
                break;
            }
            self.tally.count_much();
            let until = self.wake_up_at(now);
            let turn_end = clock::now();
            let turn_ns = turn_end - now;
            self.interval.loop_max_ns = self.interval.loop_max_ns.max(turn_ns);
            if turn_ns >= PAUSE_MIN_NS {
                // It was stopped while it worked, not while it waited.
                self.report(Report::Paused { at: turn_end, pause_ns: turn_ns });
            }
            if let Err(error) = self.wait(turn_end, until) {
                return self.report(Report::Broken(error));
            }
            now = clock::now();
            self.notice_pause(turn_end, until, now);
            self.close_intervals(now);
            self.take_news(now);
        }
        self.finish();
    }

    pub(crate) fn watch_all(&mut self) -> io::Result<()> {
        let Setup { poller, rehearsal, clients, .. } = &mut self.setup;
        poller.enter_thread()?;
        for (index, client) in clients.iter_mut().enumerate() {
            poller.watch(client, index)?;
            if client.has_two_connections() {
                client.at_rest(|client| poller.watch(client, index))?;
            }
        }
        rehearsal.as_mut().map_or(Ok(()), |rehearsal| rehearsal.enter_thread())
    }

    /// Follows the controls, and does what is due.
    pub(crate) fn attend(&mut self, now: Nanos) {
        let stop = self.setup.controls.stop.load(Ordering::Relaxed);
        if stop > self.bounds.stopped {
            self.bounds.stop_at(now, stop);
        }
        self.follow_frame();
        self.follow_rate(now);
        self.begin_due(now);
        self.wake_sleepers(now);
        self.tend_connections(now);
        self.drop_silent(now);
    }

    #[inline]
    fn wait(&mut self, now: Nanos, until: Nanos) -> io::Result<()> {
        let Setup { poller, rehearsal, clients, .. } = &mut self.setup;
        poller.wait(now, until, |now| {
            rehearsal.as_mut().is_some_and(|rehearsal| rehearsal.go_on(now, until, clients))
        })
    }

    /// Handles the news there is, without waiting.
    pub(crate) fn look(&mut self) -> io::Result<()> {
        self.setup.poller.look()?;
        self.take_news(clock::now());
        Ok(())
    }

    /// Handles what the last wait, which ended at `now`, has found.
    #[inline]
    fn take_news(&mut self, now: Nanos) {
        (0..=AHEAD).for_each(|n| self.prefetch_client(n));
        let mut known = Some(now);
        while let Some(woken) = self.setup.poller.next() {
            self.prefetch_client(AHEAD);
            self.prefetch_next_parts();
            if self.setup.clients[woken.client].destination != woken.destination {
                self.hear_resting(woken.client, woken.signal);
                continue;
            }
            let moment = known.take();
            match woken.signal {
                Signal::Input(piece) => self.take_in(woken.client, piece, moment.unwrap_or_else(clock::now)),
                Signal::Early(piece) => self.take_in_early(woken.client, piece),
                Signal::Unsent { n_bytes } => self.send_rest(woken.client, n_bytes),
                Signal::Ready { readable, closing } => self.serve(woken.client, readable, closing),
                Signal::Ended(why) => self.lose(woken.client, clock::now(), &why.to_string()),
            }
        }
    }

    /// Prefetches the client that the `n`-th piece of news after the next one is about: the servers' work has displaced it
    /// from the processor's caches.
    #[inline]
    fn prefetch_client(&self, n: usize) {
        let Setup { poller, clients, .. } = &self.setup;
        let Some(index) = poller.upcoming(n) else { return };
        poller.prefetch(index);
        if let Some(client) = clients.get(index) {
            prefetch::lines(client);
        }
    }

    /// Prefetches what the next client points to, which is known once the client itself is there.
    #[inline]
    fn prefetch_next_parts(&self) {
        let Setup { poller, clients, .. } = &self.setup;
        if let Some(client) = poller.upcoming(0).and_then(|index| clients.get(index)) {
            client.prefetch_parts();
        }
    }

    /// Begins and ends the measurement window where the parent has moved it, unless the load was stopped.
    #[inline]
    fn follow_frame(&mut self) {
        let Some(seen) = self.setup.controls.frame.moved(self.bounds.seen) else { return };
        if self.bounds.move_to(seen) {
            let schedules = self.setup.schedule.iter_mut().chain(&mut self.slots.due_counter);
            schedules.for_each(|schedule| schedule.end_at(seen.end));
        }
    }

    /// Whether nothing is left to do; past the deadline, what is in flight is given up first.
    fn is_over(&mut self, now: Nanos) -> bool {
        if self.roster.n_gone == self.setup.clients.len() {
            return !self.outlives_its_clients(now);
        }
        if now < self.bounds.end {
            return false;
        }
        if now >= self.bounds.deadline {
            self.give_up_open(now);
        }
        if !self.setup.clients.iter().any(Client::in_flight) {
            return true;
        }
        self.cancels.are_over(now)
    }

    /// Whether slots still fall due that a lost client could have taken. They are counted for as long as other threads go on.
    fn outlives_its_clients(&mut self, now: Nanos) -> bool {
        let n_with_clients = self.setup.controls.n_with_clients;
        if !std::mem::replace(&mut self.record.is_without_clients, true) {
            n_with_clients.fetch_sub(1, Ordering::Relaxed);
        }
        // A number of transactions is each client's own: nobody knows which slots the lost ones would have taken.
        let has_slots = self.slots.due_counter.is_some() && self.setup.load.transactions_per_client.is_none();
        let misses_slots = has_slots && self.record.clients_lost > 0;
        misses_slots && now < self.bounds.end && n_with_clients.load(Ordering::Relaxed) > 0
    }

    /// Cancels the statements in flight, and ends the transactions of clients that sleep: no answer is due to them.
    fn give_up_open(&mut self, now: Nanos) {
        let may_repeat = self.cancels.are_taken();
        let mut handles = Vec::new();
        for index in 0..self.setup.clients.len() {
            let client = &mut self.setup.clients[index];
            match client.state {
                // It may sleep because a reply is held back: the transaction counts by what the server has said.
                State::Sleeping { until } if until.saturating_sub(now) <= self.reply_delay_ns => {}
                State::Sleeping { .. } => self.give_up(index, now),
                _ if client.is_to_be_cancelled(may_repeat) => {
                    client.transaction.cancelled = Some(now);
                    handles.extend(client.session.cancel.clone());
                }
                _ => {}
            }
        }
        self.cancels.send(handles, now);
    }

    fn wake_up_at(&self, now: Nanos) -> Nanos {
        let mut until = self.interval.end.min(now + WAIT_MAX_NS);
        if now < self.bounds.end {
            until = until.min(self.bounds.end);
            if !self.roster.idle.is_empty() {
                let next_due = self.setup.schedule.as_ref().map_or(Some(now), Schedule::next_due);
                until = until.min(next_due.unwrap_or(until));
            }
        }
        if self.roster.n_connecting > 0 {
            until = until.min(self.roster.next_tend);
        }
        if self.roster.n_sleeping > 0 {
            until = until.min(self.roster.next_wake);
        }
        self.patience.map_or(until, |patience| until.min(patience.next_look))
    }

    fn notice_pause(&mut self, turn_end: Nanos, until: Nanos, now: Nanos) {
        let late_ns = now.saturating_sub(until.max(turn_end));
        if late_ns >= PAUSE_MIN_NS {
            self.report(Report::Paused { at: now, pause_ns: late_ns });
        }
    }

    /// Idle clients take the transactions that are due.
    fn begin_due(&mut self, now: Nanos) {
        for _ in 0..self.roster.idle.len() {
            // Time has passed since the turn began: what is due by now need not wait for the next turn. What is
            // counted from here on belongs to this moment's second.
            let at = clock::now();
            if at >= self.bounds.end {
                return;
            }
            self.close_intervals(at);
            let Some(&client) = self.roster.idle.front() else { return };
            if self.setup.clients[client].state != State::Idle {
                self.roster.idle.pop_front();
                continue;
            }
            let due = match &self.setup.schedule {
                None => Some(now),
                Some(_) => self.take_slot(client, at),
            };
            let Some(due) = due else {
                match self.setup.clients[client].state {
                    State::Idle => return,
                    _ => continue,
                }
            };
            self.roster.idle.pop_front();
            self.begin(client, due, at);
        }
    }

    /// The next slot that is due for a client. Slots that exceeded the latency limit before the client became free are
    /// skipped, and count as transactions of the client. A slot whose client was waiting for it runs, however late this
    /// thread woke up: no latency limit may hide that.
    fn take_slot(&mut self, client: usize, now: Nanos) -> Option<Nanos> {
        loop {
            let due = self.setup.schedule.as_mut()?.take(now)?;
            let limit_ns = self.setup.load.latency_limit_ns.unwrap_or(u64::MAX);
            if self.setup.clients[client].record.idle_since.saturating_sub(due) <= limit_ns {
                return Some(due);
            }
            let script = self.next_script(client, now);
            self.slots.n_taken += 1;
            let counts = &mut self.tally.scripts[script].counts;
            counts.due += 1;
            counts.skipped += 1;
            let transaction = &mut self.setup.clients[client].transaction;
            (transaction.script, transaction.tries) = (script, 1);
            (transaction.due, transaction.started) = (due, now);
            self.log(client, TransactionOutcome::Skipped, now);
            if self.has_made_all(client) {
                self.retire(client);
                return None;
            }
        }
    }

    fn wake_sleepers(&mut self, now: Nanos) {
        if self.roster.n_sleeping == 0 || now < self.roster.next_wake {
            return;
        }
        self.roster.next_wake = Nanos::MAX;
        for client in 0..self.setup.clients.len() {
            match self.setup.clients[client].state {
                State::Sleeping { until } if until <= now => {
                    self.roster.n_sleeping -= 1;
                    let pauses = self.setup.clients[client].emulator.command() > 0;
                    if pauses {
                        self.end_command(client, now);
                    }
                    self.go_on(client, now);
                }
                State::Pausing { until } if until <= now => {
                    self.roster.n_sleeping -= 1;
                    self.setup.clients[client].state = State::Idle;
                    if now < self.bounds.end {
                        self.begin(client, until, now)
                    } else {
                        self.roster.idle.push_back(client)
                    }
                }
                State::Sleeping { until } | State::Pausing { until } => {
                    self.roster.next_wake = self.roster.next_wake.min(until);
                }
                _ => {}
            }
        }
    }

    /// Input that the poller received.
    #[inline]
    fn take_in(&mut self, index: usize, piece: ReceivedPiece, now: Nanos) {
        self.close_intervals(now);
        let Setup { poller, clients, .. } = &mut self.setup;
        let received = clients[index].receive(poller.input(&piece), now);
        poller.release(piece);
        self.received(index, received, now);
    }

    /// Handles input that the poller received before the client's message had left.
    #[cold]
    fn take_in_early(&mut self, index: usize, piece: ReceivedPiece) {
        let now = clock::now();
        self.close_intervals(now);
        let Setup { poller, clients, .. } = &mut self.setup;
        let received = clients[index].receive_unasked(poller.input(&piece));
        poller.release(piece);
        self.received(index, received.map(|()| Received::Partial), now);
    }

    /// The end of the client's message did not fit into its socket.
    #[cold]
    fn send_rest(&mut self, index: usize, n_bytes: usize) {
        self.setup.clients[index].outgoing.mark_unsent(n_bytes);
        self.flush(index);
    }

    /// Reads what a client's connection has, and sends what it could not send before.
    fn serve(&mut self, index: usize, readable: bool, closing: bool) {
        if self.setup.clients[index].state == State::Dialing {
            return self.advance_dialing(index);
        }
        // Taken out for the length of the call, so that clients can be changed meanwhile.
        let mut buffer = std::mem::take(&mut self.buffer);
        let (mut n_reads, mut is_left) = (0, false);
        let destination = self.setup.clients[index].destination;
        while readable && self.read_once(index, closing, &mut buffer) {
            n_reads += 1;
            is_left = self.setup.clients[index].destination != destination;
            if is_left {
                break;
            }
            // A server that never stops may hold up neither other clients nor the end of the load.
            if n_reads == READS_MAX {
                let Setup { poller, clients, .. } = &mut self.setup;
                if let Err(e) = poller.look_again(&clients[index], index, closing) {
                    self.lose(index, clock::now(), &e.to_string());
                }
                break;
            }
        }
        self.buffer = buffer;
        if is_left {
            // The next transaction goes elsewhere, and the rest is news of a connection that rests.
            self.hear_resting(index, Signal::Ready { readable, closing });
        }
        let client = &self.setup.clients[index];
        if client.session.link.is_some() && client.outgoing.waits_to_write {
            self.flush(index);
        }
    }

    /// Reads once, and returns whether there may be more.
    fn read_once(&mut self, index: usize, closing: bool, buffer: &mut [u8]) -> bool {
        let Some(link) = &mut self.setup.clients[index].session.link else { return false };
        let n = match link.recv(buffer) {
            Ok(0) => {
                self.lose(index, clock::now(), "the server closed the connection");
                return false;
            }
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return false,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return true,
            Err(e) => {
                self.lose(index, clock::now(), &e.to_string());
                return false;
            }
        };
        let now = clock::now();
        self.close_intervals(now);
        let client = &mut self.setup.clients[index];
        // A short read means that the socket is drained; TLS may hold more.
        let is_encrypted = client.session.link.as_ref().is_some_and(wire::Link::is_encrypted);
        let drained = n < buffer.len() && !closing && !is_encrypted;
        let received = client.receive(&buffer[..n], now);
        self.received(index, received, now);
        !drained
    }

    /// Acts on a piece of input.
    #[inline]
    fn received(&mut self, index: usize, received: Result<Received, ProtocolError>, now: Nanos) {
        let client = &self.setup.clients[index];
        if !client.exchange.refused.is_empty() {
            self.report_refused(index, now);
        }
        if !self.setup.clients[index].notices.is_empty() {
            self.report_notices(index, now);
        }
        match received {
            Ok(Received::Partial) => {}
            Ok(Received::Complete) => self.reply_complete(index, now),
            Ok(Received::Copy) => self.copy_in(index, now),
            Err(e) => self.distrust(index, now, &e),
        }
    }

    /// Reports an event that happened at `at`.
    fn report_event(&self, at: Nanos, event: Event) {
        let events = self.setup.controls.events;
        // Where none may be left out, a thread waits for whoever reads them, as a pgbench waits that writes them itself.
        while self.setup.load.all_notices
            && events.are_too_many()
            && self.setup.controls.stop.load(Ordering::Relaxed) < stop::AT_ONCE
        {
            std::thread::sleep(EVENTS_GRAIN);
        }
        events.add();
        self.report(Report::Event { at, event: Box::new(event) });
    }

    /// Sends a report. The control loop outlives its threads; if it is gone all the same, nobody is left to listen.
    fn report(&self, report: Report) {
        self.setup.reports.send(report).ok();
    }
}
