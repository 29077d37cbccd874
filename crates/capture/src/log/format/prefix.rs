//! `log_line_prefix` as a pattern: which part of a line is which field.

use anyhow::{Result, bail, ensure};

use crate::log::executed::{VirtualTransaction, is_sql_state};
use crate::log::format::record::{MessageLevel, SessionKey, level, signed, sql_state, virtual_transaction};
use crate::log::time::{self, LogTime};

/// Longest part of a line that a name in a prefix may fill; host names have up to 1,025 bytes, all others up to 63.
const NAME_BYTES_MAX: usize = 256;

/// Number of places of names that are tried in one line: a prefix of names alone would need a number that grows with each name.
const TRIES_MAX: u32 = 200;

/// Longest severity, in another language.
const SEVERITY_BYTES_MAX: usize = 24;

/// A prefix that lines are compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LinePrefix {
    text: String,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(Vec<u8>),
    Escape(u8),
    /// Where lines of processes without a session end (`%q`).
    Quit,
}

/// Kinds of lines of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineKind {
    /// The message itself.
    Primary(MessageLevel),
    /// A part of the message before.
    Detail,
    Context,
    Statement,
    /// HINT, QUERY, LOCATION, BACKTRACE.
    Other,
}

/// The fields of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PrefixFields<'a> {
    pub(crate) time: Option<LogTime>,
    pub(crate) started: Option<LogTime>,
    pub(crate) pid: Option<u32>,
    pub(crate) id: Option<SessionKey>,
    pub(crate) user: &'a [u8],
    pub(crate) database: &'a [u8],
    pub(crate) application: &'a [u8],
    pub(crate) transaction: Option<VirtualTransaction>,
    pub(crate) xid: u64,
    pub(crate) query_id: i64,
    pub(crate) tag: &'a [u8],
    pub(crate) process_kind: &'a [u8],
    pub(crate) is_worker: bool,
    pub(crate) state: Option<[u8; 5]>,
}

impl PrefixFields<'_> {
    /// The session, as well as the prefix says it.
    pub(crate) fn session(&self) -> SessionKey {
        SessionKey::best(self.id, self.pid, self.started)
    }
}

/// A line that begins with the prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PrefixedLine<'a> {
    pub(crate) fields: PrefixFields<'a>,
    pub(crate) kind: LineKind,
    /// The text after the severity.
    pub(crate) text: &'a [u8],
    /// Bytes of the prefix that only this pattern explains: literals and fields with a syntax of their own.
    pub(crate) n_strict: usize,
}

impl LinePrefix {
    /// A prefix as `SHOW log_line_prefix` prints it.
    ///
    /// # Errors
    /// If it ends in `%`, or has an escape that the server does not know.
    pub(crate) fn new(text: &str) -> Result<LinePrefix> {
        let mut parts = Vec::new();
        let mut literal = Vec::new();
        let mut bytes = text.bytes();
        while let Some(byte) = bytes.next() {
            if byte != b'%' {
                literal.push(byte);
                continue;
            }
            let mut escape = bytes.next();
            // A width: `%-10u`.
            while escape.is_some_and(|byte| byte == b'-' || byte.is_ascii_digit()) {
                escape = bytes.next();
            }
            let Some(escape) = escape else {
                bail!("the prefix `{text}` ends in %: write it as SHOW log_line_prefix prints it")
            };
            if escape == b'%' {
                literal.push(b'%');
                continue;
            }
            if !literal.is_empty() {
                parts.push(Part::Literal(std::mem::take(&mut literal)));
            }
            ensure!(
                b"audhrpPtmnielcsvxqQbL".contains(&escape),
                "the prefix `{text}` has %{}, which PostgreSQL does not know: write it as SHOW log_line_prefix prints it",
                escape as char
            );
            parts.push(if escape == b'q' { Part::Quit } else { Part::Escape(escape) });
        }
        if !literal.is_empty() {
            parts.push(Part::Literal(literal));
        }
        Ok(LinePrefix { text: text.to_string(), parts })
    }

    /// As it was given.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The fields of a line, if it begins with this prefix and a severity.
    pub(crate) fn read<'a>(&self, line: &'a [u8]) -> Option<PrefixedLine<'a>> {
        let mut attempt = Attempt { line, fields: PrefixFields::default(), tries: TRIES_MAX };
        let (kind, text, n_strict) = attempt.go(&self.parts, 0, 0)?;
        Some(PrefixedLine { fields: attempt.fields, kind, text: &line[text..], n_strict })
    }
}

/// A line that is being compared.
struct Attempt<'a> {
    line: &'a [u8],
    fields: PrefixFields<'a>,
    tries: u32,
}

impl<'a> Attempt<'a> {
    /// Compares what follows `at`; returns what the line is, where its text begins, and the strict bytes.
    fn go(&mut self, parts: &[Part], at: usize, n_strict: usize) -> Option<(LineKind, usize, usize)> {
        let Some((part, others)) = parts.split_first() else {
            let (kind, text) = severity(&self.line[at..])?;
            return Some((kind, at + text, n_strict));
        };
        match part {
            Part::Literal(literal) => {
                self.line[at..].starts_with(literal).then_some(())?;
                self.go(others, at + literal.len(), n_strict + literal.len())
            }
            Part::Quit => match severity(&self.line[at..]) {
                Some((kind, text)) => Some((kind, at + text, n_strict)),
                None => self.go(others, at, n_strict),
            },
            Part::Escape(escape @ (b'a' | b'u' | b'd' | b'h' | b'i' | b'b' | b'L')) => {
                self.name(*escape, others, at, n_strict)
            }
            Part::Escape(escape) => {
                let n = self.strict(*escape, at)?;
                self.go(others, at + n, n_strict + n)
            }
        }
    }

    /// Tries all ends of a name that the following parts allow.
    fn name(
        &mut self,
        escape: u8,
        others: &[Part],
        at: usize,
        n_strict: usize,
    ) -> Option<(LineKind, usize, usize)> {
        let line = self.line;
        let next = others.iter().find(|part| **part != Part::Quit);
        let window = &line[at..line.len().min(at + NAME_BYTES_MAX)];
        let mut length = 0;
        loop {
            if let Some(Part::Literal(literal)) = next {
                length += memchr::memmem::find(window.get(length..)?, literal)?;
            }
            if length > window.len() {
                return None;
            }
            self.tries = self.tries.checked_sub(1)?;
            let before = self.fields;
            let name = &line[at..at + length];
            self.set_name(escape, name);
            if let Some(found) = self.go(others, at + length, n_strict) {
                return Some(found);
            }
            self.fields = before;
            length += 1;
        }
    }

    fn set_name(&mut self, escape: u8, name: &'a [u8]) {
        let name = name.trim_ascii();
        let name: &[u8] = if name == b"[unknown]" { b"" } else { name };
        match escape {
            b'a' => self.fields.application = name,
            b'u' => self.fields.user = name,
            b'd' => self.fields.database = name,
            b'i' => self.fields.tag = name,
            b'b' => self.fields.process_kind = name,
            _ => {}
        }
    }

    /// Reads a field with a syntax of its own; returns its length.
    fn strict(&mut self, escape: u8, at: usize) -> Option<usize> {
        let line = &self.line[at..];
        let n_pad = line.iter().take_while(|byte| **byte == b' ').count();
        let rest = &line[n_pad..];
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let n = match escape {
            b't' | b'm' | b's' => {
                let (time, n) = time::stamp(rest)?;
                if escape == b's' {
                    self.fields.started = Some(time)
                } else {
                    self.fields.time = Some(time)
                }
                (time.is_whole != (escape == b'm')).then_some(n)?
            }
            b'n' => {
                let (time, n) = time::unix_stamp(rest)?;
                self.fields.time = Some(time);
                n
            }
            b'p' => {
                self.fields.pid = Some(time::number_u32(&rest[..digits])?);
                digits
            }
            b'P' => {
                self.fields.is_worker = digits > 0;
                digits
            }
            b'r' => remote(rest),
            b'l' => (digits > 0).then_some(digits)?,
            b'x' => {
                self.fields.xid = signed(&rest[..digits]).unsigned_abs();
                digits
            }
            b'Q' => {
                let n = digits_after_sign(rest);
                self.fields.query_id = signed(&rest[..n]);
                n
            }
            b'c' => {
                let n = rest.iter().take_while(|byte| byte.is_ascii_hexdigit() || **byte == b'.').count();
                self.fields.id = Some(SessionKey::from_id(&rest[..n])?);
                n
            }
            b'v' => {
                let n = rest.iter().take_while(|b| b.is_ascii_digit() || matches!(b, b'/' | b'-')).count();
                // A process without transactions has none, and the number after it is another field.
                let n = if rest[..n].contains(&b'/') { n } else { 0 };
                self.fields.transaction = virtual_transaction(&rest[..n]);
                n
            }
            b'e' => {
                let state = rest.get(..5)?;
                is_sql_state(state).then_some(())?;
                self.fields.state = sql_state(state);
                5
            }
            _ => return None,
        };
        // A blank before nothing is not padding.
        Some(if n == 0 { 0 } else { n_pad + n })
    }
}

/// Length of `10.0.0.1(48808)`, `::1(48808)`, `[local]` or nothing.
fn remote(text: &[u8]) -> usize {
    if text.starts_with(b"[local]") {
        return 7;
    }
    let is_host =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b':' | b'-' | b'_' | b'%');
    let host = text.iter().take(NAME_BYTES_MAX).take_while(|byte| is_host(byte)).count();
    let Some(port) = text[host..].strip_prefix(b"(") else { return 0 };
    let digits = port.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits > 0 && port.get(digits) == Some(&b')') { host + digits + 2 } else { 0 }
}

fn digits_after_sign(text: &[u8]) -> usize {
    let sign = usize::from(text.starts_with(b"-"));
    sign + text[sign..].iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// The severity at the beginning of `text`, and where what follows it begins.
fn severity(text: &[u8]) -> Option<(LineKind, usize)> {
    let window = &text[..text.len().min(SEVERITY_BYTES_MAX)];
    let colon = memchr::memchr(b':', window)?;
    let n_blanks = text[colon + 1..].iter().take(3).take_while(|byte| **byte == b' ').count();
    let begin = colon + 1 + n_blanks;
    let kind = match window[..colon].trim_ascii_end() {
        b"DETAIL" => LineKind::Detail,
        b"CONTEXT" => LineKind::Context,
        b"STATEMENT" => LineKind::Statement,
        b"HINT" | b"QUERY" | b"LOCATION" | b"BACKTRACE" => LineKind::Other,
        word => match level(word) {
            Some(level) => LineKind::Primary(level),
            // `FEHLER:  `, `ОШИБКА:  `.
            None if n_blanks == 2 && is_foreign_severity(word) => LineKind::Primary(MessageLevel::Foreign),
            None => return None,
        },
    };
    (n_blanks > 0 || begin == text.len()).then_some((kind, begin))
}

fn is_foreign_severity(word: &[u8]) -> bool {
    word.len() > 2 && word.iter().all(|byte| byte.is_ascii_uppercase() || *byte >= 0x80)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<'a>(prefix: &str, line: &'a str) -> Option<PrefixedLine<'a>> {
        LinePrefix::new(prefix).unwrap().read(line.as_bytes())
    }

    #[test]
    fn a_prefix_gives_the_fields_of_a_line() {
        let check = |prefix: &str, line: &str, user: &str, database: &str, pid: Option<u32>| {
            let found = read(prefix, line).unwrap_or_else(|| panic!("{prefix}: {line}"));
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            assert_eq!(
                (text(found.fields.user), text(found.fields.database)),
                (user.to_string(), database.to_string()),
                "{line}"
            );
            assert_eq!(found.fields.session().pid(), pid, "{line}");
            assert_eq!(text(found.text), "a: b", "{line}");
        };
        check("%m [%p] ", "2026-11-29 19:34:40.613 UTC [10550] LOG:  a: b", "", "", Some(10550));
        check("%m [%p] %q%u@%d ", "2026-11-29 19:34:40.613 UTC [10550] LOG:  a: b", "", "", Some(10550));
        check(
            "%m [%p] %q%u@%d ",
            "2026-11-29 19:34:40.613 UTC [7] shop@my db LOG:  a: b",
            "shop",
            "my db",
            Some(7),
        );
        check(
            "%t:%r:%u@%d:[%p]:",
            "2020-03-11 20:40:43 CET:10.0.0.1(4):me@db:[12760]:LOG:  a: b",
            "me",
            "db",
            Some(12760),
        );
        check("%t:%r:%u@%d:[%p]:", "2020-03-11 20:40:43 CET::@:[12760]:LOG:  a: b", "", "", Some(12760));
        check(
            "%t:%r:%u@%d:[%p]:",
            "2020-03-11 20:40:43 UTC:::1(4):me@db:[1]:LOG:  a: b",
            "me",
            "db",
            Some(1),
        );
        check("%t-%c-", "2020-06-21 22:37:10 UTC-5eefe116.22f4-LOG:  a: b", "", "", Some(0x22f4));
        check(
            "%m [%p] %q[user=%u,db=%d,app=%a] ",
            "2018-09-27 06:57:02.779 UTC [20194] [user=u,db=d,app=sidekiq 1.2 q[0 of 50]] LOG:  a: b",
            "u",
            "d",
            Some(20194),
        );
        check(
            "%m [%p] %c %v %x %q%u@%d ",
            "2026-11-29 19:34:40.613 UTC [7] 6b0c7e50.7  0 LOG:  a: b",
            "",
            "",
            Some(7),
        );
        check("%n %5p %-6u|%d %%", "1669575482.096    17 me    |db %ERROR:  a: b", "me", "db", Some(17));
        check(
            "%m|%u|%d|%c|",
            "2019-02-25 15:08:27.232 GMT|[unknown]|[unknown]|5c7404eb.d6bd|LOG:  a: b",
            "",
            "",
            Some(0xd6bd),
        );
    }

    #[test]
    fn other_lines_do_not_match() {
        let check = |prefix: &str, line: &str| assert_eq!(read(prefix, line), None, "{prefix}: {line}");
        check("%m [%p] ", "2026-11-29 19:34:40 UTC [10550] LOG:  whole seconds are %t");
        check("%t [%p] ", "2026-11-29 19:34:40.1 UTC [10550] LOG:  fractions are %m");
        check("%m [%p] ", "2026-11-29 19:34:40.613 UTC [10550] shop@shop LOG:  a");
        check("%m [%p] ", "pg_ctl: could not start server");
        check("%u%d%a%h", &"LOG ".repeat(1000));
        assert!(LinePrefix::new("%m %").is_err() && LinePrefix::new("%k").is_err());
    }

    #[test]
    fn severities_of_other_languages_are_recognized() {
        let found = read("%m [%p] ", "2026-11-29 19:34:40.613 UTC [1] FEHLER:  Division durch Null").unwrap();
        assert_eq!(found.kind, LineKind::Primary(MessageLevel::Foreign));
    }
}
