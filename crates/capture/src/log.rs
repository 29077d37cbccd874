//! Server logs as executed statements: in which format each file is, which lines belong together, and what could not be used.
//!
//! `read` pushes statements into a sink while it reads, so that a log of any size needs a bounded amount of memory. What the log lacks
//! for a purpose is in [`LogReading::lacks`].

mod combine;
mod detect;
mod executed;
mod format;
mod known;
mod reading;
mod source;
mod time;

use std::io::Read;

use anyhow::Result;

pub use self::detect::FormatName;
pub(crate) use self::executed::is_sql_state;
pub use self::executed::{
    BatchPart, ExecutedStatement, LoggedSession, LoggedValue, Protocol, SessionId, StatementSink,
    UNKNOWN_STATE, VirtualTransaction,
};
pub use self::reading::{FileReading, Lack, LogReading, RecordCounts, SkipReason, TimeResolution};

use self::combine::Combiner;
use self::detect::Detected;
use self::source::LogSource;

/// Longest line and longest message that is read; longer ones are counted and left out.
pub const LINE_BYTES_MAX: usize = 16 << 20;

/// A file of the log; it may be compressed by gzip or zstd.
pub struct LogFile {
    /// Name for messages.
    pub name: String,
    /// Its bytes, from the beginning.
    pub bytes: Box<dyn Read>,
}

/// Options of reading.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    /// Format of all files; found out if absent.
    pub format: Option<FormatName>,
    /// `log_line_prefix` of the server; found out if absent.
    pub prefix: Option<String>,
    /// Microseconds since 1970 that the log cannot be newer than: dates of syslog have no year.
    pub newest_us: i64,
}

/// Reads files in the order of their times, and pushes what was executed into `sink`.
///
/// # Errors
/// If a file cannot be read, is in no known format or in several possible ones, or has lines of two servers. A log that has no
/// statement at all is an error too, which says why.
pub fn read(
    files: impl IntoIterator<Item = LogFile>,
    options: &ReadOptions,
    sink: &mut dyn StatementSink,
) -> Result<LogReading> {
    let mut combiner = Combiner::new(sink);
    let mut previous: Option<Detected> = None;
    for file in files {
        let mut source = LogSource::open(file.bytes, &file.name)?;
        combiner.begin_file(&file.name);
        if source.is_empty()? {
            combiner.end_file("empty", &source);
            continue;
        }
        let detected = detect::detect(&mut source, options, previous.as_ref())?;
        format::read(&mut source, &detected, options, &mut combiner)?;
        combiner.end_file(&detected.to_string(), &source);
        previous = Some(detected);
    }
    let reading = combiner.finish();
    reading.expect_statements()?;
    Ok(reading)
}
