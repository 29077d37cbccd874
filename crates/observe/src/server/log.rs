//! Assembles lines of the server's log into entries: time, process, severity, message, details.
//!
//! Pure. Our own servers use the line prefix `%n [%p] ` (`1795165034.123 [4711] LOG:  …`); Debian's `%m [%p] %q%u@%d `
//! and an empty prefix are understood too. [`crate::server::log_events`] decides what an entry means.

/// Severity of a log entry, in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LogSeverity {
    /// A line that PostgreSQL did not write itself, such as one of `archive_command`.
    Foreign,
    Debug,
    Info,
    Notice,
    Log,
    Warning,
    Error,
    Fatal,
    Panic,
}

/// One log entry.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LogEntry {
    /// Nanoseconds since the Unix epoch, if the prefix has a time.
    pub(crate) t_unix_ns: Option<u64>,
    pub(crate) pid: Option<u32>,
    pub(crate) severity: LogSeverity,
    /// The message and its continuation lines, joined by line breaks.
    pub(crate) message: String,
    /// `detail`, `hint`, `context`, `statement`, ….
    pub(crate) parts: Vec<(String, String)>,
}

/// Limit for the text of an entry; the rest is dropped.
const TEXT_MAX_BYTES: usize = 4000;

const SEVERITIES: [(&str, LogSeverity); 12] = [
    ("LOG", LogSeverity::Log),
    ("ERROR", LogSeverity::Error),
    ("WARNING", LogSeverity::Warning),
    ("FATAL", LogSeverity::Fatal),
    ("PANIC", LogSeverity::Panic),
    ("NOTICE", LogSeverity::Notice),
    ("INFO", LogSeverity::Info),
    ("DEBUG5", LogSeverity::Debug),
    ("DEBUG4", LogSeverity::Debug),
    ("DEBUG3", LogSeverity::Debug),
    ("DEBUG2", LogSeverity::Debug),
    ("DEBUG1", LogSeverity::Debug),
];

/// Keywords of lines that belong to the preceding entry.
const PARTS: [&str; 7] = ["DETAIL", "HINT", "CONTEXT", "STATEMENT", "QUERY", "LOCATION", "BACKTRACE"];

#[derive(Debug, Default)]
pub(crate) struct Assembler {
    open: Option<LogEntry>,
}

impl Assembler {
    /// Takes the next line, without its line end. `now_ns` resolves the zone of a time that is written without one.
    /// Returns the entry that this line completes.
    pub(crate) fn push(&mut self, line: &str, now_ns: u64) -> Option<LogEntry> {
        if line.trim().is_empty() {
            return None;
        }
        if let (Some(rest), Some(open)) = (line.strip_prefix('\t'), self.open.as_mut()) {
            let target = open.parts.last_mut().map_or(&mut open.message, |(_, text)| text);
            append(target, rest);
            return None;
        }
        match (split(line), self.open.as_mut()) {
            (Some((prefix, word, text)), Some(open)) if PARTS.contains(&word) => {
                // PostgreSQL writes an entry and its parts with one write; a part from another process belongs to no
                // entry here.
                if pid(prefix) == open.pid {
                    open.parts.push((word.to_ascii_lowercase(), clip(text)));
                }
                None
            }
            (Some((prefix, word, text)), _) => {
                let severity =
                    SEVERITIES.iter().find(|(name, _)| *name == word).map(|(_, severity)| *severity);
                self.open.replace(LogEntry {
                    t_unix_ns: time(prefix, now_ns),
                    pid: pid(prefix),
                    severity: severity.unwrap_or(LogSeverity::Foreign),
                    message: clip(text),
                    parts: Vec::new(),
                })
            }
            (None, _) => self.open.replace(LogEntry {
                t_unix_ns: None,
                pid: None,
                severity: LogSeverity::Foreign,
                message: clip(line),
                parts: Vec::new(),
            }),
        }
    }

    /// Ends an open entry.
    pub(crate) fn flush(&mut self) -> Option<LogEntry> {
        self.open.take()
    }
}

fn append(text: &mut String, more: &str) {
    if text.len() < TEXT_MAX_BYTES {
        text.push('\n');
        text.push_str(&clip(more));
    }
}

fn clip(text: &str) -> String {
    let end = text.len().min(TEXT_MAX_BYTES);
    let end = (0..=end).rev().find(|&i| text.is_char_boundary(i)).unwrap_or_default();
    text[..end].to_string()
}

/// Prefix, keyword (severity or part) and text: the keyword is the first one followed by a colon and two spaces.
fn split(line: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    while let Some(found) = line[from..].find(":  ") {
        let colon = from + found;
        let start = line[..colon].trim_end_matches(|c: char| c.is_ascii_alphanumeric()).len();
        let word = &line[start..colon];
        if PARTS.contains(&word) || SEVERITIES.iter().any(|(name, _)| *name == word) {
            return Some((&line[..start], word, &line[colon + 3..]));
        }
        from = colon + 1;
    }
    None
}

fn pid(prefix: &str) -> Option<u32> {
    prefix.split('[').skip(1).find_map(|rest| rest.split_once(']')?.0.parse().ok())
}

/// The time at the start of a prefix: `%n`, or `%m` and `%t` with their zone.
fn time(prefix: &str, now_ns: u64) -> Option<u64> {
    let first = prefix.split(' ').next()?;
    if let Some((seconds, ms)) = first.split_once('.')
        && seconds.len() >= 9
        && ms.len() == 3
    {
        let seconds: u64 = seconds.parse().ok()?;
        let ms = seconds.checked_mul(1000)?.checked_add(ms.parse().ok()?)?;
        return ms.checked_mul(1_000_000);
    }
    let mut words = prefix.split(' ');
    let (date, clock, zone) = (words.next()?, words.next()?, words.next().unwrap_or_default());
    let local_ms = i64::try_from(local_ms(date, clock)?).ok()?;
    let now_ms = i64::try_from(now_ns / 1_000_000).ok()?;
    let offset_ms = match zone {
        "UTC" | "GMT" | "Z" => 0,
        // An abbreviation or number is not looked up: the log is read while it is written, so the zone is the
        // difference from now in quarters of an hour.
        _ => ((local_ms - now_ms) as f64 / 900_000.0).round() as i64 * 900_000,
    };
    u64::try_from(local_ms - offset_ms).ok().and_then(|ms| ms.checked_mul(1_000_000))
}

/// `2026-11-20` and `12:04:05.123` as milliseconds since the epoch, as if they were UTC.
fn local_ms(date: &str, clock: &str) -> Option<u64> {
    let mut parts = date.splitn(3, '-').map(str::parse::<u64>);
    let (Some(Ok(year)), Some(Ok(month)), Some(Ok(day))) = (parts.next(), parts.next(), parts.next()) else {
        return None;
    };
    if !(1970..10_000).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Days of the Gregorian calendar, with years that begin in March so that the leap day comes last.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1;
    const DAYS_TO_1970: u64 = 719_468;
    let (hms, ms) = clock.split_once('.').unwrap_or((clock, "0"));
    let mut parts = hms.splitn(3, ':').map(str::parse::<u64>);
    let (Some(Ok(h)), Some(Ok(min)), Some(Ok(s))) = (parts.next(), parts.next(), parts.next()) else {
        return None;
    };
    if h > 24 || min > 60 || s > 60 {
        return None;
    }
    let seconds = (days - DAYS_TO_1970) * 86_400 + h * 3600 + min * 60 + s;
    (seconds * 1000).checked_add(ms.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_NS: u64 = 1_795_165_034_500_000_000;

    #[test]
    fn prefixes_are_understood() {
        let at = |ms: u64| Some(ms * 1_000_000);
        for (line, t, pid, severity, message) in [
            (
                "1795165034.123 [4711] LOG:  checkpoint starting: time",
                at(1_795_165_034_123),
                Some(4711),
                LogSeverity::Log,
                "checkpoint starting: time",
            ),
            (
                "2026-11-20 08:57:14.123 UTC [4711] LOG:  database system is ready",
                at(1_795_165_034_123),
                Some(4711),
                LogSeverity::Log,
                "database system is ready",
            ),
            (
                "2026-11-20 08:57:14.123 UTC [12] postgres@db ERROR:  relation \"LOG:  x\" does not exist",
                at(1_795_165_034_123),
                Some(12),
                LogSeverity::Error,
                "relation \"LOG:  x\" does not exist",
            ),
            // Zones: an hour to the east, half past five by number, one second resolution.
            (
                "2026-11-20 09:57:14.000 CET [12] FATAL:  x",
                at(1_795_165_034_000),
                Some(12),
                LogSeverity::Fatal,
                "x",
            ),
            (
                "2026-11-20 14:27:14 +0530 [12] PANIC:  x",
                at(1_795_165_034_000),
                Some(12),
                LogSeverity::Panic,
                "x",
            ),
            ("LOG:  x", None, None, LogSeverity::Log, "x"),
            ("cp: cannot stat 'x'", None, None, LogSeverity::Foreign, "cp: cannot stat 'x'"),
            ("99:99 [x] DEBUG3:  y", None, None, LogSeverity::Debug, "y"),
        ] {
            let mut assembler = Assembler::default();
            assert_eq!(assembler.push(line, NOW_NS), None);
            let entry = assembler.flush().unwrap();
            let expected =
                LogEntry { t_unix_ns: t, pid, severity, message: message.to_string(), parts: vec![] };
            assert_eq!(entry, expected, "{line}");
        }
    }

    #[test]
    fn further_lines_and_parts_belong_to_their_entry() {
        let lines = "\
1795165034.123 [7] ERROR:  deadlock detected
1795165034.123 [7] DETAIL:  Process 7 waits for ShareLock
\tProcess 8 waits too
1795165034.123 [7] STATEMENT:  update t
1795165034.124 [8] LOG:  automatic vacuum of table \"a.b.c\": index scans: 0
\tpages: 0 removed

\tsystem usage: CPU 0.00s/0.00u sec elapsed 0.01 sec
1795165034.125 [9] LOG:  x
1795165034.125 [8] DETAIL:  lost
";
        let mut assembler = Assembler::default();
        let mut entries: Vec<LogEntry> =
            lines.lines().filter_map(|line| assembler.push(line, NOW_NS)).collect();
        entries.extend(assembler.flush());
        let [deadlock, vacuum, x] = entries.as_slice() else { panic!("{entries:?}") };
        assert_eq!(deadlock.parts[0].1, "Process 7 waits for ShareLock\nProcess 8 waits too");
        assert_eq!(deadlock.parts[1], ("statement".to_string(), "update t".to_string()));
        assert_eq!(vacuum.message.lines().count(), 3);
        assert!(x.parts.is_empty());
        assert_eq!(assembler.flush(), None);
    }

    #[test]
    fn any_text_is_taken_without_panic_and_within_bounds() {
        let mut assembler = Assembler::default();
        let long = "é".repeat(10_000);
        for line in [
            "\t",
            "",
            ":  ",
            "[",
            "[]",
            "1.2 ",
            "2026-99-99 1:1:1 X LOG:  ",
            "2026-01-01",
            "é:  LOG:  ",
            &long,
        ] {
            assembler.push(line, NOW_NS);
            assembler.push(&format!("\t{line}"), NOW_NS);
        }
        for _ in 0..10 {
            assembler.push(&format!("\t{long}"), NOW_NS);
        }
        assert!(assembler.flush().unwrap().message.len() <= 2 * TEXT_MAX_BYTES + 1);
    }
}
