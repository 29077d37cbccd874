//! Which planned runs are left out when an experiment was given a time: first further runs of cases that have one, all of a block, so that
//! each case has as many as the others; then whatever is left.

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
    /// Of these, runs that the plan was to have the time for.
    n_sure_left_out: u32,
    /// A case without a run was left out, and that was said.
    is_over: bool,
}

/// Whether there are so many seconds.
#[derive(Clone, Copy)]
pub(super) struct TimeLeft<'a> {
    /// Within the time that was given.
    pub(super) has_time: &'a dyn Fn(f64) -> bool,
    /// Within what it may be exceeded by.
    pub(super) may_go_on: &'a dyn Fn(f64) -> bool,
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

    /// Decides about the next planned run of `plan`, when runs take `of_run_s` each.
    pub(super) fn decide(&mut self, spec: &RunSpec, plan: &Plan, of_run_s: f64, time: TimeLeft) -> Decided {
        if of_run_s <= 0.0 {
            return Decided::Made;
        }
        let is_spare = plan.is_spare(spec);
        if !self.measured.contains(&spec.case) {
            if (time.may_go_on)(of_run_s) {
                return Decided::Made;
            }
            let words = format!(
                "fit: the time is over, as runs take {of_run_s:.0} s each here; cases are left without a run"
            );
            let is_first = !std::mem::replace(&mut self.is_over, true);
            return self.leave_out(is_spare, is_first.then_some(words));
        }
        if let Some(&is_made) = self.blocks.get(&spec.block) {
            let is_in_time = is_made && (time.may_go_on)(of_run_s);
            return if is_in_time { Decided::Made } else { self.leave_out(is_spare, None) };
        }
        // A block that comes later would have no more time than one that was left out.
        let has_ended = self.blocks.values().any(|is_made| !is_made);
        let n_needed = self.n_needed(spec, plan);
        // Whoever begins a block may take a little more time to end it.
        let is_time = if is_spare { time.has_time } else { time.may_go_on };
        let is_made = !has_ended && is_time(of_run_s * n_needed as f64);
        self.blocks.insert(spec.block, is_made);
        if is_made {
            return Decided::Made;
        }
        let words = format!(
            "fit: no time for block {} of {}: its runs take {of_run_s:.0} s each here",
            spec.block, plan.repeats
        );
        self.leave_out(is_spare, (!has_ended).then_some(words))
    }

    /// Runs that need time if a block of further runs is made: its own that are left, the first ones of cases that have none, and, if
    /// it is a spare one, all later ones that are to have the time.
    fn n_needed(&self, spec: &RunSpec, plan: &Plan) -> usize {
        let later = || plan.runs.iter().filter(|other| other.run >= spec.run);
        let of_block = later().filter(|other| other.block == spec.block).count();
        if plan.is_spare(spec) {
            return of_block + later().filter(|other| !plan.is_spare(other)).count();
        }
        let unmeasured: BTreeSet<u32> =
            plan.runs.iter().map(|other| other.case).filter(|case| !self.measured.contains(case)).collect();
        of_block + unmeasured.len()
    }

    /// Notes that a run of a case was completed.
    pub(super) fn completed(&mut self, case: u32) {
        self.measured.insert(case);
    }

    /// Whether runs were left out, but none that the plan was to have the time for.
    pub(super) fn is_whole_without(&self) -> bool {
        self.n_left_out > 0 && self.n_sure_left_out == 0
    }

    fn leave_out(&mut self, is_spare: bool, words: Option<String>) -> Decided {
        self.n_left_out += 1;
        self.n_sure_left_out += u32::from(!is_spare);
        Decided::LeftOut(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The runs that are made of 2 cases 3 times, the last two while there is time, when each takes so long, of `time_s` seconds; and
    /// whether they are all that the plan was to have the time for.
    fn made(of_run_s: f64, time_s: f64) -> (Vec<u32>, usize, bool) {
        let mut plan = crate::plan::sample::plan("repeats = 3\n[workload]\nscale = 1\nclients = [1, 2]\n");
        plan.spare_blocks = 2;
        assert_eq!(plan.runs.len(), 6);
        let mut in_time = RunsInTime::new(&plan, &BTreeSet::new());
        let (mut made, mut spent_s, mut n_said) = (Vec::new(), 0.0, 0);
        for spec in &plan.runs {
            let known_s = if made.is_empty() { 0.0 } else { of_run_s };
            let is_there = |needed_s: f64| spent_s + needed_s <= time_s;
            match in_time.decide(spec, &plan, known_s, TimeLeft { has_time: &is_there, may_go_on: &is_there })
            {
                Decided::Made => {
                    made.push(spec.run);
                    spent_s += of_run_s;
                    in_time.completed(spec.case);
                }
                Decided::LeftOut(words) => n_said += usize::from(words.is_some()),
            }
        }
        (made, n_said, in_time.is_whole_without())
    }

    /// What is decided about both runs of a spare block, where so much time is left when it begins, and before its second run.
    fn decided_later(has_time: bool, may_go_on: bool) -> [Decided; 2] {
        let mut plan = crate::plan::sample::plan("repeats = 3\n[workload]\nscale = 1\nclients = [1, 2]\n");
        plan.spare_blocks = 2;
        let done: BTreeSet<u32> = [1, 2].into();
        let mut in_time = RunsInTime::new(&plan, &done);
        let at_first = |_: f64| true;
        let (later, much_later) = (|_: f64| has_time, |_: f64| may_go_on);
        let begun =
            in_time.decide(&plan.runs[2], &plan, 1.0, TimeLeft { has_time: &later, may_go_on: &at_first });
        let ended =
            in_time.decide(&plan.runs[3], &plan, 1.0, TimeLeft { has_time: &later, may_go_on: &much_later });
        [begun, ended]
    }

    #[test]
    fn a_spare_block_begins_within_the_time_and_may_end_a_little_later() {
        assert!(matches!(decided_later(true, true), [Decided::Made, Decided::Made]));
        assert!(matches!(decided_later(true, false), [Decided::Made, Decided::LeftOut(None)]));
        assert!(matches!(decided_later(false, true), [Decided::LeftOut(Some(_)), Decided::LeftOut(None)]));
    }

    #[test]
    fn spare_runs_leave_the_time_of_later_ones_that_are_sure() {
        let text = "repeats = 3\norder = \"sequential\"\n[workload]\nscale = 1\nclients = [1, 2]\n";
        let mut plan = crate::plan::sample::plan(text);
        plan.spare_blocks = 1;
        let done: BTreeSet<u32> = [1, 2].into();
        let in_time = RunsInTime::new(&plan, &done);
        // The third run of the first case; both of the second that are sure, and the one of its own block, come later.
        assert_eq!(in_time.n_needed(&plan.runs[2], &plan), 4);
    }

    #[test]
    fn further_runs_are_left_out_by_blocks_and_first_ones_only_at_the_end() {
        assert_eq!(made(10.0, 60.0), (vec![1, 2, 3, 4, 5, 6], 0, false));
        assert_eq!(made(10.0, 45.0), (vec![1, 2, 3, 4], 1, true));
        assert_eq!(made(10.0, 25.0), (vec![1, 2], 1, true));
        assert_eq!(made(10.0, 15.0), (vec![1], 2, false), "a case is missing: the results are partial");
    }
}
