//! What a thread keeps of its load, in groups: each is about one question that the loop asks.

use std::collections::{BTreeMap, VecDeque};

use model::load::execution::ExecutionLine;

use crate::client::notices::NoticeBudget;
use crate::clock::{Nanos, SECOND_NS};
use crate::tally::SqlState;
use crate::thread::frame::FrameView;
use crate::thread::schedule::Schedule;
use crate::thread::stop;

/// Which clients need the loop. An idle client waits in a queue for the next slot. Those that sleep, pause or connect
/// are only counted, with the earliest moment at which one of them needs attention: while there are none, a turn of the
/// loop does not look for them.
pub(super) struct Roster {
    pub(super) idle: VecDeque<usize>,
    /// Clients that sleep or pause, and when the first of them wakes, or sooner.
    pub(super) n_sleeping: usize,
    pub(super) next_wake: Nanos,
    /// Clients that connect or wait to connect, and when the first of them needs attention.
    pub(super) n_connecting: usize,
    pub(super) next_tend: Nanos,
    /// Clients that will do no more.
    pub(super) n_gone: usize,
    /// One of these, whose session is to be asked when the load is over.
    pub(super) kept: Option<usize>,
}

impl Roster {
    /// All clients are idle.
    pub(super) fn new(n_clients: usize) -> Roster {
        Roster {
            idle: (0..n_clients).collect(),
            n_sleeping: 0,
            next_wake: Nanos::MAX,
            n_connecting: 0,
            next_tend: 0,
            n_gone: 0,
            kept: None,
        }
    }

    /// One more client sleeps or pauses until then.
    #[inline]
    pub(super) fn sleep(&mut self, until: Nanos) {
        self.n_sleeping += 1;
        self.next_wake = self.next_wake.min(until);
    }
}

/// The slots of an open loop, and what became of them. `due_counter` walks the schedule by the clock, whereas the
/// schedule itself is walked by the clients: the difference is the backlog.
pub(super) struct Slots {
    pub(super) due_counter: Option<Schedule>,
    /// Slots that were due and not yet taken when the last interval ended.
    pub(super) backlog: u64,
    /// Slots taken since then.
    pub(super) n_taken: u64,
    /// The order of a rate that is followed, by number.
    pub(super) rate_order: u32,
    /// The script of the next transaction, once it was chosen, of each class of clients.
    pub(super) chosen: Box<[Option<usize>]>,
}

/// The interval that is being counted. It is sent to the control loop at its end, and the next one begins.
pub(super) struct Current {
    /// Number, from 0.
    pub(super) t: u32,
    pub(super) start: Nanos,
    pub(super) end: Nanos,
    pub(super) thread_cpu_at_start: u64,
    /// Transactions that the server had reported as ended before it.
    pub(super) server_transactions_before: u64,
    /// The longest turn of the loop.
    pub(super) loop_max_ns: u64,
    /// What may still be reported of the server's notices.
    pub(super) notices: NoticeBudget,
}

impl Current {
    /// The first interval of a load.
    pub(super) fn new(go: Nanos) -> Current {
        Current {
            t: 0,
            start: go,
            end: go + SECOND_NS,
            thread_cpu_at_start: 0,
            server_transactions_before: 0,
            loop_max_ns: 0,
            notices: NoticeBudget::default(),
        }
    }
}

/// When the load counts and when it ends, as this thread knows it. The parent may move the window, and may stop the load;
/// a load that was stopped is not prolonged again.
pub(super) struct Bounds {
    grace_ns: Nanos,
    /// The frame as this thread has seen it.
    pub(super) seen: FrameView,
    /// The measurement window.
    pub(super) measure: (Nanos, Nanos),
    /// No transaction begins from here on.
    pub(super) end: Nanos,
    /// Statements in flight are cancelled from here on.
    pub(super) deadline: Nanos,
    /// The stop that was obeyed, see [`stop`].
    pub(super) stopped: u8,
}

impl Bounds {
    pub(super) fn new(seen: FrameView, grace_s: u32) -> Bounds {
        let grace_ns = u64::from(grace_s) * SECOND_NS;
        Bounds {
            grace_ns,
            seen,
            measure: (seen.from, seen.end),
            end: seen.end,
            deadline: seen.end + grace_ns,
            stopped: stop::NOT,
        }
    }

    /// The parent has moved the frame; `false` if that comes after a stop, which holds.
    pub(super) fn move_to(&mut self, seen: FrameView) -> bool {
        self.seen = seen;
        if self.stopped != stop::NOT {
            return false;
        }
        self.measure = (seen.from, seen.end);
        self.end = seen.end;
        self.deadline = seen.end + self.grace_ns;
        true
    }

    /// The load ends now instead of at the end of its window.
    pub(super) fn stop_at(&mut self, now: Nanos, stop: u8) {
        self.stopped = stop;
        if now < self.end {
            self.end = now;
            self.measure.1 = self.measure.1.min(now);
            self.deadline = now + self.grace_ns;
        }
        if stop == stop::AT_ONCE {
            self.deadline = self.deadline.min(now);
        }
    }

    /// Whether what ends now counts.
    #[inline]
    pub(super) fn is_measured(&self, now: Nanos) -> bool {
        now >= self.measure.0 && now < self.measure.1
    }
}

/// What is reported once, when the thread has finished.
#[derive(Default)]
pub(super) struct Record {
    /// How late the thread began, after `go`.
    pub(super) late: Nanos,
    pub(super) clients_lost: u32,
    /// Whether the last client has gone.
    pub(super) is_without_clients: bool,
    /// The first message with each SQLSTATE.
    pub(super) messages: BTreeMap<SqlState, String>,
    /// Executions that are not reported yet.
    pub(super) executions: Vec<ExecutionLine>,
}
