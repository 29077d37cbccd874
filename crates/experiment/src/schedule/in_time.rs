//! Which planned runs are left out when an experiment was given a time and takes longer: first further runs of cases that have one, all of
//! a block, so that each case has as many as the others; then whatever is left.

use std::collections::{BTreeMap, BTreeSet};

use model::experiment::plan::{Plan, RunSpec};

/// Runs that are left out, and why others are not.
#[derive(Debug, Default)]
pub(super) struct RunsInTime {
    /// Cases with a completed run.
    measured: BTreeSet<u32>,
    /// Blocks of further runs, and whether they are made.
    blocks: BTreeMap<u32, bool>,
    n_left_out: u32,
    /// A case without a run was left out, and that was said.
    is_over: bool,
}

/// What is decided about a planned run.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Decided {
    /// It is made.
    Made,
    /// It is left out, with what there is to say about it.
    LeftOut(Option<String>),
}

impl RunsInTime {
    /// Of a plan whose runs in `done` were made before.
    pub(super) fn new(plan: &Plan, done: &BTreeSet<u32>) -> RunsInTime {
        let of_done = plan.runs.iter().filter(|spec| done.contains(&spec.run)).map(|spec| spec.case);
        RunsInTime { measured: of_done.collect(), ..RunsInTime::default() }
    }

    /// Decides about the next planned run of `plan`, when runs take `of_run_s` each and `may_go_on` tells whether there are so many seconds.
    pub(super) fn decide(
        &mut self,
        spec: &RunSpec,
        plan: &Plan,
        of_run_s: f64,
        may_go_on: &dyn Fn(f64) -> bool,
    ) -> Decided {
        if of_run_s <= 0.0 {
            return Decided::Made;
        }
        if !self.measured.contains(&spec.case) {
            if may_go_on(of_run_s) {
                return Decided::Made;
            }
            let words = format!(
                "fit: the time is over, as runs take {of_run_s:.0} s each here; cases are left without a run"
            );
            let is_first = !std::mem::replace(&mut self.is_over, true);
            return self.leave_out(is_first.then_some(words));
        }
        if let Some(&is_made) = self.blocks.get(&spec.block) {
            let is_in_time = is_made && may_go_on(of_run_s);
            return if is_in_time { Decided::Made } else { self.leave_out(None) };
        }
        let is_left =
            |other: &&RunSpec| other.run >= spec.run && self.blocks.get(&other.block) != Some(&false);
        let n_left = plan.runs.iter().filter(is_left).count();
        let is_made = may_go_on(of_run_s * n_left as f64);
        self.blocks.insert(spec.block, is_made);
        if is_made {
            return Decided::Made;
        }
        let words = format!(
            "fit: block {} of {} is left out: runs take {of_run_s:.0} s each here, and there is no time for the {n_left} that are left",
            spec.block, plan.repeats
        );
        self.leave_out(Some(words))
    }

    /// Notes that a run of a case was completed.
    pub(super) fn completed(&mut self, case: u32) {
        self.measured.insert(case);
    }

    /// Whether runs were left out, and each case has one.
    pub(super) fn is_whole_without(&self, plan: &Plan) -> bool {
        self.n_left_out > 0 && plan.runs.iter().all(|spec| self.measured.contains(&spec.case))
    }

    fn leave_out(&mut self, words: Option<String>) -> Decided {
        self.n_left_out += 1;
        Decided::LeftOut(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The runs that are made of 2 cases 3 times when each takes so long, of `time_s` seconds; and whether each case has one.
    fn made(of_run_s: f64, time_s: f64) -> (Vec<u32>, usize, bool) {
        let plan = crate::plan::sample::plan("repeats = 3\n[workload]\nscale = 1\nclients = [1, 2]\n");
        assert_eq!(plan.runs.len(), 6);
        let mut in_time = RunsInTime::new(&plan, &BTreeSet::new());
        let (mut made, mut spent_s, mut n_said) = (Vec::new(), 0.0, 0);
        for spec in &plan.runs {
            let known_s = if made.is_empty() { 0.0 } else { of_run_s };
            match in_time.decide(spec, &plan, known_s, &|needed_s| spent_s + needed_s <= time_s) {
                Decided::Made => {
                    made.push(spec.run);
                    spent_s += of_run_s;
                    in_time.completed(spec.case);
                }
                Decided::LeftOut(words) => n_said += usize::from(words.is_some()),
            }
        }
        (made, n_said, in_time.is_whole_without(&plan))
    }

    #[test]
    fn further_runs_are_left_out_by_blocks_and_first_ones_only_at_the_end() {
        assert_eq!(made(10.0, 60.0), (vec![1, 2, 3, 4, 5, 6], 0, false));
        // A block less, whichever: the second is left out, and the third has the time.
        assert_eq!(made(10.0, 45.0), (vec![1, 2, 5, 6], 1, true));
        assert_eq!(made(10.0, 25.0), (vec![1, 2], 2, true));
        assert_eq!(made(10.0, 15.0), (vec![1], 3, false), "a case is missing: the results are partial");
    }
}
