//! Follows the rate of a search, which the parent changes while the load runs.

use model::load::{LoadSpec, Pace};

use super::Worker;
use crate::clock::Nanos;
use crate::thread::schedule::Schedule;

/// The latency above which a transaction is late, in nanoseconds: the limit of the load, or that of its target.
pub(super) fn late_ns(load: &LoadSpec) -> Nanos {
    load.latency_limit_ns.or(load.pace.target().map(|target| target.limit_ns)).unwrap_or(Nanos::MAX)
}

impl Worker<'_> {
    /// From now on offers the rate that was ordered last. The first order ends a closed loop: clients take slots when their
    /// transactions have ended.
    #[inline]
    pub(super) fn follow_rate(&mut self, now: Nanos) {
        if let Some((order, rate_per_s)) = self.setup.controls.rate.after(self.slots.rate_order) {
            self.slots.rate_order = order;
            self.change_rate(now, rate_per_s);
        }
    }

    fn change_rate(&mut self, now: Nanos, rate_per_s: f64) {
        self.skip_waiting(now);
        let setup = &mut self.setup;
        // Continues the random stream of the last rate: repeating its gaps would not be independent of them.
        let prng = match setup.schedule.take() {
            Some(schedule) => schedule.into_prng(),
            None => setup.throttle.clone(),
        };
        let pace = Pace::Poisson { rate_per_s };
        setup.schedule = Schedule::new(pace, setup.share, prng, now, self.bounds.end);
        self.slots.due_counter = setup.schedule.clone();
    }

    /// Skips waiting slots: they belong to a rate that is no longer offered, and the next one must not wait behind them. Their
    /// scripts were never chosen: they count under the first one.
    fn skip_waiting(&mut self, now: Nanos) {
        self.count_backlog(now);
        let counts = &mut self.tally.scripts[0].counts;
        counts.due += self.slots.backlog;
        counts.skipped += self.slots.backlog;
        self.slots.backlog = 0;
        self.slots.n_taken = 0;
    }
}
