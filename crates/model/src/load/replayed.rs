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
    /// Statements that did not end as at the source, or were not sent.
    pub fn n_diverged(&self) -> u64 {
        self.n_new_errors + self.n_missing_errors + self.n_other_errors + self.n_cut_off
    }
}
