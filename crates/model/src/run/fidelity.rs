//! What statements did at the source of a captured workload, and in a run that replays it, as pg_stat_statements counts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Most statements that are kept one by one; all others are a sum.
pub const STATEMENTS_MAX: usize = 1000;
/// Longest text of a statement, in characters.
pub const TEXT_MAX: usize = 240;
/// Characters of a statement's text that are read from a server. A longer text has no identity.
pub const TEXT_READ_MAX: usize = 65_536;
/// The key of what is unknown where nobody knows which statements belonged together: a replay is approximate at best.
pub const UNKNOWN_TRANSACTIONS: &str = "transactions";
/// How pgdyno's own questions begin, so that they are not taken for the load.
pub const OWN_COMMENT: &str = "/* pgdyno */";

/// Whether a text was perhaps cut off when it was read from a server, so that it has no identity.
pub fn may_be_cut_off(text: &str) -> bool {
    text.chars().nth(TEXT_READ_MAX - 1).is_some()
}

/// Both sides of a replay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReplayRecord {
    /// The source, over its window.
    pub source: WorkloadFigures,
    /// The replay, from ramp-up to drain; `None` if nothing counted its statements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<WorkloadFigures>,
    /// Why the replay's statements were not counted.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uncounted: String,
}

/// The statements of a load over a time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkloadFigures {
    /// Length of the time, seconds.
    pub length_s: f64,
    /// Statements by their identity, which does not depend on a server: 16 hexadecimal digits.
    pub statements: BTreeMap<String, CountedStatement>,
    /// All others.
    #[serde(default)]
    pub others: StatementFigures,
    /// Variance of the transactions of a second over their mean; 1 for arrivals at random (Poisson).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispersion: Option<f64>,
    /// Sessions at work, the mean of samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_sessions: Option<f64>,
    /// Everything that is not known, with the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unknown: BTreeMap<String, String>,
}

/// A statement with its text.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CountedStatement {
    /// Text without literals, cut off where it is long; empty where it is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Whether the workload directory says that it replays the statement; `None` if it says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_reproduced: Option<bool>,
    /// Counters of the statement.
    #[serde(flatten)]
    pub figures: StatementFigures,
}

/// What a statement did. `None`: nobody counted it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct StatementFigures {
    pub calls: u64,
    /// Time in the executor, microseconds.
    pub time_us: f64,
    /// Rows returned or changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// Blocks of shared buffers touched: found there, and read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u64>,
    /// Blocks not found in shared buffers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks_read: Option<u64>,
    /// Records of WAL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wal_records: Option<u64>,
    /// Bytes of WAL, with full-page images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wal_bytes: Option<u64>,
}

impl StatementFigures {
    /// Adds what another statement did. What is unknown of one of them is unknown of the sum, unless one did nothing.
    pub fn add(&mut self, other: &StatementFigures) {
        if self.calls == 0 {
            *self = *other;
            return;
        }
        if other.calls == 0 {
            return;
        }
        let sum = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
        *self = StatementFigures {
            calls: self.calls.saturating_add(other.calls),
            time_us: self.time_us + other.time_us,
            rows: sum(self.rows, other.rows),
            blocks: sum(self.blocks, other.blocks),
            blocks_read: sum(self.blocks_read, other.blocks_read),
            wal_records: sum(self.wal_records, other.wal_records),
            wal_bytes: sum(self.wal_bytes, other.wal_bytes),
        };
    }

    /// What was added since an earlier reading; `None` if counting began again in between: a counter went back.
    pub fn since(&self, before: &StatementFigures) -> Option<StatementFigures> {
        let more = |now: Option<u64>, before: Option<u64>| match (now, before) {
            (Some(now), Some(before)) => now.checked_sub(before).map(Some),
            _ => Some(None),
        };
        Some(StatementFigures {
            calls: self.calls.checked_sub(before.calls)?,
            time_us: (self.time_us - before.time_us).max(0.0),
            rows: more(self.rows, before.rows)?,
            blocks: more(self.blocks, before.blocks)?,
            blocks_read: more(self.blocks_read, before.blocks_read)?,
            wal_records: more(self.wal_records, before.wal_records)?,
            wal_bytes: more(self.wal_bytes, before.wal_bytes)?,
        })
    }
}

impl WorkloadFigures {
    /// Adds a statement; beyond a bound, to all others. The first text is kept.
    pub fn add(&mut self, identity: String, statement: CountedStatement) {
        if !self.statements.contains_key(&identity) && self.statements.len() >= STATEMENTS_MAX {
            self.others.add(&statement.figures);
            return;
        }
        let known = self.statements.entry(identity).or_default();
        known.figures.add(&statement.figures);
        known.is_reproduced = known.is_reproduced.or(statement.is_reproduced);
        if known.text.is_empty() {
            known.text = statement.text.chars().take(TEXT_MAX).collect();
        }
    }

    /// The sum of all statements.
    pub fn total(&self) -> StatementFigures {
        let mut total = self.others;
        self.statements.values().for_each(|statement| total.add(&statement.figures));
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(calls: u64, rows: Option<u64>) -> StatementFigures {
        StatementFigures { calls, time_us: calls as f64, rows, ..StatementFigures::default() }
    }

    #[test]
    fn what_is_unknown_of_a_part_is_unknown_of_the_sum() {
        let mut sum = StatementFigures::default();
        sum.add(&figures(2, Some(3)));
        sum.add(&figures(0, None));
        assert_eq!(sum, figures(2, Some(3)));
        sum.add(&figures(1, None));
        assert_eq!(sum, figures(3, None));
        assert_eq!(figures(5, Some(9)).since(&figures(3, Some(4))).unwrap(), figures(2, Some(5)));
        assert_eq!(figures(5, Some(3)).since(&figures(3, Some(4))), None);
        assert_eq!(figures(2, Some(9)).since(&figures(3, Some(4))), None);
    }

    #[test]
    fn statements_beyond_a_bound_are_one() {
        let mut all = WorkloadFigures::default();
        for n in 0..STATEMENTS_MAX + 3 {
            all.add(
                format!("{n:016x}"),
                CountedStatement { figures: figures(1, Some(1)), ..Default::default() },
            );
        }
        assert_eq!((all.statements.len(), all.others.calls), (STATEMENTS_MAX, 3));
        assert_eq!(all.total(), figures(1003, Some(1003)));
    }
}
