//! Two loads that took turns on one machine, and what each committed in its slices: `duet.json`.

use serde::{Deserialize, Serialize};

use crate::load::Window;

/// How the time of a duet is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slicing {
    /// Length of a slice, milliseconds.
    pub slice_ms: u32,
    /// Time at the beginning of each slice that does not count, milliseconds: the other side's last transactions end
    /// then.
    pub guard_ms: u32,
}

impl Default for Slicing {
    /// Slices of half a second: long compared with a transaction, short compared with disturbances on a shared machine.
    fn default() -> Slicing {
        Slicing { slice_ms: 500, guard_ms: 50 }
    }
}

impl Slicing {
    /// Whether there is something to count in a slice.
    ///
    /// # Errors
    /// When the guard is the whole slice. A results file may contain anything.
    pub fn check(self) -> Result<(), String> {
        if self.guard_ms < self.slice_ms {
            Ok(())
        } else {
            Err(format!(
                "a slice of {} ms is not longer than its guard of {} ms",
                self.slice_ms, self.guard_ms
            ))
        }
    }

    /// Pairs of slices from the beginning of the load, including those of the ramp-up.
    pub fn n_pairs(self, window: Window) -> usize {
        window.load_s() as usize * 1000 / (2 * self.slice_ms.max(1) as usize)
    }

    /// Pairs that lie in the ramp-up, wholly or partly.
    pub fn n_pairs_of_ramp_up(self, window: Window) -> usize {
        (window.ramp_up_s as usize * 1000).div_ceil(2 * self.slice_ms.max(1) as usize)
    }
}

/// A slice of A and one of B, next to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlicePair {
    /// The round, from 1; servers restart for each round.
    #[serde(default = "one")]
    pub round: u32,
    /// Whether A's slice came first.
    pub is_a_first: bool,
    /// Transactions that A committed in its slice, after the guard.
    pub a: u64,
    /// Transactions that B committed in its slice, after the guard.
    pub b: u64,
}

fn one() -> u32 {
    1
}

impl SlicePair {
    /// The logarithm of B over A. Adds half a transaction to each, so that it is defined for a slice without
    /// transactions.
    pub fn log_ratio(&self) -> f64 {
        ((self.b as f64 + 0.5) / (self.a as f64 + 0.5)).ln()
    }

    /// The logarithm of the second slice over the first: 0 apart from noise, unless one side's slice affects the next.
    pub fn log_second_over_first(&self) -> f64 {
        if self.is_a_first { self.log_ratio() } else { -self.log_ratio() }
    }
}

/// A duet: case 1 is A, case 2 is B.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Duet {
    /// Format version, [`crate::FORMAT`].
    pub format: u32,
    /// Division of the time into slices.
    pub slicing: Slicing,
    /// Rounds, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rounds: Vec<DuetRound>,
    /// Pairs of the measurement window, in order.
    pub pairs: Vec<SlicePair>,
}

/// One round of a duet: both servers were started for it, and its runs are those of one block of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DuetRound {
    /// Number of the round, from 1, and of its block.
    pub round: u32,
    /// Whether A had the cluster that B has in the other rounds.
    pub is_swapped: bool,
}

impl Duet {
    /// The pairs of each round, in order.
    pub fn by_round(&self) -> Vec<&[SlicePair]> {
        self.pairs.chunk_by(|pair, next| pair.round == next.round).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_that_begin_in_the_ramp_up_belong_to_it() {
        let window = Window { ramp_up_s: 3, measure_s: 10, grace_s: 1 };
        let slicing = Slicing { slice_ms: 400, guard_ms: 40 };
        assert_eq!((slicing.n_pairs(window), slicing.n_pairs_of_ramp_up(window)), (16, 4));
    }

    #[test]
    fn ratios_know_their_order() {
        let pair = SlicePair { round: 1, is_a_first: true, a: 99, b: 199 };
        assert!((pair.log_ratio() - (199.5f64 / 99.5).ln()).abs() < 1e-12);
        assert_eq!(pair.log_second_over_first(), pair.log_ratio());
        assert_eq!(SlicePair { is_a_first: false, ..pair }.log_second_over_first(), -pair.log_ratio());
        assert!(SlicePair { round: 1, is_a_first: true, a: 0, b: 0 }.log_ratio().abs() < 1e-12);
    }
}
