//! How long replay stands still while there is something to replay.
//!
//! Pure: moments come in as arguments.

use std::time::{Duration, Instant};

/// The replay of a standby, look by look.
#[derive(Debug, Default)]
pub(crate) struct Stall {
    /// Where replay is, and since when it has been there with WAL to replay.
    standing: Option<(u64, Instant)>,
    longest: Duration,
}

impl Stall {
    /// Takes a look: what was replayed of what was received at `at`.
    pub(crate) fn look(&mut self, replayed: u64, received: u64, at: Instant) {
        match self.standing {
            Some((before, since)) if before == replayed && received > replayed => {
                self.longest = self.longest.max(at.saturating_duration_since(since));
            }
            _ => self.standing = Some((replayed, at)),
        }
    }

    /// Forgets where it was, after looks that are missing.
    pub(crate) fn miss(&mut self) {
        self.standing = None;
    }

    /// The longest time for which it had stood still at a look since this was asked last.
    pub(crate) fn take(&mut self) -> Duration {
        std::mem::take(&mut self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_replay_that_has_something_to_do_stands_still() {
        let began = Instant::now();
        let at = |tenths: u64| began + Duration::from_millis(100 * tenths);
        let mut stall = Stall::default();
        // It goes on, has nothing to do for a second, and stops for 0.5 s after the next WAL has come.
        stall.look(10, 20, at(0));
        stall.look(20, 20, at(1));
        (2..12).for_each(|n| stall.look(20, 20, at(n)));
        (12..17).for_each(|n| stall.look(20, 30, at(n)));
        assert_eq!(stall.take(), Duration::from_millis(500));
        // The stall is older in the next tick.
        stall.look(20, 30, at(21));
        assert_eq!(stall.take(), Duration::from_secs(1));
        stall.look(25, 30, at(22));
        stall.miss();
        stall.look(25, 30, at(90));
        assert_eq!(stall.take(), Duration::ZERO);
    }
}
