//! How the replay of a trace went: what was late, what waited, and where it diverged from the source.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The outcome of a replayed trace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayedTrace {
    /// Transactions that ended, in one way or another.
    pub n_transactions: u64,
    /// Statements that were sent.
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
    /// Statements that were refused because the sessions only read.
    pub n_refused: u64,
    /// Statements that were not sent because one before them failed.
    pub n_cut_off: u64,
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
            (&mut self.n_statements, other.n_statements),
            (&mut self.n_new_errors, other.n_new_errors),
            (&mut self.n_missing_errors, other.n_missing_errors),
            (&mut self.n_other_errors, other.n_other_errors),
            (&mut self.n_same_errors, other.n_same_errors),
            (&mut self.n_refused, other.n_refused),
            (&mut self.n_cut_off, other.n_cut_off),
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
        self.n_new_errors + self.n_missing_errors + self.n_other_errors + self.n_cut_off
    }
}
