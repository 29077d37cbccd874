//! What a log says about executed statements: the values that readers push.

pub use crate::value::logged::LoggedValue;

/// A session of the log; numbers are dense, in the order of their first statements.
pub type SessionId = u32;

/// SQLSTATE of an error whose code the log does not have: `%e` is not in `log_line_prefix`, and the message is not a well-known one.
pub const UNKNOWN_STATE: [u8; 5] = *b"?????";

/// Whether these bytes can be a SQLSTATE.
pub(crate) fn is_sql_state(state: &[u8]) -> bool {
    state.len() == 5 && state.iter().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase())
}

/// One executed statement of a session, as a log describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutedStatement {
    /// The session.
    pub session: SessionId,
    /// Microseconds since 1970 UTC: time of the line that has the duration, minus the duration; without durations, time of the line.
    pub start_us: i64,
    /// Execution alone; `None` if the log has no duration for it.
    pub duration_us: Option<u64>,
    /// Time of its `parse` line, 0 if there is none.
    pub parse_us: u64,
    /// Time of its `bind` line, 0 if there is none.
    pub bind_us: u64,
    /// The protocol by which the client sent it.
    pub protocol: Protocol,
    /// The text, as in the log; for EXECUTE of a prepared statement with plain values, the prepared text.
    pub text: String,
    /// `$1` and the following ones.
    pub parameters: Vec<LoggedValue>,
    /// From the line with the text. A log without text before execution has `n/0` for COMMIT and for statements outside of blocks.
    pub transaction: Option<VirtualTransaction>,
    /// Transaction id, 0 if none was assigned or the log has none.
    pub xid: u64,
    /// Query id, 0 if unknown.
    pub query_id: i64,
    /// SQLSTATE if it failed, or [`UNKNOWN_STATE`].
    pub error: Option<[u8; 5]>,
    /// The place among several statements of one message; `1 of 1` for most.
    pub batch: BatchPart,
    /// Whether it fetches more rows of a portal that was executed before.
    pub is_fetch: bool,
}

/// The place of a statement among those that were sent in one simple query. The duration is that of all of them and is kept by the first
/// one; that of the others is unknown. They are one transaction unless they contain BEGIN or COMMIT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchPart {
    /// From 1.
    pub number: u32,
    /// The number of parts.
    pub of: u32,
}

impl BatchPart {
    /// A statement that was sent alone.
    pub const ALONE: BatchPart = BatchPart { number: 1, of: 1 };
}

/// The protocol by which a client sent a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Protocol {
    /// As a simple query.
    Simple,
    /// As an unnamed statement of the extended protocol.
    Extended,
    /// As a named prepared statement, of the protocol or by PREPARE.
    Named(String),
}

/// A virtual transaction id, as `%v` writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VirtualTransaction {
    /// Number of the backend's slot.
    pub backend: u32,
    /// Number within the backend; 0 outside of a transaction.
    pub local: u64,
}

/// Facts of a log about a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoggedSession {
    /// The role.
    pub user: Option<String>,
    /// The database.
    pub database: Option<String>,
    /// `application_name`.
    pub application: Option<String>,
    /// When it connected, in microseconds since 1970 UTC.
    pub began_us: Option<i64>,
    /// When it disconnected.
    pub ended_us: Option<i64>,
}

/// The receiver of statements. Those of a session arrive in their order; across sessions, in the order of the lines that complete
/// them.
pub trait StatementSink {
    /// Before the first statement of a session.
    fn session_began(&mut self, id: SessionId, session: &LoggedSession);
    /// After its last statement; `ended_us` is unknown if the log does not show the end.
    fn session_ended(&mut self, id: SessionId, session: &LoggedSession);
    /// A statement.
    fn executed(&mut self, statement: ExecutedStatement);
}
