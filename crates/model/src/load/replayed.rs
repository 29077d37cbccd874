//! How the replay of a trace went: what was late, what waited, and where it diverged from the source.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The outcome of a replayed trace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayedTrace {
    /// Transactions that ended, in one way or another.
    pub n_transactions: u64,
    /// Statements of the trace: each of them was sent, refused or cut off.
    pub n_in_trace: u64,
    /// Statements that were sent and not refused.
    pub n_statements: u64,
    /// How late statements were sent, microseconds: half of them at most so late.
    pub lag_us_median: u64,
    /// 99 of 100 at most so late.
    pub lag_us_p99: u64,
    /// The latest one.
    pub lag_us_max: u64,
    /// Statements that failed here and not at the source.
    pub n_new_errors: u64,
    /// Statements that failed at the source and not here.
    pub n_missing_errors: u64,
    /// Statements that failed with another SQLSTATE than at the source.
    pub n_other_errors: u64,
    /// Statements that failed as at the source.
    pub n_same_errors: u64,
    /// Statements that were refused because the sessions only read, and those after them in their transactions, which were not sent.
    pub n_refused: u64,
    /// Statements that were not sent because one before them failed, their client was lost, or the load was over.
    pub n_cut_off: u64,
    /// Those of them that did nothing at the source either: the end of a transaction that failed, and what failed there, too.
    pub n_spared: u64,
    /// SQLSTATEs of new and other errors.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub new_errors: BTreeMap<String, u64>,
    /// Statements that waited for an earlier writer.
    pub n_waits: u64,
    /// Those that went on without its end, after the longest wait.
    pub n_waits_given_up: u64,
    /// Time of all of these waits, microseconds. It is lag, no latency.
    pub waits_us: u64,
}

impl ReplayedTrace {
    /// Adds the counts and the waits of another one; its times of lag are not added.
    pub fn add(&mut self, other: &ReplayedTrace) {
        let pairs = [
            (&mut self.n_transactions, other.n_transactions),
            (&mut self.n_in_trace, other.n_in_trace),
            (&mut self.n_statements, other.n_statements),
            (&mut self.n_new_errors, other.n_new_errors),
            (&mut self.n_missing_errors, other.n_missing_errors),
            (&mut self.n_other_errors, other.n_other_errors),
            (&mut self.n_same_errors, other.n_same_errors),
            (&mut self.n_refused, other.n_refused),
            (&mut self.n_cut_off, other.n_cut_off),
            (&mut self.n_spared, other.n_spared),
            (&mut self.n_waits, other.n_waits),
            (&mut self.n_waits_given_up, other.n_waits_given_up),
            (&mut self.waits_us, other.waits_us),
        ];
        pairs.into_iter().for_each(|(sum, n)| *sum += n);
        for (state, n) in &other.new_errors {
            *self.new_errors.entry(state.clone()).or_default() += n;
        }
    }

    /// Statements that did not end as at the source, or were not sent.
    pub fn n_diverged(&self) -> u64 {
        self.n_new_errors + self.n_missing_errors + self.n_other_errors + self.n_lost()
    }

    /// Statements that were not sent, and did something at the source.
    pub fn n_lost(&self) -> u64 {
        self.n_cut_off.saturating_sub(self.n_spared)
    }

    /// Whether each statement of the trace was counted once: in trace = sent + refused + cut off.
    pub fn identity_holds(&self) -> bool {
        self.n_in_trace == self.n_statements + self.n_refused + self.n_cut_off
            && self.n_spared <= self.n_cut_off
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_statement_of_a_trace_is_counted_once() {
        let kept = ReplayedTrace {
            n_in_trace: 10,
            n_statements: 5,
            n_refused: 2,
            n_cut_off: 3,
            n_spared: 1,
            ..ReplayedTrace::default()
        };
        assert!(kept.identity_holds());
        assert_eq!((kept.n_lost(), kept.n_diverged()), (2, 2));
        let mut both = kept.clone();
        both.add(&kept);
        assert!(both.identity_holds() && both.n_in_trace == 20 && both.n_spared == 2, "{both:?}");
        for broken in [
            ReplayedTrace { n_statements: 6, ..kept.clone() },
            ReplayedTrace { n_in_trace: 11, ..kept.clone() },
            ReplayedTrace { n_spared: 4, ..kept.clone() },
        ] {
            assert!(!broken.identity_holds(), "{broken:?}");
        }
    }
}
