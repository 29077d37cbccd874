//! A blocking session for cold paths: preparing, administering and observing a server. Not for load, which has no time
//! to allocate rows.

mod extension;
mod limit;
mod lock_watch;
mod own_role;
mod quoted;
mod receive;
mod search_path;

pub use self::extension::Extension;
pub use self::limit::{Entered, Limit};
pub use self::search_path::{EMPTY_LOCAL_SQL, SearchPath};
pub use crate::dial::CancelHandle;
pub use crate::quote::{quote_ident, quote_literal};
pub use crate::rows::Rows;

use crate::answer::AnswerEvent;
use crate::conninfo::{Conninfo, Host};
use crate::dial::{ConnectError, Connection, DialProgress, Dialing, connect};
use crate::link::Want;
use crate::message::{self, BindBuilder};
use crate::reply::{ServerError, rows_of_tag};
use crate::scan::{ProtocolError, Scanner};
use lock_watch::LockWatch;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Most attempts to read what the server sent before it could no longer be written to.
const LAST_LOOKS_MAX: usize = 1000;
/// Maximum size of the messages that COPY data is split into.
const COPY_MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Pause between two looks at the flag of [`Session::set_stop`].
const STOP_LOOK: Duration = Duration::from_millis(100);
/// Time limit of the cancel request after the flag is raised: the server may hang.
const CANCEL_MAX: Duration = Duration::from_secs(1);

/// A connection and its state.
#[derive(Debug)]
pub struct Session {
    connection: Connection,
    scanner: Scanner,
    /// Received bytes; those from `n_scanned` on have not been scanned.
    inbox: Vec<u8>,
    n_scanned: usize,
    outbox: Vec<u8>,
    events: VecDeque<AnswerEvent>,
    notices: Vec<ServerError>,
    notice_bytes: usize,
    /// Memory that the answer to the current call takes so far.
    answer_bytes: usize,
    /// ReadyForQuery messages that the current call waits for.
    n_awaited: u32,
    timeout: Option<Duration>,
    stop: Option<&'static AtomicBool>,
    /// Watches the waits of a session that administers.
    lock_watch: Option<Box<LockWatch>>,
    /// What the session began with, once [`Session::empty_search_path`] has replaced it.
    search_path: Option<SearchPath>,
    is_lost: bool,
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The server rejected the statement; the session continues (unless the severity is FATAL or PANIC).
    #[error("{}", server_text(.0))]
    Server(ServerError),
    /// The connection is gone.
    #[error("lost the connection to the server: {0}")]
    /// The system's error is part of the text, so not a source: a chain of causes would repeat it.
    Lost(io::Error),
    /// No answer within the time of [`Session::set_timeout`]. A cancel request was sent if the server accepted it; the
    /// session can no longer be used.
    #[error("no answer from the server within {0:?}")]
    Timeout(Duration),
    /// The flag of [`Session::set_stop`] is raised. A cancel request was sent if the server accepted it; the session
    /// can no longer be used.
    #[error("stopped while waiting for the server")]
    Stopped,
    /// The [`Limit`] of the thread has passed, or a session that administers ([`Session::administer`]) has found that
    /// waiting is pointless. A cancel request was sent if the server accepted it; the session can no longer be used.
    #[error("{0}")]
    GaveUp(String),
    /// The database gives a superuser's session another role ([`Session::expect_own_role`]).
    #[error(
        "database `{database}` gives superuser `{user}` the role `{role}` (ALTER DATABASE ... SET role), which could run code with the \
         rights of `{user}`; connect to {place} as `{role}`, or reset that setting"
    )]
    #[allow(missing_docs, reason = "the message says it")]
    GivenRole { user: String, role: String, database: String, place: String },
    /// The server violated the protocol. The session can no longer be used.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// The statement of [`Session::copy_in`] is not a `COPY ... FROM STDIN`.
    #[error("the statement is not a COPY FROM STDIN")]
    NotCopyIn,
}

/// Result of [`Session::copy_in`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// Bytes of data sent, without the protocol's headers.
    pub data_bytes: u64,
    /// Rows, as counted by the server.
    pub n_rows: u64,
}

type Result<T> = std::result::Result<T, SessionError>;

impl Session {
    /// Connects with [`Conninfo::for_own_sessions`]: the server's text is read as UTF-8.
    ///
    /// # Errors
    /// See [`connect`]; or the [`Limit`] of the thread passes.
    pub fn connect(conninfo: &Conninfo) -> std::result::Result<Session, ConnectError> {
        let connection = dial_unless(Dialing::start(&conninfo.for_own_sessions())?, || false)?;
        Ok(Session::from_connection(connection.expect("nobody says that it is over")))
    }

    /// Connects with the session's settings unchanged, like programs based on libpq. Text in another encoding than
    /// UTF-8 loses its non-ASCII characters.
    ///
    /// # Errors
    /// See [`connect`].
    pub fn connect_as_libpq(conninfo: &Conninfo) -> std::result::Result<Session, ConnectError> {
        connect(conninfo).map(Session::from_connection)
    }

    /// Connects, unless `stop` is raised first; the session then obeys the flag as after [`Session::set_stop`]. `None`
    /// if it was raised.
    ///
    /// # Errors
    /// See [`connect`]; or the [`Limit`] of the thread passes.
    pub fn connect_unless(
        conninfo: &Conninfo,
        stop: &'static AtomicBool,
    ) -> std::result::Result<Option<Session>, ConnectError> {
        let connection =
            dial_unless(Dialing::start(&conninfo.for_own_sessions())?, || stop.load(Ordering::Relaxed))?;
        Ok(connection.map(|connection| {
            let mut session = Session::from_connection(connection);
            session.set_stop(stop);
            session
        }))
    }

    /// Wraps a connection that is ready for queries.
    pub fn from_connection(mut connection: Connection) -> Session {
        let mut scanner = Scanner::new();
        scanner.want_rows(true);
        Session {
            inbox: std::mem::take(&mut connection.leftover),
            connection,
            scanner,
            n_scanned: 0,
            outbox: Vec::new(),
            events: VecDeque::new(),
            notices: Vec::new(),
            notice_bytes: 0,
            answer_bytes: 0,
            n_awaited: 0,
            timeout: None,
            stop: None,
            lock_watch: None,
            search_path: None,
            is_lost: false,
        }
    }

    /// Limits the time of each call from now on. Drop the session after a [`SessionError::Timeout`].
    pub fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.timeout = timeout;
    }

    /// From now on, ends every wait soon after `stop` is raised, and cancels the statement. Drop the session after a
    /// [`SessionError::Stopped`].
    pub fn set_stop(&mut self, stop: &'static AtomicBool) {
        self.stop = Some(stop);
    }

    /// Runs one or more statements and discards their rows.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub fn execute(&mut self, sql: &str) -> Result<()> {
        self.query(sql).map(drop)
    }

    /// Runs one or more statements in the simple protocol and returns the rows of the last one that has any.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub fn query(&mut self, sql: &str) -> Result<Rows> {
        self.ask(sql)?;
        message::query(&mut self.outbox, sql);
        self.exchange()
    }

    /// Runs one statement in the extended protocol, with `params` as text for `$1`, `$2`, ...
    ///
    /// # Errors
    /// See [`SessionError`].
    pub fn query_params(&mut self, sql: &str, params: &[Option<&str>]) -> Result<Rows> {
        self.ask(sql)?;
        message::parse(&mut self.outbox, "", sql);
        let mut bind = BindBuilder::begin(&mut self.outbox, "");
        for param in params {
            match param {
                Some(value) => bind.param(value.as_bytes()),
                None => bind.null(),
            }
        }
        bind.finish();
        message::describe_portal(&mut self.outbox, "");
        message::execute(&mut self.outbox, "", 0);
        message::sync(&mut self.outbox);
        self.exchange()
    }

    /// Prepares a named statement.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub fn prepare(&mut self, name: &str, sql: &str) -> Result<()> {
        self.ask(sql)?;
        message::parse(&mut self.outbox, name, sql);
        message::sync(&mut self.outbox);
        self.exchange().map(drop)
    }

    /// The names of the columns that a statement returns, which is parsed and not executed; none if it returns no rows.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub fn columns(&mut self, sql: &str) -> Result<Vec<String>> {
        self.ask(sql)?;
        message::parse(&mut self.outbox, "", sql);
        message::describe_statement(&mut self.outbox, "");
        message::sync(&mut self.outbox);
        self.exchange().map(|rows| rows.columns)
    }

    /// Runs a `COPY ... FROM STDIN` and streams data to it. `fill` appends the next piece to the (empty) buffer and
    /// returns whether there is more; 64 KiB is a good size for a piece. It is called no faster than the server reads.
    /// The timeout of [`Session::set_timeout`] applies to each piece.
    ///
    /// # Errors
    /// See [`SessionError`]; if the server fails in the middle, `fill` is not called again.
    pub fn copy_in(&mut self, sql: &str, mut fill: impl FnMut(&mut Vec<u8>) -> bool) -> Result<Copied> {
        self.ask(sql)?;
        message::query(&mut self.outbox, sql);
        let deadline = self.deadline();
        self.send_outbox(deadline)?;
        loop {
            match self.next_event(deadline)? {
                AnswerEvent::CopyIn => break,
                AnswerEvent::Error(error) => {
                    self.collect(deadline, Some(error))?;
                }
                AnswerEvent::Ready => return Err(SessionError::NotCopyIn),
                AnswerEvent::Columns(_) | AnswerEvent::Row(_) | AnswerEvent::Tag(_) => {}
            }
        }
        let mut data_bytes = 0;
        let mut piece = Vec::new();
        let mut more = true;
        while more && self.events.is_empty() {
            piece.clear();
            more = fill(&mut piece);
            data_bytes += piece.len() as u64;
            for part in piece.chunks(COPY_MESSAGE_BYTES_MAX) {
                message::copy_data(&mut self.outbox, part);
            }
            self.send_outbox(self.deadline())?;
            // Nothing is expected now but an error, after which the server ignores the data.
            self.receive_what_is_there()?;
        }
        if self.events.is_empty() {
            message::copy_done(&mut self.outbox);
        }
        let rows = self.exchange()?;
        Ok(Copied { data_bytes, n_rows: rows_of_tag(rows.tag.as_bytes()) })
    }

    /// A handle that cancels the running statement from another thread.
    pub fn cancel_handle(&self) -> CancelHandle {
        self.connection.cancel_handle()
    }

    /// Notices and warnings since the last call.
    pub fn take_notices(&mut self) -> Vec<ServerError> {
        self.notice_bytes = 0;
        std::mem::take(&mut self.notices)
    }

    /// A setting that the server reports (`server_version`, `TimeZone`, ...).
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.connection.parameters.get(name).map(String::as_str)
    }

    /// The server's version as a number, such as 150004.
    pub fn server_version_num(&self) -> u32 {
        self.connection.server_version_num()
    }

    /// Process number of the backend.
    pub fn backend_pid(&self) -> i32 {
        self.connection.backend_pid
    }

    /// The server that was reached.
    pub fn host(&self) -> &Host {
        &self.connection.host
    }

    /// TLS version and cipher, if TLS is used.
    pub fn tls(&self) -> Option<&str> {
        self.connection.tls.as_deref()
    }

    /// Whether the session can no longer be used.
    pub fn is_lost(&self) -> bool {
        self.is_lost
    }

    fn deadline(&self) -> Option<Instant> {
        self.timeout.and_then(|timeout| Instant::now().checked_add(timeout))
    }

    /// Sends the outbox and collects the answer up to ReadyForQuery.
    fn exchange(&mut self) -> Result<Rows> {
        let deadline = self.deadline();
        self.send_outbox(deadline)?;
        self.collect(deadline, None)
    }

    fn collect(&mut self, deadline: Option<Instant>, mut failure: Option<ServerError>) -> Result<Rows> {
        let mut rows = Rows::default();
        loop {
            let event = match (self.next_event(deadline), failure.take()) {
                (Ok(event), earlier) => {
                    failure = earlier;
                    event
                }
                // A FATAL error, followed by the end of the connection.
                (Err(SessionError::Lost(_)), Some(error)) => return Err(SessionError::Server(error)),
                (Err(error), _) => return Err(error),
            };
            match event {
                AnswerEvent::Columns(columns) => rows = Rows { columns, ..Rows::default() },
                AnswerEvent::Row(row) => rows.rows.push(row),
                AnswerEvent::Tag(tag) => rows.tag = String::from_utf8_lossy(&tag).into_owned(),
                AnswerEvent::CopyIn => {
                    message::copy_fail(&mut self.outbox, "no data: this call does not copy");
                    self.send_outbox(deadline)?;
                }
                AnswerEvent::Error(mut error) => {
                    if let Some(lock_watch) = &self.lock_watch {
                        lock_watch.explain(&mut error);
                    }
                    failure.get_or_insert(error);
                }
                AnswerEvent::Ready => {
                    return failure.map_or(Ok(rows), |error| Err(SessionError::Server(error)));
                }
            }
        }
    }

    fn next_event(&mut self, deadline: Option<Instant>) -> Result<AnswerEvent> {
        let began = Instant::now();
        loop {
            if let Some(event) = self.events.pop_front() {
                self.heard();
                return Ok(event);
            }
            if !self.receive_what_is_there()? {
                self.wait(&[Want::Read], deadline)?;
            } else if self.events.is_empty() {
                // Neither a server that sends without end nor one that sends byte by byte may keep us past the
                // deadline.
                self.check_time(deadline, began)?;
                self.look()?;
            }
        }
    }

    fn check_stop(&mut self) -> Result<()> {
        if !self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return Ok(());
        }
        self.cancel_and_lose();
        Err(SessionError::Stopped)
    }

    /// Whether a wait that began at `began` may continue.
    fn check_time(&mut self, deadline: Option<Instant>, began: Instant) -> Result<()> {
        self.check_stop()?;
        if deadline.is_some_and(|at| Instant::now() >= at) {
            self.cancel_and_lose();
            return Err(SessionError::Timeout(self.timeout.unwrap_or_default()));
        }
        if Limit::current().is_over() { Err(self.give_up(self.overdue(began.elapsed()))) } else { Ok(()) }
    }

    /// Sends the outbox; reads the server's messages meanwhile, because it may stop reading until we do.
    fn send_outbox(&mut self, deadline: Option<Instant>) -> Result<()> {
        if self.is_lost {
            self.outbox.clear();
            return Err(SessionError::Lost(io::Error::other("the connection was lost before this call")));
        }
        let mut n_sent = 0;
        while n_sent < self.outbox.len() || self.connection.link.wants_write() {
            let result = match self.outbox.get(n_sent..) {
                Some(rest) if !rest.is_empty() => self.connection.link.send(rest),
                _ => self.connection.link.flush_pending().map(|()| 0),
            };
            match result {
                Ok(n) => n_sent += n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.heard();
                    self.wait(&[Want::Write, Want::Read], deadline)?;
                    self.receive_what_is_there()?;
                }
                Err(error) => return Err(self.last_words(error)),
            }
        }
        self.outbox.clear();
        self.heard();
        Ok(())
    }

    fn wait(&mut self, want: &[Want], deadline: Option<Instant>) -> Result<()> {
        let began = Instant::now();
        let limit = Limit::current();
        loop {
            self.check_stop()?;
            let look_at = self.stop.map(|_| Instant::now() + STOP_LOOK);
            let next_look = self.lock_watch.as_ref().map(|lock_watch| lock_watch.next_look());
            let until = [deadline, limit.until, look_at, next_look].into_iter().flatten().min();
            match self.connection.link.wait(want, until) {
                Ok(true) => return Ok(()),
                Ok(false) => {
                    self.check_time(deadline, began)?;
                    self.look()?;
                }
                Err(error) => return Err(self.lost(error)),
            }
        }
    }

    /// Notes that the server accepted data or sent a complete message. Single bytes are no sign of life.
    fn heard(&mut self) {
        if let Some(lock_watch) = &mut self.lock_watch {
            lock_watch.has_heard();
        }
    }

    /// Cancels the statement and marks the session as lost: otherwise the server would finish a statement that nobody
    /// waits for, and others would wait for its locks.
    fn cancel_and_lose(&mut self) {
        self.is_lost = true;
        let late = Instant::now() + CANCEL_MAX;
        if let Ok(cancel) = Dialing::start_cancel(&self.cancel_handle()) {
            let _outer = Limit::suspend();
            // If the server does not accept the request, nothing can be done.
            let _ = dial_unless(cancel, || Instant::now() >= late);
        }
    }

    /// Why sending failed: the server's last message before it closed the connection, if any.
    fn last_words(&mut self, error: io::Error) -> SessionError {
        for _ in 0..LAST_LOOKS_MAX {
            match self.receive_what_is_there() {
                Ok(true) => {}
                Ok(false) => break,
                // The error returned here covers whatever the server sent.
                Err(SessionError::Lost(_)) => return SessionError::Lost(error),
                Err(other) => return other,
            }
        }
        self.lost(error)
    }

    /// The end of the connection: the server's message about it, if it has arrived.
    fn lost(&mut self, error: io::Error) -> SessionError {
        self.is_lost = true;
        let said = self.events.drain(..).find_map(|event| match event {
            AnswerEvent::Error(error) => Some(SessionError::Server(error)),
            _ => None,
        });
        said.unwrap_or(SessionError::Lost(error))
    }
}

impl Drop for Session {
    /// Sends Terminate, so that the server's log does not report a lost connection.
    fn drop(&mut self) {
        if !self.is_lost {
            let mut goodbye = Vec::new();
            message::terminate(&mut goodbye);
            // If it cannot be sent, closing the socket means the same.
            let _ = self.connection.link.send(&goodbye);
        }
    }
}

/// Connects, unless `is_over`, which is called now and then, says first that the connection is no longer needed. The
/// limit of the thread ends it with an error.
fn dial_unless(
    mut dialing: Dialing,
    is_over: impl Fn() -> bool,
) -> std::result::Result<Option<Connection>, ConnectError> {
    let (began, limit) = (Instant::now(), Limit::current());
    loop {
        let want = match dialing.advance()? {
            DialProgress::Done(connection) => return Ok(Some(connection)),
            DialProgress::WantRead => Want::Read,
            DialProgress::WantWrite => Want::Write,
        };
        if is_over() {
            return Ok(None);
        }
        if limit.is_over() {
            return Err(dialing.timed_out(began.elapsed()));
        }
        let look_at = Instant::now() + STOP_LOOK;
        let until = dialing.deadline().map_or(look_at, |deadline| deadline.min(look_at));
        if dialing.link_mut().is_none_or(|link| link.wait(&[want], Some(until)).is_err()) {
            // Continuing will show what is wrong; this may only not spin.
            thread::sleep(STOP_LOOK);
        }
    }
}

fn server_text(error: &ServerError) -> String {
    let mut text = error.to_string();
    for (label, more) in [("detail", &error.detail), ("hint", &error.hint)] {
        if let Some(more) = more {
            text.push_str(&format!("; {label}: {more}"));
        }
    }
    text
}
