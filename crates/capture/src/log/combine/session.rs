//! What is open in one session.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::log::combine::message::Said;
use crate::log::executed::{ExecutedStatement, LoggedSession, SessionId};
use crate::log::format::record::LogRecord;

/// Parses that wait for their first execution.
pub(super) const PARSES_MAX: usize = 32;

/// Bytes of texts of PREPARE that a session may hold; without them, the DETAIL of EXECUTE has the text.
const PREPARED_BYTES_MAX: usize = 1 << 20;

/// A statement whose duration may follow.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) statement: ExecutedStatement,
    /// The text as it was logged, if the statement has another.
    pub(super) logged: Option<String>,
}

impl Pending {
    /// The text by which an error refers to it.
    pub(super) fn logged(&self) -> &str {
        self.logged.as_deref().unwrap_or(&self.statement.text)
    }
}

/// A `bind` that waits for its execution.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) name: Vec<u8>,
    pub(super) text_hash: u64,
    pub(super) us: u64,
    /// The values, which an error of the execution does not have.
    pub(super) detail: Vec<u8>,
}

/// A session.
#[derive(Debug, Default)]
pub(super) struct SessionState {
    /// From its first statement.
    pub(super) id: Option<SessionId>,
    pub(super) facts: LoggedSession,
    pub(super) last_us: i64,
    pub(super) is_superseded: bool,
    pub(super) pending: Option<Box<Pending>>,
    pub(super) parses: Vec<(Vec<u8>, u64)>,
    pub(super) bound: Option<Box<Bound>>,
    /// Durations without text that may be those of a parse and a bind.
    pub(super) loose_us: Vec<u64>,
    prepared: HashMap<String, String>,
    prepared_bytes: usize,
}

impl SessionState {
    /// Bytes of texts that it holds.
    pub(super) fn held_bytes(&self) -> usize {
        let pending = self
            .pending
            .as_ref()
            .map_or(0, |pending| 2 * pending.statement.text.len() + pending.statement.parameters.len() * 32);
        let bound = self.bound.as_ref().map_or(0, |bound| bound.detail.len());
        let parses: usize = self.parses.iter().map(|(name, _)| name.len()).sum();
        pending + bound + parses + self.prepared_bytes
    }

    /// Learns who it is.
    pub(super) fn describe(&mut self, record: &LogRecord) {
        let learn = |known: &mut Option<String>, value: &[u8]| {
            if known.is_none() && !value.is_empty() && value != b"[unknown]" {
                *known = Some(String::from_utf8_lossy(value).into_owned());
            }
        };
        learn(&mut self.facts.user, record.user);
        learn(&mut self.facts.database, record.database);
        learn(&mut self.facts.application, record.application);
        if self.facts.began_us.is_none() {
            self.facts.began_us = record.started.map(|time| time.us);
        }
    }

    /// A message about its connection.
    pub(super) fn connected(&mut self, message: &[u8], said: Said, now_us: i64) {
        match said {
            Said::Received => self.facts.began_us = Some(now_us),
            Said::Disconnected => self.facts.ended_us = Some(now_us),
            _ => {
                let words = String::from_utf8_lossy(message);
                let value = |key: &str| {
                    let begin = words.find(key)? + key.len();
                    words[begin..].split(' ').next().map(str::to_string)
                };
                self.facts.user = self.facts.user.take().or_else(|| value("user="));
                self.facts.database = self.facts.database.take().or_else(|| value("database="));
            }
        }
    }

    /// Remembers a PREPARE.
    pub(super) fn prepare(&mut self, name: String, text: &str) {
        if self.prepared_bytes + text.len() > PREPARED_BYTES_MAX {
            self.forget_prepared();
        }
        if text.len() <= PREPARED_BYTES_MAX {
            self.prepared_bytes += name.len() + text.len();
            self.prepared.insert(name, text.to_string());
        }
    }

    pub(super) fn prepared(&self, name: &str) -> Option<&str> {
        self.prepared.get(name).map(String::as_str)
    }

    pub(super) fn forget_prepared(&mut self) {
        self.prepared.clear();
        self.prepared_bytes = 0;
    }
}

/// A hash by which the text of a bind is compared with that of an error.
pub(super) fn text_hash(text: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
