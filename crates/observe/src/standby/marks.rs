//! Marks of the primary's position over time, and the lag of a standby against them. A position is one in WAL, or the number after that
//! of the highest transaction that has ended.
//!
//! Pure: moments come in as arguments.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Most marks that are kept, an hour of them: a standby that is further behind is at least so far behind.
const MARKS_MAX: usize = 36_000;
/// A newest mark that is older says nothing of now.
const FRESH: Duration = Duration::from_secs(1);

/// A position, and when the primary was seen there.
#[derive(Debug, Clone, Copy)]
struct Mark {
    position: u64,
    first: Instant,
    last: Instant,
}

/// The primary's positions over time, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Marks(VecDeque<Mark>);

/// How far a standby is behind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Behind {
    /// Bytes of WAL, or transactions.
    pub(crate) distance: u64,
    /// Age of the oldest of them that it does not have.
    pub(crate) age: Duration,
}

impl Marks {
    /// Notes where the primary is.
    pub(crate) fn note(&mut self, position: u64, at: Instant) {
        match self.0.back_mut() {
            Some(last) if last.position == position => last.last = at,
            // Another server answers now: what was noted of the first says nothing of it.
            Some(last) if last.position > position => {
                self.0.clear();
                self.0.push_back(Mark { position, first: at, last: at });
            }
            _ => self.0.push_back(Mark { position, first: at, last: at }),
        }
        if self.0.len() > MARKS_MAX {
            self.0.pop_front();
        }
    }

    /// The lag of a standby that was at `position` at a moment, which a later mark shows best. Between two marks the primary's position is
    /// interpolated. `None` if the primary did not say where it was then.
    pub(crate) fn lag(&self, position: u64, at: Instant) -> Option<Behind> {
        let newest = self.0.back()?;
        if at.saturating_duration_since(newest.last) > FRESH {
            return None;
        }
        let of_primary = self.position_at(at)?;
        let Some(distance) = of_primary.checked_sub(position).filter(|distance| *distance > 0) else {
            return Some(Behind { distance: 0, age: Duration::ZERO });
        };
        let n_reached = self.0.partition_point(|mark| mark.position <= position);
        let next = self.0.get(n_reached)?;
        let before = n_reached.checked_sub(1).and_then(|at| self.0.get(at));
        // WAL from before the first mark is at least as old as that.
        let written = before.map_or(next.first, |before| {
            let part = (position - before.position) as f64 / (next.position - before.position) as f64;
            before.last + next.first.saturating_duration_since(before.last).mul_f64(part)
        });
        Some(Behind { distance, age: at.saturating_duration_since(written) })
    }

    /// Where the primary was at a moment; `None` of one before the first mark.
    fn position_at(&self, at: Instant) -> Option<u64> {
        let n_before = self.0.partition_point(|mark| mark.first <= at);
        let before = self.0.get(n_before.checked_sub(1)?)?;
        let next = if before.last < at { self.0.get(n_before) } else { None };
        let Some(next) = next else { return Some(before.position) };
        let whole = next.first.saturating_duration_since(before.last).as_secs_f64();
        let part = at.saturating_duration_since(before.last).as_secs_f64() / whole;
        Some(before.position + ((next.position - before.position) as f64 * part) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Marks at these tenths of a second.
    fn marked(began: Instant, marks: &[(u64, u64)]) -> Marks {
        let mut noted = Marks::default();
        for (tenths, position) in marks {
            noted.note(*position, began + Duration::from_millis(100 * tenths));
        }
        noted
    }

    #[test]
    fn lag_is_the_age_of_the_oldest_wal_that_is_missing() {
        let began = Instant::now();
        let marks = marked(began, &[(0, 1000), (1, 2000), (2, 2000), (3, 3000), (4, 3000)]);
        for (position, at_ms, expected) in [
            (3000, 400, (0, 0)),
            (3500, 400, (0, 0)),
            // Halfway between two marks the primary was halfway between their positions.
            (2500, 250, (0, 0)),
            (2400, 250, (100, 10)),
            // The idle time before 0.2 s is none of its lag.
            (2000, 400, (1000, 200)),
            // Half of the bytes between two marks were written in half of the time.
            (2500, 400, (500, 150)),
            (1500, 450, (1500, 400)),
            // Older than the first mark.
            (500, 400, (2500, 400)),
            // A stall ages.
            (2000, 1300, (1000, 1100)),
        ] {
            let (distance, ms) = expected;
            let lag = marks.lag(position, began + Duration::from_millis(at_ms));
            assert_eq!(lag, Some(Behind { distance, age: Duration::from_millis(ms) }), "{position} {at_ms}");
        }
    }

    #[test]
    fn nothing_is_known_while_the_primary_is_silent() {
        let began = Instant::now();
        assert_eq!(Marks::default().lag(1, began), None);
        let marks = marked(began, &[(0, 1000)]);
        assert_eq!(marks.lag(500, began + Duration::from_millis(1001)), None);
    }

    #[test]
    fn marks_of_another_server_and_the_oldest_of_many_go() {
        let began = Instant::now();
        let marks = marked(began, &[(0, 9000), (1, 50), (2, 60)]);
        let lag = marks.lag(55, began + Duration::from_millis(200)).unwrap();
        assert_eq!(lag, Behind { distance: 5, age: Duration::from_millis(50) });
        let many: Vec<(u64, u64)> = (0..MARKS_MAX as u64 + 10).map(|n| (n, n + 1)).collect();
        let marks = marked(began, &many);
        assert_eq!(marks.0.len(), MARKS_MAX);
        let now = began + Duration::from_millis(100 * (MARKS_MAX as u64 + 9));
        let longest = Duration::from_millis(100 * (MARKS_MAX as u64 - 1));
        assert_eq!(marks.lag(0, now).unwrap().age, longest, "at least so far");
    }
}
