//! Watches the waits of a session that administers: while a statement runs, another connection finds out what it waits
//! for. Names the holder of a lock, and gives up on a server that answers nobody.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{Limit, Result, Rows, Session, SessionError, dial_unless};
use crate::conninfo::Conninfo;
use crate::dial::{CancelHandle, ConnectError, Dialing};
use crate::quote::quote_literal;
use crate::reply::ServerError;

/// SQLSTATE of servers that give up waiting for a lock (`lock_not_available`).
const LOCK_NOT_AVAILABLE: &str = "55P03";
/// Since this version a server reports which processes block another one.
const BLOCKING_PIDS_VERSION_NUM: u32 = 90_600;
/// Time between two looks, and the time limit of each.
const LOOK_MAX: Duration = Duration::from_secs(5);
const LOOK_MIN: Duration = Duration::from_millis(200);
/// How many characters of a statement are shown.
const STATEMENT_CHARS_MAX: usize = 120;
/// How many holders of one lock are named.
const N_HOLDERS_MAX: usize = 3;

/// State of the statement that a session waits for.
#[derive(Debug)]
pub(super) struct LockWatch {
    lock_wait_max: Duration,
    /// The server process, if no pooler is in between.
    pid: Option<i32>,
    version_num: u32,
    statement: String,
    /// Description of what the last look found.
    seen: String,
    next_look: Instant,
    silent_since: Option<Instant>,
    blocked_since: Option<Instant>,
}

/// What the watched session is doing, as another session reports it.
struct Look {
    /// Description for messages.
    text: String,
    is_blocked: bool,
}

impl Session {
    /// Makes this a session that administers. Its search path is emptied ([`Session::empty_search_path`]). The server
    /// is asked to give up waiting for locks that others hold, and settings of the role or the database that would end
    /// the session or its statements are lifted: the limit of the thread replaces them. `row_security` is off: the server
    /// refuses to read a table whose policies apply to the user, instead of calling their functions with the user's
    /// rights. Behind a pooler, which shares its sessions, no setting is touched, and only this end gives up. A superuser has to have
    /// its own role ([`Session::expect_own_role`]).
    ///
    /// # Errors
    /// See [`SessionError`].
    pub fn administer(&mut self) -> Result<()> {
        let lock_wait_max = Limit::current().lock_wait_max;
        self.empty_search_path()?;
        let pid = self.query("select pg_catalog.pg_backend_pid()")?;
        let is_direct = pid.scalar() == Some(&*self.backend_pid().to_string());
        if is_direct {
            let lock_ms = lock_wait_max.as_millis().max(1);
            // A shorter lock_timeout set by the user stays. Each release has some of these settings.
            let sql = format!(
                "select pg_catalog.set_config(name, case name when 'lock_timeout' then '{lock_ms}' \
                 when 'row_security' then 'off' else '0' end, false) \
                 from pg_catalog.pg_settings where name in ('statement_timeout', 'transaction_timeout', \
                 'idle_in_transaction_session_timeout', 'idle_session_timeout', 'row_security') \
                 or name = 'lock_timeout' and setting::bigint not between 1 and {lock_ms}"
            );
            match self.query(&sql) {
                // A server that only speaks PostgreSQL's protocol may lack such settings.
                Ok(_) | Err(SessionError::Server(_)) => {}
                Err(error) => return Err(error),
            }
        }
        self.expect_own_role()?;
        self.lock_watch = Some(Box::new(LockWatch {
            lock_wait_max,
            pid: is_direct.then(|| self.backend_pid()),
            version_num: self.server_version_num(),
            statement: String::new(),
            seen: String::new(),
            next_look: Instant::now(),
            silent_since: None,
            blocked_since: None,
        }));
        Ok(())
    }

    /// Checks what the statement waits for, if it is time.
    pub(super) fn look(&mut self) -> Result<()> {
        let handle = self.cancel_handle();
        let Some(lock_watch) = &mut self.lock_watch else { return Ok(()) };
        if Instant::now() < lock_watch.next_look {
            return Ok(());
        }
        match lock_watch.look(&handle, self.stop) {
            Ok(()) => Ok(()),
            Err(reason) => Err(self.give_up(reason)),
        }
    }

    /// Sends a cancel request, if the server accepts it, and gives up for `reason`.
    pub(super) fn give_up(&mut self, reason: String) -> SessionError {
        self.cancel_and_lose();
        SessionError::GaveUp(reason)
    }

    /// Message for a statement that is given up at the end of the thread's limit.
    pub(super) fn overdue(&self, waited: Duration) -> String {
        let what = self.lock_watch.as_ref().map(|lock_watch| lock_watch.what()).unwrap_or_default();
        format!("the server did not answer in time: waited {:.1} s{what}", waited.as_secs_f64())
    }
}

impl LockWatch {
    /// Starts watching another statement.
    pub(super) fn begin(&mut self, sql: &str) {
        self.statement.clear();
        self.statement.push_str(sql);
        self.seen.clear();
        self.blocked_since = None;
        self.has_heard();
    }

    /// Notes that part of the answer has arrived.
    pub(super) fn has_heard(&mut self) {
        self.next_look = Instant::now() + self.pause();
        self.silent_since = None;
    }

    pub(super) fn next_look(&self) -> Instant {
        self.next_look
    }

    /// Adds the holder of the lock to the error of a server that gave up waiting for it.
    pub(super) fn explain(&self, error: &mut ServerError) {
        if error.sqlstate == LOCK_NOT_AVAILABLE && self.blocked_since.is_some() {
            let before = error.detail.take().map(|detail| format!("{detail}; ")).unwrap_or_default();
            error.detail = Some(format!("{before}{}", self.seen).into());
        }
    }

    fn pause(&self) -> Duration {
        (self.lock_wait_max() / 4).clamp(LOOK_MIN, LOOK_MAX)
    }

    /// The lock wait limit: a session may outlive the limit within which it was opened.
    fn lock_wait_max(&self) -> Duration {
        self.lock_wait_max.min(Limit::current().lock_wait_max)
    }

    /// The statement and what was found about it.
    fn what(&self) -> String {
        let seen = if self.seen.is_empty() { String::new() } else { format!(", {}", self.seen) };
        format!(" for `{}`{seen}", shown(&self.statement))
    }

    /// Looks once; `Err` is the reason to give up.
    fn look(
        &mut self,
        handle: &CancelHandle,
        stop: Option<&'static AtomicBool>,
    ) -> std::result::Result<(), String> {
        let began = Instant::now();
        let longest = (self.lock_wait_max() / 2).clamp(LOOK_MIN, LOOK_MAX);
        match self.ask(handle.again(), stop, longest) {
            Some(Look { text, is_blocked }) => {
                self.silent_since = None;
                if !text.is_empty() {
                    self.seen = text;
                }
                self.blocked_since = if is_blocked { self.blocked_since.or(Some(began)) } else { None };
            }
            None => {
                self.silent_since.get_or_insert(began);
            }
        }
        let now = Instant::now();
        self.next_look = now + self.pause();
        let lasts = |since: Option<Instant>, max: Duration| since.is_some_and(|at| now - at >= max);
        // The server's own limit comes first if it has one.
        if lasts(self.blocked_since, self.lock_wait_max() + self.pause()) {
            return Err(format!("gave up after {:.0} s{}", self.lock_wait_max().as_secs_f64(), self.what()));
        }
        let silence_max = 2 * self.lock_wait_max();
        if lasts(self.silent_since, silence_max) {
            let what = self.what();
            let waited_s = silence_max.as_secs_f64();
            return Err(format!(
                "the server does not respond: waited {waited_s:.0} s{what}, and it did not answer a new connection either"
            ));
        }
        Ok(())
    }

    /// Asks over another connection; `None` if the server does not answer.
    fn ask(&self, place: Conninfo, stop: Option<&'static AtomicBool>, longest: Duration) -> Option<Look> {
        let late = Instant::now() + longest;
        let is_over = || Instant::now() >= late || stop.is_some_and(|stop| stop.load(Ordering::Relaxed));
        // A refusal is an answer too.
        let unknown = || Some(Look { text: String::new(), is_blocked: false });
        let connection = match Dialing::start(&place).and_then(|dialing| dial_unless(dialing, is_over)) {
            Ok(Some(connection)) => connection,
            Ok(None) | Err(ConnectError::Timeout { .. }) => return None,
            Err(_) => return unknown(),
        };
        let mut session = Session::from_connection(connection);
        session.set_timeout(Some(late.saturating_duration_since(Instant::now()).max(LOOK_MIN)));
        if let Some(stop) = stop {
            session.set_stop(stop);
        }
        if self.version_num < BLOCKING_PIDS_VERSION_NUM {
            return unknown();
        }
        match session.query(&self.question()) {
            Ok(rows) => Some(look_of(&rows)),
            Err(SessionError::Timeout(_)) => None,
            Err(_) => unknown(),
        }
    }

    fn question(&self) -> String {
        let ours = match self.pid {
            Some(pid) => format!("w.pid = {pid}"),
            // A pooler knows the server process but does not report it.
            None => format!(
                "w.datname = current_database() and w.state = 'active' and w.pid <> pg_backend_pid() \
                 and left(w.query, 500) = left({}, 500)",
                quote_literal(&self.statement)
            ),
        };
        format!(
            "select w.pid, w.wait_event_type, w.wait_event, b.pid as holder, a.usename, a.application_name, a.state, \
             date_trunc('second', a.query_start) as query_start, a.query \
             from pg_catalog.pg_stat_activity w \
             left join lateral unnest(pg_catalog.pg_blocking_pids(w.pid)) b(pid) on true \
             left join pg_catalog.pg_stat_activity a on a.pid = b.pid where {ours} limit {N_HOLDERS_MAX}"
        )
    }
}

fn look_of(rows: &Rows) -> Look {
    let field = |row: usize, name: &str| rows.get(row, name).map(shown).unwrap_or_default();
    let holders: Vec<String> = (0..rows.len())
        .filter(|&row| rows.get(row, "holder").is_some())
        .map(|row| match rows.get(row, "holder") {
            // How pg_blocking_pids() reports them.
            Some("0") => "a prepared transaction (see pg_prepared_xacts)".to_string(),
            _ => {
                // Columns that this role cannot see are omitted.
                let known = |name: &str, before: &str, after: &str| match field(row, name) {
                    value if value.is_empty() => String::new(),
                    value => format!("{before}{value}{after}"),
                };
                format!(
                    "process {} (user `{}`, application `{}`{}; statement{}: `{}`)",
                    field(row, "holder"),
                    field(row, "usename"),
                    field(row, "application_name"),
                    known("state", ", ", ""),
                    known("query_start", " of ", ""),
                    field(row, "query")
                )
            }
        })
        .collect();
    if !holders.is_empty() {
        return Look { text: format!("the lock is held by {}", holders.join(" and by ")), is_blocked: true };
    }
    let text = match (rows.get(0, "wait_event_type"), rows.get(0, "wait_event")) {
        (Some(kind), Some(event)) => {
            format!("whose server process {} waits for {} {}", field(0, "pid"), shown(kind), shown(event))
        }
        _ => String::new(),
    };
    Look { text, is_blocked: false }
}

/// Text from the server on one line and of bounded length.
fn shown(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let words = line.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(STATEMENT_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &words[..end]),
        None => words,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(columns: &[&str], rows: &[&[Option<&str>]]) -> Rows {
        Rows {
            columns: columns.iter().map(|name| name.to_string()).collect(),
            rows: rows
                .iter()
                .map(|row| row.iter().map(|value| value.map(str::to_string)).collect())
                .collect(),
            ..Rows::default()
        }
    }

    #[test]
    fn the_holder_of_a_lock_is_named_on_one_line_of_bounded_length() {
        let names = [
            "pid",
            "wait_event_type",
            "wait_event",
            "holder",
            "usename",
            "application_name",
            "state",
            "query_start",
            "query",
        ];
        let long = format!("lock\n\x1b[31mtable {}", "t".repeat(1000));
        let of = |holder, query| {
            rows(
                &names,
                &[&[
                    Some("7"),
                    Some("Lock"),
                    Some("relation"),
                    holder,
                    Some("bob"),
                    Some("psql"),
                    Some("idle"),
                    None,
                    query,
                ]],
            )
        };
        let look = look_of(&of(Some("42"), Some(long.as_str())));
        assert!(look.is_blocked);
        assert!(
            look.text.starts_with("the lock is held by process 42 (user `bob`, application `psql`, idle; ")
        );
        assert!(look.text.len() < 250 && !look.text.contains(char::is_control), "{}", look.text);
        assert!(look_of(&of(Some("0"), None)).text.contains("a prepared transaction"));
        let free = look_of(&of(None, None));
        assert!(!free.is_blocked);
        assert_eq!(free.text, "whose server process 7 waits for Lock relation");
        assert_eq!(look_of(&rows(&names, &[])).text, "");
    }
}
