//! What a log entry means to a benchmark: the event that it becomes, or nothing.
//!
//! Pure. Texts are those of PostgreSQL 9.6 to 18 in English; another `lc_messages` yields only
//! [`EventKind::ServerLog`].

use model::telemetry::event::{Event, EventKind};

use crate::server::log::{LogEntry, LogSeverity};

/// Prefixes of LOG messages that are irrelevant to the load.
const NOISE: [&str; 33] = [
    "connection received",
    "connection authenticated",
    "connection authorized",
    "connection ready",
    "replication connection authorized",
    "disconnection",
    "statement:",
    "duration:",
    "execute ",
    "parse ",
    "bind ",
    "fastpath function call",
    "temporary file:",
    "listening on",
    "starting PostgreSQL",
    "ending log output",
    "redirecting log output",
    "autovacuum launcher started",
    "autovacuum launcher shutting down",
    "logical replication launcher",
    "background worker \"logical replication launcher\"",
    "shutting down",
    "database system is shut down",
    "database system was shut down",
    "MultiXact member wraparound protections",
    "archive recovery complete",
    "aborting any active transactions",
    "io worker",
    "process ",
    "skipping vacuum of",
    "skipping analyze of",
    "parameter ",
    "received SIGHUP",
];

/// Parts of messages about a crash, a restart after one, or a full device, at any severity.
const TROUBLE: [&str; 8] = [
    "was terminated by",
    "exited with exit code",
    "terminating any other active server processes",
    "all server processes terminated",
    "database system was interrupted",
    "database system was not properly shut down",
    "No space left on device",
    "out of memory",
];

/// FATAL messages that are normal while a server is starting or stopping.
const FATAL_IN_ORDER: [&str; 7] = [
    "the database system is starting up",
    "the database system is shutting down",
    "the database system is not yet accepting connections",
    "the database system is not accepting connections",
    "terminating autovacuum process due to administrator command",
    "terminating background worker",
    "terminating logical replication worker",
];

const TEXT_MAX_CHARS: usize = 1000;

/// The event for an entry; `now_ns` is its time if the log has none.
pub(crate) fn event(entry: &LogEntry, now_ns: u64) -> Option<Event> {
    let t_unix_ns = entry.t_unix_ns.unwrap_or(now_ns);
    let message = entry.message.as_str();
    let special = if entry.severity == LogSeverity::Log {
        checkpoint_start(message).or_else(|| checkpoint_end(message)).or_else(|| maintenance(message))
    } else {
        None
    };
    if let Some((kind, facts)) = special {
        let first = message.lines().next().unwrap_or_default();
        let event = Event::new(t_unix_ns, kind, clip(first));
        return Some(facts.into_iter().fold(event, |event, (name, value)| event.with(name, value)));
    }
    let kind = kind(entry)?;
    let mut event = Event::new(t_unix_ns, kind, clip(message)).with("severity", word(entry.severity));
    if let Some(pid) = entry.pid {
        event = event.with("pid", pid);
    }
    for (name, text) in &entry.parts {
        // A statement may set a password, and passwords are never recorded.
        if !text.to_ascii_lowercase().contains("password") {
            event = event.with(name, clip(text));
        }
    }
    Some(event)
}

fn kind(entry: &LogEntry) -> Option<EventKind> {
    let message = entry.message.as_str();
    let any = |list: &[&str]| list.iter().any(|text| message.contains(text));
    match entry.severity {
        LogSeverity::Panic => Some(EventKind::ServerTrouble),
        LogSeverity::Fatal if any(&FATAL_IN_ORDER) => Some(EventKind::ServerLog),
        LogSeverity::Fatal => Some(EventKind::ServerTrouble),
        // The logical replication launcher exits with code 1 whenever a server is stopped.
        LogSeverity::Log if message.starts_with("background worker") && message.ends_with("exit code 1") => {
            None
        }
        _ if any(&TROUBLE) => Some(EventKind::ServerTrouble),
        LogSeverity::Warning | LogSeverity::Error | LogSeverity::Foreign => Some(EventKind::ServerLog),
        LogSeverity::Log => {
            let is_wait = message.starts_with("process ") && message.contains(" still waiting for ");
            let is_noise = NOISE.iter().any(|start| message.starts_with(start));
            (is_wait || !is_noise).then_some(EventKind::ServerLog)
        }
        LogSeverity::Debug | LogSeverity::Info | LogSeverity::Notice => None,
    }
}

fn word(severity: LogSeverity) -> &'static str {
    match severity {
        LogSeverity::Foreign => "none",
        LogSeverity::Debug => "DEBUG",
        LogSeverity::Info => "INFO",
        LogSeverity::Notice => "NOTICE",
        LogSeverity::Log => "LOG",
        LogSeverity::Warning => "WARNING",
        LogSeverity::Error => "ERROR",
        LogSeverity::Fatal => "FATAL",
        LogSeverity::Panic => "PANIC",
    }
}

type Facts = Vec<(&'static str, String)>;

/// `checkpoint starting: immediate force wait`; `restartpoint` on a standby.
fn checkpoint_start(message: &str) -> Option<(EventKind, Facts)> {
    let cause = message
        .strip_prefix("checkpoint starting:")
        .or_else(|| message.strip_prefix("restartpoint starting:"))?;
    // 9.6 says `xlog` for `wal`; 19 says `fast` for `immediate`.
    let cause: Vec<&str> =
        cause.split_whitespace().map(|word| if word == "xlog" { "wal" } else { word }).collect();
    Some((EventKind::CheckpointStart, vec![("cause", cause.join(" "))]))
}

/// `checkpoint complete: wrote 1639 buffers (10.0%), …; 0 WAL file(s) added, …; write=0.109 s, sync=0.011 s, …`.
fn checkpoint_end(message: &str) -> Option<(EventKind, Facts)> {
    let text = message
        .strip_prefix("checkpoint complete:")
        .or_else(|| message.strip_prefix("restartpoint complete:"))?;
    let mut facts = Facts::new();
    if let Some(buffers) = between(text, "wrote ", " buffers") {
        facts.push(("buffers", buffers.to_string()));
    }
    for (field, name) in [
        ("write=", "write_s"),
        ("sync=", "sync_s"),
        ("total=", "total_s"),
        ("sync files=", "sync_files"),
        ("longest=", "longest_sync_s"),
    ] {
        if let Some(number) = number_after(text, field) {
            facts.push((name, number.to_string()));
        }
    }
    for (field, name) in [("distance=", "distance_bytes"), ("estimate=", "estimate_bytes")] {
        let kib = number_after(text, field).and_then(|number| number.parse::<u64>().ok());
        if let Some(kib) = kib {
            facts.push((name, (kib * 1024).to_string()));
        }
    }
    Some((EventKind::CheckpointEnd, facts))
}

/// `automatic vacuum of table "db.schema.table": …`, `automatic aggressive vacuum …`, `automatic analyze …`.
fn maintenance(message: &str) -> Option<(EventKind, Facts)> {
    let text = message.strip_prefix("automatic ")?;
    let (what, rest) = text.split_once(" of table \"")?;
    let kind = match what {
        "analyze" => EventKind::AutoanalyzeEnd,
        _ if what.contains("vacuum") => EventKind::AutovacuumEnd,
        _ => return None,
    };
    let mut facts = vec![("table", rest.split('"').next().unwrap_or_default().to_string())];
    // `elapsed: 0.02 s` since 10, `elapsed 0.02 sec` before.
    let elapsed = number_after(rest, "elapsed: ").or_else(|| number_after(rest, "elapsed "));
    if let Some(elapsed) = elapsed {
        facts.push(("elapsed_s", elapsed.to_string()));
    }
    if what.contains("aggressive") || what.contains("wraparound") {
        facts.push(("aggressive", "true".to_string()));
    }
    Some((kind, facts))
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let rest = &text[text.find(before)? + before.len()..];
    Some(&rest[..rest.find(after)?])
}

fn number_after<'a>(text: &'a str, before: &str) -> Option<&'a str> {
    let rest = &text[text.find(before)? + before.len()..];
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    (end > 0).then(|| &rest[..end])
}

fn clip(text: &str) -> String {
    match text.char_indices().nth(TEXT_MAX_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_string(),
    }
}

#[cfg(test)]
mod tests;
