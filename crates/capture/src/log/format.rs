//! Formats of logs: each yields records, whole messages with their fields.

pub(super) mod assembly;
pub(super) mod csv;
pub(super) mod json;
pub(super) mod prefix;
pub(super) mod record;
pub(super) mod syslog;
mod text;

use std::ops::Range;

use anyhow::Result;

use super::ReadOptions;
use super::combine::Combiner;
use super::detect::Detected;
use super::reading::SkipReason;
use super::source::{LogSource, Piece};

/// Reads the rest of a file in the format that was found.
pub(super) fn read(
    source: &mut LogSource,
    detected: &Detected,
    options: &ReadOptions,
    combiner: &mut Combiner,
) -> Result<()> {
    match detected {
        Detected::Csv => csv::read(source, combiner),
        Detected::Json(shape, prefix) => json::read(source, *shape, prefix.as_ref(), combiner),
        Detected::Stderr(prefix) => text::read_stderr(source, prefix, combiner),
        Detected::Syslog(prefix) => text::read_syslog(source, prefix, options.newest_us, combiner),
    }
}

/// The place of the next line; those that are too long are counted and left out.
fn next_line(source: &mut LogSource, combiner: &mut Combiner) -> Result<Option<Range<usize>>> {
    while let Some(piece) = source.line_of_text()? {
        if let Piece::Whole(range) = piece {
            return Ok(Some(range));
        }
        source.skip_line()?;
        combiner.skip(SkipReason::TooLong);
    }
    Ok(None)
}
