//! The schedule of an open loop: each thread asks its own for the next slot.

use model::load::Pace;
use workload::random::{Prng, poisson_gap_ns};

use crate::clock::{Nanos, SECOND_NS};

/// The slots of one thread. Slots are made on demand, in order, and each is handed out once: a slot
/// for which no client was free stays due, however late.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    gap: Gap,
    prng: Prng,
    next_due: Nanos,
    /// Slots from here on are not part of the load.
    end: Nanos,
}

#[derive(Debug, Clone, Copy)]
enum Gap {
    /// Evenly spaced: slot `n` is at `first + n * gap_ns`, so that rounding never adds up.
    Constant { first: Nanos, gap_ns: f64, n: u64 },
    /// Exponential with this mean.
    Poisson { mean_ns: f64 },
}

/// A thread's share of the load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoadShare {
    /// Number of the thread, from 0.
    pub(crate) thread: usize,
    pub(crate) n_threads: usize,
}

impl Schedule {
    /// The thread's part of `pace` between `start` and `end`; `None` in a closed loop.
    pub(crate) fn new(
        pace: Pace,
        share: LoadShare,
        prng: Prng,
        start: Nanos,
        end: Nanos,
    ) -> Option<Schedule> {
        let mean_gap_ns = |rate_per_s: f64| share.n_threads as f64 * SECOND_NS as f64 / rate_per_s;
        let (gap, first) = match pace {
            // Until the first order, a search for the highest rate is a closed loop.
            Pace::Closed | Pace::Highest { .. } | Pace::TimesCaptured { .. } => return None,
            Pace::Constant { rate_per_s } => {
                // Threads take turns, so that the whole load is evenly spaced.
                let gap_ns = mean_gap_ns(rate_per_s);
                let first = start + (gap_ns * share.thread as f64 / share.n_threads as f64) as u64;
                (Gap::Constant { first, gap_ns, n: 0 }, first)
            }
            Pace::Poisson { rate_per_s } | Pace::Kept { rate_per_s, .. } => {
                (Gap::Poisson { mean_ns: mean_gap_ns(rate_per_s) }, start)
            }
        };
        let mut schedule = Schedule { gap, prng, next_due: first, end };
        if matches!(gap, Gap::Poisson { .. }) {
            schedule.advance();
        }
        Some(schedule)
    }

    /// Moves the end of the load. Slots are made on demand, so no slot before the end changes.
    pub(crate) fn end_at(&mut self, end: Nanos) {
        self.end = end;
    }

    /// When the next slot is due; `None` after the end of the load.
    pub(crate) fn next_due(&self) -> Option<Nanos> {
        (self.next_due < self.end).then_some(self.next_due)
    }

    /// Hands out the next slot if it is due.
    pub(crate) fn take(&mut self, now: Nanos) -> Option<Nanos> {
        let due = self.next_due().filter(|&due| due <= now)?;
        self.advance();
        Some(due)
    }

    /// The random stream of its gaps, at its current position.
    pub(crate) fn into_prng(self) -> Prng {
        self.prng
    }

    fn advance(&mut self) {
        self.next_due = match &mut self.gap {
            Gap::Constant { first, gap_ns, n } => {
                *n += 1;
                *first + (*gap_ns * *n as f64) as u64
            }
            Gap::Poisson { mean_ns } => self.next_due + poisson_gap_ns(&mut self.prng, *mean_ns).max(1),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(pace: &str, thread: usize, n_threads: usize) -> Vec<Nanos> {
        let share = LoadShare { thread, n_threads };
        let prng = Prng::seed(7 + thread as u64);
        let mut schedule =
            Schedule::new(pace.parse().unwrap(), share, prng, SECOND_NS, 11 * SECOND_NS).unwrap();
        std::iter::from_fn(|| schedule.take(Nanos::MAX)).collect()
    }

    #[test]
    fn constant_pace_offers_exactly_its_rate_evenly_over_threads() {
        let mut all: Vec<Nanos> = (0..3).flat_map(|thread| slots("constant 999/s", thread, 3)).collect();
        all.sort_unstable();
        assert_eq!(all.len(), 9990);
        let gaps: Vec<u64> = all.windows(2).map(|w| w[1] - w[0]).collect();
        assert!(gaps.iter().all(|&gap| gap.abs_diff(1_001_001) <= 2), "{:?}", gaps.iter().max());
    }

    #[test]
    fn poisson_pace_offers_its_rate_with_exponential_gaps() {
        let all = slots("5000/s", 0, 1);
        assert!(all.len().abs_diff(50_000) < 900, "{} slots, 4 sigma is 894", all.len());
        let mean = 200_000.0;
        let mut gaps: Vec<f64> = all.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
        gaps.sort_by(f64::total_cmp);
        let n = gaps.len() as f64;
        let distance = gaps
            .iter()
            .enumerate()
            .map(|(i, gap)| (1.0 - (-gap / mean).exp() - (i as f64 + 0.5) / n).abs())
            .fold(0.0, f64::max);
        assert!(distance < 1.63 / n.sqrt(), "Kolmogorov-Smirnov distance {distance} at 1 %");
    }

    #[test]
    fn closed_loop_has_no_schedule() {
        assert!(
            Schedule::new(Pace::Closed, LoadShare { thread: 0, n_threads: 1 }, Prng::seed(1), 0, 1).is_none()
        );
    }
}
