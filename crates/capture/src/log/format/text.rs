//! Logs of lines: stderr as the collector writes it, and syslog.

use anyhow::Result;

use crate::log::combine::Combiner;
use crate::log::format::assembly::{Assembly, Envelope, Interleaving};
use crate::log::format::prefix::LinePrefix;
use crate::log::format::{next_line, syslog};
use crate::log::reading::SkipReason;
use crate::log::source::LogSource;

/// Reads the rest of a file of stderr.
pub(super) fn read_stderr(
    source: &mut LogSource,
    prefix: &LinePrefix,
    combiner: &mut Combiner,
) -> Result<()> {
    let mut assembly = Assembly::new(Interleaving::Whole);
    while let Some(range) = next_line(source, combiner)? {
        let line = source.bytes(range);
        let found = if line.first() == Some(&b'\t') { None } else { prefix.read(line) };
        match found {
            Some(found) => assembly.prefixed(&found, Envelope::default(), source.line(), combiner)?,
            None => assembly.unprefixed(line, combiner)?,
        }
    }
    assembly.finish(combiner)
}

/// Reads the rest of a file of syslog.
pub(super) fn read_syslog(
    source: &mut LogSource,
    prefix: &LinePrefix,
    newest_us: i64,
    combiner: &mut Combiner,
) -> Result<()> {
    let mut assembly = Assembly::new(Interleaving::Mixed);
    let mut unescaped = Vec::new();
    while let Some(range) = next_line(source, combiner)? {
        let line = source.bytes(range);
        let Some(header) = syslog::header(line, newest_us) else {
            combiner.skip(if line.is_empty() { SkipReason::Empty } else { SkipReason::NoRecord });
            continue;
        };
        let Some(pid) = header.envelope.pid else {
            combiner.skip(SkipReason::OtherLog);
            continue;
        };
        let text = syslog::unescape(header.text, &mut unescaped);
        if let Some(rest) = text.strip_prefix(b"\t") {
            assembly.continued(rest, b"\n", Some(pid), combiner)?;
        } else if let Some(found) = prefix.read(text) {
            assembly.prefixed(&found, header.envelope, source.line(), combiner)?;
        } else if header.chunk > 1 {
            assembly.continued(text, b"", Some(pid), combiner)?;
        } else {
            combiner.skip(SkipReason::NoRecord);
        }
    }
    assembly.finish(combiner)
}
