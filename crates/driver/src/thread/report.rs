//! What a thread reports to the control loop.

use std::collections::BTreeMap;

use model::load::execution::ExecutionLine;
use model::load::sessions::SessionSettings;
use model::telemetry::event::Event;
use workload::emulator::traced::TracedFigures;

use crate::clock::Nanos;
use crate::tally::{IntervalTally, SqlState};

/// A message of a thread.
pub(crate) enum Report {
    /// An interval is over.
    Part(Box<ThreadInterval>),
    /// An event; the control loop sets its time from `at`.
    Event { at: Nanos, event: Box<Event> },
    /// Executions that have ended, of a load that reports each.
    Executions(Vec<ExecutionLine>),
    /// The thread did not run for this long.
    Paused { at: Nanos, pause_ns: Nanos },
    /// A file of the load cannot be written: the load is void.
    Failed(String),
    /// The thread cannot go on, and this is its last report: the load is not what was asked for.
    Broken(std::io::Error),
    /// The thread's last report.
    Finished(Box<Finished>),
}

/// One interval of one thread.
pub(crate) struct ThreadInterval {
    pub(crate) thread: usize,
    pub(crate) t: u32,
    pub(crate) start: Nanos,
    pub(crate) end: Nanos,
    pub(crate) tally: IntervalTally,
    pub(crate) thread_cpu_ns: u64,
    /// Part of the interval that was spent polling without news.
    pub(crate) polled_ns: u64,
    pub(crate) loop_max_ns: u64,
    pub(crate) in_flight: u64,
    pub(crate) connected: u64,
    pub(crate) backlog: u64,
    /// Transactions that the server reported as ended in the interval.
    pub(crate) server_transactions: u64,
}

/// Totals of a thread that has finished.
pub(crate) struct Finished {
    pub(crate) thread: usize,
    /// How late it began, after `go`.
    pub(crate) late: Nanos,
    pub(crate) end: Nanos,
    /// Client number and transactions committed within the measurement window.
    pub(crate) measured: Vec<(usize, u64)>,
    /// See [`model::load::drive::Done::committed_by_slice`].
    pub(crate) committed_by_slice: Vec<u64>,
    /// See [`model::load::drive::Done::backlog`].
    pub(crate) backlog: u64,
    pub(crate) clients_lost: u32,
    /// Clients whose last statement was not answered even after it was cancelled, and the longest wait among them.
    pub(crate) unanswered: u32,
    pub(crate) unanswered_ns: Nanos,
    pub(crate) messages: BTreeMap<SqlState, String>,
    /// See [`model::load::drive::Done::sessions`].
    pub(crate) sessions: Option<SessionSettings>,
    /// What clients of a trace have seen.
    pub(crate) traced: Vec<TracedFigures>,
}
