//! Why a server did not start: PostgreSQL's own words, and one sentence on what to do.

use std::fmt;
use std::path::PathBuf;

/// Lines of the log shown when no line says what was wrong.
const TAIL_LINES: usize = 12;

/// A server that did not start.
#[derive(Debug)]
pub struct StartError {
    /// The kind of failure, from which the advice follows.
    pub fault: StartFault,
    /// PostgreSQL's FATAL, PANIC, HINT and DETAIL lines, or the tail of its log if there are none.
    pub server_lines: Vec<String>,
    /// Further facts, such as how the process ended.
    pub detail: String,
    /// The complete log.
    pub log_path: PathBuf,
}

/// Why a start failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartFault {
    /// Shared memory could not be allocated.
    SharedMemory,
    /// The address or socket is in use.
    AddressInUse,
    /// The data directory belongs to another major version.
    WrongMajor,
    /// The data directory has other permissions than PostgreSQL accepts.
    Permissions,
    /// A lock file without content was left behind.
    EmptyLockFile,
    /// Another server works in the data directory.
    AlreadyRunning,
    /// A setting has an unknown name.
    UnknownSetting,
    /// A setting has a value that the server refuses.
    BadValue,
    /// The binaries have no io_uring.
    NoRing,
    /// A socket's path is too long.
    SocketPath,
    /// A file that a setting names is missing.
    MissingFile,
    /// `pg_control`, WAL or data files are damaged.
    Damaged,
    /// The disk is full.
    DiskFull,
    /// Started as root.
    Root,
    /// The server did not become ready in time.
    Deadline,
    /// pgdyno could not prepare or start the process.
    Preparation,
    /// Anything else.
    Other,
}

/// What log lines mean: the first row whose text occurs decides.
const MEANINGS: [(&str, StartFault); 24] = [
    ("is too long (maximum", StartFault::SocketPath),
    ("could not map anonymous shared memory", StartFault::SharedMemory),
    ("could not create shared memory segment", StartFault::SharedMemory),
    ("could not resize shared memory segment", StartFault::SharedMemory),
    ("out of memory", StartFault::SharedMemory),
    ("Address already in use", StartFault::AddressInUse),
    ("PG_CONTROL_VERSION 0,", StartFault::Damaged),
    ("incompatible with server", StartFault::WrongMajor),
    ("has invalid permissions", StartFault::Permissions),
    ("has group or world access", StartFault::Permissions),
    ("\"postmaster.pid\" is empty", StartFault::EmptyLockFile),
    ("\"postmaster.pid\" already exists", StartFault::AlreadyRunning),
    ("unrecognized configuration parameter", StartFault::UnknownSetting),
    ("invalid value for parameter \"io_method\": \"io_uring\"", StartFault::NoRing),
    ("invalid value for parameter", StartFault::BadValue),
    ("is outside the valid range for parameter", StartFault::BadValue),
    ("requires a numeric value", StartFault::BadValue),
    ("requires a Boolean value", StartFault::BadValue),
    ("requires wal_level", StartFault::BadValue),
    ("contains errors", StartFault::BadValue),
    ("No space left on device", StartFault::DiskFull),
    ("could not locate a valid checkpoint record", StartFault::Damaged),
    ("execution of the PostgreSQL server is not permitted", StartFault::Root),
    ("could not access file", StartFault::MissingFile),
];

/// Log lines that also mean damage, searched for last.
const DAMAGE: [&str; 5] = [
    "pg_control",
    "incorrect checksum in control file",
    "invalid primary checkpoint",
    "invalid page",
    "PANIC:",
];

impl StartFault {
    /// Advice for the user, in one sentence.
    pub fn advice(self) -> &'static str {
        match self {
            StartFault::SharedMemory => {
                "lower shared_buffers or max_connections, or reserve enough huge pages (vm.nr_hugepages) where huge_pages is on (os.huge_pages = \"on\" does it, as root)"
            }
            StartFault::AddressInUse => "another server listens on this address; stop it or try again",
            StartFault::WrongMajor => {
                "this cluster was made by another major version; use its version or make a new cluster"
            }
            StartFault::Permissions => {
                "the data directory must have mode 0700 or 0750; set it back with chmod 0700"
            }
            StartFault::EmptyLockFile => {
                "a start was interrupted; make sure that no server runs there and remove `postmaster.pid`, or restore the snapshot"
            }
            StartFault::AlreadyRunning => "a server already runs on this data directory; stop it first",
            StartFault::UnknownSetting => {
                "this server version has no such setting; correct the name or leave it out for this version"
            }
            StartFault::BadValue => "correct the value of the setting that PostgreSQL names",
            StartFault::NoRing => {
                "these binaries are made without io_uring, as fetched ones are: take worker, or measure an installed server or a build that has it \
                 (--bin-dir, server.source)"
            }
            StartFault::SocketPath => "set TMPDIR to a shorter path",
            StartFault::MissingFile => {
                "the binaries lack this file (fetched binaries have the extensions of contrib, but no llvmjit); install it or take the setting out"
            }
            StartFault::Damaged => {
                "the data directory is damaged; restore the snapshot, or remove the cluster and create it again"
            }
            StartFault::DiskFull => "free some space or put the cluster on a larger device",
            StartFault::Root => "set PGDYNO_SERVER_USER to a user that may run the server",
            StartFault::Deadline => {
                "the server may still have been recovering after a crash; look into its log, or restore the snapshot"
            }
            StartFault::Preparation => "correct this and start again",
            StartFault::Other => "see PostgreSQL's messages above and the complete log",
        }
    }
}

impl StartError {
    /// Reads the log of a server that ended during its start. `ending` says how it ended.
    pub(crate) fn from_log(log: &str, ending: String, log_path: PathBuf) -> StartError {
        let told = telling_lines(log);
        let text = if told.is_empty() { tail(log) } else { told };
        StartError { fault: fault_of(log), server_lines: text, detail: ending, log_path }
    }

    /// A start that failed before there was a process.
    pub(crate) fn before(error: &anyhow::Error, log_path: PathBuf) -> StartError {
        StartError {
            fault: StartFault::Preparation,
            server_lines: Vec::new(),
            detail: format!("{error:#}"),
            log_path,
        }
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "server did not start: {}", self.detail)?;
        for line in &self.server_lines {
            write!(f, "\n  {line}")?;
        }
        write!(f, "\n{}", self.fault.advice())?;
        if self.fault != StartFault::Preparation {
            write!(f, " (log: `{}`)", self.log_path.display())?;
        }
        Ok(())
    }
}

impl std::error::Error for StartError {}

/// What a server said when it crashed, at most three lines, each once; empty if its log says nothing of the kind.
pub(crate) fn crash_lines(log: &str) -> Vec<String> {
    const CRASHES: [&str; 3] = ["PANIC:", "No space left on device", "was terminated by signal"];
    const LINES_MAX: usize = 3;
    let mut found: Vec<&str> = Vec::new();
    for line in log.lines().filter(|line| CRASHES.iter().any(|words| line.contains(words))) {
        let severity = ["PANIC:", "FATAL:", "ERROR:", "LOG:"].iter().find_map(|severity| line.find(severity));
        let text = line[severity.unwrap_or(0)..].trim();
        if found.len() < LINES_MAX && !found.contains(&text) {
            found.push(text);
        }
    }
    found.into_iter().map(str::to_string).collect()
}

/// The last line of a log for a message, at most 300 characters of it.
pub(crate) fn last_words(log: &str) -> String {
    let line = log.lines().rev().find(|line| !line.trim().is_empty());
    line.map_or_else(
        || "its log says nothing".to_string(),
        |line| format!("its log ends with: {}", line.chars().take(300).collect::<String>()),
    )
}

pub(crate) fn fault_of(log: &str) -> StartFault {
    let meant = MEANINGS.iter().find(|(text, _)| log.contains(text)).map(|(_, fault)| *fault);
    let damaged = || DAMAGE.iter().any(|text| log.contains(text)).then_some(StartFault::Damaged);
    meant.or_else(damaged).unwrap_or(StartFault::Other)
}

/// Lines that say what was wrong, without their times and process ids.
fn telling_lines(log: &str) -> Vec<String> {
    const SEVERITIES: [&str; 6] = ["FATAL:", "PANIC:", "ERROR:", "HINT:", "DETAIL:", "WARNING:"];
    // LOG lines that name the cause: the FATAL line after them only says that there was an error.
    const CAUSES: [&str; 5] =
        ["in file \"", "for parameter \"", "is too long", "could not bind", "terminated by signal"];
    let mut told = Vec::new();
    for line in log.lines() {
        let severity = SEVERITIES.iter().find_map(|severity| line.find(severity));
        let cause = || line.find("LOG:").filter(|_| CAUSES.iter().any(|cause| line.contains(cause)));
        if let Some(at) = severity.or_else(cause) {
            told.push(line[at..].trim().to_string());
        }
    }
    // The last lines are about the end; a log of many warnings is not shown as a whole.
    told.split_off(told.len().saturating_sub(TAIL_LINES))
}

fn tail(log: &str) -> Vec<String> {
    let lines: Vec<&str> = log.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].iter().map(|line| (*line).to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_words_of_a_crash_are_reported() {
        let full = "PANIC:  could not write to file \"pg_wal/xlogtemp.5\": No space left on device";
        let ended = "LOG:  server process (PID 5) was terminated by signal 6: Aborted";
        let time = "2026-01-01 00:00:00.000 UTC [5] ";
        let log =
            format!("{time}LOG:  ready\n{time}{full}\n{time}{full}\n{time}STATEMENT:  x\n{time}{ended}\n");
        assert_eq!(crash_lines(&log), [full, ended]);
        assert!(crash_lines("FATAL:  terminating connection due to administrator command\n").is_empty());
        let many: String = (0..9).map(|n| format!("PANIC:  {n}\n")).collect();
        assert_eq!(crash_lines(&many), ["PANIC:  0", "PANIC:  1", "PANIC:  2"]);
    }

    #[test]
    fn each_of_postgres_messages_leads_to_one_advice() {
        for (log, expected) in [
            (
                "FATAL:  could not map anonymous shared memory: Cannot allocate memory\nHINT:  This error usually means",
                StartFault::SharedMemory,
            ),
            (
                "LOG:  could not bind IPv4 address \"127.0.0.1\": Address already in use\nFATAL:  could not create any TCP/IP sockets",
                StartFault::AddressInUse,
            ),
            (
                "FATAL:  database files are incompatible with server\nDETAIL:  The data directory was initialized by PostgreSQL version 15",
                StartFault::WrongMajor,
            ),
            ("FATAL:  data directory \"/d\" has invalid permissions", StartFault::Permissions),
            ("FATAL:  data directory \"/d\" has group or world access", StartFault::Permissions),
            ("FATAL:  lock file \"postmaster.pid\" is empty", StartFault::EmptyLockFile),
            (
                "FATAL:  lock file \"postmaster.pid\" already exists\nHINT:  Is another postmaster (PID 1) running",
                StartFault::AlreadyRunning,
            ),
            (
                "FATAL:  database files are incompatible with server\nDETAIL:  The database cluster was initialized with PG_CONTROL_VERSION 0, but",
                StartFault::Damaged,
            ),
            (
                "postgres: could not find the database system\nbut could not open file \"/d/global/pg_control\": No such file",
                StartFault::Damaged,
            ),
            ("PANIC:  could not locate a valid checkpoint record", StartFault::Damaged),
            (
                "LOG:  unrecognized configuration parameter \"bogus\" in file \"/d/pgdyno.conf\" line 2\nFATAL:  configuration file \"/d/postgresql.conf\" contains errors",
                StartFault::UnknownSetting,
            ),
            (
                "LOG:  invalid value for parameter \"shared_buffers\": \"banana\"\nFATAL:  configuration file contains errors",
                StartFault::BadValue,
            ),
            (
                "FATAL:  0 is outside the valid range for parameter \"max_connections\" (1 .. 262143)",
                StartFault::BadValue,
            ),
            (
                "FATAL:  WAL streaming (max_wal_senders > 0) requires wal_level \"replica\" or \"logical\"",
                StartFault::BadValue,
            ),
            (
                "LOG:  Unix-domain socket path \"/tmp/x/.s.PGSQL.5432\" is too long (maximum 107 bytes)\nFATAL:  could not create any Unix-domain sockets",
                StartFault::SocketPath,
            ),
            ("FATAL:  could not access file \"nolib\": No such file or directory", StartFault::MissingFile),
            ("FATAL:  could not write to file \"pg_wal/x\": No space left on device", StartFault::DiskFull),
            ("\"root\" execution of the PostgreSQL server is not permitted.", StartFault::Root),
            ("FATAL:  the sky fell", StartFault::Other),
            ("", StartFault::Other),
        ] {
            let error = StartError::from_log(log, "it ended".into(), PathBuf::from("/l"));
            assert_eq!(error.fault, expected, "{log}");
            assert!(error.to_string().ends_with(&format!("{} (log: `/l`)", expected.advice())));
        }
    }

    #[test]
    fn only_the_lines_that_explain_the_failure_are_shown() {
        let log = "1700000000.123 [12] LOG:  starting PostgreSQL 15\n\
                   2026-11-20 12:17:29.030 GMT [9] LOG:  unrecognized configuration parameter \"bogus\" in file \"/d/c\" line 8\n\
                   2026-11-20 12:17:29.030 GMT [9] FATAL:  configuration file \"/d/c\" contains errors\n\
                   2026-11-20 12:17:29.030 GMT [9] LOG:  database system is shut down\n";
        let error = StartError::from_log(log, String::new(), PathBuf::new());
        assert_eq!(
            error.server_lines,
            [
                "LOG:  unrecognized configuration parameter \"bogus\" in file \"/d/c\" line 8",
                "FATAL:  configuration file \"/d/c\" contains errors"
            ]
        );
        let silent = StartError::from_log("one\n\ntwo\n", String::new(), PathBuf::new());
        assert_eq!(silent.server_lines, ["one", "two"]);
    }
}
