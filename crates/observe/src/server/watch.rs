//! The thread that queries the server: one connection, one statement per tick, a tick of source `Server` for the
//! answer.
//!
//! A server that is gone, or does not answer in time, is reported as an event and queried again in each tick. The first
//! tick after a gap covers the gap, if it is still the same server.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use model::release::statistics::UNKNOWN_WITHOUT;
use model::release::{Release, privileges};
use model::telemetry::event::{Event, EventKind};
use model::telemetry::reading::{Tick, TickSource, split_key};
use wire::{ConnectError, Conninfo, Session, SessionError};

use crate::Observation;
use crate::gather::{Backwards, Gather};
use crate::host::watch::late;
use crate::schedule::{LATE_NS, ObserverControl, TickEnds, unix_ns};
use crate::server::identity::ObservedIdentity;
use crate::server::sampling::Sampling;
use crate::server::sessions::{self, Foreign};
use crate::server::spans::{self, Spans};
use crate::server::statements::{self, Names, PART, STATEMENT, StatExtension, StatementCounts};
use crate::server::statistics::{self, StatementPart, StatisticsScope};
use crate::server::uncounted::{self, Uncounted};
use crate::sink::Out;

/// `statement_timeout` of one reading.
const STATEMENT_LIMIT: Duration = Duration::from_secs(5);
/// The connection is closed after this time: a live server would have returned an error before.
const ANSWER_LIMIT: Duration = Duration::from_secs(6);
/// Limit for one connection attempt.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Time between attempts after the server has rejected this role: each attempt adds a line to its log.
const REFUSED_PAUSE: Duration = Duration::from_secs(30);
/// Ticks between two readings of slowly changing, more expensive statistics.
const RARE_TICKS: u64 = 60;
/// Limit for autovacuum processes: a server may report anything.
const AUTOVACUUMS_MAX: usize = 1000;
/// Attempts to measure what the shortest answer takes.
const N_ROUND_TRIPS: usize = 3;

/// The statistics and logs to observe of a server.
pub(crate) struct WatchedParts {
    /// The database under load; empty: that of the connection.
    pub(crate) database: String,
    /// Whether its log is followed too.
    pub(crate) has_log: bool,
    /// Whether our backends are known: only then can foreign sessions be recognized.
    pub(crate) has_backends: bool,
    /// `application_name` of this process's observers.
    pub(crate) observer: String,
}

pub(crate) struct ServerWatch {
    conninfo: Conninfo,
    wanted: WatchedParts,
    out: Out,
    gather: Gather,
    session: Option<Asking>,
    identity: Option<ObservedIdentity>,
    /// When the last answer was read; `None` before a server's first answer.
    last_read: Option<Instant>,
    n_ticks: u64,
    /// Earliest time of the next connection attempt.
    next_attempt: Option<Instant>,
    /// Whether the current failure was reported.
    is_lost: bool,
    /// Autovacuums running in the last tick: pid and activity.
    autovacuums: BTreeSet<(String, String)>,
    statements: StatementCounts,
    spans: Spans,
    names: Names,
}

/// A session and the statements that it runs.
struct Asking {
    session: Session,
    often: String,
    rarely: String,
    /// The names of the parts whose cost grows, and whether they are only in `rarely`.
    growing: Vec<(&'static str, bool)>,
    /// `None`: this server rejects it.
    sampling: Option<Sampling>,
    log_tells_checkpoints: bool,
    log_tells_autovacuum: bool,
    extension: Option<StatExtension>,
    uncounted: Uncounted,
}

/// Bounds of the moment at which the server answered.
#[derive(Clone, Copy)]
struct Moment {
    at: Instant,
    unix_ns: u64,
    /// Half of the time that the answer took.
    error_s: f64,
}

impl ServerWatch {
    /// Will observe the server at `conninfo`.
    pub(crate) fn new(conninfo: Conninfo, mut wanted: WatchedParts, out: Out) -> ServerWatch {
        let connect_timeout = match conninfo.connect_timeout {
            Duration::ZERO => CONNECT_LIMIT,
            given => given.min(CONNECT_LIMIT),
        };
        let application_name = Some(wanted.observer.clone());
        if wanted.database.is_empty() {
            wanted.database.clone_from(&conninfo.dbname);
        }
        ServerWatch {
            conninfo: Conninfo { application_name, connect_timeout, ..conninfo },
            wanted,
            out,
            gather: Gather::new(Backwards::Reset),
            session: None,
            identity: None,
            last_read: None,
            n_ticks: 0,
            next_attempt: None,
            is_lost: false,
            autovacuums: BTreeSet::new(),
            statements: StatementCounts::default(),
            spans: Spans::default(),
            names: Names::default(),
        }
    }

    /// Observes until it is stopped, and then once more.
    pub(crate) fn run(mut self, control: &ObserverControl, tick_ns: u64) {
        self.turn(control, None);
        let mut ends = TickEnds::every(tick_ns);
        loop {
            let (_, end) = ends.next(control.get().align_unix_ns);
            let Some((meant_ns, stop)) = control.sleep_tick_or(&mut ends, self.next_sample(end)) else {
                self.sample(control);
                continue;
            };
            // The end of a run is not the time to wait for a server that is gone.
            if !stop || self.session.is_some() {
                self.turn(control, (!stop).then_some(meant_ns));
            }
            if stop {
                self.name_statements();
                return;
            }
        }
    }

    /// Asks for the texts of statements that matter and that no sample has shown. The extension reads all of its texts for that,
    /// which would disturb a load.
    fn name_statements(&mut self) {
        let wanted = self.names.wanted();
        if let Some(Asking { session, extension: Some(extension), .. }) = &mut self.session
            && !wanted.is_empty()
            && let Ok(rows) = session.query(&extension.texts_sql(&wanted))
        {
            for row in &rows.rows {
                if let [Some(id), Some(text)] = row.as_slice() {
                    self.names.learn(id, text);
                }
            }
        }
        self.tell_names();
    }

    fn tell_names(&mut self) {
        let statement = |(id, text)| self.out.send(Observation::Statement { id, text });
        self.names.take().into_iter().for_each(statement);
    }

    /// When waits are sampled next; `None` where they cannot be, or before the end of this tick.
    fn next_sample(&self, end: Instant) -> Option<Instant> {
        self.session.as_ref()?.sampling.as_ref()?.next_before(end)
    }

    /// Samples what all processes wait for.
    fn sample(&mut self, control: &ObserverControl) {
        let Some(asking) = self.session.as_mut() else { return };
        let Some(sampling) = asking.sampling.as_mut() else { return };
        let Err(error) = sampling.take(&mut asking.session, &mut self.names, control) else {
            return self.tell_names();
        };
        if asking.session.is_lost() || is_fatal(&error) {
            self.session = None;
            self.lost(&error.to_string());
        } else if sampling.has_given_up() {
            self.out.unavailable("waits", error.to_string());
            asking.sampling = None;
        }
    }

    /// Connects if necessary, and reads. `meant_ns` is when that should have begun.
    fn turn(&mut self, control: &ObserverControl, meant_ns: Option<u64>) {
        let mut meant_ns = meant_ns;
        if self.session.is_none() {
            if self.next_attempt.is_some_and(|next| Instant::now() < next) {
                return;
            }
            match self.connect() {
                Ok(asking) => self.session = Some(asking),
                Err(reason) => return self.lost(&reason),
            }
            // Connecting takes time; that is not a late reading.
            meant_ns = None;
        }
        let Some(asking) = self.session.as_mut() else { return };
        // Also at the beginning, from which counters count, and at the end.
        let is_rare = self.n_ticks == 0 || self.n_ticks % RARE_TICKS == 1 || control.get().stop;
        let sql = if is_rare { &asking.rarely } else { &asking.often };
        let are_read = |(_, is_slow): &&(&'static str, bool)| is_rare || !*is_slow;
        let growing: Vec<&str> = asking.growing.iter().filter(are_read).map(|(what, _)| *what).collect();
        let (begin, begin_ns) = (Instant::now(), unix_ns());
        match asking.session.query(sql) {
            Ok(rows) => {
                // The server took its readings somewhere between query and answer.
                let half = begin.elapsed() / 2;
                let end_unix_ns = begin_ns + u64::try_from(half.as_nanos()).unwrap_or_default();
                let moment = Moment { at: begin + half, unix_ns: end_unix_ns, error_s: half.as_secs_f64() };
                self.answered(&rows.rows, moment, &growing, control);
                let late_ns = meant_ns.map_or(0, |meant_ns| unix_ns().saturating_sub(meant_ns));
                if late_ns > LATE_NS {
                    self.out.event(late(end_unix_ns, "server", late_ns));
                }
            }
            Err(error) => {
                if asking.session.is_lost() || is_fatal(&error) {
                    self.session = None;
                }
                self.lost(&error.to_string());
            }
        }
    }

    /// Reports once that the server cannot be read.
    fn lost(&mut self, reason: &str) {
        if !std::mem::replace(&mut self.is_lost, true) {
            let event =
                Event::new(unix_ns(), EventKind::TelemetryLost, format!("server statistics: {reason}"));
            self.out.event(event.with("source", "server"));
        }
    }

    fn answered(
        &mut self,
        rows: &[Vec<Option<String>>],
        moment: Moment,
        growing: &[&'static str],
        control: &ObserverControl,
    ) {
        self.is_lost = false;
        self.n_ticks += 1;
        let Moment { at, unix_ns: end_unix_ns, .. } = moment;
        let (mut autovacuums, mut statements) = (BTreeSet::new(), Vec::new());
        for row in rows {
            let [Some(metric), Some(instance), Some(value)] = row.as_slice() else { continue };
            match metric.as_str() {
                statistics::AUTOVACUUM if autovacuums.len() < AUTOVACUUMS_MAX => {
                    autovacuums.insert((instance.clone(), value.clone()));
                }
                STATEMENT => statements.push((instance.clone(), value.clone())),
                statistics::CLOCK => self.put_clock(value, moment),
                sessions::CLIENTS => self.put_foreign(value, control),
                _ => {
                    if let Ok(value) = value.parse::<f64>() {
                        self.gather.put_said(metric, instance, value);
                    }
                }
            }
        }
        for (pid, work) in autovacuums.difference(&self.autovacuums) {
            self.out.event(autovacuum_seen(end_unix_ns, pid, work));
        }
        self.autovacuums = autovacuums;
        if let Some(sampling) = self.session.as_mut().and_then(|asking| asking.sampling.as_mut()) {
            sampling.tally.put(&mut self.gather);
        }
        if !statements.is_empty() {
            let names = self.statements.put(&statements, at, &mut self.gather);
            self.names.want(names);
        }
        self.spans.put(growing, at, self.last_read, &mut self.gather);
        let (mut values, n_resets) = self.gather.take();
        let last_read = self.last_read.replace(at);
        let Some(last_read) = last_read else {
            self.gather.count_new_from_zero();
            return;
        };
        if n_resets > 0 {
            let text = format!("server statistics: {n_resets} counters were reset");
            self.out.event(Event::new(end_unix_ns, EventKind::TelemetryLost, text).with("source", "server"));
        }
        // Metrics with an instance per kind of I/O: an absent value means 0.
        let may_be_absent = |key: &str| key.starts_with("server.io.") || key.starts_with("server.slru.");
        let uncounted = self.session.as_ref().map(|asking| &asking.uncounted);
        values.retain(|key, value| {
            (*value != 0.0 || !may_be_absent(key))
                && uncounted.is_none_or(|uncounted| uncounted.is_known(key, *value))
        });
        self.count_checkpoints(&values, end_unix_ns);
        self.count_autovacuums(&values, end_unix_ns);
        let length_ns = u64::try_from(at.saturating_duration_since(last_read).as_nanos()).unwrap_or(u64::MAX);
        self.out.tick(Tick { source: TickSource::Server, end_unix_ns, length_ns, values: values.into() });
    }

    /// Compares the server's clock with our time line, which a step of our own wall clock does not distort.
    fn put_clock(&mut self, server_s: &str, moment: Moment) {
        let Ok(server_s) = server_s.parse::<f64>() else { return };
        self.gather.put_said("server.clock_offset", "", server_s - moment.unix_ns as f64 / 1e9);
        self.gather.put_said("server.clock_error", "", moment.error_s);
    }

    /// Counts the sessions of others, and passes their backends to the thread that reads processes.
    fn put_foreign(&mut self, clients: &str, control: &ObserverControl) {
        let mut backends = control.backends();
        let Foreign { pids, n_sessions, n_working, n_our_workers } = sessions::foreign(clients, &backends);
        backends.foreign = pids.into_iter().collect();
        drop(backends);
        self.gather.put("server.foreign_sessions", "", f64::from(n_sessions));
        if let Some(n_working) = n_working {
            self.gather.put("server.foreign_working", "", f64::from(n_working));
        }
        self.gather.put("server.load_workers", "", f64::from(n_our_workers));
    }

    /// Reports automatic vacuums and analyzes that have ended as events, if the log does not show them.
    fn count_autovacuums(&self, values: &BTreeMap<String, f64>, t_unix_ns: u64) {
        if self.session.as_ref().is_some_and(|asking| asking.log_tells_autovacuum) {
            return;
        }
        let span_s = self.spans.span_s(statistics::AUTOVACUUMS);
        for (what, metric) in
            [("autovacuum", statistics::AUTOVACUUMS), ("autoanalyze", "database.autoanalyzes")]
        {
            let of_metric = values.iter().filter(|(key, n)| split_key(key).0 == metric && **n > 0.0);
            for (table, n) in of_metric.filter_map(|(key, n)| Some((split_key(key).1?, n))) {
                let table = format!("{}.{table}", self.wanted.database);
                let text = format!("{n} {what}{} of {table} counted", if *n > 1.0 { "s" } else { "" });
                let event = Event::new(t_unix_ns, EventKind::AutovacuumCounted, text);
                let event = event.with("what", what).with("table", table).with("n", n);
                self.out.event(span_s.into_iter().fold(event, |event, s| event.with("span_s", s)));
            }
        }
    }

    /// Reports checkpoints as events if the log does not show them.
    fn count_checkpoints(&self, values: &BTreeMap<String, f64>, t_unix_ns: u64) {
        if self.session.as_ref().is_some_and(|asking| asking.log_tells_checkpoints) {
            return;
        }
        for cause in ["timed", "requested"] {
            let n = values
                .get(&model::telemetry::reading::key("server.checkpoints", cause))
                .copied()
                .unwrap_or_default();
            if n > 0.0 {
                let text = format!("{n} {cause} checkpoint{} counted", if n > 1.0 { "s" } else { "" });
                let event = Event::new(t_unix_ns, EventKind::CheckpointCounted, text);
                self.out.event(event.with("cause", cause).with("n", n));
            }
        }
    }

    fn connect(&mut self) -> Result<Asking, String> {
        self.next_attempt = None;
        let mut session = Session::connect(&self.conninfo).map_err(|error| {
            if is_refusal(&error) {
                self.next_attempt = Some(Instant::now() + REFUSED_PAUSE);
            }
            error.to_string()
        })?;
        session.set_timeout(Some(ANSWER_LIMIT));
        let version_num = session.server_version_num();
        let words = |error: SessionError| error.to_string();
        session.empty_search_path().map_err(words)?;
        let who = session.query(&statistics::identity(version_num)).map_err(words)?;
        let field = |name: &str| who.get(0, name).map(str::to_string);
        // A pooler shares the session with others, who would inherit our settings.
        let is_direct = field("backend_pid") == Some(session.backend_pid().to_string());
        if is_direct {
            let settings = statistics::session_settings(version_num, STATEMENT_LIMIT.as_millis());
            session.execute(&settings).map_err(words)?;
        }
        if let Some(name) = field("database")
            && self.wanted.database == self.conninfo.dbname
        {
            self.wanted.database = name;
        }
        self.met(ObservedIdentity::ask(&mut session, field("start"), field("in_recovery")));
        let has_log = self.wanted.has_log;
        let log_tells_checkpoints = has_log && field("log_checkpoints").as_deref() == Some("on");
        let log_tells_autovacuum = has_log && field("log_autovacuum").as_deref() == Some("0");
        if self.wanted.has_backends && !is_direct {
            let reason = "a pooler is in between: our sessions cannot be distinguished from foreign ones";
            self.out.unavailable("server.foreign_sessions", reason.to_string());
        }
        let extension = self.look_for_extension(&mut session).map_err(words)?;
        let scope = StatisticsScope {
            extension: extension.as_ref(),
            database: &self.wanted.database,
            wants_autovacuum: !log_tells_autovacuum,
            wants_clients: self.wanted.has_backends && is_direct,
            observer: &self.wanted.observer,
        };
        let mut parts = statistics::parts(version_num, scope);
        self.leave_out_refused(&mut session, version_num, &mut parts).map_err(words)?;
        let uncounted = self.look_for_switches(&mut session).map_err(words)?;
        if parts.iter().all(|part| part.is_rare) {
            return Err("it rejects every query".to_string());
        }
        let mut often = statistics::statement(version_num, parts.iter().filter(|part| !part.is_rare));
        let mut rarely = statistics::statement(version_num, parts.iter());
        if is_direct {
            often = prepare(&mut session, "pgdyno_often", often);
            rarely = prepare(&mut session, "pgdyno_rarely", rarely);
        }
        let growing = parts.iter().filter(|part| part.grows).map(|part| (part.what, part.is_rare)).collect();
        let sampling = Sampling::start(&mut session, &self.wanted, is_direct);
        Ok(Asking {
            session,
            sampling: Some(sampling),
            often,
            rarely,
            growing,
            log_tells_checkpoints,
            log_tells_autovacuum,
            extension,
            uncounted,
        })
    }

    /// Which of the server's counters stand still because nobody counts.
    fn look_for_switches(&self, session: &mut Session) -> Result<Uncounted, SessionError> {
        let rows = session.query(&uncounted::sql())?;
        let off = rows.rows.iter().filter_map(|row| row.first()?.as_deref());
        let uncounted = Uncounted::new(off);
        uncounted.reasons().for_each(|(what, reason)| self.out.unavailable(&what, reason.to_string()));
        Ok(uncounted)
    }

    fn look_for_extension(&self, session: &mut Session) -> Result<Option<StatExtension>, SessionError> {
        let found = session.extension(statements::NAME)?;
        if let Some(objection) = found.as_ref().and_then(|found| found.objection(statements::NAME)) {
            self.out.unavailable(PART, objection);
            return Ok(None);
        }
        let extension = match found {
            Some(wire::session::Extension::Safe { schema, version }) => StatExtension::new(&schema, &version),
            Some(wire::session::Extension::Replaceable { .. }) | None => None,
        };
        if let Some(extension) = extension.as_ref().filter(|extension| extension.version < (1, 8)) {
            let reason = format!(
                "pg_stat_statements {}.{} does not count it",
                extension.version.0, extension.version.1
            );
            self.out.unavailable("statements.plan_time, statements.wal_bytes", reason);
        }
        if extension.is_none() {
            let database = &self.wanted.database;
            let reason = format!("extension pg_stat_statements is not installed in `{database}`");
            self.out.unavailable(PART, reason);
        }
        Ok(extension)
    }

    /// Compares the server with the known one.
    fn met(&mut self, identity: ObservedIdentity) {
        let differences =
            self.identity.as_ref().map(|before| identity.differences(before)).unwrap_or_default();
        if !differences.is_empty() {
            let text = format!("the server has been restarted or replaced: {}", differences.join(", "));
            self.out.event(Event::new(unix_ns(), EventKind::ServerRestarted, text));
            self.gather = Gather::new(Backwards::Reset);
            self.statements = StatementCounts::default();
            self.spans = Spans::default();
            self.last_read = None;
            // Its counters, too, count from a reading of all parts.
            self.n_ticks = 0;
        }
        self.identity = Some(identity);
    }

    /// Runs each part alone and drops those that this server rejects for this role.
    fn leave_out_refused(
        &self,
        session: &mut Session,
        version_num: u32,
        parts: &mut Vec<StatementPart>,
    ) -> Result<(), SessionError> {
        let mut accepted = Vec::new();
        let round_trips: Result<Vec<Duration>, _> =
            (0..N_ROUND_TRIPS).map(|_| time(session, "select 1")).collect();
        let round_trip = round_trips?.into_iter().min().unwrap_or_default();
        for mut part in parts.drain(..) {
            let sql = statistics::statement(version_num, std::iter::once(&part));
            match time(session, &sql) {
                Ok(took) => {
                    // Twice: the first time, the session reads its catalogs.
                    let is_slow = part.grows && spans::is_slow(took, round_trip);
                    part.is_rare |=
                        is_slow && time(session, &sql).is_ok_and(|took| spans::is_slow(took, round_trip));
                    accepted.push(part);
                }
                Err(error) if is_fatal(&error) => return Err(error),
                Err(error) => self.out.unavailable(part.what, uncounted::refusal(part.what, &error)),
            }
        }
        *parts = accepted;
        for (what, feature, reason) in UNKNOWN_WITHOUT {
            if !Release::new(version_num).has(feature) {
                self.out.unavailable(what, reason.to_string());
            }
        }
        let rows = session.query(statistics::sees_all(version_num))?;
        if rows.scalar() != Some("true") {
            let role = rows.get(0, "rolname").unwrap_or_default();
            let how = if Release::new(version_num).has(privileges::MONITORING_ROLES) {
                "grant it pg_read_all_stats"
            } else {
                "before 10, only a superuser does"
            };
            let reason = format!(
                "role `{role}` does not see what other roles' sessions do, and while there are any, not how many are at work; {how}"
            );
            self.out
                .unavailable("server.waiting of other roles, server.foreign_working, server.on_cpu", reason);
        }
        Ok(())
    }
}

fn is_refusal(error: &ConnectError) -> bool {
    matches!(
        error,
        ConnectError::Auth { .. }
            | ConnectError::NoRule { .. }
            | ConnectError::AuthMethod { .. }
            | ConnectError::NoPassword { .. }
            | ConnectError::ProtocolTooOld { .. }
            | ConnectError::NoSuchDatabase { .. }
    )
}

/// Has the server parse and plan a statement once: of 2.9 ms of its CPU time, that is 2.2 (with 64 clients, version 15).
/// Returns what runs it.
pub(crate) fn prepare(session: &mut Session, name: &str, sql: String) -> String {
    match session.execute(&format!("prepare {name} as {sql}")) {
        Ok(()) => format!("execute {name}"),
        Err(_) => sql,
    }
}

/// How long the answer to a query takes.
fn time(session: &mut Session, sql: &str) -> Result<Duration, SessionError> {
    let begin = Instant::now();
    session.query(sql).map(|_| begin.elapsed())
}

pub(crate) fn is_fatal(error: &SessionError) -> bool {
    match error {
        SessionError::Server(error) => error.is_fatal(),
        SessionError::NotCopyIn | SessionError::GivenRole { .. } => false,
        SessionError::Lost(_)
        | SessionError::Timeout(_)
        | SessionError::Stopped
        | SessionError::GaveUp(_)
        | SessionError::Protocol(_) => true,
    }
}

/// `work` is a database and the text of `pg_stat_activity.query`: `db autovacuum: VACUUM ANALYZE public.t`.
fn autovacuum_seen(t_unix_ns: u64, pid: &str, work: &str) -> Event {
    let (database, what) = work.split_once(" autovacuum: ").unwrap_or(("", work));
    let event = Event::new(t_unix_ns, EventKind::AutovacuumSeen, what.to_string()).with("pid", pid);
    let is_command = |word: &&str| word.chars().all(|c| c.is_ascii_uppercase());
    match what.split(' ').find(|word| !is_command(word) && word.contains('.')) {
        Some(table) => event.with("table", format!("{database}.{table}")),
        None => event,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_an_autovacuum_is_found() {
        for (work, table) in [
            ("db autovacuum: VACUUM ANALYZE public.t", Some("db.public.t")),
            ("db autovacuum: VACUUM pg_toast.x (to prevent wraparound)", Some("db.pg_toast.x")),
            ("db autovacuum: ANALYZE public.Odd_Name", Some("db.public.Odd_Name")),
            ("db autovacuum:", None),
            ("", None),
        ] {
            let event = autovacuum_seen(1, "7", work);
            assert_eq!(event.detail.get("table").map(String::as_str), table, "{work}");
        }
    }
}
