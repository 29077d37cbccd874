//! One thread of the driver: its event loop, its clients, its schedule.

mod failing;
mod interval;
mod turn;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};

use model::load::Window;
use workload::Prng;

use crate::client::{Client, Received, State};
use crate::clock::{self, Nanos, SECOND_NS};
use crate::poller::Poller;
use crate::schedule::Schedule;
use crate::script::Scripts;
use crate::tally::{SqlState, Tally};

/// What a thread tells the control loop.
pub(crate) enum Report {
    /// An interval is over.
    Part(Box<Part>),
    /// A client lost its connection, or will do no more.
    Lost { at: Nanos, client: usize, sqlstate: SqlState, message: String },
    /// The thread did not run for this long.
    Paused { at: Nanos, pause_ns: Nanos },
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
            if self.setup.poller.wait(until).is_err() {
                break;
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

    /// The control loop outlives its threads; if it is gone all the same, nobody is left to tell.
    fn report(&self, report: Report) {
        self.setup.reports.send(report).ok();
    }
}
