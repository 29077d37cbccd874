//! What a thread tells the control loop.

use std::collections::BTreeMap;

use model::telemetry::event::Event;

use crate::clock::Nanos;
use crate::tally::{SqlState, Tally};

/// A message of a thread.
pub(crate) enum Report {
    /// An interval is over.
    Part(Box<Part>),
    /// Something happened at a moment; the control loop sets the event's time.
    Event { at: Nanos, event: Box<Event> },
    /// The thread did not run for this long.
    Paused { at: Nanos, pause_ns: Nanos },
    /// What the load was to leave behind cannot be written: the load is void.
    Failed(String),
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
    /// Part of this time spent awake without events.
    pub(crate) polled_ns: u64,
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
    /// See [`model::load::drive::Done::committed_by_slice`].
    pub(crate) committed_by_slice: Vec<u64>,
    /// See [`model::load::drive::Done::backlog`].
    pub(crate) backlog: u64,
    pub(crate) clients_lost: u32,
    /// Clients whose last statement was cancelled and not even then answered, and the longest wait of one.
    pub(crate) unanswered: u32,
    pub(crate) unanswered_ns: Nanos,
    pub(crate) messages: BTreeMap<SqlState, String>,
    pub(crate) connects: Connects,
}

/// Connections made while the load ran.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Connects {
    pub(crate) n: u64,
    /// Time taken to make and to close them.
    pub(crate) ns: f64,
    /// Time without a connection after a loss.
    pub(crate) outage_ns: f64,
}
