//! A message of the server with its fields, in whatever format it was.

use std::borrow::Cow;

use crate::log::executed::{VirtualTransaction, is_sql_state};
use crate::log::time::{self, LogTime};

/// The severity of a message, as far as it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum MessageLevel {
    /// LOG.
    #[default]
    Log,
    /// DEBUG, INFO, NOTICE, WARNING.
    Lower,
    /// ERROR, FATAL, PANIC.
    Error,
    /// A word of another language.
    Foreign,
}

/// Which session wrote a message, as well as the log says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum SessionKey {
    /// `%c`: start and process id.
    Id(u64, u32),
    /// Process id and start of the connection.
    Started(u32, i64),
    /// Process id alone.
    Process(u32),
    /// The log does not say.
    #[default]
    Unknown,
}

impl SessionKey {
    /// `65a0b1c2.1f4`, as `%c` writes it.
    pub(crate) fn from_id(text: &[u8]) -> Option<SessionKey> {
        let dot = memchr::memchr(b'.', text)?;
        let pid = u32::try_from(hex(&text[dot + 1..])?).ok()?;
        Some(SessionKey::Id(hex(&text[..dot])?, pid))
    }

    /// The best key that these facts make.
    pub(crate) fn best(id: Option<SessionKey>, pid: Option<u32>, started: Option<LogTime>) -> SessionKey {
        let with_start = || Some(SessionKey::Started(pid?, started?.us));
        id.or_else(with_start).or(pid.map(SessionKey::Process)).unwrap_or_default()
    }

    /// The process id in it.
    pub(crate) fn pid(self) -> Option<u32> {
        match self {
            SessionKey::Id(_, pid) | SessionKey::Started(pid, _) | SessionKey::Process(pid) => Some(pid),
            SessionKey::Unknown => None,
        }
    }
}

fn hex(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    digits.iter().try_fold(0_u64, |sum, byte| Some(sum << 4 | u64::from((*byte as char).to_digit(16)?)))
}

/// A virtual transaction id, as `%v` writes it.
pub(crate) fn virtual_transaction(text: &[u8]) -> Option<VirtualTransaction> {
    let slash = memchr::memchr(b'/', text)?;
    // Prepared transactions and background work have -1 as backend.
    let backend = time::number_u32(&text[..slash])?;
    let local = u64::try_from(time::number(&text[slash + 1..])?).ok()?;
    Some(VirtualTransaction { backend, local })
}

/// SQLSTATE; `00000` is none.
pub(crate) fn sql_state(text: &[u8]) -> Option<[u8; 5]> {
    let state: [u8; 5] = text.try_into().ok()?;
    (is_sql_state(&state) && &state != b"00000").then_some(state)
}

/// A signed number; 0 if it is none.
pub(crate) fn signed(text: &[u8]) -> i64 {
    match text {
        [b'-', digits @ ..] => time::number(digits).map_or(0, |n| -n),
        digits => time::number(digits).unwrap_or(0),
    }
}

/// A message. Empty fields are unknown.
#[derive(Debug, Default, Clone)]
pub(crate) struct LogRecord<'a> {
    /// Number of its first line in the file.
    pub(crate) line: u64,
    pub(crate) time: Option<LogTime>,
    pub(crate) started: Option<LogTime>,
    pub(crate) session: SessionKey,
    pub(crate) user: &'a [u8],
    pub(crate) database: &'a [u8],
    pub(crate) application: &'a [u8],
    pub(crate) transaction: Option<VirtualTransaction>,
    pub(crate) xid: u64,
    pub(crate) query_id: i64,
    /// The activity that `ps` shows: `BIND`, `SELECT`.
    pub(crate) tag: &'a [u8],
    /// `client backend`, `checkpointer`.
    pub(crate) process_kind: &'a [u8],
    pub(crate) is_worker: bool,
    pub(crate) level: MessageLevel,
    pub(crate) state: Option<[u8; 5]>,
    pub(crate) message: Cow<'a, [u8]>,
    pub(crate) detail: Cow<'a, [u8]>,
    pub(crate) context: Cow<'a, [u8]>,
    pub(crate) statement: Cow<'a, [u8]>,
    /// Which server wrote it, where an export or syslog names it.
    pub(crate) server: &'a [u8],
}

/// A severity as the server writes it in English.
pub(crate) fn level(word: &[u8]) -> Option<MessageLevel> {
    Some(match word {
        b"LOG" => MessageLevel::Log,
        b"ERROR" | b"FATAL" | b"PANIC" => MessageLevel::Error,
        b"INFO" | b"NOTICE" | b"WARNING" | b"DEBUG" => MessageLevel::Lower,
        [b'D', b'E', b'B', b'U', b'G', b'1'..=b'5'] => MessageLevel::Lower,
        _ => return None,
    })
}
