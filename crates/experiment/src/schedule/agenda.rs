//! Determines the next run: turns of the plan, and repeats of disturbed ones.
//!
//! Pure: the caller decides whether a run is worth a repeat. See [`model::experiment::repeat`] for the rule.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use model::experiment::plan::{Plan, RunSpec, RunState};
use model::experiment::repeat::{Repeat, that_counts};
use model::run::RunRecord;

use crate::site::progress::Repeated;
use crate::site::referee::RunJudgement;

/// The next run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NextRun {
    pub(crate) spec: RunSpec,
    pub(crate) repeat: Option<Repeat>,
}

/// Consequence of a run that has ended.
#[derive(Debug, PartialEq)]
pub(crate) enum AfterRun {
    /// More runs of the turn are still to come.
    Within,
    /// The turn is worth a repeat, and is repeated.
    Again(Repeated),
    /// The turn is over, and these of its runs count.
    Over(Vec<RunRecord>),
}

/// Repeats that are still allowed, and the number of the next one; lanes share both.
#[derive(Debug)]
pub(crate) struct Repeats {
    left: Mutex<Left>,
}

#[derive(Debug)]
struct Left {
    n_turns: usize,
    number_next: u32,
}

impl Repeats {
    /// Those of a whole plan; `made` are the records of all earlier runs.
    pub(crate) fn new(plan: &Plan, made: &[RunRecord]) -> Repeats {
        let repeated: BTreeSet<(u32, u32)> = made
            .iter()
            .filter_map(|record| Some((record, record.repeat?)))
            .map(|(record, repeat)| (plan.turn_of(&record.spec, Some(repeat)), repeat.attempt))
            .collect();
        let numbers = plan.runs.iter().chain(made.iter().map(|record| &record.spec)).map(|spec| spec.run);
        let n_turns = plan.repeats_max().saturating_sub(repeated.len());
        Repeats { left: Mutex::new(Left { n_turns, number_next: numbers.max().unwrap_or(0) + 1 }) }
    }

    fn lock(&self) -> MutexGuard<'_, Left> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn are_left(&self) -> bool {
        self.lock().n_turns > 0
    }

    /// The number of the first of `n_runs` more runs, if a turn may be repeated.
    fn take(&self, n_runs: u32) -> Option<u32> {
        let mut left = self.lock();
        left.n_turns = left.n_turns.checked_sub(1)?;
        left.number_next += n_runs;
        Some(left.number_next - n_runs)
    }
}

/// The remaining runs, in order.
pub(crate) struct Agenda<'a> {
    repeat_disturbed: u32,
    repeats: &'a Repeats,
    turns: VecDeque<Vec<RunSpec>>,
    /// The current turn, as planned.
    turn: Vec<RunSpec>,
    /// Remaining runs of the current attempt.
    left: VecDeque<NextRun>,
    attempts: Vec<Attempt>,
}

#[derive(Debug, Default)]
struct Attempt {
    records: Vec<RunRecord>,
    score: f64,
    /// The runs that are worth a repeat, and why.
    worth: Vec<(u32, String)>,
    /// A run of it cannot count, and would not if it was repeated.
    is_hopeless: bool,
}

impl<'a> Agenda<'a> {
    /// The runs of a plan except those in `done`.
    pub(crate) fn new(plan: &Plan, done: &BTreeSet<u32>, repeats: &'a Repeats) -> Agenda<'a> {
        let left = |mut turn: Vec<RunSpec>| {
            turn.retain(|spec| !done.contains(&spec.run));
            (!turn.is_empty()).then_some(turn)
        };
        Agenda {
            repeat_disturbed: plan.repeat_disturbed,
            repeats,
            turns: plan.turns().into_iter().filter_map(left).collect(),
            turn: Vec::new(),
            left: VecDeque::new(),
            attempts: Vec::new(),
        }
    }

    pub(crate) fn take(&mut self) -> Option<NextRun> {
        if self.left.is_empty() {
            self.turn = self.turns.pop_front()?;
            self.left = self.turn.iter().map(|spec| NextRun { spec: spec.clone(), repeat: None }).collect();
            self.attempts.clear();
        }
        if self.left.len() == self.turn.len() {
            self.attempts.push(Attempt::default());
        }
        self.left.pop_front()
    }

    /// The run after the current one, as far as it is known.
    pub(crate) fn peek(&self) -> Option<&RunSpec> {
        self.left.front().map(|next| &next.spec).or_else(|| self.turns.front()?.first())
    }

    /// Remaining runs of the turn that repeat others.
    pub(crate) fn n_repeats_left(&self) -> u32 {
        self.left.iter().filter(|next| next.repeat.is_some()).count() as u32
    }

    /// Number of runs of the current turn, planned or repeated.
    pub(crate) fn n_runs_of_turn(&self) -> u32 {
        self.turn.len() as u32
    }

    /// Records the end of the run taken last. Calls `may_repeat` if there is something to repeat.
    pub(crate) fn made(
        &mut self,
        record: &RunRecord,
        judged: RunJudgement,
        may_repeat: impl FnOnce() -> bool,
    ) -> AfterRun {
        let Some(attempt) = self.attempts.last_mut() else { return AfterRun::Within };
        let is_whole = record.state == RunState::Completed;
        attempt.records.push(record.clone());
        attempt.score = attempt.score.max(if is_whole { judged.score } else { f64::INFINITY });
        attempt.is_hopeless |= judged.score.is_infinite() && judged.repeat.is_none();
        let why = if is_whole { judged.repeat } else { None };
        attempt.worth.extend(why.map(|why| (record.spec.run, why)));
        if !self.left.is_empty() {
            return AfterRun::Within;
        }
        let is_whole = attempt.records.iter().all(|record| record.state == RunState::Completed);
        let may_help = is_whole && !attempt.is_hopeless;
        let is_worth_it = may_help && !attempt.worth.is_empty();
        let may_more = self.attempts.len() <= self.repeat_disturbed as usize && self.repeats.are_left();
        if is_worth_it && may_more && may_repeat() && self.begin_again() {
            return AfterRun::Again(self.repeated());
        }
        AfterRun::Over(self.counting())
    }

    /// Repeats the same runs in the same order with the same seeds, under new numbers, unless another lane has just taken
    /// the last repeat.
    fn begin_again(&mut self) -> bool {
        let attempt = self.attempts.len() as u32;
        let Some(first) = self.repeats.take(self.turn.len() as u32) else { return false };
        for (planned, run) in self.turn.iter().zip(first..) {
            let spec = RunSpec { run, ..planned.clone() };
            self.left.push_back(NextRun { spec, repeat: Some(Repeat { of: planned.run, attempt }) });
        }
        true
    }

    /// What the attempt that has just begun repeats, and why.
    fn repeated(&self) -> Repeated {
        let (made, worth) = self
            .attempts
            .last()
            .map_or((&[][..], Vec::new()), |attempt| (&attempt.records[..], attempt.worth.clone()));
        let made = made.iter().map(|record| record.spec.run);
        let again = made.zip(self.left.iter().map(|next| next.spec.run)).collect();
        Repeated { again, worth }
    }

    fn counting(&mut self) -> Vec<RunRecord> {
        let scores: Vec<f64> = self.attempts.iter().map(|attempt| attempt.score).collect();
        let index = that_counts(&scores).unwrap_or(0);
        self.attempts.get_mut(index).map(|attempt| std::mem::take(&mut attempt.records)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::referee::RunFigures;

    fn plan(n_runs: u32, is_comparison: bool) -> Plan {
        let text = format!("repeats = {n_runs}\n[workload]\nscale = 1\n[run]\nmeasure = \"2s\"");
        let mut plan = crate::plan::sample::plan(&text);
        plan.is_comparison = is_comparison;
        for (n, spec) in plan.runs.iter_mut().enumerate().filter(|_| is_comparison) {
            spec.block = n as u32 / 2 + 1;
        }
        plan
    }

    /// Takes all runs, with run `n` disturbed according to `score`. Returns their numbers, and those that count.
    fn conducted(agenda: &mut Agenda, plan: &Plan, score: impl Fn(u32) -> f64) -> (Vec<u32>, Vec<u32>) {
        let (mut made, mut counting) = (Vec::new(), Vec::new());
        while let Some(next) = agenda.take() {
            made.push(next.spec.run);
            let score = score(next.spec.run);
            let mut record = RunRecord::new(next.spec, plan.cases[0].clone(), "0");
            (record.state, record.repeat) = (RunState::Completed, next.repeat);
            let repeat = (score > 0.0).then(|| "noise".to_string());
            let judged = RunJudgement { score, repeat, figures: RunFigures::default() };
            if let AfterRun::Over(records) = agenda.made(&record, judged, || true) {
                counting.extend(records.iter().map(|record| record.spec.run));
            }
        }
        (made, counting)
    }

    #[test]
    fn the_line_of_a_repeat_says_which_runs_and_why() {
        let check = |is_comparison: bool, disturbed: &[u32], expected: &str| {
            let plan = plan(4, is_comparison);
            let left = repeats(&plan);
            let mut agenda = agenda(&plan, &left);
            loop {
                let next = agenda.take().unwrap();
                let is_disturbed = disturbed.contains(&next.spec.run);
                let mut record = RunRecord::new(next.spec, plan.cases[0].clone(), "0");
                record.state = RunState::Completed;
                let repeat = is_disturbed.then(|| "noise".to_string());
                let score = f64::from(u8::from(is_disturbed)) * 2.0;
                let judged = RunJudgement { score, repeat, figures: RunFigures::default() };
                if let AfterRun::Again(repeated) = agenda.made(&record, judged, || true) {
                    return assert_eq!(repeated.words(), expected);
                }
            }
        };
        check(false, &[2], "repeating run 2 as run 5: noise");
        let pair = "repeating runs 1 and 2, which belong together, as runs 5 and 6: run";
        check(true, &[1], &format!("{pair} 1: noise"));
        check(true, &[1, 2], &format!("{pair} 1: noise; run 2: noise"));
    }

    fn repeats(plan: &Plan) -> Repeats {
        Repeats::new(plan, &[])
    }

    fn agenda<'a>(plan: &Plan, repeats: &'a Repeats) -> Agenda<'a> {
        Agenda::new(plan, &BTreeSet::new(), repeats)
    }

    #[test]
    fn a_disturbed_run_is_repeated_before_the_next_and_the_first_good_one_counts() {
        let plan = plan(3, false);
        let disturbed = |run| if [2, 4].contains(&run) { 2.0 } else { 0.0 };
        let (made, counting) = conducted(&mut agenda(&plan, &repeats(&plan)), &plan, disturbed);
        assert_eq!((made, counting), (vec![1, 2, 4, 5, 3], vec![1, 5, 3]));
    }

    #[test]
    fn the_least_disturbed_counts_where_none_is_good() {
        let plan = plan(3, false);
        let scores = |run| [9.0, 0.0, 0.0, 3.0, 5.0][run as usize - 1];
        let (made, counting) = conducted(&mut agenda(&plan, &repeats(&plan)), &plan, scores);
        assert_eq!((made, counting), (vec![1, 4, 5, 2, 3], vec![4, 2, 3]));
    }

    #[test]
    fn repeats_have_a_bound_in_all_which_a_resumed_experiment_keeps() {
        let plan = plan(8, false);
        let (made, counting) = conducted(&mut agenda(&plan, &repeats(&plan)), &plan, |_| 1.5);
        assert_eq!(made, [1, 9, 10, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(counting, [1, 2, 3, 4, 5, 6, 7, 8]);
        let mut repeat = RunRecord::new(plan.runs[0].clone(), plan.cases[0].clone(), "0");
        (repeat.spec.run, repeat.repeat) = (9, Some(Repeat { of: 1, attempt: 1 }));
        let done = BTreeSet::from([1, 2]);
        let left = Repeats::new(&plan, &[repeat]);
        let mut resumed = Agenda::new(&plan, &done, &left);
        let (made, _) = conducted(&mut resumed, &plan, |_| 1.5);
        assert_eq!(made, [3, 10, 4, 5, 6, 7, 8], "one was left, and has a new number");
    }

    #[test]
    fn lanes_share_the_bound_and_the_numbers_of_repeats() {
        let plan = plan(8, false);
        let of = |runs: std::ops::Range<usize>| Plan { runs: plan.runs[runs].to_vec(), ..plan.clone() };
        let (one, other) = (of(0..4), of(4..8));
        let left = repeats(&plan);
        let (mut first, mut second) = (agenda(&one, &left), agenda(&other, &left));
        let mut made = Vec::new();
        for _ in 0..3 {
            for agenda in [&mut first, &mut second] {
                let next = agenda.take().unwrap();
                made.push(next.spec.run);
                let mut record = RunRecord::new(next.spec, plan.cases[0].clone(), "0");
                (record.state, record.repeat) = (RunState::Completed, next.repeat);
                let repeat = Some("noise".to_string());
                agenda.made(
                    &record,
                    RunJudgement { score: 1.5, repeat, figures: RunFigures::default() },
                    || true,
                );
            }
        }
        assert_eq!(made, [1, 5, 9, 10, 2, 6], "two repeats in all");
    }

    #[test]
    fn a_pair_is_repeated_as_a_whole_in_its_order() {
        let plan = plan(4, true);
        let (made, counting) =
            conducted(&mut agenda(&plan, &repeats(&plan)), &plan, |run| f64::from(u8::from(run == 1)) * 2.0);
        assert_eq!((made, counting), (vec![1, 2, 5, 6, 3, 4], vec![5, 6, 3, 4]));
    }

    #[test]
    fn a_pair_whose_one_run_is_void_for_its_own_reason_is_not_repeated() {
        let plan = plan(2, true);
        let left = repeats(&plan);
        let mut of_plan = agenda(&plan, &left);
        for (score, repeat) in [(2.0, Some("noise".to_string())), (f64::INFINITY, None)] {
            let next = of_plan.take().unwrap();
            let mut record = RunRecord::new(next.spec, plan.cases[0].clone(), "0");
            record.state = RunState::Completed;
            let after =
                of_plan
                    .made(&record, RunJudgement { score, repeat, figures: RunFigures::default() }, || true);
            assert!(!matches!(after, AfterRun::Again(_)), "{after:?}");
        }
        assert!(of_plan.take().is_none());
    }

    #[test]
    fn runs_that_failed_or_must_not_be_repeated_are_not_repeated() {
        let mut plan = plan(2, false);
        let left = repeats(&plan);
        let mut of_plan = agenda(&plan, &left);
        let next = of_plan.take().unwrap();
        let failed = RunRecord::new(next.spec, plan.cases[0].clone(), "0");
        let noise =
            || RunJudgement { score: 2.0, repeat: Some("noise".to_string()), figures: RunFigures::default() };
        assert!(matches!(of_plan.made(&failed, noise(), || true), AfterRun::Over(_)));
        let next = of_plan.take().unwrap();
        let completed =
            RunRecord { state: RunState::Completed, ..RunRecord::new(next.spec, plan.cases[0].clone(), "0") };
        assert!(matches!(of_plan.made(&completed, noise(), || false), AfterRun::Over(_)), "no time is left");
        plan.repeat_disturbed = 0;
        let (made, _) = conducted(&mut agenda(&plan, &repeats(&plan)), &plan, |_| 1.5);
        assert_eq!(made, [1, 2]);
    }
}
