//! Messages of several lines put together: the text of a statement over lines, DETAIL, CONTEXT and STATEMENT.

use std::borrow::Cow;

use anyhow::Result;

use crate::log::LINE_BYTES_MAX;
use crate::log::combine::Combiner;
use crate::log::executed::{VirtualTransaction, is_sql_state};
use crate::log::format::prefix::{LineKind, PrefixedLine};
use crate::log::format::record::{LogRecord, MessageLevel, SessionKey};
use crate::log::reading::SkipReason;
use crate::log::time::LogTime;

/// Bytes of all messages that are open at once.
const OPEN_BYTES_MAX: usize = 4 * LINE_BYTES_MAX;

/// The order of lines of several processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interleaving {
    /// A message's lines follow each other, as the server's collector writes them.
    Whole,
    /// Lines of other processes may come between, as in syslog and in exports.
    Mixed,
}

impl Interleaving {
    /// The number of messages that may be open.
    fn open_max(self) -> usize {
        match self {
            Interleaving::Whole => 1,
            Interleaving::Mixed => 64,
        }
    }
}

/// Facts of an envelope (syslog, an export) about a line.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Envelope<'a> {
    pub(crate) time: Option<LogTime>,
    pub(crate) pid: Option<u32>,
    pub(crate) server: &'a [u8],
}

/// Which part of a message its next continuation line extends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    Message,
    Detail,
    Context,
    Statement,
    Other,
}

/// A message whose end has not been seen.
#[derive(Debug)]
struct OpenMessage {
    line: u64,
    time: Option<LogTime>,
    started: Option<LogTime>,
    session: SessionKey,
    user: Vec<u8>,
    database: Vec<u8>,
    application: Vec<u8>,
    transaction: Option<VirtualTransaction>,
    xid: u64,
    query_id: i64,
    tag: Vec<u8>,
    process_kind: Vec<u8>,
    is_worker: bool,
    level: MessageLevel,
    state: Option<[u8; 5]>,
    server: Vec<u8>,
    message: Vec<u8>,
    detail: Vec<u8>,
    context: Vec<u8>,
    statement: Vec<u8>,
    part: Open,
    n_bytes: usize,
}

/// Open messages, the one that grew last at the end.
pub(crate) struct Assembly {
    open: Vec<OpenMessage>,
    interleaving: Interleaving,
    /// Whether continuation lines begin with a tab in this file, so that lines without prefix and tab are no part of messages.
    has_tabs: bool,
}

impl Assembly {
    pub(crate) fn new(interleaving: Interleaving) -> Assembly {
        Assembly { open: Vec::new(), interleaving, has_tabs: false }
    }

    /// A line that begins with the prefix.
    pub(crate) fn prefixed(
        &mut self,
        found: &PrefixedLine,
        envelope: Envelope,
        line: u64,
        combiner: &mut Combiner,
    ) -> Result<()> {
        let session = match (found.fields.session(), envelope.pid) {
            (SessionKey::Unknown, Some(pid)) => SessionKey::Process(pid),
            (session, _) => session,
        };
        let (level, part) = match found.kind {
            LineKind::Primary(level) => (level, Open::Message),
            LineKind::Detail => (MessageLevel::Log, Open::Detail),
            LineKind::Context => (MessageLevel::Log, Open::Context),
            LineKind::Statement => (MessageLevel::Log, Open::Statement),
            LineKind::Other => (MessageLevel::Log, Open::Other),
        };
        let same = self.open.iter().position(|message| message.session == session);
        if part != Open::Message {
            let Some(at) = same else {
                combiner.skip(SkipReason::Orphan);
                return Ok(());
            };
            let mut message = self.open.remove(at);
            message.part = part;
            message.append(found.text, b"");
            self.open.push(message);
            return self.bound(combiner);
        }
        if let Some(at) = same {
            self.open.remove(at).finish(combiner)?;
        }
        while self.open.len() >= self.interleaving.open_max() {
            self.open.remove(0).finish(combiner)?;
        }
        self.open.push(OpenMessage::new(found, session, level, envelope, line));
        Ok(())
    }

    /// A line that continues the text before: after a newline, or where syslog has cut a long line.
    pub(crate) fn continued(
        &mut self,
        text: &[u8],
        after: &[u8],
        pid: Option<u32>,
        combiner: &mut Combiner,
    ) -> Result<()> {
        let is_same = |message: &OpenMessage| pid.is_none() || message.session.pid() == pid;
        let Some(at) = self.open.iter().rposition(is_same) else {
            combiner.skip(SkipReason::Orphan);
            return Ok(());
        };
        self.open[at].append(text, after);
        self.bound(combiner)
    }

    /// The DETAIL that an export has apart from the message.
    pub(crate) fn detail(&mut self, text: &[u8], pid: Option<u32>) {
        let is_same = |message: &&mut OpenMessage| pid.is_none() || message.session.pid() == pid;
        if let Some(message) = self.open.iter_mut().rev().find(is_same) {
            message.part = Open::Detail;
            message.append(text, b"");
        }
    }

    /// A line of stderr that begins with a tab, or with nothing that is expected.
    pub(crate) fn unprefixed(&mut self, line: &[u8], combiner: &mut Combiner) -> Result<()> {
        if let Some(text) = line.strip_prefix(b"\t") {
            self.has_tabs = true;
            return self.continued(text, b"\n", None, combiner);
        }
        // Some collectors remove the tab. Where they do not, such a line is another program's.
        if !self.has_tabs && !self.open.is_empty() {
            return self.continued(line, b"\n", None, combiner);
        }
        combiner.skip(if line.is_empty() { SkipReason::Empty } else { SkipReason::NoRecord });
        Ok(())
    }

    /// The end of the file.
    pub(crate) fn finish(&mut self, combiner: &mut Combiner) -> Result<()> {
        self.open.drain(..).try_for_each(|message| message.finish(combiner))
    }

    /// Closes messages that are too large together, the oldest first.
    fn bound(&mut self, combiner: &mut Combiner) -> Result<()> {
        while self.open.len() > 1 && self.open.iter().map(|open| open.n_bytes).sum::<usize>() > OPEN_BYTES_MAX
        {
            self.open.remove(0).finish(combiner)?;
        }
        Ok(())
    }
}

impl OpenMessage {
    fn new(
        found: &PrefixedLine,
        session: SessionKey,
        level: MessageLevel,
        envelope: Envelope,
        line: u64,
    ) -> OpenMessage {
        let fields = found.fields;
        // `log_error_verbosity = verbose` writes `ERROR:  42P01: message`.
        let (state, text) = match found.text {
            [a, b, c, d, e, b':', b' ', text @ ..] if is_state(&[*a, *b, *c, *d, *e]) => {
                (super::record::sql_state(&[*a, *b, *c, *d, *e]), text)
            }
            text => (fields.state, text),
        };
        OpenMessage {
            line,
            time: fields.time.or(envelope.time),
            started: fields.started,
            session,
            user: fields.user.to_vec(),
            database: fields.database.to_vec(),
            application: fields.application.to_vec(),
            transaction: fields.transaction,
            xid: fields.xid,
            query_id: fields.query_id,
            tag: fields.tag.to_vec(),
            process_kind: fields.process_kind.to_vec(),
            is_worker: fields.is_worker,
            level,
            state,
            server: envelope.server.to_vec(),
            message: text.to_vec(),
            detail: Vec::new(),
            context: Vec::new(),
            statement: Vec::new(),
            part: Open::Message,
            n_bytes: text.len(),
        }
    }

    /// Extends the open part. What is too long is only counted, and the whole message left out at its end.
    fn append(&mut self, text: &[u8], after: &[u8]) {
        self.n_bytes += text.len() + after.len();
        if self.n_bytes > LINE_BYTES_MAX {
            return;
        }
        let part = match self.part {
            Open::Message => &mut self.message,
            Open::Detail => &mut self.detail,
            Open::Context => &mut self.context,
            Open::Statement => &mut self.statement,
            Open::Other => return,
        };
        part.extend_from_slice(after);
        part.extend_from_slice(text);
    }

    fn finish(self, combiner: &mut Combiner) -> Result<()> {
        if self.n_bytes > LINE_BYTES_MAX {
            combiner.skip(SkipReason::TooLong);
            return Ok(());
        }
        combiner.record(&LogRecord {
            line: self.line,
            time: self.time,
            started: self.started,
            session: self.session,
            user: &self.user,
            database: &self.database,
            application: &self.application,
            transaction: self.transaction,
            xid: self.xid,
            query_id: self.query_id,
            tag: &self.tag,
            process_kind: &self.process_kind,
            is_worker: self.is_worker,
            level: self.level,
            state: self.state,
            message: Cow::Borrowed(&self.message),
            detail: Cow::Borrowed(&self.detail),
            context: Cow::Borrowed(&self.context),
            statement: Cow::Borrowed(&self.statement),
            server: &self.server,
        })
    }
}

/// Whether it is a SQLSTATE, all of which have digits, and no word.
fn is_state(state: &[u8; 5]) -> bool {
    is_sql_state(state) && state.iter().any(u8::is_ascii_digit)
}
