//! What was read of a log: counts that add up, what was left out and why, and what the log lacks.

mod lack;

use anyhow::{Result, bail, ensure};

pub use self::lack::Lack;

/// The smallest unit of the log's times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum TimeResolution {
    /// All times have fractions.
    #[default]
    Millisecond,
    /// Some times are whole seconds: no trace can be made.
    Second,
}

/// The reason why something of the log is in no statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(usize)]
pub enum SkipReason {
    /// Messages that are about no statement: checkpoints, lock waits, temporary files, notices.
    OtherMessage,
    /// Messages of server processes and parallel workers.
    ServerProcess,
    /// Errors without STATEMENT, and those before a session had a role.
    ErrorWithoutStatement,
    /// `duration: N ms` of `log_duration`, without a text.
    DurationWithoutText,
    /// `parse` lines whose statement was not logged.
    ParseAlone,
    /// `bind` lines whose statement was not logged.
    BindAlone,
    /// Calls of functions by the fast path, which have no text.
    FastPath,
    /// Records of pgaudit.
    Audit,
    /// Plans of auto_explain.
    ExplainedPlan,
    /// Commands of replication.
    Replication,
    /// DETAIL, STATEMENT and the like without the message that they belong to.
    Orphan,
    /// Lines that are not in the file's format, or lack its prefix.
    NoRecord,
    /// Lines and messages over 16 MiB.
    TooLong,
    /// Records that end in the middle.
    Torn,
    /// Empty lines.
    Empty,
    /// Messages of known shape in another language.
    OtherLanguage,
    /// Records of other programs and services, in a syslog or an export.
    OtherLog,
}

impl SkipReason {
    /// All of them.
    pub const ALL: [SkipReason; 17] = [
        SkipReason::OtherMessage,
        SkipReason::ServerProcess,
        SkipReason::ErrorWithoutStatement,
        SkipReason::DurationWithoutText,
        SkipReason::ParseAlone,
        SkipReason::BindAlone,
        SkipReason::FastPath,
        SkipReason::Audit,
        SkipReason::ExplainedPlan,
        SkipReason::Replication,
        SkipReason::Orphan,
        SkipReason::NoRecord,
        SkipReason::TooLong,
        SkipReason::Torn,
        SkipReason::Empty,
        SkipReason::OtherLanguage,
        SkipReason::OtherLog,
    ];

    /// Words for people.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            SkipReason::OtherMessage => "messages about no statement (notices, checkpoints, waits)",
            SkipReason::ServerProcess => "messages of server processes and parallel workers",
            SkipReason::ErrorWithoutStatement => "errors without a statement",
            SkipReason::DurationWithoutText => "durations without a text (log_duration)",
            SkipReason::ParseAlone => "parse lines whose statement was not logged",
            SkipReason::BindAlone => "bind lines whose statement was not logged",
            SkipReason::FastPath => "fast-path function calls",
            SkipReason::Audit => "records of pgaudit",
            SkipReason::ExplainedPlan => "plans of auto_explain",
            SkipReason::Replication => "replication commands",
            SkipReason::Orphan => "DETAIL, STATEMENT and such without their message",
            SkipReason::NoRecord => "lines that are no record of the file's format",
            SkipReason::TooLong => "lines or messages over 16 MiB",
            SkipReason::Torn => "incomplete records",
            SkipReason::Empty => "empty lines",
            SkipReason::OtherLanguage => "messages in another language (lc_messages)",
            SkipReason::OtherLog => "records of other programs",
        }
    }
}

/// Messages by what became of them; with those that were left out they are all records of the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecordCounts {
    /// With the text of an executed statement.
    pub statements: u64,
    /// Errors of statements whose text an earlier message had.
    pub errors: u64,
    /// `duration: N ms` that belong to a text, a parse or a bind.
    pub durations: u64,
    /// `parse` of statements.
    pub parses: u64,
    /// `bind` of statements.
    pub binds: u64,
    /// Connections received, authorized and ended.
    pub connections: u64,
}

impl RecordCounts {
    /// Sum of all.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.statements + self.errors + self.durations + self.parses + self.binds + self.connections
    }
}

/// One file: its format and size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileReading {
    /// As it was given.
    pub name: String,
    /// Format and prefix.
    pub format: String,
    /// Physical lines.
    pub lines: u64,
    /// Bytes, decompressed.
    pub bytes: u64,
}

/// The reading of a whole log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogReading {
    /// The files in their order.
    pub files: Vec<FileReading>,
    /// Messages of the server: `counts.sum()` and those that were left out, without the lines that are no messages.
    pub records: u64,
    /// Messages by what became of them.
    pub counts: RecordCounts,
    /// Statements that were pushed; more than `counts.statements` where several were sent at once.
    pub statements: u64,
    /// Statements of these that failed.
    pub failed: u64,
    /// Statements of these with a duration.
    pub timed: u64,
    /// Statements of these that are the second or a later one of a message: their time is that of the first one.
    pub batched: u64,
    /// Statements of these with parameters.
    pub parameterized: u64,
    /// Statements with parameters that have values.
    pub with_values: u64,
    /// Statements with a virtual transaction id.
    pub with_transaction: u64,
    /// Statements with a query id.
    pub with_query_id: u64,
    /// Statements sent by the extended protocol.
    pub extended: u64,
    /// Sessions that executed something.
    pub sessions: u32,
    /// Sessions whose identity is a process id alone: after 10 minutes of silence it is another session.
    pub guessed_sessions: u32,
    /// Whether any message says which process wrote it.
    pub has_processes: bool,
    /// Sessions whose state was dropped because there were too many, or they held too much.
    pub forgotten_sessions: u32,
    /// Left out, in the order of `SkipReason::ALL`.
    skipped: [u64; SkipReason::ALL.len()],
    skipped_us: [u64; SkipReason::ALL.len()],
    /// Time of the first message.
    pub first_us: Option<i64>,
    /// Time of the last one.
    pub last_us: Option<i64>,
    /// The smallest unit of times.
    pub resolution: TimeResolution,
    /// Number of times that the clock went back by more than a second, and by how much at most.
    pub backward_steps: u64,
    /// Records later than the one before.
    pub later_lines: u64,
    /// Records earlier than the one before.
    pub earlier_lines: u64,
    /// The largest step back.
    pub backward_us_max: i64,
    /// Messages whose zone has an abbreviation that we do not know; taken as UTC.
    pub unknown_zones: u64,
    /// Texts that are not in UTF-8, read as Latin-1.
    pub foreign_texts: u64,
}

impl LogReading {
    /// The number of those left out for a reason.
    #[must_use]
    pub fn skipped(&self, reason: SkipReason) -> u64 {
        self.skipped[reason as usize]
    }

    /// Time of what was left out for a reason, as far as it has durations.
    #[must_use]
    pub fn skipped_us(&self, reason: SkipReason) -> u64 {
        self.skipped_us[reason as usize]
    }

    pub(crate) fn skip(&mut self, reason: SkipReason, us: u64) {
        self.skipped[reason as usize] += 1;
        self.skipped_us[reason as usize] += us;
    }

    /// Reasons with their counts, those of 0 left out.
    pub fn all_skipped(&self) -> impl Iterator<Item = (SkipReason, u64)> {
        let all = SkipReason::ALL.map(|reason| (reason, self.skipped(reason)));
        all.into_iter().filter(|(_, n)| *n > 0)
    }

    /// Lines of all files.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.files.iter().map(|file| file.lines).sum()
    }

    /// Bytes of all files, decompressed.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Everything that the log lacks: the setting, and what can still be made.
    #[must_use]
    pub fn lacks(&self) -> Vec<Lack> {
        lack::lacks(self)
    }

    /// Facts that a reader of the results should know in addition.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.backward_steps > 0 {
            notes.push(format!(
                "the clock goes back {} times, by {:.1} s at most: the files are not in the order of their times, or the server's clock was set",
                self.backward_steps,
                self.backward_us_max as f64 / 1e6
            ));
        }
        if self.unknown_zones > 0 {
            notes.push(format!(
                "{} times have a zone that is not known; they are taken as UTC",
                self.unknown_zones
            ));
        }
        if self.foreign_texts > 0 {
            notes.push(format!("{} texts are not in UTF-8; they are read as Latin-1", self.foreign_texts));
        }
        if self.forgotten_sessions > 0 {
            notes.push(format!(
                "{} sessions were closed before they ended, to bound memory: log_disconnections = on avoids that",
                self.forgotten_sessions
            ));
        }
        notes
    }

    /// Records that were left out; with `counts.sum()` and the parts of other records they are all records.
    #[must_use]
    pub fn records_skipped(&self) -> u64 {
        const OF_LINES: [SkipReason; 6] = [
            SkipReason::Orphan,
            SkipReason::NoRecord,
            SkipReason::TooLong,
            SkipReason::Torn,
            SkipReason::Empty,
            SkipReason::OtherLog,
        ];
        self.all_skipped().filter(|(reason, _)| !OF_LINES.contains(reason)).map(|(_, n)| n).sum()
    }

    /// An error for a log that is in reverse order, or has no statement or no time at all.
    pub(crate) fn expect_statements(&self) -> Result<()> {
        if self.earlier_lines > 10 && self.earlier_lines > 2 * self.later_lines {
            bail!(
                "the newest lines of the log come first, so that no line can be put together with the ones before: \
                 reverse them (`tac FILE`), or ask the service for ascending order"
            );
        }
        if self.statements > 0 {
            ensure!(
                self.first_us.is_some(),
                "no line of the log has a time, so that neither rates nor order are known: set log_line_prefix with %m, and log again"
            );
            return Ok(());
        }
        if self.skipped(SkipReason::OtherLanguage) > 0 {
            bail!(
                "the messages are in another language than English: set lc_messages = 'C' on the server and log again \
                 ({} messages look like durations and statements)",
                self.skipped(SkipReason::OtherLanguage)
            );
        }
        if self.skipped(SkipReason::DurationWithoutText) > 0 {
            bail!(
                "the log has {} durations but no text of a statement: log_duration writes no texts; \
                 set log_min_duration_statement = 0",
                self.skipped(SkipReason::DurationWithoutText)
            );
        }
        if self.skipped(SkipReason::Audit) > 0 {
            bail!(
                "the log has {} records of pgaudit, which have no durations and are not read; set log_min_duration_statement = 0",
                self.skipped(SkipReason::Audit)
            );
        }
        let skipped: Vec<String> =
            self.all_skipped().map(|(reason, n)| format!("{n} {}", reason.words())).collect();
        bail!(
            "the log has {} messages but no statement: set log_min_duration_statement = 0, \
             or log_transaction_sample_rate for a sample; `pgdyno capture plan` says which. Left out: {}",
            self.records,
            if skipped.is_empty() { "nothing".to_string() } else { skipped.join(", ") }
        );
    }
}
