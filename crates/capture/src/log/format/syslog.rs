//! Headers of syslog: `Feb 11 13:15:39 host postgres[10808]: [7-2] `, the same with an ISO time, RFC 5424, and Heroku's logplex.

use crate::log::format::assembly::Envelope;
use crate::log::time::{self, LogTime};

/// A line of syslog.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SyslogLine<'a> {
    /// Without a process id if another program wrote the line.
    pub(crate) envelope: Envelope<'a>,
    /// Which part of the message it is, from 1; also 1 if the server does not number them.
    pub(crate) chunk: u64,
    /// The server's own text.
    pub(crate) text: &'a [u8],
}

/// The header of a line, if it has one.
pub(crate) fn header(line: &[u8], newest_us: i64) -> Option<SyslogLine<'_>> {
    let line = skip_priority(line);
    if let Some(rest) = line.strip_prefix(b"1 ") {
        return rfc5424(rest);
    }
    let (time, n) = match time::syslog_stamp(line, newest_us) {
        Some(found) => found,
        // A time with a blank in it is that of stderr.
        None if line.get(10) == Some(&b'T') => time::stamp(line)?,
        None => return None,
    };
    let rest = line[n..].strip_prefix(b" ")?;
    if let Some((pid, colour, text)) = heroku(rest) {
        return Some(numbered(Some(time), Some(pid), colour, text));
    }
    // `host program[pid]: `.
    let colon = memchr::memmem::find(rest, b": ").or_else(|| rest.strip_suffix(b":").map(<[u8]>::len))?;
    let text = rest.get(colon + 2..).unwrap_or_default();
    let head = &rest[..colon];
    let (server, program) = match memchr::memrchr(b' ', head) {
        Some(blank) => (&head[..blank], &head[blank + 1..]),
        None => (&b""[..], head),
    };
    if memchr::memchr(b' ', server).is_some() {
        return None;
    }
    Some(numbered(Some(time), process(program), server, text))
}

/// `<134>`.
fn skip_priority(line: &[u8]) -> &[u8] {
    let Some(rest) = line.strip_prefix(b"<") else { return line };
    let digits = rest.iter().take(3).take_while(|byte| byte.is_ascii_digit()).count();
    if digits > 0 { rest[digits..].strip_prefix(b">").unwrap_or(line) } else { line }
}

/// `TIME HOST PROGRAM PID ID [DATA] TEXT`.
fn rfc5424(rest: &[u8]) -> Option<SyslogLine<'_>> {
    let mut words = rest.splitn(6, |byte| *byte == b' ');
    let (time, host, program, pid, _) =
        (words.next()?, words.next()?, words.next()?, words.next()?, words.next()?);
    let rest = words.next()?;
    let text = match rest {
        [b'-', ..] => rest[1..].strip_prefix(b" ").unwrap_or_default(),
        [b'[', ..] => rest.get(memchr::memmem::find(rest, b"] ")? + 2..)?,
        _ => return None,
    };
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let pid = if is_server(program) { time::number_u32(pid) } else { None };
    Some(numbered(Some(time::stamp(time)?.0), pid, host, text))
}

/// The process id of `postgres[10808]`, `postgresql-15[7]`.
fn process(program: &[u8]) -> Option<u32> {
    let inside = program.strip_suffix(b"]")?;
    let bracket = memchr::memchr(b'[', inside)?;
    let pid = time::number_u32(&inside[bracket + 1..])?;
    is_server(&inside[..bracket]).then_some(pid)
}

/// Whether a program's name is one that `syslog_ident` has; PgBouncer is no server.
fn is_server(program: &[u8]) -> bool {
    memchr::memmem::find(program, b"bouncer").is_none()
        && [&b"postgres"[..], b"pg", b"edb", b"postmaster"]
            .iter()
            .any(|part| memchr::memmem::find(program, part).is_some())
}

/// `app[postgres.4882]: [GREEN] text`, with or without a drain before it and a colon: process, colour of the database, text.
fn heroku(line: &[u8]) -> Option<(u32, &[u8], &[u8])> {
    let window = &line[..line.len().min(200)];
    let begin = memchr::memmem::find(window, b"app[postgres.")?;
    let is_alone = begin == 0 || (line[begin - 1] == b' ' && !line[..begin - 1].contains(&b' '));
    let inside = &line[begin + 13..];
    let end = memchr::memchr(b']', &inside[..inside.len().min(12)])?;
    let pid = time::number_u32(&inside[..end])?;
    let rest = &inside[end + 1..];
    let colour = rest.strip_prefix(b":").unwrap_or(rest).strip_prefix(b" [")?;
    let end = memchr::memmem::find(colour, b"] ")?;
    is_alone.then_some((pid, &colour[..end], &colour[end + 2..]))
}

/// Takes `[7-2] ` from the text.
fn numbered<'a>(time: Option<LogTime>, pid: Option<u32>, server: &'a [u8], text: &'a [u8]) -> SyslogLine<'a> {
    let envelope = Envelope { time, pid, server };
    let chunk = || {
        let inside = text.strip_prefix(b"[")?;
        let end = memchr::memchr(b']', &inside[..inside.len().min(24)])?;
        let dash = memchr::memchr(b'-', &inside[..end])?;
        time::number(&inside[..dash])?;
        let chunk = u64::try_from(time::number(&inside[dash + 1..end])?).ok()?;
        let rest = &inside[end + 1..];
        Some((chunk, rest.strip_prefix(b" ").unwrap_or(rest)))
    };
    match chunk() {
        Some((chunk, text)) => SyslogLine { envelope, chunk, text },
        None => SyslogLine { envelope, chunk: 1, text },
    }
}

/// Control characters, which daemons write as `#011`.
pub(crate) fn unescape<'a>(text: &'a [u8], place: &'a mut Vec<u8>) -> &'a [u8] {
    if memchr::memmem::find(text, b"#0").is_none() {
        return text;
    }
    place.clear();
    let mut rest = text;
    while let Some(at) = memchr::memmem::find(rest, b"#0") {
        place.extend_from_slice(&rest[..at]);
        rest = &rest[at..];
        match rest.get(2..4) {
            Some([tens @ b'0'..=b'3', ones @ b'0'..=b'7']) => {
                place.push((tens - b'0') * 8 + (ones - b'0'));
                rest = &rest[4..];
            }
            _ => {
                place.extend_from_slice(b"#0");
                rest = &rest[2..];
            }
        }
    }
    place.extend_from_slice(rest);
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_all_kinds_are_read() {
        let newest = time::stamp(b"2026-01-01 00:00:00 UTC").unwrap().0.us;
        let check = |line: &str, pid: Option<u32>, server: &str, chunk: u64, text: &str| {
            let found = header(line.as_bytes(), newest).unwrap_or_else(|| panic!("{line}"));
            let string = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            assert_eq!(
                (found.envelope.pid, string(found.envelope.server), found.chunk, string(found.text)),
                (pid, server.to_string(), chunk, text.to_string()),
                "{line}"
            );
        };
        check(
            "Feb 11 13:15:39 test-pc postgres[10808]: [3-2] LOG:  a: b",
            Some(10808),
            "test-pc",
            2,
            "LOG:  a: b",
        );
        check("<134>Feb 11 13:15:39 h postgres[7]: LOG:  a", Some(7), "h", 1, "LOG:  a");
        check("2020-02-11T13:15:39.123456+01:00 h postgresql-15[7]: [1-1] x", Some(7), "h", 1, "x");
        check("<134>1 2020-02-11T13:15:39.1Z h postgres 77 - - [1-3] x y", Some(77), "h", 3, "x y");
        check(
            "2019-03-14T00:22:56+00:00 app[postgres.4882]: [GREEN] [15-2]  sql_error_code = 00000 LOG:  a",
            Some(4882),
            "GREEN",
            2,
            " sql_error_code = 00000 LOG:  a",
        );
        check(
            "2021-09-07T04:01:27+00:00 d.af28 app[postgres.5925] [AQUA] [9-2] x",
            Some(5925),
            "AQUA",
            2,
            "x",
        );
        check("Feb 11 13:15:39 h sshd[9]: accepted", None, "h", 1, "accepted");
        for line in ["2020-02-11 13:15:39 UTC [7] LOG:  a: b", "", "Feb 11 13:15:39"] {
            assert!(header(line.as_bytes(), newest).is_none(), "{line}");
        }
    }

    #[test]
    fn control_characters_are_restored() {
        let check = |text: &str, expected: &str| {
            assert_eq!(unescape(text.as_bytes(), &mut Vec::new()), expected.as_bytes());
        };
        check("#011select#0111", "\tselect\t1");
        check("a #0 b#099", "a #0 b#099");
    }
}
