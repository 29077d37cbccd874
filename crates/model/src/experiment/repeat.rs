//! Runs that are repeated because something else on the machine disturbed them.
//!
//! The unit of repetition is a *turn* of the plan: a run, or in a comparison both runs of a pair, because they are
//! compared with each other and belong together in time. The first attempt at a turn is the planned one.

use serde::{Deserialize, Serialize};

use crate::experiment::plan::{Plan, RunSpec};

/// Which planned run a run repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repeat {
    /// Number of the planned run.
    pub of: u32,
    /// Number of the repeat, from 1.
    pub attempt: u32,
}

/// One repeat is allowed for this many turns of the plan.
const TURNS_PER_REPEAT: usize = 4;

impl Plan {
    /// The turns of the plan, in order.
    pub fn turns(&self) -> Vec<Vec<RunSpec>> {
        let same = |a: &RunSpec, b: &RunSpec| self.turn_of(a, None) == self.turn_of(b, None);
        self.runs.chunk_by(same).map(<[RunSpec]>::to_vec).collect()
    }

    /// Identifies the turn of a run: the number of its pair, or of the planned run.
    pub fn turn_of(&self, spec: &RunSpec, repeat: Option<Repeat>) -> u32 {
        if self.is_comparison { spec.block } else { repeat.map_or(spec.run, |repeat| repeat.of) }
    }

    /// Most repeats of turns in total: see [`repeats_max`].
    pub fn repeats_max(&self) -> usize {
        repeats_max(self.turns().len(), self.repeat_disturbed)
    }
}

/// Most repeats in total for `n_turns` turns, of which one may have `of_turn`: one for every four turns, and at least
/// as many as a single turn may have. On a machine that is always disturbed, the experiment thus takes a quarter longer
/// instead of three times as long.
pub fn repeats_max(n_turns: usize, of_turn: u32) -> usize {
    match of_turn as usize {
        0 => 0,
        of_turn => (n_turns / TURNS_PER_REPEAT).max(of_turn),
    }
}

/// Which attempt at a turn counts, given how much each was disturbed: the first with score 0, else the one with the
/// lowest score, the earlier of equals. An attempt that cannot count has an infinite score. `None` if none can.
///
/// The measured results play no part: choosing by them would bias the result upwards.
pub fn that_counts(scores: &[f64]) -> Option<usize> {
    let mut least: Option<(usize, f64)> = None;
    for (index, score) in scores.iter().copied().enumerate().filter(|(_, score)| score.is_finite()) {
        if least.is_none_or(|(_, known)| score < known) {
            least = Some((index, score));
        }
    }
    least.map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_undisturbed_attempt_counts_or_else_the_least_disturbed() {
        let none = f64::INFINITY;
        for (scores, expected) in [
            (&[0.0][..], Some(0)),
            (&[3.0, 0.0, 0.0], Some(1)),
            (&[3.0, 1.5, 2.0], Some(1)),
            (&[2.0, 2.0], Some(0)),
            (&[none, 5.0], Some(1)),
            (&[1.5, none], Some(0)),
            (&[none, none], None),
            (&[], None),
        ] {
            assert_eq!(that_counts(scores), expected, "{scores:?}");
        }
    }

    fn plan(n_blocks: u32, is_comparison: bool, repeat_disturbed: u32) -> Plan {
        let spec = |n: u32| RunSpec { run: n + 1, block: n / 2 + 1, case: n % 2 + 1, seed: 7 };
        let runs = (0..2 * n_blocks).map(spec).collect();
        Plan { runs, is_comparison, repeat_disturbed, ..Plan::default() }
    }

    #[test]
    fn a_pair_is_one_turn_and_a_quarter_of_the_turns_may_be_repeated() {
        let lengths = |plan: &Plan| plan.turns().iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(lengths(&plan(2, true, 2)), [2, 2]);
        assert_eq!(lengths(&plan(2, false, 2)), [1, 1, 1, 1]);
        for (n_blocks, is_comparison, of_turn, expected) in
            [(10, false, 2, 5), (10, true, 2, 2), (40, true, 2, 10), (1, false, 2, 2), (10, false, 0, 0)]
        {
            assert_eq!(plan(n_blocks, is_comparison, of_turn).repeats_max(), expected);
        }
    }
}
