//! How long the runs that are left will take: one estimate, which the line of progress and the live page show.

use std::collections::BTreeSet;
use std::time::Instant;

use model::experiment::plan::Plan;

use crate::job::preview::outlook;

/// An estimate that shrinks as time passes.
#[derive(Debug)]
pub(crate) struct RemainingTime {
    /// What the plan makes expect, seconds; 0 if nothing is known.
    plan_s: f64,
    left_s: f64,
    /// Most that all runs may take, seconds, if a time ends them and not the plan.
    most_s: Option<f64>,
    /// When the first run began.
    begun: Option<Instant>,
    /// When time began to pass; `None` before the first run: loading data is no part of the estimate.
    said: Option<Instant>,
}

impl RemainingTime {
    /// The estimate before anything is measured.
    pub(crate) fn new(plan_s: f64) -> RemainingTime {
        RemainingTime { plan_s, left_s: plan_s, most_s: None, begun: None, said: None }
    }

    /// The same if all runs take at most `most_s`.
    pub(crate) fn ending_after(self, most_s: f64) -> RemainingTime {
        RemainingTime { most_s: Some(most_s), ..self }
    }

    /// The estimates of a plan without the runs that are `done`, which take at most `most_s` if that is known: one for each lane that is
    /// measured side by side, otherwise one.
    pub(crate) fn of_plan(plan: &Plan, done: &BTreeSet<u32>, most_s: Option<f64>) -> Vec<RemainingTime> {
        let of = |mut plan: Plan| {
            plan.runs.retain(|spec| !done.contains(&spec.run));
            let left = RemainingTime::new(outlook(&plan).runs_s);
            match most_s {
                Some(most_s) => left.ending_after(most_s),
                None => left,
            }
        };
        if plan.is_side_by_side() {
            plan.lanes.iter().map(|lane| of(plan.of_lane(lane))).collect()
        } else {
            // Its lanes, if there are any, follow one another.
            vec![of(plan.clone())]
        }
    }

    /// A run begins: what was set up before is no part of the estimate.
    pub(crate) fn begin(&mut self) {
        let now = Instant::now();
        self.said = Some(now);
        self.begun.get_or_insert(now);
    }

    /// A run has ended, and the others will take `left_s`.
    pub(crate) fn end(&mut self, left_s: f64) {
        self.left_s = left_s;
        self.said = Some(Instant::now());
    }

    /// Seconds that are left now; `None` if nothing is known.
    pub(crate) fn now_s(&self) -> Option<f64> {
        let since = |begun: Option<Instant>| begun.map_or(0.0, |begun| begun.elapsed().as_secs_f64());
        let most_s = self.most_s.map_or(f64::INFINITY, |most_s| most_s - since(self.begun));
        let left_s = (self.left_s - since(self.said)).min(most_s);
        (self.plan_s > 0.0).then_some(left_s.max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_is_of_the_plan_until_a_run_has_ended() {
        let expect = |left: &RemainingTime, seconds: f64| {
            let now_s = left.now_s().unwrap();
            assert!((seconds - 10.0..=seconds).contains(&now_s), "{now_s} s instead of {seconds} s");
        };
        let mut left = RemainingTime::new(34.0);
        assert_eq!(left.now_s(), Some(34.0), "time does not pass before the first run");
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!(left.now_s(), Some(34.0));
        left.begin();
        expect(&left, 34.0);
        left.end(15.0);
        expect(&left, 15.0);
        left.end(0.0);
        assert_eq!(left.now_s(), Some(0.0));
        assert_eq!(RemainingTime::new(0.0).now_s(), None);

        let mut timed = RemainingTime::new(70.0).ending_after(23.0);
        assert_eq!(timed.now_s(), Some(23.0), "the time ends the runs before the plan does");
        timed.begin();
        timed.end(60.0);
        expect(&timed, 23.0);
        timed.end(5.0);
        expect(&timed, 5.0);
    }
}
