//! Rows in the text format of COPY.

use std::fmt::Write;

use anyhow::{Context, Result};
use wire::Session;

/// Bytes after which a piece is sent.
const PIECE_BYTES: usize = 64 << 10;

/// One row.
#[derive(Debug, Default)]
pub(crate) struct CopyRow(String);

impl CopyRow {
    /// A row of the experiment with this number.
    pub(crate) fn new(experiment_id: i64) -> CopyRow {
        CopyRow(experiment_id.to_string())
    }

    /// Appends a column.
    pub(crate) fn put(mut self, value: impl ToString) -> CopyRow {
        self.0.push('\t');
        // Text that PostgreSQL cannot keep is kept without its zero bytes.
        for c in value.to_string().chars().filter(|c| *c != '\0') {
            match c {
                '\\' => self.0.push_str("\\\\"),
                '\t' => self.0.push_str("\\t"),
                '\n' => self.0.push_str("\\n"),
                '\r' => self.0.push_str("\\r"),
                other => self.0.push(other),
            }
        }
        self
    }

    /// Appends a column that may have no value.
    pub(crate) fn maybe(mut self, value: Option<impl ToString>) -> CopyRow {
        match value {
            Some(value) => self.put(value),
            None => {
                self.0.push_str("\t\\N");
                self
            }
        }
    }

    /// Appends a time, given in nanoseconds since the Unix epoch, with all of its microseconds.
    pub(crate) fn time(self, unix_ns: Option<u64>) -> CopyRow {
        self.maybe(unix_ns.map(timestamp))
    }

    /// Appends bytes.
    pub(crate) fn bytes(mut self, bytes: &[u8]) -> CopyRow {
        self.0.push_str("\t\\\\x");
        for byte in bytes {
            write!(self.0, "{byte:02x}").expect("a string takes any text");
        }
        self
    }
}

/// A time as PostgreSQL reads it: seconds since the epoch with six decimals are exact in `abstime` notation only, so it is a date.
fn timestamp(unix_ns: u64) -> String {
    let (s, us) = (unix_ns / 1_000_000_000, unix_ns / 1000 % 1_000_000);
    let (days, of_day) = (s / 86_400, s % 86_400);
    let (year, month, day) = date_of(days as i64);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}.{us:06}+00",
        of_day / 3600,
        of_day % 3600 / 60,
        of_day % 60
    )
}

/// The Gregorian date of a day since 1970-01-01 (Hinnant, "chrono-Compatible Low-Level Date Algorithms").
fn date_of(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let of_era = z.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Copies rows into a table of the schema.
///
/// # Errors
/// When the server refuses them.
pub(crate) fn copy(
    session: &mut Session,
    table: &str,
    rows: impl IntoIterator<Item = CopyRow>,
) -> Result<u64> {
    let mut rows = rows.into_iter();
    let sql = format!("COPY {}.{table} FROM STDIN", crate::SCHEMA);
    let copied = session.copy_in(&sql, |piece| {
        while piece.len() < PIECE_BYTES {
            let Some(CopyRow(text)) = rows.next() else { return false };
            piece.extend_from_slice(text.as_bytes());
            piece.push(b'\n');
        }
        true
    });
    Ok(copied.with_context(|| format!("cannot store rows of `{table}`"))?.n_rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_escaped_and_times_are_exact() {
        let row = CopyRow::new(7)
            .put("a\tb\\c\nd\0")
            .maybe(None::<i64>)
            .bytes(&[0, 255])
            .time(Some(1_700_000_000_123_456_789));
        assert_eq!(row.0, "7\ta\\tb\\\\c\\nd\t\\N\t\\\\x00ff\t2023-11-14 22:13:20.123456+00");
        for (days, date) in
            [(0, (1970, 1, 1)), (59, (1970, 3, 1)), (11_016, (2000, 2, 29)), (20_783, (2026, 11, 26))]
        {
            assert_eq!(date_of(days), date);
        }
    }
}
