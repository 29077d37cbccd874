//! One thread of the driver: its event loop, its clients, its schedule.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};

use model::load::Window;
use workload::{Action, Prng};

use crate::client::{Client, Received, ReplyError, State};
use crate::clock::{self, Nanos, SECOND_NS};
use crate::poller::Poller;
use crate::schedule::Schedule;
use crate::script::Scripts;
use crate::tally::{LOST, SCRIPT, SqlState, Tally};

/// What a thread tells the control loop.
pub(crate) enum Report {
    /// An interval is over.
    Part(Box<Part>),
    /// A client lost its connection, or will do no more.
    Lost { at: Nanos, client: usize, sqlstate: SqlState, message: String },
    /// The thread did not run for this long.
    Paused { at: Nanos, pause_ns: Nanos },
    /// The thread cannot go on, and nothing follows from it: the load is not what was asked for.
    Broken(std::io::Error),
    /// Nothing follows from this thread.
    Finished(Box<Finished>),
}

/// One interval of one thread.
pub(crate) struct Part {
    pub(crate) thread: usize,
    pub(crate) t: u32,
    pub(crate) start: Nanos,
    pub(crate) end: Nanos,
    pub(crate) tally: Tally,
    pub(crate) thread_cpu_ns: u64,
    pub(crate) loop_max_ns: u64,
    pub(crate) in_flight: u64,
    pub(crate) connected: u64,
    pub(crate) backlog: u64,
}

/// The end of a thread.
pub(crate) struct Finished {
    pub(crate) thread: usize,
    pub(crate) end: Nanos,
    /// Client number and transactions committed within the measure.
    pub(crate) measured: Vec<(usize, u64)>,
    pub(crate) clients_lost: u32,
    /// Clients whose last statement was cancelled and not even then answered, and the longest wait of one.
    pub(crate) unanswered: u32,
    pub(crate) unanswered_ns: Nanos,
    pub(crate) messages: BTreeMap<SqlState, String>,
}

/// What a worker is made of.
pub(crate) struct Setup<'a> {
    pub(crate) thread: usize,
    pub(crate) scripts: &'a Scripts,
    pub(crate) clients: Vec<Client>,
    pub(crate) poller: Poller,
    /// Stream of script choices.
    pub(crate) choose: Prng,
    pub(crate) schedule: Option<Schedule>,
    pub(crate) window: Window,
    pub(crate) go: Nanos,
    pub(crate) stop: &'a AtomicBool,
    pub(crate) reports: Sender<Report>,
    /// Tallies that the control loop has emptied.
    pub(crate) spare: Receiver<Tally>,
}

/// A worker at work.
pub(crate) struct Worker<'a> {
    setup: Setup<'a>,
    tally: Tally,
    /// Walks the schedule's slots as they become due, whoever takes them when.
    due_counter: Option<Schedule>,
    /// Slots that were due and not yet taken when the last interval ended.
    backlog: u64,
    n_taken: u64,
    idle: VecDeque<usize>,
    n_sleeping: usize,
    n_gone: usize,
    buffer: Box<[u8]>,
    t: u32,
    interval_start: Nanos,
    boundary: Nanos,
    measure: (Nanos, Nanos),
    /// No transaction begins from here on.
    end: Nanos,
    /// Statements in flight are cancelled from here on.
    deadline: Nanos,
    thread_cpu_at_start: u64,
    loop_max_ns: u64,
    clients_lost: u32,
    messages: BTreeMap<SqlState, String>,
}

/// The loop never waits longer, so that a stop is seen and a pause is noticed.
const WAIT_MAX_NS: Nanos = 100_000_000;
/// A thread that comes back this much later than it asked for was paused (validity.md 4: driver_paused).
const PAUSE_MIN_NS: Nanos = 100_000_000;
/// After cancelling: time for the server's answers.
const CANCEL_GRACE_NS: Nanos = 2 * SECOND_NS;
/// Big enough for the replies of any built-in script; larger results come in several pieces.
const BUFFER_BYTES: usize = 16 * 1024;
/// Transactions without any statement to send, before other clients get their turn.
const TURN_MAX: usize = 256;

impl<'a> Worker<'a> {
    pub(crate) fn new(setup: Setup<'a>) -> Worker<'a> {
        let second = |s: u32| setup.go + u64::from(s) * SECOND_NS;
        let window = setup.window;
        let end = second(window.load_s());
        Worker {
            tally: Tally::new(&setup.scripts.n_statements(), setup.schedule.is_some()),
            due_counter: setup.schedule.clone(),
            backlog: 0,
            n_taken: 0,
            idle: (0..setup.clients.len()).collect(),
            n_sleeping: 0,
            n_gone: 0,
            buffer: vec![0; BUFFER_BYTES].into(),
            t: 0,
            interval_start: setup.go,
            boundary: second(1),
            measure: (second(window.ramp_up_s), end),
            end,
            deadline: end + u64::from(window.grace_s) * SECOND_NS,
            thread_cpu_at_start: 0,
            loop_max_ns: 0,
            clients_lost: 0,
            messages: BTreeMap::new(),
            setup,
        }
    }

    /// Offers the load from `go` until the last transaction has ended.
    pub(crate) fn run(mut self) {
        while clock::now() < self.setup.go && !self.setup.stop.load(Ordering::Relaxed) {
            std::thread::sleep(std::time::Duration::from_nanos(
                (self.setup.go - clock::now()).min(WAIT_MAX_NS),
            ));
        }
        self.thread_cpu_at_start = clock::thread_cpu();
        let mut now = clock::now();
        loop {
            if self.setup.stop.load(Ordering::Relaxed) && now < self.end {
                self.stop_at(now);
            }
            self.begin_due(now);
            self.wake_sleepers(now);
            if self.is_over(now) {
                break;
            }
            let until = self.wake_up_at(now);
            let turn_end = clock::now();
            self.loop_max_ns = self.loop_max_ns.max(turn_end - now);
            if let Err(error) = self.setup.poller.wait(until) {
                return self.report(Report::Broken(error));
            }
            now = clock::now();
            self.notice_pause(turn_end, until, now);
            self.close_intervals(now);
            let mut i = 0;
            while let Some(ready) = self.setup.poller.ready(i) {
                self.serve(ready.client, ready.closing);
                i += 1;
            }
        }
        self.finish();
    }

    /// The load ends now instead of at the end of its window.
    fn stop_at(&mut self, now: Nanos) {
        self.end = now;
        self.measure.1 = self.measure.1.min(now);
        self.deadline = now + u64::from(self.setup.window.grace_s) * SECOND_NS;
    }

    /// Whether nothing is left to do; past the deadline, statements in flight are cancelled first.
    fn is_over(&mut self, now: Nanos) -> bool {
        if self.n_gone == self.setup.clients.len() {
            return true;
        }
        if now < self.end {
            return false;
        }
        let is_open = |client: &Client| client.in_flight() || client.state == State::RollingBack;
        if !self.setup.clients.iter().any(is_open) {
            return true;
        }
        if now >= self.deadline {
            self.cancel_open();
        }
        now >= self.deadline + CANCEL_GRACE_NS
    }

    fn cancel_open(&mut self) {
        let mut handles = Vec::new();
        for client in self.setup.clients.iter_mut().filter(|c| c.in_flight() && !c.cancelled) {
            client.cancelled = true;
            handles.push(client.cancel.clone());
        }
        if !handles.is_empty() {
            crate::process::cancel_all(handles);
        }
    }

    fn wake_up_at(&self, now: Nanos) -> Nanos {
        let mut until = self.boundary.min(now + WAIT_MAX_NS);
        if now < self.end {
            until = until.min(self.end);
            if !self.idle.is_empty() {
                let next_due = self.setup.schedule.as_ref().map_or(Some(now), Schedule::next_due);
                until = until.min(next_due.unwrap_or(until));
            }
        }
        if self.n_sleeping > 0 {
            for client in &self.setup.clients {
                if let State::Sleeping { until: wake } = client.state {
                    until = until.min(wake);
                }
            }
        }
        until
    }

    fn notice_pause(&mut self, turn_end: Nanos, until: Nanos, now: Nanos) {
        let late_ns = now.saturating_sub(until.max(turn_end));
        if late_ns >= PAUSE_MIN_NS {
            self.report(Report::Paused { at: now, pause_ns: late_ns });
        }
    }

    /// Idle clients take the transactions that are due.
    fn begin_due(&mut self, now: Nanos) {
        if now >= self.end {
            return;
        }
        for _ in 0..self.idle.len() {
            let Some(&client) = self.idle.front() else { return };
            if self.setup.clients[client].state != State::Idle {
                self.idle.pop_front();
                continue;
            }
            let due = match &mut self.setup.schedule {
                None => Some(now),
                Some(schedule) => schedule.take(now),
            };
            let Some(due) = due else { return };
            self.idle.pop_front();
            self.begin(client, due, clock::now());
        }
    }

    fn wake_sleepers(&mut self, now: Nanos) {
        if self.n_sleeping == 0 {
            return;
        }
        for client in 0..self.setup.clients.len() {
            if matches!(self.setup.clients[client].state, State::Sleeping { until } if until <= now) {
                self.n_sleeping -= 1;
                self.go_on(client, now);
            }
        }
    }

    /// Begins a transaction that was due at `due`.
    fn begin(&mut self, index: usize, due: Nanos, now: Nanos) {
        self.start_transaction(index, due, now);
        self.go_on(index, now);
    }

    fn start_transaction(&mut self, index: usize, due: Nanos, now: Nanos) {
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
    fn go_on(&mut self, index: usize, now: Nanos) {
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
    fn send(&mut self, index: usize, now: Nanos) {
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
    fn flush(&mut self, index: usize) {
        let client = &mut self.setup.clients[index];
        let flushed = match client.flush() {
            Ok(all_sent) => self.setup.poller.watch_writable(client, index, !all_sent),
            Err(e) => Err(e),
        };
        if let Err(e) = flushed {
            self.lose(index, clock::now(), &e.to_string());
        }
    }

    /// Reads what a client's connection has, and sends what it could not send before.
    fn serve(&mut self, index: usize, closing: bool) {
        // Borrowed from the worker for the length of the call, so that clients can be changed meanwhile.
        let mut buffer = std::mem::take(&mut self.buffer);
        while self.read_once(index, closing, &mut buffer) {}
        self.buffer = buffer;
        let client = &self.setup.clients[index];
        if client.state != State::Gone && client.waits_to_write {
            self.flush(index);
        }
    }

    /// One read; says whether there may be more.
    fn read_once(&mut self, index: usize, closing: bool, buffer: &mut [u8]) -> bool {
        let client = &mut self.setup.clients[index];
        if client.state == State::Gone {
            return false;
        }
        let n = match client.link.recv(buffer) {
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
        let drained = n < buffer.len() && !closing && client.tls.is_none();
        match client.receive(&buffer[..n]) {
            Ok(Received::Partial) => {}
            Ok(Received::Complete) => self.reply_complete(index, now),
            Err(e) => self.lose(index, now, &e),
        }
        !drained
    }

    /// A statement is over, well or not.
    #[inline]
    fn reply_complete(&mut self, index: usize, now: Nanos) {
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

    fn commit(&mut self, index: usize, now: Nanos) {
        let client = &mut self.setup.clients[index];
        let tally = &mut self.tally.scripts[client.script];
        tally.counts.committed += 1;
        tally.latency.record(now - client.due);
        tally.service.record(now - client.started);
        if now >= self.measure.0 && now < self.measure.1 {
            client.measured += 1;
        }
    }

    /// The server reported an error: the transaction has failed, or was cancelled by us at the end.
    fn fail(&mut self, index: usize, now: Nanos, error: ReplyError) {
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

    fn become_free(&mut self, index: usize, now: Nanos) {
        self.setup.clients[index].state = State::Idle;
        if self.setup.schedule.is_none() && now < self.end {
            self.begin(index, now, now);
        } else {
            self.idle.push_back(index);
        }
    }

    /// The connection ended. A transaction in flight has failed, unless the server may have committed it.
    fn lose(&mut self, index: usize, now: Nanos, why: &str) {
        let (sqlstate, message) = match self.setup.clients[index].last_words() {
            Some(error) => (error.sqlstate, error.message),
            None => (LOST, why.to_string()),
        };
        self.give_up(index, now, sqlstate, message);
    }

    fn give_up(&mut self, index: usize, now: Nanos, sqlstate: SqlState, message: String) {
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

    /// Sends the intervals that are over by `now`.
    #[inline]
    fn close_intervals(&mut self, now: Nanos) {
        while now >= self.boundary {
            self.close_interval(self.boundary);
            self.boundary += SECOND_NS;
        }
    }

    fn close_interval(&mut self, end: Nanos) {
        self.count_backlog(end);
        let fresh = self.setup.spare.try_recv().unwrap_or_else(|_| {
            Tally::new(&self.setup.scripts.n_statements(), self.setup.schedule.is_some())
        });
        let cpu = clock::thread_cpu();
        let clients = &self.setup.clients;
        let part = Part {
            thread: self.setup.thread,
            t: self.t,
            start: self.interval_start,
            end,
            tally: std::mem::replace(&mut self.tally, fresh),
            thread_cpu_ns: cpu - self.thread_cpu_at_start,
            loop_max_ns: self.loop_max_ns,
            in_flight: clients.iter().filter(|c| c.in_flight()).count() as u64,
            connected: clients.iter().filter(|c| c.state != State::Gone).count() as u64,
            backlog: self.backlog,
        };
        self.thread_cpu_at_start = cpu;
        self.loop_max_ns = 0;
        self.interval_start = end;
        self.t += 1;
        self.report(Report::Part(Box::new(part)));
    }

    /// How many slots were due by `until` and are not taken.
    fn count_backlog(&mut self, until: Nanos) {
        let Some(counter) = &mut self.due_counter else { return };
        // A load that is stopped early has no slots after its stop.
        while counter.take(until.min(self.end)).is_some() {
            self.backlog += 1;
        }
        self.backlog -= std::mem::take(&mut self.n_taken);
    }

    /// Accounts for what is left, and reports the end.
    fn finish(&mut self) {
        let now = clock::now();
        self.close_intervals(now);
        let (mut unanswered, mut unanswered_ns) = (0, 0);
        for client in self.setup.clients.iter_mut().filter(|c| c.in_flight()) {
            if client.cancelled {
                unanswered += 1;
                unanswered_ns = unanswered_ns.max(now - client.statement_sent);
            }
            let tally = &mut self.tally.scripts[client.script];
            let waiting = client.state == State::Waiting;
            if waiting && self.setup.scripts.decides(client.script, client.statement, client.in_block()) {
                tally.counts.unknown += 1;
                tally.error(LOST, 1);
            } else {
                tally.counts.aborted += 1;
            }
            client.state = State::Gone;
        }
        self.skip_backlog(now);
        self.close_interval(now);
        let finished = Finished {
            thread: self.setup.thread,
            end: now,
            measured: self.setup.clients.iter().map(|c| (c.id, c.measured)).collect(),
            clients_lost: self.clients_lost,
            unanswered,
            unanswered_ns,
            messages: std::mem::take(&mut self.messages),
        };
        self.report(Report::Finished(Box::new(finished)));
    }

    /// Slots that no client was free for before the load ended were never sent. Which script each would have
    /// run is not decided before it starts: the first one stands for them.
    fn skip_backlog(&mut self, now: Nanos) {
        self.count_backlog(now.min(self.end));
        self.due_counter = None;
        let counts = &mut self.tally.scripts[0].counts;
        counts.due += self.backlog;
        counts.skipped += self.backlog;
        self.backlog = 0;
    }

    /// The control loop outlives its threads; if it is gone all the same, nobody is left to tell.
    fn report(&self, report: Report) {
        self.setup.reports.send(report).ok();
    }
}
