//! Where the time of the source went: what is reproduced and what is left out, by reason. The sum is exact.

use std::collections::BTreeMap;
use std::fmt;

/// Why a statement or a transaction is not reproduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OmissionReason {
    /// `COPY`: its rows are not logged.
    Copy,
    /// `CREATE`, `ALTER`, `DROP`, `GRANT`, `TRUNCATE` and the like.
    Ddl,
    /// `VACUUM`, `ANALYZE`, `REINDEX`, `CHECKPOINT` and the like.
    Maintenance,
    /// `LISTEN`, `UNLISTEN`, `NOTIFY`.
    Listen,
    /// `PREPARE TRANSACTION` and what ends it.
    TwoPhase,
    /// Functions of large objects.
    LargeObject,
    /// A cursor that is not within one transaction.
    Cursor,
    /// A temporary table that outlives its transaction.
    TemporaryTable,
    /// An advisory lock of the session that its transaction does not release.
    AdvisoryLock,
    /// `SET`, `DISCARD`, `PREPARE` and the like, of the session.
    SessionState,
    /// Commands of replication.
    Replication,
    /// An error, with values that the log does not have.
    Error,
    /// The values of its parameters are not in the log.
    NoParameters,
    /// A value of which the log has only the beginning, and by which rows are selected.
    Truncated,
    /// The transaction began before the window or ended after it.
    WindowEdge,
    /// The log has no beginning or no end of the transaction.
    Incomplete,
    /// The transaction has more statements or bytes than are kept.
    TooLong,
    /// The transaction has more values than a script takes.
    TooManyValues,
    /// The statement is one of too many different ones, or its transaction is.
    Rare,
    /// The text holds a secret.
    Secret,
    /// The text is empty or can be no statement.
    NoStatement,
    /// Without a log: `BEGIN`, `COMMIT`, `SAVEPOINT` and the like, of transactions that nobody knows.
    Frame,
    /// Without a log: the server does not take the statement without its literals, or has no value for it.
    Unexplained,
}

impl OmissionReason {
    /// All reasons.
    pub const ALL: [OmissionReason; 23] = [
        OmissionReason::Copy,
        OmissionReason::Ddl,
        OmissionReason::Maintenance,
        OmissionReason::Listen,
        OmissionReason::TwoPhase,
        OmissionReason::LargeObject,
        OmissionReason::Cursor,
        OmissionReason::TemporaryTable,
        OmissionReason::AdvisoryLock,
        OmissionReason::SessionState,
        OmissionReason::Replication,
        OmissionReason::Error,
        OmissionReason::NoParameters,
        OmissionReason::Truncated,
        OmissionReason::WindowEdge,
        OmissionReason::Incomplete,
        OmissionReason::TooLong,
        OmissionReason::TooManyValues,
        OmissionReason::Rare,
        OmissionReason::Secret,
        OmissionReason::NoStatement,
        OmissionReason::Frame,
        OmissionReason::Unexplained,
    ];

    /// The word in files.
    pub fn word(self) -> &'static str {
        match self {
            OmissionReason::Copy => "copy",
            OmissionReason::Ddl => "ddl",
            OmissionReason::Maintenance => "maintenance",
            OmissionReason::Listen => "listen",
            OmissionReason::TwoPhase => "two-phase",
            OmissionReason::LargeObject => "large-object",
            OmissionReason::Cursor => "cursor",
            OmissionReason::TemporaryTable => "temporary-table",
            OmissionReason::AdvisoryLock => "advisory-lock",
            OmissionReason::SessionState => "session-state",
            OmissionReason::Replication => "replication",
            OmissionReason::Error => "error",
            OmissionReason::NoParameters => "no-parameters",
            OmissionReason::Truncated => "truncated",
            OmissionReason::WindowEdge => "window-edge",
            OmissionReason::Incomplete => "incomplete",
            OmissionReason::TooLong => "too-long",
            OmissionReason::TooManyValues => "too-many-values",
            OmissionReason::Rare => "rare",
            OmissionReason::Secret => "secret",
            OmissionReason::NoStatement => "no-statement",
            OmissionReason::Frame => "frame",
            OmissionReason::Unexplained => "unexplained",
        }
    }

    /// The reason in words for people.
    pub fn about(self) -> &'static str {
        match self {
            OmissionReason::Copy => "COPY: its rows are not in the log",
            OmissionReason::Ddl => "it changes definitions or rights, or truncates",
            OmissionReason::Maintenance => "VACUUM, ANALYZE, REINDEX and other maintenance",
            OmissionReason::Listen => "LISTEN, UNLISTEN and NOTIFY",
            OmissionReason::TwoPhase => "two-phase commit",
            OmissionReason::LargeObject => "large objects",
            OmissionReason::Cursor => "a cursor outside of a transaction",
            OmissionReason::TemporaryTable => "a temporary table that outlives its transaction",
            OmissionReason::AdvisoryLock => {
                "an advisory lock of the session that its transaction does not release"
            }
            OmissionReason::SessionState => "SET, DISCARD, PREPARE and other state of a session",
            OmissionReason::Replication => "commands of replication",
            OmissionReason::Error => {
                "it failed, and the log lacks its values (log_parameter_max_length_on_error)"
            }
            OmissionReason::NoParameters => {
                "the log lacks the values of its parameters (log_parameter_max_length)"
            }
            OmissionReason::Truncated => {
                "the log has only the beginning of a value by which rows are selected"
            }
            OmissionReason::WindowEdge => "its transaction is not whole within the window",
            OmissionReason::Incomplete => "the log lacks the beginning or the end of its transaction",
            OmissionReason::TooLong => "its transaction has too many statements or too long texts",
            OmissionReason::TooManyValues => "its transaction has more values than a script takes",
            OmissionReason::Rare => "one of too many different statements or transactions",
            OmissionReason::Secret => "its text holds a secret",
            OmissionReason::NoStatement => "its text is no statement",
            OmissionReason::Frame => {
                "BEGIN, COMMIT and what else frames transactions that were not counted as such"
            }
            OmissionReason::Unexplained => {
                "the server that was asked does not take it without its literals, or knows no value for it"
            }
        }
    }
}

impl fmt::Display for OmissionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Executions of statements, and their time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeShare {
    /// Executions.
    pub calls: u64,
    /// Their time, microseconds; parsing and binding included.
    pub time_us: u64,
}

impl TimeShare {
    /// Adds executions.
    pub fn add(&mut self, other: TimeShare) {
        self.calls += other.calls;
        self.time_us += other.time_us;
    }
}

/// All that was executed in the window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    /// Everything, counted as it was read.
    pub total: TimeShare,
    /// Statements of transactions that are replayed.
    pub reproduced: TimeShare,
    /// Statements that are not.
    pub left_out: BTreeMap<OmissionReason, TimeShare>,
}

impl Balance {
    /// Counts what is left out.
    pub fn leave_out(&mut self, reason: OmissionReason, share: TimeShare) {
        self.left_out.entry(reason).or_default().add(share);
    }

    /// What total, reproduced and left out differ by, in calls and in microseconds; both are 0 if nothing was lost or counted twice.
    pub fn difference(&self) -> (i128, i128) {
        let parts = self.left_out.values().chain([&self.reproduced]);
        let (calls, time) = parts.fold((0i128, 0i128), |sum, part| {
            (sum.0 + i128::from(part.calls), sum.1 + i128::from(part.time_us))
        });
        (i128::from(self.total.calls) - calls, i128::from(self.total.time_us) - time)
    }

    /// The share of time that is reproduced, or of calls if the log has no durations.
    pub fn coverage(&self) -> f64 {
        self.fraction(self.reproduced)
    }

    /// The same without frames of transactions that nobody knows: what is reproduced has frames of its own.
    pub fn coverage_without_frames(&self) -> f64 {
        let frames = self.left_out.get(&OmissionReason::Frame).copied().unwrap_or_default();
        let total = TimeShare {
            calls: self.total.calls.saturating_sub(frames.calls),
            time_us: self.total.time_us.saturating_sub(frames.time_us),
        };
        Balance { total, ..self.clone() }.coverage()
    }

    /// The share of all time, or of all calls if the log has no durations.
    pub fn fraction(&self, share: TimeShare) -> f64 {
        if self.total.time_us > 0 {
            share.time_us as f64 / self.total.time_us as f64
        } else if self.total.calls > 0 {
            share.calls as f64 / self.total.calls as f64
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_exact_or_the_difference_says_so() {
        let mut balance = Balance { total: TimeShare { calls: 3, time_us: 30 }, ..Balance::default() };
        balance.reproduced.add(TimeShare { calls: 2, time_us: 20 });
        assert_eq!(balance.difference(), (1, 10));
        balance.leave_out(OmissionReason::Copy, TimeShare { calls: 1, time_us: 10 });
        assert_eq!(balance.difference(), (0, 0));
        assert!((balance.coverage() - 2.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn words_are_distinct() {
        let words: std::collections::BTreeSet<&str> =
            OmissionReason::ALL.into_iter().map(OmissionReason::word).collect();
        assert_eq!(words.len(), OmissionReason::ALL.len());
    }
}
