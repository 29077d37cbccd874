//! csvlog: 22 columns in 8.4, up to 26 since 14; fields with quotes may contain newlines.

use std::borrow::Cow;

use anyhow::Result;

use crate::log::combine::Combiner;
use crate::log::format::record::{
    LogRecord, MessageLevel, SessionKey, level, signed, sql_state, virtual_transaction,
};
use crate::log::reading::SkipReason;
use crate::log::source::{Boundary, LogSource, Piece};
use crate::log::time;

/// Numbers of columns that releases write.
const COLUMNS: std::ops::RangeInclusive<usize> = 22..=26;

/// Columns that a record cannot do without end here: its message.
const COLUMNS_USED: usize = 26;

/// The end of a record: a newline outside of quotes.
#[derive(Default)]
pub(crate) struct RecordEnd {
    is_quoted: bool,
}

impl Boundary for RecordEnd {
    fn end(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut from = 0;
        loop {
            if self.is_quoted {
                from += memchr::memchr(b'"', &bytes[from..])? + 1;
                self.is_quoted = false;
            } else {
                let at = memchr::memchr2(b'"', b'\n', &bytes[from..])?;
                from += at + 1;
                if bytes[from - 1] == b'\n' {
                    return Some(from);
                }
                self.is_quoted = true;
            }
        }
    }
}

/// Reads the rest of a file.
pub(crate) fn read(source: &mut LogSource, combiner: &mut Combiner) -> Result<()> {
    loop {
        let line = source.line() + 1;
        let range = match source.take(&mut RecordEnd::default())? {
            None => return Ok(()),
            Some(Piece::Whole(range)) => range,
            Some(Piece::TooLong) => {
                source.skip_line()?;
                combiner.skip(SkipReason::TooLong);
                skip_to_record(source, combiner)?;
                continue;
            }
        };
        let piece = source.trimmed(range.clone());
        if piece.is_empty() {
            combiner.skip(SkipReason::Empty);
            continue;
        }
        if let Some(record) = record(source.bytes(piece), line) {
            combiner.record(&record)?;
            continue;
        }
        // A quote that is missing makes the rest of the file one record: only its first line is given up.
        let reason =
            if looks_begun(source.bytes(range.clone())) { SkipReason::Torn } else { SkipReason::NoRecord };
        source.give_back(&range);
        source.skip_line()?;
        combiner.skip(reason);
        skip_to_record(source, combiner)?;
    }
}

/// Leaves out lines up to one that begins like a record.
fn skip_to_record(source: &mut LogSource, combiner: &mut Combiner) -> Result<()> {
    while !source.is_empty()? && !looks_begun(source.peek()?) {
        source.skip_line()?;
        combiner.skip(SkipReason::NoRecord);
    }
    Ok(())
}

/// Whether a line begins with a time and a comma.
fn looks_begun(line: &[u8]) -> bool {
    let line = line.strip_prefix(b"\"").unwrap_or(line);
    time::stamp(line).is_some_and(|(_, n)| matches!(line.get(n), Some(b',' | b'"')))
}

/// A record, if the line is one.
pub(crate) fn record(line: &[u8], number: u64) -> Option<LogRecord<'_>> {
    let fields = fields(line)?;
    let raw = |n: usize| fields[n].bare();
    let (stamp, length) = time::stamp(raw(0))?;
    let is_severity =
        !raw(11).is_empty() && !raw(11).iter().any(|byte| byte.is_ascii_lowercase() || *byte == b' ');
    if length != raw(0).len() || !is_severity {
        return None;
    }
    let started = time::stamp(raw(8)).map(|(time, _)| time);
    let session = SessionKey::best(SessionKey::from_id(raw(5)), time::number_u32(raw(3)), started);
    Some(LogRecord {
        line: number,
        time: Some(stamp),
        started,
        session,
        user: raw(1),
        database: raw(2),
        application: raw(22),
        transaction: virtual_transaction(raw(9)),
        xid: signed(raw(10)).unsigned_abs(),
        query_id: signed(raw(25)),
        tag: raw(7),
        process_kind: raw(23),
        is_worker: !matches!(raw(24), b"" | b"0"),
        level: level(raw(11)).unwrap_or(MessageLevel::Foreign),
        state: sql_state(raw(12)),
        message: fields[13].text(),
        detail: fields[14].text(),
        context: fields[18].text(),
        statement: fields[19].text(),
        server: b"",
    })
}

/// A field of a record.
#[derive(Clone, Copy, Default)]
struct CsvField<'a> {
    /// Without the quotes around it.
    inside: &'a [u8],
    /// Whether quotes in it are doubled.
    has_quotes: bool,
}

impl<'a> CsvField<'a> {
    /// As it is, for fields in which quotes do not occur.
    fn bare(self) -> &'a [u8] {
        self.inside
    }

    fn text(self) -> Cow<'a, [u8]> {
        if !self.has_quotes {
            return Cow::Borrowed(self.inside);
        }
        let mut text = Vec::with_capacity(self.inside.len());
        let mut rest = self.inside;
        while let Some(at) = memchr::memchr(b'"', rest) {
            text.extend_from_slice(&rest[..=at]);
            rest = rest.get(at + 2..).unwrap_or_default();
        }
        text.extend_from_slice(rest);
        Cow::Owned(text)
    }
}

/// The fields of a line, if it has as many as a record.
fn fields(line: &[u8]) -> Option<[CsvField<'_>; COLUMNS_USED]> {
    let mut fields = [CsvField::default(); COLUMNS_USED];
    let mut n = 0;
    let mut rest = line;
    loop {
        let (field, after) = field(rest)?;
        *fields.get_mut(n)? = field;
        n += 1;
        match after {
            [] => break,
            [b',', others @ ..] => rest = others,
            _ => return None,
        }
        if rest.is_empty() {
            n += 1;
            break;
        }
    }
    COLUMNS.contains(&n).then_some(fields)
}

/// The first field of a line, and what follows it.
fn field(line: &[u8]) -> Option<(CsvField<'_>, &[u8])> {
    let Some(quoted) = line.strip_prefix(b"\"") else {
        let end = memchr::memchr(b',', line).unwrap_or(line.len());
        return Some((CsvField { inside: &line[..end], has_quotes: false }, &line[end..]));
    };
    let mut end = 0;
    let mut has_quotes = false;
    loop {
        end += memchr::memchr(b'"', &quoted[end..])?;
        if quoted.get(end + 1) != Some(&b'"') {
            return Some((CsvField { inside: &quoted[..end], has_quotes }, &quoted[end + 1..]));
        }
        has_quotes = true;
        end += 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "2026-11-29 19:34:40.711 UTC,\"shop\",\"shop db\",10563,\"[local]\",6b0c7e50.2943,7,\"SELECT\",\
        2026-11-29 19:34:40 UTC,3/4,77,LOG,00000,\"duration: 0.5 ms  statement: select \"\"a\"\"\n, 1\",,,,,,,,,\"psql\",\
        \"client backend\",,-12";

    #[test]
    fn a_record_has_its_fields() {
        let record = record(WHOLE.as_bytes(), 3).unwrap();
        assert_eq!(record.session, SessionKey::Id(0x6b0c_7e50, 0x2943));
        assert_eq!(
            (record.user, record.database, record.application),
            (&b"shop"[..], &b"shop db"[..], &b"psql"[..])
        );
        assert_eq!((record.xid, record.query_id, record.state), (77, -12, None));
        assert_eq!(record.message, &b"duration: 0.5 ms  statement: select \"a\"\n, 1"[..]);
    }

    #[test]
    fn releases_have_between_22_and_26_columns() {
        let columns = |n: usize| {
            let line = format!(
                "2010-12-31 10:59:26.155 UTC,,,16040,,4d1db78e.3ea8,1,,2010-12-31 10:59:26 UTC,,0,LOG,XX000,m{}",
                ",".repeat(n - 14)
            );
            record(line.as_bytes(), 1).is_some()
        };
        let found: Vec<usize> = (14..30).filter(|n| columns(*n)).collect();
        assert_eq!(found, [22, 23, 24, 25, 26]);
    }

    #[test]
    fn a_quote_that_is_not_closed_is_no_record() {
        for line in ["\"a", "\"a\"b,", "", ",,,"] {
            assert!(record(line.as_bytes(), 1).is_none(), "{line}");
        }
    }

    #[test]
    fn a_record_ends_at_a_newline_outside_of_quotes() {
        let text = format!("{WHOLE}\nnext");
        let mut end = RecordEnd::default();
        let whole = end.end(text.as_bytes()).unwrap();
        assert_eq!(whole, WHOLE.len() + 1);
        for cut in 0..WHOLE.len() {
            let mut end = RecordEnd::default();
            assert_eq!(end.end(&text.as_bytes()[..cut]), None);
            assert_eq!(cut + end.end(&text.as_bytes()[cut..]).unwrap(), whole, "cut at {cut}");
        }
    }
}
