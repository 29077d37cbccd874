//! Where the time of the source went: what is reproduced and what is left out, by reason. The sum is exact.

use std::collections::BTreeMap;
use std::fmt;

/// Why a statement or a transaction is not reproduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
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
}

impl Reason {
    /// All reasons.
    pub const ALL: [Reason; 21] = [
        Reason::Copy,
        Reason::Ddl,
        Reason::Maintenance,
        Reason::Listen,
        Reason::TwoPhase,
        Reason::LargeObject,
        Reason::Cursor,
        Reason::TemporaryTable,
        Reason::AdvisoryLock,
        Reason::SessionState,
        Reason::Replication,
        Reason::Error,
        Reason::NoParameters,
        Reason::Truncated,
        Reason::WindowEdge,
        Reason::Incomplete,
        Reason::TooLong,
        Reason::TooManyValues,
        Reason::Rare,
        Reason::Secret,
        Reason::NoStatement,
    ];

    /// The word in files.
    pub fn word(self) -> &'static str {
        match self {
            Reason::Copy => "copy",
            Reason::Ddl => "ddl",
            Reason::Maintenance => "maintenance",
            Reason::Listen => "listen",
            Reason::TwoPhase => "two-phase",
            Reason::LargeObject => "large-object",
            Reason::Cursor => "cursor",
            Reason::TemporaryTable => "temporary-table",
            Reason::AdvisoryLock => "advisory-lock",
            Reason::SessionState => "session-state",
            Reason::Replication => "replication",
            Reason::Error => "error",
            Reason::NoParameters => "no-parameters",
            Reason::Truncated => "truncated",
            Reason::WindowEdge => "window-edge",
            Reason::Incomplete => "incomplete",
            Reason::TooLong => "too-long",
            Reason::TooManyValues => "too-many-values",
            Reason::Rare => "rare",
            Reason::Secret => "secret",
            Reason::NoStatement => "no-statement",
        }
    }

    /// The reason in words for people.
    pub fn about(self) -> &'static str {
        match self {
            Reason::Copy => "COPY: its rows are not in the log",
            Reason::Ddl => "it changes definitions or rights, or truncates",
            Reason::Maintenance => "VACUUM, ANALYZE, REINDEX and other maintenance",
            Reason::Listen => "LISTEN, UNLISTEN and NOTIFY",
            Reason::TwoPhase => "two-phase commit",
            Reason::LargeObject => "large objects",
            Reason::Cursor => "a cursor outside of a transaction",
            Reason::TemporaryTable => "a temporary table that outlives its transaction",
            Reason::AdvisoryLock => "an advisory lock of the session that its transaction does not release",
            Reason::SessionState => "SET, DISCARD, PREPARE and other state of a session",
            Reason::Replication => "commands of replication",
            Reason::Error => "it failed, and the log lacks its values (log_parameter_max_length_on_error)",
            Reason::NoParameters => "the log lacks the values of its parameters (log_parameter_max_length)",
            Reason::Truncated => "the log has only the beginning of a value by which rows are selected",
            Reason::WindowEdge => "its transaction is not whole within the window",
            Reason::Incomplete => "the log lacks the beginning or the end of its transaction",
            Reason::TooLong => "its transaction has too many statements or too long texts",
            Reason::TooManyValues => "its transaction has more values than a script takes",
            Reason::Rare => "one of too many different statements or transactions",
            Reason::Secret => "its text holds a secret",
            Reason::NoStatement => "its text is no statement",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Executions of statements, and their time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Executions.
    pub calls: u64,
    /// Their time, microseconds; parsing and binding included.
    pub time_us: u64,
}

impl Share {
    /// Adds executions.
    pub fn add(&mut self, other: Share) {
        self.calls += other.calls;
        self.time_us += other.time_us;
    }
}

/// All that was executed in the window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    /// Everything, counted as it was read.
    pub total: Share,
    /// Statements of transactions that are replayed.
    pub reproduced: Share,
    /// Statements that are not.
    pub left_out: BTreeMap<Reason, Share>,
}

impl Balance {
    /// Counts what is left out.
    pub fn leave_out(&mut self, reason: Reason, share: Share) {
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

    /// The share of all time, or of all calls if the log has no durations.
    pub fn fraction(&self, share: Share) -> f64 {
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
        let mut balance = Balance { total: Share { calls: 3, time_us: 30 }, ..Balance::default() };
        balance.reproduced.add(Share { calls: 2, time_us: 20 });
        assert_eq!(balance.difference(), (1, 10));
        balance.leave_out(Reason::Copy, Share { calls: 1, time_us: 10 });
        assert_eq!(balance.difference(), (0, 0));
        assert!((balance.coverage() - 2.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn words_are_distinct() {
        let words: std::collections::BTreeSet<&str> = Reason::ALL.into_iter().map(Reason::word).collect();
        assert_eq!(words.len(), Reason::ALL.len());
    }
}
