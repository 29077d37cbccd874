//! Lines that a container engine has wrapped: files of the CRI (containerd, CRI-O) and of Docker, and the names and times that `kubectl`
//! and `docker compose` print before a line. What is left is what the server wrote.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Cursor, Read};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::READ_BYTES;
use crate::log::LINE_BYTES_MAX;
use crate::log::format::syslog;
use crate::log::time;

/// Bytes and lines that are looked at to find out how lines are wrapped.
const LOOKED_AT_BYTES: u64 = 64 << 10;
const LOOKED_AT_LINES: usize = 200;

/// Digits of a second's fraction that only an engine writes: a server and syslog write microseconds at most. Engines leave out zeros at
/// the end, so that not each of their times has so many.
const ENGINE_DIGITS: usize = 7;

/// The longest line that is unwrapped as a whole.
const WRAPPED_BYTES_MAX: u64 = LINE_BYTES_MAX as u64 + 4096;

/// How lines are wrapped.
#[derive(Debug, PartialEq, Eq)]
enum Wrapping {
    /// `2026-11-30T10:00:00.123456789Z stderr F line`; `P` instead of `F` is a part of a line without its end.
    Cri,
    /// `{"log":"line\n","stream":"stderr","time":"2026-11-30T10:00:00.123456789Z"}`; a part of a line has no newline. Collectors such as
    /// Fluent Bit leave all newlines out.
    Json { has_newlines: bool },
    /// `db-1  | line`, `[pod/db-0/postgres] line`, each also with a time before the line; or the time alone.
    Printed { container: Option<Vec<u8>>, has_time: bool },
}

/// Docker's object around a line.
#[derive(Deserialize)]
struct DockerLine<'a> {
    #[serde(borrow)]
    log: Cow<'a, str>,
}

/// What the server wrote into a file with these bytes: all of them, if no engine has wrapped its lines.
///
/// # Errors
/// When the bytes cannot be read, or are of several containers.
pub(super) fn unwrapped(mut bytes: Box<dyn Read>, name: &str) -> Result<Box<dyn Read>> {
    let mut first = Vec::new();
    let read = bytes.by_ref().take(LOOKED_AT_BYTES).read_to_end(&mut first);
    read.with_context(|| format!("cannot read `{name}`"))?;

    let wrapping = Wrapping::find(&first, name)?;
    let whole: Box<dyn Read> = Box::new(Cursor::new(first).chain(bytes));
    Ok(match wrapping {
        None => whole,
        Some(wrapping) => Box::new(Unwrapped {
            input: BufReader::with_capacity(READ_BYTES, whole),
            wrapping,
            line: Vec::new(),
            text: Vec::new(),
            n_given: 0,
            n_lines: 0,
            is_within_long_line: false,
        }),
    })
}

impl Wrapping {
    /// The one that nine of ten of the first lines have.
    fn find(first: &[u8], name: &str) -> Result<Option<Wrapping>> {
        let end = memchr::memrchr(b'\n', first).unwrap_or(first.len());
        let lines = first[..end].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let lines: Vec<&[u8]> = lines.take(LOOKED_AT_LINES).collect();
        let are_most = |n: usize| n > 0 && 10 * n >= 9 * lines.len();
        let objects: Vec<Cow<str>> = lines.iter().filter_map(|line| docker_text(line)).collect();
        if are_most(objects.len()) {
            let has_newlines = objects.iter().any(|text| text.ends_with('\n'));
            return Ok(Some(Wrapping::Json { has_newlines }));
        }
        if are_most(lines.iter().filter(|line| cri_text(line).is_some()).count()) {
            return Ok(Some(Wrapping::Cri));
        }

        let named: Vec<(&[u8], &[u8])> = lines.iter().filter_map(|line| named_line(line)).collect();
        if are_most(named.len()) {
            let containers: BTreeSet<&[u8]> = named.iter().map(|(container, _)| *container).collect();
            ensure!(containers.len() == 1, several(name, &containers));
            let has_time = are_most(named.iter().filter(|(_, rest)| timed_line(rest).is_some()).count());
            let container = containers.first().map(|container| container.to_vec());
            return Ok(Some(Wrapping::Printed { container, has_time }));
        }

        let is_of_syslog =
            |line: &&&[u8]| syslog::header(line, 0).is_some_and(|header| header.envelope.pid.is_some());
        let others = lines.iter().filter(|line| !is_of_syslog(line));
        let digits: Vec<usize> = others.filter_map(|line| Some(timed_line(line)?.0)).collect();
        let n_of_engine = digits.iter().filter(|n| **n >= ENGINE_DIGITS).count();
        let is_timed = are_most(digits.len()) && 2 * n_of_engine >= digits.len();
        Ok(is_timed.then_some(Wrapping::Printed { container: None, has_time: true }))
    }
}

fn several(name: &str, containers: &BTreeSet<&[u8]>) -> String {
    let names = containers.iter().take(3).map(|container| String::from_utf8_lossy(container).into_owned());
    format!(
        "`{name}` has lines of several containers ({}): give those of the server alone, such as `docker compose logs --no-log-prefix \
         SERVICE` or `kubectl logs POD` prints them",
        names.collect::<Vec<String>>().join(", ")
    )
}

/// A file whose lines are unwrapped while they are read.
struct Unwrapped {
    input: BufReader<Box<dyn Read>>,
    wrapping: Wrapping,
    line: Vec<u8>,
    /// What is in the line, of which so many bytes were given on.
    text: Vec<u8>,
    n_given: usize,
    n_lines: u64,
    is_within_long_line: bool,
}

impl Read for Unwrapped {
    fn read(&mut self, place: &mut [u8]) -> io::Result<usize> {
        while self.n_given == self.text.len() {
            if !self.next_line()? {
                return Ok(0);
            }
        }
        let n = place.len().min(self.text.len() - self.n_given);
        place[..n].copy_from_slice(&self.text[self.n_given..self.n_given + n]);
        self.n_given += n;
        Ok(n)
    }
}

impl Unwrapped {
    /// Unwraps the next line; whether there was one. A line that is longer than what is read is given on as it is: it is counted and left out.
    fn next_line(&mut self) -> io::Result<bool> {
        self.line.clear();
        self.text.clear();
        self.n_given = 0;
        let n = (&mut self.input).take(WRAPPED_BYTES_MAX).read_until(b'\n', &mut self.line)?;
        if n == 0 {
            return Ok(false);
        }
        let is_whole = self.line.ends_with(b"\n");
        let is_rest = self.is_within_long_line;
        self.is_within_long_line = !is_whole && n as u64 == WRAPPED_BYTES_MAX;
        self.n_lines += u64::from(!is_rest);
        if is_rest || self.is_within_long_line {
            self.text.extend_from_slice(&self.line);
        } else {
            self.take_text()?;
        }
        Ok(true)
    }

    fn take_text(&mut self) -> io::Result<()> {
        let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let (text, is_whole) = match &self.wrapping {
            Wrapping::Json { has_newlines } => match docker_text(line) {
                Some(text) => {
                    self.text.extend_from_slice(text.as_bytes());
                    if !has_newlines {
                        self.text.push(b'\n');
                    }
                    return Ok(());
                }
                None => (line, true),
            },
            Wrapping::Cri => cri_text(line).unwrap_or((line, true)),
            Wrapping::Printed { container, has_time } => {
                let rest = match (container, named_line(line)) {
                    (Some(expected), Some((found, rest))) if found == expected => rest,
                    (Some(expected), Some((found, _))) => {
                        let [expected, found] = [expected.as_slice(), found]
                            .map(|name| String::from_utf8_lossy(name).into_owned());
                        return Err(io::Error::other(format!(
                            "line {} is of the container `{found}`, and those before are of `{expected}`: give the lines of one",
                            self.n_lines
                        )));
                    }
                    _ => line,
                };
                let timed = if *has_time { timed_line(rest) } else { None };
                (timed.map_or(rest, |(_, rest)| rest), true)
            }
        };
        self.text.extend_from_slice(text);
        if is_whole {
            self.text.push(b'\n');
        }
        Ok(())
    }
}

/// The text of Docker's object; with its newline if it is a whole line.
fn docker_text(line: &[u8]) -> Option<Cow<'_, str>> {
    if !line.starts_with(b"{") {
        return None;
    }
    Some(serde_json::from_slice::<DockerLine>(line).ok()?.log)
}

/// The text of a line of the CRI, and whether it is a whole line.
fn cri_text(line: &[u8]) -> Option<(&[u8], bool)> {
    let (_, rest) = timed_line(line)?;
    let rest = rest.strip_prefix(b"stderr ").or_else(|| rest.strip_prefix(b"stdout "))?;
    let (tag, text) = match memchr::memchr(b' ', rest) {
        Some(blank) => (&rest[..blank], &rest[blank + 1..]),
        None => (rest, &b""[..]),
    };
    match tag {
        b"F" => Some((text, true)),
        b"P" => Some((text, false)),
        _ => None,
    }
}

/// The name before `db-1  | line` or `[pod/db-0/postgres] line`, and the line.
fn named_line(line: &[u8]) -> Option<(&[u8], &[u8])> {
    if line.starts_with(b"[pod/") {
        let end = memchr::memchr(b']', line)?;
        let rest = &line[end + 1..];
        return Some((&line[1..end], rest.strip_prefix(b" ").unwrap_or(rest)));
    }
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    let n = line.iter().take_while(|byte| is_of_name(byte)).count();
    let rest = line[n..].trim_ascii_start();
    let text = rest.strip_prefix(b"|")?;
    // A `log_line_prefix` such as `%u | ` has one blank.
    let is_apart = n > 0 && line[n..].starts_with(b"  ");
    is_apart.then(|| (&line[..n], text.strip_prefix(b" ").unwrap_or(text)))
}

/// Digits of the fraction of a time in RFC 3339 before a line, and the line.
fn timed_line(line: &[u8]) -> Option<(usize, &[u8])> {
    let (_, _, n) = time::without_zone(line)?;
    if line[10] != b'T' {
        return None;
    }

    let rest = &line[n..];
    let n_digits = n.saturating_sub("2026-11-30T10:00:00.".len());
    let zone = memchr::memchr(b' ', rest).unwrap_or(rest.len());
    let is_zone = match &rest[..zone] {
        b"Z" => true,
        [b'+' | b'-', of @ ..] => of.len() == 5 && of[2] == b':',
        _ => false,
    };
    is_zone.then(|| (n_digits, rest.get(zone + 1..).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: &str = "2026-11-30T10:00:00.123456789Z";
    const LINES: [&str; 4] = [
        "2026-11-30 10:00:00.123 UTC [7] app@shop LOG:  duration: 0.1 ms  statement: select 'a | b'",
        "\tfrom items | where",
        "",
        "{\"a\": 1}",
    ];

    fn read(text: &str) -> Result<String> {
        let mut found = String::new();
        unwrapped(Box::new(Cursor::new(text.as_bytes().to_vec())), "x.log")?.read_to_string(&mut found)?;
        Ok(found)
    }

    fn plain() -> String {
        LINES.iter().map(|line| format!("{line}\n")).collect()
    }

    fn each(wrapped: impl Fn(&str) -> String) -> String {
        LINES.iter().map(|line| wrapped(line) + "\n").collect()
    }

    #[test]
    fn lines_are_as_the_server_wrote_them() {
        let json =
            |line: &str| serde_json::json!({"log": format!("{line}\n"), "stream": "stderr", "time": TIME});
        for wrapped in [
            each(|line| format!("{TIME} stderr F {line}")),
            each(|line| json(line).to_string()),
            each(|line| serde_json::json!({"date": 1.5, "log": line}).to_string()),
            each(|line| format!("db-1  | {line}")),
            each(|line| format!("db-1  | {TIME} {line}")),
            each(|line| format!("[pod/db-0/postgres] {line}")),
            each(|line| format!("[pod/db-0/postgres] {TIME} {line}")),
            each(|line| format!("{TIME} {line}")),
        ] {
            assert_eq!(read(&wrapped).unwrap(), plain(), "{wrapped}");
        }
    }

    #[test]
    fn what_no_engine_has_wrapped_stays_as_it_is() {
        for text in [
            plain(),
            each(|line| format!("2026-11-30T10:00:00.123456+00:00 h postgres[7]: [1-1] {line}")),
            each(|line| format!("{TIME} h postgres[7]: [1-1] {line}")),
            "{\"timestamp\":\"2026-11-30 10:00:00.1 UTC\",\"message\":\"a\",\"error_severity\":\"LOG\"}\n"
                .to_string(),
            "2026-11-30 10:00:00 UTC,\"app\",\"shop\",7,\"|\"\n".to_string(),
            each(|line| format!("app | shop | {line}")),
            "a line without an end".to_string(),
            String::new(),
        ] {
            assert_eq!(read(&text).unwrap(), text);
        }
    }

    #[test]
    fn parts_of_a_long_line_are_one() {
        let cri = format!("{TIME} stderr P select 1,\n{TIME} stderr F  2\n{TIME} stderr F\n");
        assert_eq!(read(&cri).unwrap(), "select 1, 2\n\n");
        let docker =
            "{\"log\":\"select 1,\",\"stream\":\"stderr\"}\n{\"log\":\" 2\\n\",\"stream\":\"stderr\"}\n";
        assert_eq!(read(docker).unwrap(), "select 1, 2\n");
        let long =
            format!("{}db-1  | {}\ndb-1  | y\n", "db-1  | x\n".repeat(9), "z".repeat(LINE_BYTES_MAX + 9000));
        assert_eq!(read(&long).unwrap().lines().last(), Some("y"));
    }

    #[test]
    fn lines_of_several_containers_are_refused() {
        let error = read("db-1   | a\nweb-1  | b\n").unwrap_err().to_string();
        assert!(error.contains("several containers (db-1, web-1)"), "{error}");
        let later = format!("{}web-1  | b\n", "db-1  | a\n".repeat(300));
        let error = read(&later).unwrap_err().to_string();
        assert!(error.contains("line 301 is of the container `web-1`"), "{error}");
    }
}
