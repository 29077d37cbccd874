//! Turns of an interrupted experiment whose planned runs are done, and that may have to be repeated all the same: the
//! repeat that was under way was interrupted, or the interruption came before the next run had begun.
//!
//! Pure: records and journal come in as arguments. What is repeated is decided by [`super::agenda`].

use std::collections::{BTreeMap, BTreeSet};

use model::experiment::plan::{Plan, RunSpec, RunState, StateLine};
use model::experiment::repeat::Repeat;
use model::run::RunRecord;

use crate::schedule::agenda::NextRun;

/// A turn that is not finished.
#[derive(Debug, PartialEq)]
pub(crate) struct UnfinishedTurn {
    /// Runs of the plan.
    pub(crate) planned: Vec<RunSpec>,
    /// The records of each attempt that was made completely, the planned one first.
    pub(crate) made: Vec<Vec<RunRecord>>,
    /// The repeat that was interrupted, under the numbers that it had; empty if the last attempt is yet to be judged.
    pub(crate) interrupted: Vec<NextRun>,
}

/// What is known of an experiment that goes on.
#[derive(Clone, Copy)]
pub(crate) struct Past<'a> {
    pub(crate) plan: &'a Plan,
    /// Planned runs that are done.
    pub(crate) done: &'a BTreeSet<u32>,
    pub(crate) records: &'a [RunRecord],
    pub(crate) journal: &'a [StateLine],
}

impl Past<'_> {
    /// The unfinished turns, in the order of the plan.
    pub(crate) fn unfinished(&self) -> Vec<UnfinishedTurn> {
        if self.plan.repeat_disturbed == 0 {
            return Vec::new();
        }
        let last = self.turn_begun_last();
        let turns = self.plan.turns();
        let whole = turns.into_iter().filter(|turn| turn.iter().all(|spec| self.done.contains(&spec.run)));
        whole.filter_map(|turn| self.of_turn(turn, last)).collect()
    }

    /// A turn, if it is not finished. `last` is the turn after which no other has begun.
    fn of_turn(&self, planned: Vec<RunSpec>, last: Option<u32>) -> Option<UnfinishedTurn> {
        let began = planned.iter().filter_map(|spec| self.began(spec.run)).max()?;
        let mut attempts = self.attempts(&planned, began);
        let is_last = last == planned.first().map(|spec| self.plan.turn_of(spec, None));
        // On a server that has moved since, it would be no attempt at the same.
        if !attempts.iter().flatten().all(|record| self.is_in_its_place(record)) {
            return None;
        }
        let latest = attempts.last()?;
        let state = |state| latest.iter().any(|record| record.state == state);
        if latest.len() == planned.len() && latest.iter().all(|record| record.state == RunState::Completed) {
            let turn = UnfinishedTurn { planned, made: attempts, interrupted: Vec::new() };
            return is_last.then_some(turn);
        }
        // A repeat that failed would fail again, and the planned runs count.
        if state(RunState::Failed) {
            return None;
        }
        let interrupted = again(&planned, latest.first()?)?;
        attempts.pop();
        Some(UnfinishedTurn { planned, made: attempts, interrupted })
    }

    /// The attempts at a turn, the planned one first. Repeats that had begun before the planned runs were of others that were
    /// made in their place before.
    fn attempts(&self, planned: &[RunSpec], began: usize) -> Vec<Vec<RunRecord>> {
        let mut attempts: BTreeMap<u32, Vec<RunRecord>> = BTreeMap::new();
        for record in self.records {
            let of = record.repeat.map_or(record.spec.run, |repeat| repeat.of);
            let attempt = record.repeat.map_or(0, |repeat| repeat.attempt);
            let is_of_turn = planned.iter().any(|spec| spec.run == of);
            if is_of_turn && (attempt == 0 || self.began(record.spec.run) > Some(began)) {
                attempts.entry(attempt).or_default().push(record.clone());
            }
        }
        attempts.into_values().collect()
    }

    /// Whether a run was made on the server that the plan names now.
    fn is_in_its_place(&self, record: &RunRecord) -> bool {
        let case = self.plan.case(record.spec.case);
        case.is_some_and(|case| case.server.source == record.case.server.source)
    }

    /// Where the journal says that a run began, for the last time.
    fn began(&self, run: u32) -> Option<usize> {
        self.journal.iter().rposition(|line| line.run == run && line.state == RunState::Started)
    }

    /// The turn of the run that began last. `None` if the experiment has ended: nothing of it is left to be judged.
    fn turn_begun_last(&self) -> Option<u32> {
        let end = self.journal.iter().rev().find(|line| line.run == 0);
        if end.is_some_and(|line| line.state == RunState::Completed) {
            return None;
        }
        let planned = self.plan.runs.iter().map(|spec| (spec.run, self.plan.turn_of(spec, None)));
        let repeats = self.records.iter().filter_map(|record| {
            let of =
                self.plan.runs.iter().find(|spec| Some(spec.run) == record.repeat.map(|repeat| repeat.of))?;
            Some((record.spec.run, self.plan.turn_of(of, None)))
        });
        let begun = planned.chain(repeats).filter_map(|(run, turn)| Some((self.began(run)?, turn)));
        begun.max().map(|(_, turn)| turn)
    }
}

/// The runs of the attempt that a record is of: their numbers follow each other in the order of the turn.
fn again(planned: &[RunSpec], record: &RunRecord) -> Option<Vec<NextRun>> {
    let Repeat { of, attempt } = record.repeat?;
    let place = planned.iter().position(|spec| spec.run == of)?;
    let first = record.spec.run.checked_sub(place as u32)?;
    let next = |(spec, run): (&RunSpec, u32)| NextRun {
        spec: RunSpec { run, ..spec.clone() },
        repeat: Some(Repeat { of: spec.run, attempt }),
    };
    Some(planned.iter().zip(first..).map(next).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    use RunState::{Completed, Failed, Partial, Started};

    /// A plan of four runs, each a turn of its own, or of two pairs.
    fn plan(is_comparison: bool) -> Plan {
        let mut plan =
            crate::plan::sample::plan("repeats = 4\n[workload]\nscale = 1\n[run]\nmeasure = \"2s\"");
        plan.is_comparison = is_comparison;
        for (n, spec) in plan.runs.iter_mut().enumerate() {
            spec.block = n as u32 / 2 + 1;
        }
        plan
    }

    /// Runs that began in this order: number, the planned run, and how it ended.
    fn check(is_comparison: bool, begun: &[(u32, u32, RunState)], end: RunState, expected: &[(u32, &[u32])]) {
        let plan = plan(is_comparison);
        let line = |run, state| StateLine { t_unix_ns: 1, run, state, reason: String::new() };
        let mut journal: Vec<_> = begun.iter().map(|(run, ..)| line(*run, Started)).collect();
        journal.push(line(0, end));
        let mut records = BTreeMap::new();
        for &(run, of, state) in begun {
            let spec = RunSpec { run, ..plan.runs[of as usize - 1].clone() };
            let repeat = (run != of).then_some(Repeat { of, attempt: 1 });
            let record = RunRecord::new(spec, plan.cases[0].clone(), "0");
            records.insert(run, RunRecord { state, repeat, ..record });
        }
        let records: Vec<_> = records.into_values().collect();
        let is_done = |record: &&RunRecord| record.repeat.is_none() && record.state == Completed;
        let done = records.iter().filter(is_done).map(|record| record.spec.run).collect();
        let past = Past { plan: &plan, done: &done, records: &records, journal: &journal };
        let found: Vec<(u32, Vec<u32>)> = past
            .unfinished()
            .iter()
            .map(|turn| (turn.planned[0].run, turn.interrupted.iter().map(|next| next.spec.run).collect()))
            .collect();
        let expected: Vec<(u32, Vec<u32>)> = expected.iter().map(|(of, runs)| (*of, runs.to_vec())).collect();
        assert_eq!(found, expected, "{begun:?}");
    }

    #[test]
    fn an_interrupted_repeat_is_made_again_under_its_number() {
        let first = (1, 1, Completed);
        for state in [Started, Partial] {
            check(false, &[first, (5, 1, state)], Started, &[(1, &[5])]);
            // Also if it was left out before.
            check(false, &[first, (5, 1, state), (2, 2, Completed)], Completed, &[(1, &[5])]);
        }
        check(false, &[first, (5, 1, Failed)], Started, &[]);
        // The planned run was made again after it, and has been judged since.
        check(false, &[(5, 1, Partial), first, (2, 2, Completed), (3, 3, Started)], Started, &[]);
        // The planned run is made again itself.
        check(false, &[(1, 1, Partial), (5, 1, Partial)], Started, &[]);
    }

    #[test]
    fn of_a_pair_both_repeats_are_made_again() {
        let pair = [(1, 1, Completed), (2, 2, Completed)];
        let check = |repeats: &[(u32, u32, RunState)], expected: &[(u32, &[u32])]| {
            check(true, &[&pair[..], repeats].concat(), Started, expected);
        };
        check(&[(5, 1, Started)], &[(1, &[5, 6])]);
        check(&[(5, 1, Completed)], &[(1, &[5, 6])]);
        check(&[(5, 1, Completed), (6, 2, Partial)], &[(1, &[5, 6])]);
        check(&[(5, 1, Completed), (6, 2, Failed)], &[]);
    }

    #[test]
    fn the_turn_that_began_last_is_judged_again_unless_the_experiment_has_ended() {
        let whole = [(1, 1, Completed), (2, 2, Completed)];
        check(false, &whole, Started, &[(2, &[])]);
        check(false, &whole, Partial, &[(2, &[])]);
        check(false, &whole, Completed, &[]);
        check(false, &[whole[0], whole[1], (5, 2, Completed)], Started, &[(2, &[])]);
        check(false, &[whole[0], (2, 2, Started)], Started, &[]);
        check(true, &whole, Started, &[(1, &[])]);
    }
}
