//! The sink for samples of all threads, which reports each missing source once.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use model::telemetry::event::Event;
use model::telemetry::reading::Tick;

use crate::Observation;

pub(crate) type Sink = Box<dyn FnMut(Observation) + Send>;

/// A sink shared by the observer's threads.
#[derive(Clone)]
pub(crate) struct Out {
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    /// `None` after the end.
    sink: Option<Sink>,
    told: BTreeSet<String>,
}

impl fmt::Debug for Out {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Out")
    }
}

impl Out {
    pub(crate) fn new(sink: Sink) -> Out {
        Out { shared: Arc::new(Mutex::new(Shared { sink: Some(sink), told: BTreeSet::new() })) }
    }

    fn with(&self, act: impl FnOnce(&mut Shared)) {
        // A sink that panicked has lost its thread's samples; the other threads continue.
        act(&mut self.shared.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn send(&self, sample: Observation) {
        self.with(|shared| {
            if let Some(sink) = &mut shared.sink {
                sink(sample);
            }
        });
    }

    /// Sends a tick; drops one without values.
    pub(crate) fn tick(&self, tick: Tick) {
        if !tick.values.is_empty() {
            self.send(Observation::Tick(tick));
        }
    }

    pub(crate) fn event(&self, event: Event) {
        self.send(Observation::Event(event));
    }

    /// Reports that something cannot be observed, once per `what`.
    pub(crate) fn unavailable(&self, what: &str, reason: String) {
        self.with(|shared| {
            if shared.told.insert(what.to_string())
                && let Some(sink) = &mut shared.sink
            {
                sink(Observation::Unavailable { what: what.to_string(), reason });
            }
        });
    }

    /// Drops all later samples, whoever sends them.
    pub(crate) fn close(&self) {
        self.with(|shared| shared.sink = None);
    }
}
