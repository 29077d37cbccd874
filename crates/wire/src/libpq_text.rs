//! Errors and notices of the server in libpq's format, which scripts and people look for.

use unicode_width::UnicodeWidthChar;

use crate::reply::ServerError;

impl ServerError {
    /// As libpq prints it, without the last newline: severity and text, the position in the statement, then all other
    /// fields, each on its own line. `query` is the text that the position refers to, counted in `units`.
    pub fn libpq_text(&self, query: Option<&str>, units: Units) -> String {
        let mut text = format!("{}:  {}", self.severity, self.message);
        let about = self.about.as_deref();
        let inner_query = about.and_then(|about| about.internal_query.as_deref());
        // A position in the client's statement, or in one that a function ran.
        let (position, within) = match self.position {
            Some(position) => (Some(position), query),
            None => (about.and_then(|about| about.internal_position), inner_query),
        };
        match (position, within) {
            (Some(position), Some(query)) => text.push_str(&pointer(query, position as usize, units)),
            (Some(position), None) => text.push_str(&format!(" at character {position}")),
            (None, _) => {}
        }
        if let Some(detail) = &self.detail {
            text.push_str(&format!("\nDETAIL:  {detail}"));
        }
        if let Some(hint) = &self.hint {
            text.push_str(&format!("\nHINT:  {hint}"));
        }
        if let Some(query) = inner_query {
            text.push_str(&format!("\nQUERY:  {query}"));
        }
        // libpq does not print the context of a notice.
        let context = about.filter(|_| self.is_error()).and_then(|about| about.context.as_ref());
        if let Some(context) = context {
            text.push_str(&format!("\nCONTEXT:  {context}"));
        }
        text
    }
}

/// The unit of the server's positions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Units {
    /// Characters.
    #[default]
    Characters,
    /// Bytes: SQL_ASCII, and single-byte encodings. Each of libpq's characters then takes one column.
    Bytes,
}

/// Prefixes of the names of multibyte encodings (PostgreSQL's documentation, 23.3.1).
const MULTIBYTE: [&str; 11] = [
    "BIG5",
    "EUC_",
    "GB18030",
    "GBK",
    "JOHAB",
    "MULE_INTERNAL",
    "SHIFT_JIS",
    "SJIS",
    "UHC",
    "UTF8",
    "UNICODE",
];

impl Units {
    /// The unit in a session with this `client_encoding`, as the server reports it.
    pub fn from_encoding(client_encoding: &str) -> Units {
        if MULTIBYTE.iter().any(|name| client_encoding.starts_with(name)) {
            Units::Characters
        } else {
            Units::Bytes
        }
    }
}

/// Columns shown of a query's line, and columns kept to the right of the error.
const SHOWN: usize = 60;
const SHOWN_RIGHT: usize = 10;

/// A query split into the units of its positions.
struct Query {
    bytes: Vec<u8>,
    /// Start of each unit in `bytes`, and the end of the last one.
    starts: Vec<usize>,
    /// Width of each unit on a terminal. As in libpq, a unit without a width takes one column.
    widths: Vec<usize>,
}

impl Query {
    fn new(text: &str, units: Units) -> Query {
        let (mut starts, widths): (Vec<usize>, Vec<usize>) = match units {
            Units::Characters => {
                text.char_indices().map(|(at, c)| (at, c.width().unwrap_or(1).max(1))).unzip()
            }
            Units::Bytes => (0..text.len()).map(|at| (at, 1)).unzip(),
        };
        starts.push(text.len());
        Query { bytes: text.replace('\t', " ").into_bytes(), starts, widths }
    }

    fn is(&self, unit: usize, byte: u8) -> bool {
        self.bytes[self.starts[unit]] == byte
    }

    fn is_line_end(&self, unit: usize) -> bool {
        self.is(unit, b'\n') || self.is(unit, b'\r')
    }

    /// Columns from one unit to another.
    fn width(&self, from: usize, to: usize) -> usize {
        self.widths[from..to].iter().sum()
    }

    fn text(&self, from: usize, to: usize) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes[self.starts[from]..self.starts[to]])
    }

    /// The line number of a position. A line end of two characters counts once.
    fn line_number(&self, at: usize) -> usize {
        let is_new = |unit: usize| {
            self.is(unit, b'\r') || (self.is(unit, b'\n') && (unit == 0 || !self.is(unit - 1, b'\r')))
        };
        1 + (0..at).filter(|unit| is_new(*unit)).count()
    }

    /// The part of a line to show: a line that is too long is cut on its right if the error is not there, otherwise on
    /// both sides. Each unit is looked at once or twice, for a line may have megabytes.
    fn shown(&self, mut start: usize, at: usize, mut end: usize) -> (usize, usize) {
        let (mut left, mut right) = (self.width(start, at), self.width(at, end));
        let is_far_right = left + SHOWN_RIGHT > SHOWN;
        let right_max = if is_far_right { SHOWN_RIGHT } else { SHOWN - left };
        if left + right <= SHOWN {
            return (start, end);
        }
        while right > right_max {
            end -= 1;
            right -= self.widths[end];
        }
        while left + right > SHOWN {
            left -= self.widths[start];
            start += 1;
        }
        (start, end)
    }
}

/// The line of `text` that contains unit `position` (from 1), with a caret below.
fn pointer(text: &str, position: usize, units: Units) -> String {
    let query = Query::new(text, units);
    let (at, n) = (position.saturating_sub(1), query.widths.len());
    if at > n {
        return String::new();
    }
    let start = (0..at).rev().find(|unit| query.is_line_end(*unit)).map_or(0, |end| end + 1);
    let end = (at..n).find(|unit| query.is_line_end(*unit)).unwrap_or(n);
    let (from, to) = query.shown(start, at, end);
    let (before, after) = (if from > start { "..." } else { "" }, if to < end { "..." } else { "" });
    let head = format!("LINE {}: {before}", query.line_number(at));
    let width = head.len() + query.width(from, at) + 1;
    format!("\n{head}{}{after}\n{}^", query.text(from, to), " ".repeat(width.saturating_sub(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_point_into_the_query_as_libpq_does() {
        let error = |position| ServerError {
            severity: "ERROR".into(),
            message: "no".to_owned(),
            position: Some(position),
            hint: Some("try".into()),
            ..ServerError::default()
        };
        let check = |query: &str, position, wanted: &str| {
            assert_eq!(error(position).libpq_text(Some(query), Units::Characters), wanted, "{query}");
        };
        check("select 1\n from x;", 16, "ERROR:  no\nLINE 2:  from x;\n              ^\nHINT:  try");
        let about = crate::reply::ErrorAbout {
            internal_query: Some("SELECT x".into()),
            internal_position: Some(8),
            ..Default::default()
        };
        let inner = ServerError { position: None, about: Some(Box::new(about)), ..error(0) };
        assert_eq!(
            inner.libpq_text(Some("CALL f()"), Units::Characters),
            "ERROR:  no\nLINE 1: SELECT x\n               ^\nHINT:  try\nQUERY:  SELECT x"
        );
        let long = format!("select {}x;", " ".repeat(80));
        let shown = " ".repeat(58);
        check(&long, 88, &format!("ERROR:  no\nLINE 1: ...{shown}x;\n{:>70}\nHINT:  try", '^'));
        // A quadratic search would take hours.
        let megabytes = 2_000_000;
        let head = format!("select y{}", " ".repeat(megabytes));
        check(
            &head,
            8,
            &format!("ERROR:  no\nLINE 1: select y{}...\n               ^\nHINT:  try", " ".repeat(52)),
        );
        let tail = format!("{}select y;{}", " ".repeat(megabytes), "日".repeat(megabytes));
        let shown = format!("{}select y;{}", " ".repeat(43), "日".repeat(4));
        check(
            &tail,
            megabytes as u32 + 8,
            &format!("ERROR:  no\nLINE 1: ...{shown}...\n{:>62}\nHINT:  try", '^'),
        );
        assert_eq!(error(5).libpq_text(None, Units::Characters), "ERROR:  no at character 5\nHINT:  try");
        check(
            "select '日本' x;",
            13,
            "ERROR:  no\nLINE 1: select '日本' x;\n                      ^\nHINT:  try",
        );
        let in_bytes = error(17).libpq_text(Some("select '日本' x;"), Units::from_encoding("SQL_ASCII"));
        assert_eq!(in_bytes, "ERROR:  no\nLINE 1: select '日本' x;\n                        ^\nHINT:  try");
        assert_eq!(
            (Units::from_encoding("UTF8"), Units::from_encoding("LATIN1")),
            (Units::Characters, Units::Bytes)
        );
        check("select é\r, x", 12, "ERROR:  no\nLINE 2: , x\n          ^\nHINT:  try");
        check("select é\r\n, x", 13, "ERROR:  no\nLINE 2: , x\n          ^\nHINT:  try");
    }
}
