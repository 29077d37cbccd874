//! The thread that observes one standby over its own connection.

use std::time::{Duration, Instant};

use model::release::{Release, functions, statistics};
use model::telemetry::event::{Event, EventKind};
use model::telemetry::reading::{Tick, TickSource};
use model::text::units::wal_position;
use wire::Session;

use super::marks::Behind;
use super::primary::{PrimaryMarks, SharedMarks};
use super::stall::Stall;
use super::{FIRST_UNSEEN, LOOK_EVERY, ObservedStandby, RETRY_PAUSE, connect};
use crate::gather::{Backwards, Gather};
use crate::schedule::{ObserverControl, TickEnds, unix_ns};
use crate::server::watch::{is_fatal, prepare};
use crate::sink::Out;

pub(crate) struct StandbyWatch {
    standby: ObservedStandby,
    observer: String,
    marks: PrimaryMarks,
    out: Out,
    gather: Gather,
    asking: Option<Asking>,
    next_attempt: Option<Instant>,
    /// Whether the current failure was reported.
    is_lost: bool,
    stall: Stall,
    /// The last look, which the next mark of the primary judges.
    pending: Option<Look>,
    /// The last look of the tick in progress that was judged.
    looked: Option<Looked>,
    /// The stalest look of the tick in progress.
    stalest: Option<Behind>,
    last: Instant,
}

/// The session of the standby, and the statements that it runs.
struct Asking {
    session: Session,
    positions: String,
    details: String,
}

/// Positions of a standby at a moment.
#[derive(Debug, Clone, Copy)]
struct Look {
    received: Option<u64>,
    replayed: Option<u64>,
    /// The first transaction that it does not see.
    unseen: Option<u64>,
    at: Instant,
}

/// A standby at one look.
#[derive(Debug, Clone, Copy)]
struct Looked {
    received: Option<Behind>,
    replayed: Option<Behind>,
}

impl StandbyWatch {
    pub(crate) fn new(
        standby: ObservedStandby,
        observer: String,
        marks: PrimaryMarks,
        out: Out,
    ) -> StandbyWatch {
        StandbyWatch {
            standby,
            observer,
            marks,
            out,
            gather: Gather::new(Backwards::Reset),
            asking: None,
            next_attempt: None,
            is_lost: false,
            stall: Stall::default(),
            pending: None,
            looked: None,
            stalest: None,
            last: Instant::now(),
        }
    }

    /// Observes until it is stopped, and then once more.
    pub(crate) fn run(mut self, control: &ObserverControl, tick_ns: u64) {
        self.details();
        let (mut ends, mut due) = (TickEnds::every(tick_ns), Instant::now());
        loop {
            let Some((_, stop)) = control.sleep_tick_or(&mut ends, Some(due)) else {
                due = Instant::now() + LOOK_EVERY;
                self.look();
                continue;
            };
            // The end of a run is not the time to wait for a standby that is gone.
            if !stop || self.asking.is_some() {
                self.details();
            }
            self.end_tick();
            if stop {
                return;
            }
        }
    }

    /// Runs one of the statements, over a new session if there is none.
    fn ask(&mut self, sql: impl Fn(&Asking) -> &str) -> Option<Vec<Vec<Option<String>>>> {
        if self.asking.is_none() {
            if self.next_attempt.is_some_and(|next| Instant::now() < next) {
                return None;
            }
            self.next_attempt = Some(Instant::now() + RETRY_PAUSE);
            match Asking::start(&self.standby, &self.observer) {
                Ok(asking) => self.asking = Some(asking),
                Err(reason) => return self.lost(&reason),
            }
        }
        let asking = self.asking.as_mut()?;
        let sql = sql(asking).to_string();
        match asking.session.query(&sql) {
            Ok(rows) => {
                self.is_lost = false;
                Some(rows.rows)
            }
            Err(error) => {
                if asking.session.is_lost() || is_fatal(&error) {
                    self.asking = None;
                }
                self.lost(&error.to_string())
            }
        }
    }

    /// Reports once that the standby cannot be read.
    fn lost<T>(&mut self, reason: &str) -> Option<T> {
        self.stall.miss();
        if !std::mem::replace(&mut self.is_lost, true) {
            let text = format!("standby `{}`: {reason}", self.standby.name);
            let event = Event::new(unix_ns(), EventKind::TelemetryLost, text);
            self.out.event(event.with("source", "standby").with("node", &self.standby.name));
        }
        None
    }

    /// Compares its positions at the last look with the marks of the primary, of which there is a later one by now, and looks again.
    fn look(&mut self) {
        self.looked = self.pending.take().map(|look| {
            let lag = |of: &SharedMarks, position: Option<u64>| of.lock().lag(position?, look.at);
            let stale = lag(&self.marks.transactions, look.unseen);
            self.stalest = self.stalest.into_iter().chain(stale).max_by_key(|behind| behind.age);
            let wal = &self.marks.wal;
            Looked { received: lag(wal, look.received), replayed: lag(wal, look.replayed) }
        });
        let begin = Instant::now();
        let Some(rows) = self.ask(|asking| &asking.positions) else { return };
        let at = begin + begin.elapsed() / 2;
        let Some([received, replayed, unseen]) = rows.first().map(Vec::as_slice) else { return };
        let unseen = unseen.as_ref().and_then(|text| text.parse().ok());
        let [received, replayed] = [received, replayed].map(|text| text.as_deref().and_then(wal_position));
        match received.zip(replayed) {
            Some((received, replayed)) => self.stall.look(replayed, received, at),
            None => self.stall.miss(),
        }
        self.pending = Some(Look { received, replayed, unseen, at });
    }

    /// Reads what is worth a look once a second.
    fn details(&mut self) {
        let Some(rows) = self.ask(|asking| &asking.details) else { return };
        let name = self.standby.name.clone();
        for row in rows {
            let [Some(metric), kind, Some(value)] = row.as_slice() else { continue };
            let Ok(value) = value.parse::<f64>() else { continue };
            let instance = match kind {
                Some(kind) => format!("{name}/{kind}"),
                None => name.clone(),
            };
            self.gather.put_said(metric, &instance, value);
        }
    }

    fn end_tick(&mut self) {
        let (name, end_unix_ns) = (self.standby.name.as_str(), unix_ns());
        let length = self.last.elapsed();
        self.last = Instant::now();
        let stages = [
            ("standby.receive_lag", "standby.receive_lag_bytes", self.looked.and_then(|of| of.received)),
            ("standby.replay_lag", "standby.replay_lag_bytes", self.looked.and_then(|of| of.replayed)),
        ];
        for (age, bytes, lag) in stages {
            if let Some(lag) = lag {
                self.gather.put(age, name, lag.age.as_secs_f64());
                self.gather.put(bytes, name, lag.distance as f64);
            }
        }
        if let Some(stale) = self.stalest.take() {
            self.gather.put("reads.stale", name, stale.age.as_secs_f64());
            self.gather.put("reads.stale_commits", name, stale.distance as f64);
        }
        let stalled: Duration = self.stall.take();
        if self.looked.is_some() || stalled > Duration::ZERO {
            self.gather.put("standby.replay_stall", name, stalled.as_secs_f64());
        }
        let (values, _) = self.gather.take();
        let length_ns = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
        self.out.tick(Tick { source: TickSource::Standby, end_unix_ns, length_ns, values: values.into() });
    }
}

impl Asking {
    fn start(standby: &ObservedStandby, observer: &str) -> Result<Asking, String> {
        let mut session = connect(&standby.conninfo, observer)?;
        let release = Release::new(session.server_version_num());
        let positions = prepare(&mut session, "pgdyno_positions", positions(release, standby.is_read));
        let details = prepare(&mut session, "pgdyno_details", details(release));
        Ok(Asking { session, positions, details })
    }
}

/// Positions in WAL that it has received and replayed, and the first transaction that it does not see if the load reads from it; none of a
/// server that has been promoted.
fn positions(release: Release, is_read: bool) -> String {
    let of = |what: &str| format!("case when pg_is_in_recovery() then {what} end::text");
    let (received, replayed) = (release.name(functions::WAL_RECEIVED), release.name(functions::WAL_REPLAYED));
    let unseen = if is_read { of(FIRST_UNSEEN) } else { "null".to_string() };
    let [received, replayed] = [received, replayed].map(|function| of(&format!("{function}()")));
    format!("select {received}, {replayed}, {unseen}")
}

/// Metric, kind and value.
fn details(release: Release) -> String {
    let paused = release.name(functions::REPLAY_PAUSED);
    let conflicts: Vec<String> = release
        .of(&statistics::CONFLICT_COLUMNS)
        .into_iter()
        .map(|(kind, column)| {
            format!(
                "select 'standby.conflicts', '{kind}', sum({column})::text from pg_stat_database_conflicts c"
            )
        })
        .collect();
    let mut parts = vec![format!(
        "select 'standby.replay_paused', null, case when pg_is_in_recovery() then {paused}()::int end::text"
    )];
    parts.extend(conflicts);
    if release.has(statistics::WAL_RECEIVER) {
        parts.push(
            "select 'standby.message_age', null, \
             greatest(extract(epoch from clock_timestamp() - last_msg_receipt_time)::numeric, 0)::text \
             from pg_stat_wal_receiver where last_msg_receipt_time is not null"
                .to_string(),
        );
    }
    parts.join(" union all ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_is_asked_only_for_what_it_has() {
        for (version_num, has, has_not) in [
            (90_524, "pg_is_xlog_replay_paused", "pg_stat_wal_receiver"),
            (90_624, "pg_stat_wal_receiver", "pg_is_wal_replay_paused"),
            (150_018, "pg_is_wal_replay_paused", "confl_active_logicalslot"),
            (160_000, "confl_active_logicalslot", "xlog"),
        ] {
            let text = details(Release::new(version_num));
            assert!(text.contains(has) && !text.contains(has_not), "{version_num}: {text}");
        }
        let positions = positions(Release::new(90_624), false);
        assert!(positions.contains("pg_last_xlog_receive_location()") && !positions.contains("txid"));
    }
}
