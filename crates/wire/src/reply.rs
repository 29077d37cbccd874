//! Parses the bodies of replies: errors, rows, column names. Cold paths only.

use std::fmt;

/// An ErrorResponse or a NoticeResponse. Kept small, because results carry it: the rare fields are boxed.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
pub struct ServerError {
    /// `ERROR`, `FATAL`, `PANIC`, `WARNING`, `NOTICE`, ..., in the server's language (`lc_messages`).
    pub severity: Box<str>,
    /// Five characters, such as `42P01`.
    pub sqlstate: String,
    /// The primary message.
    pub message: String,
    /// Details.
    pub detail: Option<Box<str>>,
    /// Advice.
    pub hint: Option<Box<str>>,
    /// Position in the query text, in characters, from 1.
    pub position: Option<u32>,
    /// Where it happened and the object concerned, if the server reports any of that.
    pub about: Option<Box<ErrorAbout>>,
}

/// Where an error happened and which object it is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorAbout {
    /// `severity` in English, if it was translated.
    pub severity_untranslated: Option<String>,
    /// The failed statement that a function ran.
    pub internal_query: Option<String>,
    /// Position in `internal_query`, in characters, from 1.
    pub internal_position: Option<u32>,
    /// Call stack of functions, or the line of a COPY.
    pub context: Option<String>,
    /// Schema of the object.
    pub schema: Option<String>,
    /// Table of the object.
    pub table: Option<String>,
    /// Column of the object.
    pub column: Option<String>,
    /// Constraint that was violated.
    pub constraint: Option<String>,
}

impl ErrorAbout {
    fn texts(&self) -> impl Iterator<Item = &String> {
        let ErrorAbout {
            severity_untranslated,
            internal_query,
            context,
            schema,
            table,
            column,
            constraint,
            ..
        } = self;
        [severity_untranslated, internal_query, context, schema, table, column, constraint]
            .into_iter()
            .flatten()
    }
}

/// `ERROR 42P01: relation "t" does not exist`.
impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.severity_untranslated(), self.sqlstate, self.message)
    }
}

impl ServerError {
    /// Whether the class (the first two characters) of the SQLSTATE is `class`.
    pub fn is_class(&self, class: &str) -> bool {
        self.sqlstate.get(..2) == Some(class)
    }

    /// Whether it is an error rather than a notice or warning.
    pub fn is_error(&self) -> bool {
        self.is_fatal() || self.severity_untranslated() == "ERROR"
    }

    /// Whether it ended the session.
    pub fn is_fatal(&self) -> bool {
        matches!(self.severity_untranslated(), "FATAL" | "PANIC")
    }

    /// The severity in English, for decisions; `severity` is for display.
    pub fn severity_untranslated(&self) -> &str {
        let about = self.about.as_deref();
        about.and_then(|about| about.severity_untranslated.as_deref()).unwrap_or(&self.severity)
    }

    /// The character of the query text at which it happened, from 0; 0 also if the server names none.
    pub fn character(&self) -> usize {
        self.position.map_or(0, |position| (position as usize).saturating_sub(1))
    }

    /// Size of the texts in bytes, for callers that keep many.
    pub fn n_bytes(&self) -> usize {
        let texts = [&self.detail, &self.hint].into_iter().flatten().map(|text| text.len());
        let about = self.about.iter().flat_map(|about| about.texts()).map(String::len);
        self.severity.len() + self.sqlstate.len() + self.message.len() + texts.chain(about).sum::<usize>()
    }

    /// Whether the user lacks a right.
    pub fn is_denied(&self) -> bool {
        self.sqlstate == "42501"
    }

    /// Whether the whole transaction may be retried: serialization failure or deadlock.
    pub fn is_retryable(&self) -> bool {
        matches!(self.sqlstate.as_str(), "40001" | "40P01")
    }
}

/// Bytes kept of each field of an error: PostgreSQL may repeat a longer statement.
const FIELD_BYTES_MAX: usize = 64 * 1024;

/// The text of a field, truncated if it is too long.
fn field_text(value: &[u8]) -> String {
    match value.get(..FIELD_BYTES_MAX) {
        Some(head) if value.len() > FIELD_BYTES_MAX => {
            format!("{} [and {} bytes more]", String::from_utf8_lossy(head), value.len() - FIELD_BYTES_MAX)
        }
        _ => String::from_utf8_lossy(value).into_owned(),
    }
}

/// Parses the body of an ErrorResponse or NoticeResponse. Missing or damaged fields stay empty; long ones are
/// truncated.
pub fn parse_error(body: &[u8]) -> ServerError {
    let mut error = ServerError::default();
    for field in body.split(|&b| b == 0) {
        let Some((&kind, value)) = field.split_first() else { continue };
        let value = field_text(value);
        match kind {
            b'S' => error.severity = value.into(),
            // `V` is `S` untranslated (9.6 and later) and comes after it.
            b'V' if *value == *error.severity => {}
            b'V' => error.about.get_or_insert_default().severity_untranslated = Some(value),
            b'q' => error.about.get_or_insert_default().internal_query = Some(value),
            b'p' => error.about.get_or_insert_default().internal_position = value.parse().ok(),
            b'C' => error.sqlstate = value,
            b'M' => error.message = value,
            b'D' => error.detail = Some(value.into()),
            b'H' => error.hint = Some(value.into()),
            b'P' => error.position = value.parse().ok(),
            b'W' => error.about.get_or_insert_default().context = Some(value),
            b's' => error.about.get_or_insert_default().schema = Some(value),
            b't' => error.about.get_or_insert_default().table = Some(value),
            b'c' => error.about.get_or_insert_default().column = Some(value),
            b'n' => error.about.get_or_insert_default().constraint = Some(value),
            _ => {}
        }
    }
    error
}

/// The SQLSTATE of an ErrorResponse, without allocation.
pub fn error_sqlstate(body: &[u8]) -> &[u8] {
    body.split(|&b| b == 0).find_map(|field| field.strip_prefix(b"C")).unwrap_or_default()
}

/// The values of a DataRow in order; NULL is `None`. Ends early if the row is damaged.
pub fn row_values(body: &[u8]) -> RowValues<'_> {
    let (n_left, rest) = count(body);
    RowValues { n_left, rest }
}

/// See [`row_values`].
#[derive(Clone, Debug)]
pub struct RowValues<'a> {
    n_left: u16,
    rest: &'a [u8],
}

impl<'a> Iterator for RowValues<'a> {
    type Item = Option<&'a [u8]>;

    #[inline]
    fn next(&mut self) -> Option<Option<&'a [u8]>> {
        self.n_left = self.n_left.checked_sub(1)?;
        let (length, rest) = self.rest.split_first_chunk::<4>()?;
        let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else {
            self.rest = rest;
            return Some(None);
        };
        let (value, rest) = rest.split_at_checked(length)?;
        self.rest = rest;
        Some(Some(value))
    }
}

/// The names of the columns of a RowDescription. Ends early if it is damaged.
pub fn column_names(body: &[u8]) -> Vec<String> {
    /// Table, attribute, type, size, modifier and format of a column, after its name.
    const FIXED_BYTES: usize = 18;
    let (n, mut rest) = count(body);
    let mut names = Vec::new();
    for _ in 0..n {
        let Some(end) = rest.iter().position(|&b| b == 0) else { break };
        names.push(String::from_utf8_lossy(&rest[..end]).into_owned());
        rest = rest.get(end + 1 + FIXED_BYTES..).unwrap_or_default();
    }
    names
}

/// The number of rows in the tag of a CommandComplete (`INSERT 0 5`, `UPDATE 5`, `SELECT 5`), if it has one.
pub fn tag_rows(tag: &[u8]) -> Option<u64> {
    let last = tag.rsplit(|&b| b == b' ').next()?;
    std::str::from_utf8(last).ok()?.parse().ok()
}

/// The same, 0 for a tag without a number: a few instructions for most statements of a load, which have at most nine rows.
#[inline]
pub fn rows_of_tag(tag: &[u8]) -> u64 {
    let [.., before, last] = tag else { return 0 };
    match last.wrapping_sub(b'0') {
        10.. => 0,
        digit if *before == b' ' => u64::from(digit),
        _ => many_rows(tag),
    }
}

#[inline(never)]
fn many_rows(tag: &[u8]) -> u64 {
    let (mut rows, mut unit) = (0u64, 1u64);
    for digit in tag.iter().rev() {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        rows = rows.saturating_add(unit.saturating_mul(u64::from(digit)));
        unit = unit.saturating_mul(10);
    }
    rows
}

fn count(body: &[u8]) -> (u16, &[u8]) {
    match body.split_first_chunk::<2>() {
        Some((n, rest)) => (u16::from_be_bytes(*n), rest),
        None => (0, &[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_read_field_by_field() {
        let error = parse_error(
            b"SFEHLER\0VERROR\0C42P01\0Mrelation \"t\" does not exist\0Dd\0Hh\0P15\0nc\0Fparse.c\0\0",
        );
        assert_eq!(error.to_string(), "ERROR 42P01: relation \"t\" does not exist");
        assert_eq!((error.position, error.character()), (Some(15), 14));
        for body in [&b"P0\0\0"[..], b"P-1\0\0", b""] {
            assert_eq!(parse_error(body).character(), 0, "{body:?}");
        }
        assert!(&*error.severity == "FEHLER" && error.is_error() && !error.is_fatal());
        assert_eq!((error.detail.as_deref(), error.hint.as_deref()), (Some("d"), Some("h")));
        assert!(error.is_class("42") && !error.is_retryable());
        assert_eq!(error.about.unwrap().constraint.as_deref(), Some("c"));
        let inner = parse_error(b"SERROR\0VERROR\0C42703\0Mm\0p8\0qSELECT x\0\0");
        let about = inner.about.as_deref().unwrap();
        assert_eq!((about.internal_query.as_deref(), about.internal_position), (Some("SELECT x"), Some(8)));
        assert_eq!((about.severity_untranslated.as_deref(), inner.position), (None, None));
        assert_eq!(parse_error(b""), ServerError::default());
        assert_eq!(error_sqlstate(b"SERROR\0C40001\0Mx\0\0"), b"40001");
        assert_eq!(error_sqlstate(b""), b"");
    }

    #[test]
    fn a_field_without_end_is_cut() {
        let body =
            [&b"SERROR\0M"[..], &vec![b'm'; FIELD_BYTES_MAX], b"m\0D", &vec![b'd'; FIELD_BYTES_MAX], b"\0\0"];
        let error = parse_error(&body.concat());
        assert!(error.message.ends_with("mm [and 1 bytes more]"), "{}", error.message.len());
        assert_eq!(error.detail.as_ref().map(|text| text.len()), Some(FIELD_BYTES_MAX), "just short enough");
        assert_eq!(error.n_bytes(), "ERROR".len() + error.message.len() + FIELD_BYTES_MAX);
    }

    #[test]
    fn rows_and_columns_are_read_and_damage_ends_them() {
        let row = b"\0\x03\0\0\0\x02ab\xff\xff\xff\xff\0\0\0\0";
        let values: Vec<_> = row_values(row).collect();
        assert_eq!(values, [Some(&b"ab"[..]), None, Some(&b""[..])]);
        for end in 0..row.len() {
            assert!(row_values(&row[..end]).count() < 3, "{end}");
        }
        let mut description = b"\0\x02one\0".to_vec();
        description.extend_from_slice(&[0; 18]);
        description.extend_from_slice(b"two\0");
        description.extend_from_slice(&[0; 18]);
        assert_eq!(column_names(&description), ["one", "two"]);
        assert_eq!(column_names(b"\0\x02one\0"), ["one", ""].map(String::from)[..1]);
        assert_eq!(column_names(b""), [""; 0]);
    }

    #[test]
    fn command_tags_say_the_number_of_rows() {
        for (tag, expected) in
            [("INSERT 0 5", Some(5)), ("SELECT 1", Some(1)), ("COPY 7", Some(7)), ("BEGIN", None), ("", None)]
        {
            assert_eq!(tag_rows(tag.as_bytes()), expected, "{tag}");
            assert_eq!(rows_of_tag(tag.as_bytes()), expected.unwrap_or(0), "{tag}");
        }
        assert_eq!(rows_of_tag(b"SELECT 99999999999999999999999"), u64::MAX);
    }
}
