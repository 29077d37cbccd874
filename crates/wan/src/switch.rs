//! The switch of a relay, its way, and what it counts. It is turned while nobody sends: when a cut has returned, nothing gets out any more.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::connection::Towards;
use crate::line::{HeldPiece, OneWay};

/// The switch of a relay.
#[derive(Debug, Default)]
pub(crate) struct Switch {
    position: Mutex<Position>,
    forwarded_bytes: AtomicU64,
    swallowed_bytes: AtomicU64,
}

/// How often a switch was turned: it passes at first, and each turn is to the other position. And each direction of the way.
#[derive(Debug, Default)]
pub(crate) struct Position {
    n_turns: u64,
    way: OneWay,
    /// When the way was changed last.
    changed: Option<Instant>,
    passed: Passed,
}

/// Bytes that came the way of a relay since it was changed last, from the server that the relay leads to, and that were received
/// after that change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Passed {
    /// Number of bytes.
    pub bytes: u64,
    /// The least time that any of them took; `None` without any.
    pub least: Option<Duration>,
    /// Time from the first that was received until the last was sent.
    pub span: Duration,
    /// The longest time for which the rate of the way made one piece wait for another without a pause: as much came as may pass.
    pub busy: Duration,
    first: Option<Instant>,
}

impl Position {
    pub(crate) fn is_cut(&self) -> bool {
        !self.n_turns.is_multiple_of(2)
    }

    pub(crate) fn n_turns(&self) -> u64 {
        self.n_turns
    }

    /// Each direction of the way.
    pub(crate) fn way(&self) -> OneWay {
        self.way
    }

    /// Changes the way for what is received from now on.
    pub(crate) fn set_way(&mut self, way: OneWay) {
        (self.way, self.changed, self.passed) = (way, Some(Instant::now()), Passed::default());
    }

    pub(crate) fn passed(&self) -> Passed {
        self.passed
    }

    /// Notes that so many bytes of a piece were sent now.
    pub(crate) fn pass(&mut self, piece: &HeldPiece, towards: Towards, bytes: u64) {
        let is_counted =
            matches!(towards, Towards::Near) && self.changed.is_none_or(|at| piece.received >= at);
        if !is_counted {
            return;
        }
        let now = Instant::now();
        let (took, passed) = (now - piece.received, &mut self.passed);
        passed.bytes += bytes;
        passed.least = Some(passed.least.map_or(took, |least| least.min(took)));
        passed.span = now - *passed.first.get_or_insert(piece.received);
    }

    /// Notes how long the rate has held up what was received.
    pub(crate) fn is_busy(&mut self, towards: Towards, busy: Duration) {
        if matches!(towards, Towards::Near) {
            self.passed.busy = self.passed.busy.max(busy);
        }
    }

    /// Turns it if it is not yet there.
    pub(crate) fn turn(&mut self, is_cut: bool) {
        self.n_turns += u64::from(self.is_cut() != is_cut);
    }
}

impl Switch {
    pub(crate) fn new(way: OneWay) -> Switch {
        Switch { position: Mutex::new(Position { way, ..Position::default() }), ..Switch::default() }
    }

    /// Its position, which stays while the guard is held.
    pub(crate) fn held(&self) -> MutexGuard<'_, Position> {
        self.position.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn count_forwarded(&self, bytes: u64) {
        self.forwarded_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn count_swallowed(&self, bytes: u64) {
        self.swallowed_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn forwarded_bytes(&self) -> u64 {
        self.forwarded_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn swallowed_bytes(&self) -> u64 {
        self.swallowed_bytes.load(Ordering::Relaxed)
    }
}
