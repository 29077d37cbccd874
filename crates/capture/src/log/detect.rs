//! The format of a file, found out from its first lines, or checked against the one that the user names.

mod prefixes;

use std::fmt;
use std::str::FromStr;

use anyhow::{Result, anyhow, bail, ensure};

use self::prefixes::Sample;
use super::ReadOptions;
use super::format::csv::{self, RecordEnd};
use super::format::json::{self, JsonShape};
use super::format::prefix::LinePrefix;
use super::format::syslog;
use super::source::{Boundary, LogSource};

/// Number of lines that are looked at. More are only if these do not decide.
pub(super) const LINES_LOOKED_AT: usize = 200;

/// Characters of a line that a message shows.
const SHOWN_CHARS: usize = 120;

/// A format that the user can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormatName {
    /// csvlog.
    Csv,
    /// jsonlog, or JSON of a service.
    Json,
    /// Lines with a prefix.
    Stderr,
    /// Lines of syslog.
    Syslog,
}

impl FromStr for FormatName {
    type Err = String;

    fn from_str(text: &str) -> Result<FormatName, String> {
        match text {
            "csv" | "csvlog" => Ok(FormatName::Csv),
            "json" | "jsonlog" => Ok(FormatName::Json),
            "stderr" => Ok(FormatName::Stderr),
            "syslog" => Ok(FormatName::Syslog),
            _ => Err(format!("unknown format `{text}`: csv, json, stderr, syslog")),
        }
    }
}

/// The format of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Detected {
    Csv,
    /// With the prefix of the lines in its objects.
    Json(JsonShape, Option<LinePrefix>),
    Stderr(LinePrefix),
    Syslog(LinePrefix),
}

impl Detected {
    fn name(&self) -> FormatName {
        match self {
            Detected::Csv => FormatName::Csv,
            Detected::Json(..) => FormatName::Json,
            Detected::Stderr(_) => FormatName::Stderr,
            Detected::Syslog(_) => FormatName::Syslog,
        }
    }

    /// The prefix of its lines.
    pub(super) fn prefix(&self) -> Option<&LinePrefix> {
        match self {
            Detected::Csv => None,
            Detected::Json(_, prefix) => prefix.as_ref(),
            Detected::Stderr(prefix) | Detected::Syslog(prefix) => Some(prefix),
        }
    }
}

impl fmt::Display for Detected {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Detected::Csv => f.write_str("csvlog")?,
            Detected::Json(shape, _) => f.write_str(shape.words())?,
            Detected::Stderr(_) => f.write_str("stderr")?,
            Detected::Syslog(_) => f.write_str("syslog")?,
        }
        self.prefix().map_or(Ok(()), |prefix| write!(f, " with the prefix `{}`", prefix.text()))
    }
}

/// Finds out what a file is, without taking anything of it.
pub(super) fn detect(
    source: &mut LogSource,
    options: &ReadOptions,
    previous: Option<&Detected>,
) -> Result<Detected> {
    let name = source.name().to_string();
    let bytes = whole_lines(source.peek()?);
    ensure!(
        memchr::memchr(0, &bytes[..bytes.len().min(4096)]).is_none(),
        "`{name}` is no text: it has a byte 0 in its first lines"
    );
    let given = options.prefix.as_deref().map(LinePrefix::new).transpose()?;
    let look = Look { name: &name, bytes, given: given.as_ref(), previous, newest_us: options.newest_us };
    let found = look.find();
    let Some(format) = options.format else { return found };
    match found {
        Ok(found) if found.name() == format => Ok(found),
        found => Err(look.contradiction(format, found.ok().as_ref())),
    }
}

/// Without the last line, whose end is not there.
fn whole_lines(bytes: &[u8]) -> &[u8] {
    memchr::memrchr(b'\n', bytes).map_or(bytes, |at| &bytes[..=at])
}

/// The first lines of a file, and what is known about it.
struct Look<'a> {
    name: &'a str,
    bytes: &'a [u8],
    given: Option<&'a LinePrefix>,
    previous: Option<&'a Detected>,
    newest_us: i64,
}

impl Look<'_> {
    fn find(&self) -> Result<Detected> {
        if self.given.is_none() && self.is_csv() {
            return Ok(Detected::Csv);
        }
        let first = self.bytes.trim_ascii_start();
        let is_json = first.starts_with(b"{") || first.starts_with(b"[{") || first.starts_with(b"[\n");
        if is_json && let Some(found) = self.json()? {
            return Ok(found);
        }
        let lines: Vec<&[u8]> = self.lines().collect();
        let looked = &lines[..lines.len().min(LINES_LOOKED_AT)];
        let headers = looked.iter().filter(|line| syslog::header(line, self.newest_us).is_some()).count();
        if headers * 2 > looked.len() {
            let inner: Vec<Vec<u8>> =
                lines.iter().filter_map(|line| syslog_text(line, self.newest_us)).collect();
            return Ok(Detected::Syslog(self.prefix(inner.iter().map(Vec::as_slice).collect())?));
        }
        Ok(Detected::Stderr(self.prefix(lines)?))
    }

    /// Lines that are not empty.
    fn lines(&self) -> impl Iterator<Item = &[u8]> {
        let lines = self.bytes.split(|byte| *byte == b'\n');
        lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line)).filter(|line| !line.is_empty())
    }

    /// Whether most of the first records are those of csvlog.
    fn is_csv(&self) -> bool {
        let (mut n_read, mut n, mut rest) = (0, 0, self.bytes);
        while n < LINES_LOOKED_AT && !rest.is_empty() {
            let end = match RecordEnd::default().end(rest) {
                Some(end) => end,
                None if n > 0 => break,
                None => rest.len(),
            };
            n += 1;
            n_read += usize::from(csv::record(rest[..end].trim_ascii_end(), 1).is_some());
            rest = &rest[end..];
        }
        n_read * 2 > n
    }

    fn json(&self) -> Result<Option<Detected>> {
        let objects = json::sample(self.bytes);
        let known = objects.iter().take(LINES_LOOKED_AT).find_map(|object| JsonShape::from_object(object));
        let Some(shape) = known else { return Ok(None) };
        if !shape.has_prefix() {
            return Ok(Some(Detected::Json(shape, None)));
        }
        let lines = json::inner_lines(&objects, shape);
        ensure!(
            !lines.is_empty(),
            "`{}` is {}, but no object has a line of PostgreSQL",
            self.name,
            shape.words()
        );
        let prefix = self.prefix(lines.iter().map(Vec::as_slice).collect())?;
        Ok(Some(Detected::Json(shape, Some(prefix))))
    }

    fn prefix(&self, lines: Vec<&[u8]>) -> Result<LinePrefix> {
        let sample = Sample { name: self.name, lines };
        let previous = self.previous.and_then(Detected::prefix);
        match self.given {
            Some(given) => sample.check(given),
            None => sample.choose(previous),
        }
    }

    /// A file is not what the user says.
    fn contradiction(&self, format: FormatName, found: Option<&Detected>) -> anyhow::Error {
        let wanted = match format {
            FormatName::Csv => "record of csvlog",
            FormatName::Json => "JSON object",
            FormatName::Stderr => "line of stderr with a known prefix",
            FormatName::Syslog => "line of syslog",
        };
        let first = self.lines().next().unwrap_or_default();
        let line = format!("`{}`, line 1 is no {wanted}: `{}`", self.name, shown(first));
        match found {
            Some(found) => anyhow!("{line}; it looks like {found}: leave the format to be found out"),
            None => anyhow!("{line}; its format is not known"),
        }
    }
}

/// The server's text in a line of syslog, if the line begins a message.
fn syslog_text(line: &[u8], newest_us: i64) -> Option<Vec<u8>> {
    let header = syslog::header(line, newest_us)?;
    header.envelope.pid?;
    let text = syslog::unescape(header.text, &mut Vec::new()).to_vec();
    (header.chunk == 1).then_some(text)
}

/// The beginning of a line, for a message.
pub(super) fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let mut shown: String =
        text.chars().take(SHOWN_CHARS).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(SHOWN_CHARS).is_some() {
        shown.push('…');
    }
    shown
}

/// The error for a file of another program, if it is one that people take for the server's.
pub(super) fn refuse_strangers(name: &str, lines: &[&[u8]]) -> Result<()> {
    let has = |part: &str| lines.iter().any(|line| memchr::memmem::find(line, part.as_bytes()).is_some());
    if has(" LOG C-0x") || has(" LOG S-0x") || has("process up: PgBouncer") || has("process up: pgbouncer") {
        bail!("`{name}` is a log of PgBouncer, which has no statements; give the log of the server");
    }
    Ok(())
}
