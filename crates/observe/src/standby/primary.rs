//! The thread that notes the primary's position in WAL, and which of its processes send it to whom.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use model::release::{Release, functions};
use model::telemetry::reading::{Tick, TickSource};
use model::text::units::wal_position;
use wire::{Conninfo, Session};

use super::marks::Marks;
use super::{FIRST_UNSEEN, LOOK_EVERY, RETRY_PAUSE, connect};
use crate::host::process::standbys::Senders;
use crate::schedule::{ObserverControl, TickEnds, unix_ns};
use crate::server::watch::{is_fatal, prepare};
use crate::sink::Out;

/// Marks of the primary that the threads of all standbys read.
#[derive(Debug, Clone, Default)]
pub(crate) struct PrimaryMarks {
    /// Positions in WAL.
    pub(crate) wal: SharedMarks,
    /// Numbers of the first transaction that had not ended.
    pub(crate) transactions: SharedMarks,
}

/// Marks of one kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedMarks(Arc<Mutex<Marks>>);

impl SharedMarks {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Marks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The session of the primary.
struct Asking {
    session: Session,
    look: String,
}

pub(crate) struct PrimaryWatch {
    conninfo: Conninfo,
    observer: String,
    marks: PrimaryMarks,
    senders: Senders,
    out: Out,
    asking: Option<Asking>,
    next_attempt: Option<Instant>,
    n_queries: u32,
}

impl PrimaryWatch {
    pub(crate) fn new(
        conninfo: Conninfo,
        observer: String,
        marks: PrimaryMarks,
        senders: Senders,
        out: Out,
    ) -> PrimaryWatch {
        PrimaryWatch {
            conninfo,
            observer,
            marks,
            senders,
            out,
            asking: None,
            next_attempt: None,
            n_queries: 0,
        }
    }

    /// Notes positions until it is stopped.
    pub(crate) fn run(mut self, control: &ObserverControl, tick_ns: u64) {
        let (mut ends, mut due) = (TickEnds::every(tick_ns), Instant::now());
        let mut last = Instant::now();
        loop {
            let Some((_, stop)) = control.sleep_tick_or(&mut ends, Some(due)) else {
                due = Instant::now() + LOOK_EVERY;
                self.turn();
                continue;
            };
            self.count(last.elapsed().as_nanos());
            last = Instant::now();
            if stop {
                return;
            }
        }
    }

    /// Ends a tick with the number of questions asked in it.
    fn count(&mut self, length_ns: u128) {
        let n = std::mem::take(&mut self.n_queries);
        let values = BTreeMap::from([("standby.queries".to_string(), f64::from(n))]);
        let length_ns = u64::try_from(length_ns).unwrap_or(u64::MAX);
        let (source, end_unix_ns) = (TickSource::Standby, unix_ns());
        self.out.tick(Tick { source, end_unix_ns, length_ns, values: values.into() });
    }

    fn turn(&mut self) {
        if self.asking.is_none() {
            if self.next_attempt.is_some_and(|next| Instant::now() < next) {
                return;
            }
            self.next_attempt = Some(Instant::now() + RETRY_PAUSE);
            // That a server is gone is said by the thread that reads its statistics.
            self.asking = Asking::start(&self.conninfo, &self.observer).ok();
        }
        let Some(asking) = &mut self.asking else { return };
        self.n_queries += 1;
        let begin = Instant::now();
        match asking.session.query(&asking.look) {
            Ok(rows) => {
                let at = begin + begin.elapsed() / 2;
                if let Some(position) = rows.get(0, "position").and_then(wal_position) {
                    self.marks.wal.lock().note(position, at);
                }
                if let Some(first) = rows.get(0, "transactions").and_then(|text| text.parse().ok()) {
                    self.marks.transactions.lock().note(first, at);
                }
                self.senders.set(rows.get(0, "senders").map(senders).unwrap_or_default());
            }
            Err(error) if asking.session.is_lost() || is_fatal(&error) => self.asking = None,
            Err(_) => {}
        }
    }
}

impl Asking {
    fn start(conninfo: &Conninfo, observer: &str) -> Result<Asking, String> {
        let mut session = connect(conninfo, observer)?;
        let written = Release::new(session.server_version_num()).name(functions::WAL_WRITTEN);
        // In recovery there is no such position: a server that has become a standby is no primary.
        let sql = format!(
            "select case when not pg_is_in_recovery() then {written}() end::text as position, \
             case when not pg_is_in_recovery() then {FIRST_UNSEEN} end::text as transactions, \
             (select string_agg(pid || ' ' || application_name, chr(10)) from pg_stat_replication) as senders"
        );
        let look = prepare(&mut session, "pgdyno_position", sql);
        Ok(Asking { session, look })
    }
}

/// Lines of a process id and a name.
fn senders(text: &str) -> BTreeMap<String, i32> {
    let sender = |line: &str| {
        let (pid, name) = line.split_once(' ')?;
        Some((name.to_string(), pid.parse().ok()?))
    };
    text.lines().filter_map(sender).collect()
}
