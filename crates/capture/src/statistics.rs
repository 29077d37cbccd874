//! What a server counts of a load: a file of readings over a time, and the figures of each statement between its first and its last.
//!
//! The file, `stats.jsonl.zst`, is JSON lines, compressed by zstd: first a [`Begun`], then the other kinds of [`StatsLine`] as they were
//! read, last an [`Ended`], unless the reading was cut off. Readings of statements have only those that were called since the last one.

pub mod source;
mod window;

pub use self::window::{SourceStatistics, StatsReader};

use std::collections::BTreeMap;
use std::io::{self, Write};

use model::run::fidelity::StatementFigures;
use serde::{Deserialize, Serialize};

/// Version of the format.
pub const STATS_FORMAT: u32 = 1;
/// Longest line that is read.
pub const LINE_BYTES_MAX: usize = 64 << 20;
/// Most bytes that a file may unpack to.
pub const FILE_BYTES_MAX: u64 = 4 << 30;
/// zstd level: most of the compression at a fraction of the CPU time of higher levels.
const ZSTD_LEVEL: i32 = 3;

/// A line of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum StatsLine {
    /// The first line.
    Begun(Begun),
    /// Settings that are not at their defaults.
    Settings {
        /// Values by name, with units as the server writes them.
        values: BTreeMap<String, String>,
    },
    /// Sizes and statistics of tables.
    Tables {
        /// The server's clock, microseconds since the Unix epoch.
        at_us: i64,
        /// Figures of each table by `schema.table`: counters, sizes.
        tables: BTreeMap<String, BTreeMap<String, f64>>,
    },
    /// Counters of the database.
    Database {
        /// The server's clock.
        at_us: i64,
        /// Figures by the column of pg_stat_database.
        counters: BTreeMap<String, f64>,
        /// When they were reset last.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reset: Option<String>,
    },
    /// A reading of pg_stat_statements.
    Statements(StatementsLine),
    /// Texts of statements, normalised by the server: `$1` for literals of statements that are optimized, others as they were sent.
    Texts {
        /// Texts by the server's identifier.
        texts: BTreeMap<String, String>,
    },
    /// Samples of sessions since the line before of this kind.
    Activity(ActivityLine),
    /// Columns as pg_stats describes them, which has values of the users' rows; only if it was asked for.
    Columns {
        /// Rows of pg_stats by `schema.table.column`.
        columns: BTreeMap<String, BTreeMap<String, String>>,
    },
    /// Something that a reader should know: a reset, evictions, a reading that failed.
    Noticed {
        /// The server's clock, or that of this machine where the server does not answer.
        at_us: i64,
        /// What.
        what: String,
    },
    /// The last line.
    Ended(Ended),
}

/// The server that is read, and how.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Begun {
    pub format: u32,
    pub tool_version: String,
    /// The server's clock, microseconds since the Unix epoch.
    pub at_us: i64,
    /// Release: `15.4`.
    pub server: String,
    pub version_num: u32,
    /// Identifier of the database cluster; `None` if the role cannot see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_identifier: Option<String>,
    pub database: String,
    /// Pause between two readings, milliseconds.
    pub every_ms: u64,
    /// Everything that cannot be seen, with the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unknown: BTreeMap<String, String>,
}

/// Statements that were called since the reading before.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StatementsLine {
    /// The server's clock.
    pub at_us: i64,
    /// Counted since each statement is known, by the server's identifier.
    pub statements: BTreeMap<String, StatementFigures>,
    /// Calls so far of statements that the role cannot see.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub hidden_calls: u64,
    /// When all was reset last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset: Option<String>,
    /// Times that statements were dropped for want of space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n_evictions: Option<u64>,
    /// Statements of which this reading knows nothing anymore, and which the one before had.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<String>,
}

/// Sums over samples of the sessions of clients in the database.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ActivityLine {
    /// The server's clock at the last sample.
    pub at_us: i64,
    pub n_samples: u64,
    /// Sessions, those that execute, and those that are idle in a transaction, summed over the samples.
    pub sessions: u64,
    pub active: u64,
    pub idle_in_transaction: u64,
    /// Most that executed in one sample.
    pub active_max: u64,
    /// Sessions whose state the role cannot see, summed over the samples.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub hidden: u64,
}

/// How the reading ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// The server's clock.
    pub at_us: i64,
    /// Whether the time was as long as wanted.
    pub is_complete: bool,
    /// Readings, and the time that the server took for all of them, milliseconds.
    pub n_readings: u64,
    /// See there.
    pub cost_ms: f64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// Writes a file; each line is complete in it when [`StatsWriter::write`] returns.
pub struct StatsWriter<W: Write> {
    encoder: zstd::Encoder<'static, W>,
}

impl<W: Write> StatsWriter<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// When there is no memory for the compression.
    pub fn new(file: W) -> io::Result<StatsWriter<W>> {
        let mut encoder = zstd::Encoder::new(file, ZSTD_LEVEL)?;
        encoder.include_checksum(true)?;
        Ok(StatsWriter { encoder })
    }

    /// Appends a line, with secrets masked.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&mut self, line: &StatsLine) -> io::Result<()> {
        let text = serde_json::to_string(line)?;
        writeln!(self.encoder, "{}", model::secret::hide_json(&text))?;
        self.encoder.flush()
    }

    /// Ends the file.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn finish(self) -> io::Result<W> {
        self.encoder.finish()
    }
}
