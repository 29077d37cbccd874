//! Determines the next run: turns of the plan, and repeats of disturbed ones.
//!
//! Pure: the caller decides whether a run is worth a repeat. See [`model::experiment::repeat`] for the rule.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use model::experiment::plan::{Plan, RunSpec, RunState};
use model::experiment::repeat::{Repeat, that_counts};
use model::run::RunRecord;

use crate::schedule::unfinished::UnfinishedTurn;
use crate::site::progress::Repeated;
use crate::site::referee::RunJudgement;

/// Reason for a repeat that is made again.
const INTERRUPTED: &str = "its repeat was interrupted";

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
        let turns = plan.turns();
        let of_made = made.iter().map(|record| last_number(&turns, record));
        let numbers = plan.runs.iter().map(|spec| spec.run).chain(of_made);
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

/// The last number that the attempt of a run has taken: those of a pair follow each other, although the second has perhaps not begun.
fn last_number(turns: &[Vec<RunSpec>], made: &RunRecord) -> u32 {
    let of = made.repeat.map_or(made.spec.run, |repeat| repeat.of);
    let after = |turn: &Vec<RunSpec>| {
        let place = turn.iter().position(|spec| spec.run == of)?;
        Some((turn.len() - 1 - place) as u32)
    };
    made.spec.run + turns.iter().find_map(after).unwrap_or(0)
}

/// The remaining runs, in order.
pub(crate) struct Agenda<'a> {
    repeat_disturbed: u32,
    repeats: &'a Repeats,
    /// Turns of earlier that are repeated, before all others.
    taken_up: VecDeque<Turn>,
    turns: VecDeque<Vec<RunSpec>>,
    /// The current turn.
    turn: Turn,
}

#[derive(Debug, Default)]
struct Turn {
    planned: Vec<RunSpec>,
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

impl Attempt {
    fn add(&mut self, record: &RunRecord, judged: RunJudgement) {
        let is_whole = record.state == RunState::Completed;
        self.records.push(record.clone());
        self.score = self.score.max(if is_whole { judged.score } else { f64::INFINITY });
        self.is_hopeless |= judged.score.is_infinite() && judged.repeat.is_none();
        let why = if is_whole { judged.repeat } else { None };
        self.worth.extend(why.map(|why| (record.spec.run, why)));
    }

    fn is_worth_a_repeat(&self) -> bool {
        let is_whole = self.records.iter().all(|record| record.state == RunState::Completed);
        is_whole && !self.is_hopeless && !self.worth.is_empty()
    }
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
            taken_up: VecDeque::new(),
            turns: plan.turns().into_iter().filter_map(left).collect(),
            turn: Turn::default(),
        }
    }

    pub(crate) fn take(&mut self) -> Option<NextRun> {
        if self.turn.left.is_empty() {
            self.turn = match self.taken_up.pop_front() {
                Some(turn) => turn,
                None => Turn::new(self.turns.pop_front()?),
            };
        }
        if self.turn.left.len() == self.turn.planned.len() {
            self.turn.attempts.push(Attempt::default());
        }
        self.turn.left.pop_front()
    }

    /// The run after the current one, as far as it is known.
    pub(crate) fn peek(&self) -> Option<&RunSpec> {
        let next = self.turn.left.front().or_else(|| self.taken_up.front()?.left.front());
        next.map(|next| &next.spec).or_else(|| self.turns.front()?.first())
    }

    /// Remaining runs of turns that repeat others.
    pub(crate) fn n_repeats_left(&self) -> u32 {
        let turns = self.taken_up.iter().chain([&self.turn]);
        turns.flat_map(|turn| &turn.left).filter(|next| next.repeat.is_some()).count() as u32
    }

    /// Number of runs of the current turn, planned or repeated.
    pub(crate) fn n_runs_of_turn(&self) -> u32 {
        self.turn.planned.len() as u32
    }

    /// Takes up a turn that an interruption has left unfinished: its interrupted repeat is made again, and a last attempt that nobody
    /// judged is judged now. Returns what is repeated, before all other runs.
    pub(crate) fn take_up(
        &mut self,
        unfinished: UnfinishedTurn,
        judge: &mut dyn FnMut(&RunRecord) -> RunJudgement,
        may_repeat: impl FnOnce() -> bool,
    ) -> Option<Repeated> {
        let UnfinishedTurn { planned, made, interrupted } = unfinished;
        let mut turn = Turn { planned, left: interrupted.into(), attempts: Vec::new() };
        for records in &made {
            let mut attempt = Attempt::default();
            records.iter().for_each(|record| attempt.add(record, judge(record)));
            turn.attempts.push(attempt);
        }
        let interrupted = turn.left.front().map(|next| next.repeat.map_or(next.spec.run, |repeat| repeat.of));
        if interrupted.is_none() && !self.begins_again(&mut turn, may_repeat) {
            return None;
        }
        let repeated = turn.repeated();
        let repeated = match interrupted {
            Some(of) => Repeated { worth: vec![(of, INTERRUPTED.to_string())], ..repeated },
            None => repeated,
        };
        self.taken_up.push_back(turn);
        Some(repeated)
    }

    /// Records the end of the run taken last. Calls `may_repeat` if there is something to repeat.
    pub(crate) fn made(
        &mut self,
        record: &RunRecord,
        judged: RunJudgement,
        may_repeat: impl FnOnce() -> bool,
    ) -> AfterRun {
        let mut turn = std::mem::take(&mut self.turn);
        let Some(attempt) = turn.attempts.last_mut() else { return AfterRun::Within };
        attempt.add(record, judged);
        let after = if !turn.left.is_empty() {
            AfterRun::Within
        } else if self.begins_again(&mut turn, may_repeat) {
            AfterRun::Again(turn.repeated())
        } else {
            AfterRun::Over(turn.counting())
        };
        self.turn = turn;
        after
    }

    /// Repeats a turn, if its last attempt is worth it, unless another lane has just taken the last repeat.
    fn begins_again(&self, turn: &mut Turn, may_repeat: impl FnOnce() -> bool) -> bool {
        let is_worth_it = turn.attempts.last().is_some_and(Attempt::is_worth_a_repeat);
        let may_more = turn.attempts.len() <= self.repeat_disturbed as usize && self.repeats.are_left();
        if !(is_worth_it && may_more && may_repeat()) {
            return false;
        }
        let first = self.repeats.take(turn.planned.len() as u32);
        first.into_iter().for_each(|first| turn.begin_again(first));
        first.is_some()
    }
}

impl Turn {
    /// The first attempt at a turn.
    fn new(planned: Vec<RunSpec>) -> Turn {
        let left = planned.iter().map(|spec| NextRun { spec: spec.clone(), repeat: None }).collect();
        Turn { planned, left, attempts: Vec::new() }
    }

    /// Repeats the same runs in the same order with the same seeds, under new numbers from `first` on.
    fn begin_again(&mut self, first: u32) {
        let attempt = self.attempts.len() as u32;
        for (planned, run) in self.planned.iter().zip(first..) {
            let spec = RunSpec { run, ..planned.clone() };
            self.left.push_back(NextRun { spec, repeat: Some(Repeat { of: planned.run, attempt }) });
        }
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
    fn an_interrupted_repeat_comes_first_and_one_that_was_not_judged_is_judged_again() {
        let plan = plan(3, false);
        let record = |run: u32, of: u32| {
            let spec = RunSpec { run, ..plan.runs[of as usize - 1].clone() };
            let repeat = (run != of).then_some(Repeat { of, attempt: 1 });
            let record = RunRecord::new(spec, plan.cases[0].clone(), "0");
            RunRecord { state: RunState::Completed, repeat, ..record }
        };
        let check = |cut: Option<u32>, score: f64, n_repeats: usize, expected: (&str, &[u32], &[u32])| {
            let made: Vec<RunRecord> = cut.map(|run| record(run, 1)).into_iter().collect();
            let left = Repeats::new(&plan, &made);
            let mut agenda = Agenda::new(&plan, &BTreeSet::from([1]), &left);
            let again = made.iter().map(|made| NextRun { spec: made.spec.clone(), repeat: made.repeat });
            let planned = vec![plan.runs[0].clone()];
            let unfinished =
                UnfinishedTurn { planned, made: vec![vec![record(1, 1)]], interrupted: again.collect() };
            let mut judge = |_: &RunRecord| RunJudgement {
                score,
                repeat: (score > 0.0).then(|| "noise".to_string()),
                figures: RunFigures::default(),
            };
            let repeated = agenda.take_up(unfinished, &mut judge, || true);
            assert_eq!(agenda.n_repeats_left() as usize, n_repeats);
            let (made, counting) = conducted(&mut agenda, &plan, |_| 0.0);
            let words = repeated.map_or(String::new(), |repeated| repeated.words());
            assert_eq!((words.as_str(), &made[..], &counting[..]), expected);
        };
        let interrupted = "repeating run 1 as run 4: its repeat was interrupted";
        check(Some(4), 2.0, 1, (interrupted, &[4, 2, 3], &[4, 2, 3]));
        check(None, 2.0, 1, ("repeating run 1 as run 4: noise", &[4, 2, 3], &[4, 2, 3]));
        check(None, 0.0, 0, ("", &[2, 3], &[2, 3]));
    }

    #[test]
    fn a_pair_of_repeats_keeps_its_numbers_although_only_one_has_begun() {
        let plan = plan(4, true);
        let mut repeat = RunRecord::new(plan.runs[0].clone(), plan.cases[0].clone(), "0");
        (repeat.spec.run, repeat.repeat) = (5, Some(Repeat { of: 1, attempt: 1 }));
        assert_eq!(Repeats::new(&plan, &[repeat]).take(2), Some(7));
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
