//! The sink that makes forms, transactions and templates of a log's statements.

use std::collections::{BTreeMap, HashMap, HashSet};

use model::run::fidelity::OWN_COMMENT;

use crate::balance::{Balance, OmissionReason, TimeShare};
use crate::forms::{Forms, TEXT_BYTES_MAX};
use crate::log::{ExecutedStatement, LoggedSession, SessionId, StatementSink};
use crate::session::arrivals::Arrivals;
use crate::session::settings::SettingsSeen;
use crate::statement::StatementRole;
use crate::statement::form::{VALUES_MAX, take};
use crate::statement::kind::{AdvisoryLocks, role};
use crate::statement::lexer::{Backslash, tokens};
use crate::template::store::TemplateStore;
use crate::transaction::cutter::{Cutter, Incoming};
use crate::transaction::traced::TracedTransactions;
use crate::transaction::{Cut, CutStep, CutTransaction};

/// Most sessions that are open at once; the log of one server has no more.
const SESSIONS_OPEN_MAX: usize = 100_000;

/// A part of the log, in microseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureWindow {
    /// First instant.
    pub from_us: i64,
    /// The instant after the last one.
    pub to_us: i64,
}

/// The part of a log that is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WindowChoice {
    /// All of the log.
    #[default]
    All,
    /// Between two instants.
    Between(CaptureWindow),
    /// Between two times of the first day of the log, in microseconds of the day, UTC.
    OfDay(CaptureWindow),
}

/// The sessions that are read: those of these databases, roles and programs. An empty list takes all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct SessionChoice {
    pub databases: Vec<String>,
    pub users: Vec<String>,
    pub applications: Vec<String>,
}

impl SessionChoice {
    /// Whether a session is read. One of which the log does not say what is asked for is not.
    fn takes(&self, session: &LoggedSession) -> bool {
        let is_among = |wanted: &[String], known: Option<&String>| {
            wanted.is_empty() || known.is_some_and(|known| wanted.contains(known))
        };
        is_among(&self.databases, session.database.as_ref())
            && is_among(&self.users, session.user.as_ref())
            && is_among(&self.applications, session.application.as_ref())
    }
}

/// Everything that was read.
#[derive(Debug, Default)]
pub struct ReadLog {
    /// Statements without their values.
    pub forms: Forms,
    /// Transactions.
    pub templates: TemplateStore,
    /// Where the time went.
    pub balance: Balance,
    /// When transactions began.
    pub arrivals: Arrivals,
    /// `SET` of sessions.
    pub settings: SettingsSeen,
    /// Sessions by their numbers.
    pub sessions: BTreeMap<u32, LoggedSession>,
    /// The first and the last instant of statements in the window.
    pub span: Option<CaptureWindow>,
    /// Whether the log has durations.
    pub has_durations: bool,
    /// Whether the times of the log have parts of seconds.
    pub has_fractions: bool,
    /// Transactions one by one, if they are wanted.
    pub trace: Option<TracedTransactions>,
    /// Statements that were read.
    pub n_read: u64,
    /// Statements outside of the window.
    pub n_outside: u64,
    /// Statements of sessions that are not read, and those of pgdyno itself.
    pub n_unwanted: u64,
    /// Whether sessions of the same database are not read: what a server counts of them cannot be distinguished.
    pub has_other_sessions: bool,
    /// Fetches of rows of a statement that went before; their time counts, they are no execution.
    pub n_fetches: u64,
}

impl ReadLog {
    /// Counts executions that are left out.
    pub(crate) fn leave_out(&mut self, reason: OmissionReason, form: u32, share: TimeShare) {
        self.forms.leave_out(reason, form, share);
        self.balance.leave_out(reason, share);
    }
}

/// The sink.
#[derive(Debug, Default)]
pub struct LogReader {
    read: ReadLog,
    choice: WindowChoice,
    window: Option<CaptureWindow>,
    sessions: SessionChoice,
    /// Open sessions that are not read.
    unwanted: HashSet<SessionId>,
    /// Whether the log has statements before the window, and after it.
    goes_beyond: [bool; 2],
    open: HashMap<SessionId, OpenSession>,
    cuts: Vec<Cut>,
}

#[derive(Debug)]
struct OpenSession {
    cutter: Cutter,
    backslash: Backslash,
}

/// The weight of an execution.
#[derive(Clone, Copy, Debug)]
struct Counted {
    share: TimeShare,
    time_us: u64,
    is_inside: bool,
}

/// Sessions that are described.
const SESSIONS_KEPT_MAX: usize = 100_000;

impl LogReader {
    /// A sink for this part of a log.
    pub fn new(choice: WindowChoice) -> LogReader {
        let window = if let WindowChoice::Between(window) = choice { Some(window) } else { None };
        LogReader { choice, window, ..LogReader::default() }
    }

    /// Takes these sessions alone.
    #[must_use]
    pub fn with_sessions(self, sessions: SessionChoice) -> LogReader {
        let mut read = self.read;
        read.has_other_sessions = !(sessions.users.is_empty() && sessions.applications.is_empty());
        LogReader { sessions, read, ..self }
    }

    /// Also keeps each transaction by itself.
    #[must_use]
    pub fn with_trace(self) -> LogReader {
        let read = ReadLog { trace: Some(TracedTransactions::default()), ..self.read };
        LogReader { read, ..self }
    }

    /// What was read, when the log has ended.
    pub fn finish(mut self) -> ReadLog {
        let mut sessions: Vec<(SessionId, OpenSession)> = self.open.drain().collect();
        sessions.sort_by_key(|(id, _)| *id);
        for (_, mut session) in sessions {
            session.cutter.log_ended(&mut self.cuts);
            self.settle();
        }
        // Of a log that goes on beyond the window, all of the window was seen, silence included.
        if let (Some(span), Some(window)) = (&mut self.read.span, self.window) {
            let [begins_before, ends_after] = self.goes_beyond;
            span.from_us = if begins_before { window.from_us } else { span.from_us };
            span.to_us = if ends_after { window.to_us } else { span.to_us };
        }
        self.read
    }

    /// Whether a statement is in the window.
    fn is_inside(&mut self, start_us: i64) -> bool {
        if let (WindowChoice::OfDay(day), None) = (self.choice, self.window) {
            const DAY_US: i64 = 86_400_000_000;
            let midnight = start_us.div_euclid(DAY_US) * DAY_US;
            let to_us = if day.to_us > day.from_us { day.to_us } else { day.to_us + DAY_US };
            self.window = Some(CaptureWindow { from_us: midnight + day.from_us, to_us: midnight + to_us });
        }
        let Some(window) = self.window else { return true };
        self.goes_beyond[0] |= start_us < window.from_us;
        self.goes_beyond[1] |= start_us >= window.to_us;
        (window.from_us..window.to_us).contains(&start_us)
    }

    fn session(&mut self, id: SessionId) -> &mut OpenSession {
        if self.open.len() >= SESSIONS_OPEN_MAX && !self.open.contains_key(&id) {
            // Sessions whose end was not logged: the oldest ends now.
            if let Some(oldest) = self.open.keys().min().copied()
                && let Some(mut session) = self.open.remove(&oldest)
            {
                session.cutter.log_ended(&mut self.cuts);
                self.settle();
            }
        }
        let is_new = self.read.sessions.get(&id).is_some_and(|session| session.began_us.is_some());
        self.open.entry(id).or_insert_with(|| OpenSession {
            cutter: Cutter::new(id, is_new),
            backslash: Backslash::default(),
        })
    }

    /// Books the transactions that have ended.
    fn settle(&mut self) {
        for cut in std::mem::take(&mut self.cuts) {
            match cut {
                Cut::LeftOut(reason, transaction) => self.leave_out(reason, &transaction),
                Cut::Whole(transaction) => self.book(transaction),
            }
        }
    }

    fn book(&mut self, transaction: CutTransaction) {
        let n_inside = transaction.steps.iter().filter(|step| step.is_inside).count();
        if n_inside == 0 {
            return;
        }
        if n_inside < transaction.steps.len() {
            return self.leave_out(OmissionReason::WindowEdge, &transaction);
        }
        self.read.arrivals.add(transaction.session, transaction.began_us(), transaction.ended_us());
        match self.hindrance(&transaction) {
            Some(reason) => self.leave_out(reason, &transaction),
            None => {
                self.read.trace.iter_mut().for_each(|trace| trace.add(&transaction));
                self.read.templates.add(transaction);
            }
        }
    }

    /// Why a whole transaction cannot be replayed.
    fn hindrance(&self, transaction: &CutTransaction) -> Option<OmissionReason> {
        let form = |step: &CutStep| self.read.forms.form(step.form);
        if transaction.steps.iter().any(|step| step.lacks_values) {
            let has_error = transaction.steps.iter().any(|step| step.lacks_values && step.error.is_some());
            return Some(if has_error { OmissionReason::Error } else { OmissionReason::NoParameters });
        }
        if transaction.steps.iter().any(|step| form(step).slots.len() > VALUES_MAX) {
            return Some(OmissionReason::TooManyValues);
        }
        let known = |step: &CutStep| &self.read.forms.all[step.form as usize];
        if !transaction.is_block && transaction.steps.iter().any(|step| known(step).is_cursor) {
            return Some(OmissionReason::Cursor);
        }
        let mut locks = AdvisoryLocks::default();
        transaction.steps.iter().for_each(|step| locks.add(known(step).locks));
        if (locks.taken > 0) != (locks.released > 0) { Some(OmissionReason::AdvisoryLock) } else { None }
    }

    fn leave_out(&mut self, reason: OmissionReason, transaction: &CutTransaction) {
        for step in &transaction.steps {
            // A statement that cannot be replayed is the reason for itself, whatever else is wrong with its transaction.
            let own = match self.read.forms.form(step.form).role {
                StatementRole::Refused(own) => own,
                _ => reason,
            };
            self.read.leave_out(own, step.form, step.share);
        }
    }

    /// Takes a statement apart and counts it.
    fn count(
        &mut self,
        statement: &ExecutedStatement,
        counted: Counted,
        backslash: Backslash,
    ) -> (StatementRole, CutStep) {
        let share = counted.share;
        let taken = if statement.text.len() > TEXT_BYTES_MAX {
            let role = StatementRole::Refused(OmissionReason::TooLong);
            take("", &[], role, &[], backslash)
        } else {
            let tokens = tokens(&statement.text, backslash);
            let role = role(&statement.text, &tokens);
            if role == StatementRole::Set && share.calls > 0 {
                self.read.settings.add(statement.session, &statement.text, &tokens);
            }
            take(&statement.text, &tokens, role, &statement.parameters, backslash)
        };
        let lacks_values = taken.lacks_parameters
            && matches!(taken.form.role, StatementRole::Work(_) | StatementRole::Fixed);
        let form = self.read.forms.count(taken.form, &taken.values, &statement.protocol, share);
        let role = self.read.forms.form(form).role;
        let step = CutStep {
            form,
            values: taken.values.into(),
            start_us: statement.start_us,
            time_us: counted.time_us,
            share,
            is_inside: counted.is_inside,
            error: statement.error,
            lacks_values,
            number: self.read.n_read,
        };
        self.read.n_read += 1;
        (role, step)
    }
}

impl StatementSink for LogReader {
    fn session_began(&mut self, id: SessionId, session: &LoggedSession) {
        if !self.sessions.takes(session) {
            self.unwanted.insert(id);
            return;
        }
        if self.read.sessions.len() < SESSIONS_KEPT_MAX {
            self.read.sessions.insert(id, session.clone());
        }
    }

    fn session_ended(&mut self, id: SessionId, session: &LoggedSession) {
        self.unwanted.remove(&id);
        if let Some(known) = self.read.sessions.get_mut(&id) {
            known.clone_from(session);
        }
        if let Some(mut open) = self.open.remove(&id) {
            open.cutter.session_ended(&mut self.cuts);
            self.settle();
        }
    }

    fn executed(&mut self, statement: ExecutedStatement) {
        let is_inside = self.is_inside(statement.start_us);
        // `pgdyno capture stats` of the same time is no part of the load.
        if self.unwanted.contains(&statement.session) || statement.text.starts_with(OWN_COMMENT) {
            self.read.n_unwanted += 1;
            return;
        }
        self.read.has_durations |= statement.duration_us.is_some();
        let logged_us = statement.start_us.saturating_add_unsigned(statement.duration_us.unwrap_or(0));
        self.read.has_fractions |= logged_us.rem_euclid(1_000_000) != 0;
        let time_us = statement.duration_us.unwrap_or(0) + statement.parse_us + statement.bind_us;
        let mut share = TimeShare::default();
        if is_inside {
            share = TimeShare { calls: u64::from(!statement.is_fetch), time_us };
            self.read.balance.total.add(share);
            let end_us = statement.start_us.saturating_add_unsigned(time_us);
            let span =
                self.read.span.get_or_insert(CaptureWindow { from_us: statement.start_us, to_us: end_us });
            span.from_us = span.from_us.min(statement.start_us);
            span.to_us = span.to_us.max(end_us);
        } else {
            self.read.n_outside += 1;
        }
        let backslash = self.session(statement.session).backslash;
        let (role, step) = self.count(&statement, Counted { share, time_us, is_inside }, backslash);
        if statement.is_fetch {
            // Its statement may be over already: the time of its rows is left out with a reason.
            self.read.n_fetches += u64::from(is_inside);
            self.read.leave_out(OmissionReason::Cursor, step.form, share);
            return;
        }
        let dropped = match role {
            StatementRole::Dropped(reason) => Some(reason),
            StatementRole::Set => Some(OmissionReason::SessionState),
            _ => None,
        };
        if let Some(reason) = dropped {
            if role == StatementRole::Set
                && statement.text.to_ascii_lowercase().contains("standard_conforming_strings")
            {
                let is_off = statement.text.to_ascii_lowercase().contains("off");
                self.session(statement.session).backslash =
                    if is_off { Backslash::Escape } else { Backslash::Plain };
            }
            self.read.leave_out(reason, step.form, share);
            return;
        }
        let incoming = Incoming {
            role,
            transaction: statement.transaction,
            is_followed: statement.batch.number < statement.batch.of,
            step,
        };
        let mut cuts = std::mem::take(&mut self.cuts);
        self.session(statement.session).cutter.take(incoming, &mut cuts);
        self.cuts = cuts;
        self.settle();
    }
}
