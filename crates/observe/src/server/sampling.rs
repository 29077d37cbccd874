//! Takes the samples of [`waits`] in their rhythm.

use std::time::{Duration, Instant};

use model::release::{self, Release};
use wire::{Session, SessionError};

use crate::host::place::ProcessPlace;
use crate::host::process::thread_cpu_time;
use crate::schedule::{ObserverControl, unix_ns};
use crate::server::roots;
use crate::server::statements::{self, Names};
use crate::server::statistics;
use crate::server::waits::{self, Kernel, Rhythm, WaitTally};
use crate::server::watch::{WatchedParts, is_fatal, prepare};

/// Samples that may fail in a row, and the pause after one that did.
const FAILED_MAX: u32 = 3;
const FAILED_PAUSE: Duration = Duration::from_secs(1);

/// The sampling of waits over the session that also reads statistics: one connection is enough, and an answer takes less
/// than a millisecond.
pub(crate) struct Sampling {
    pub(crate) tally: WaitTally,
    rhythm: Rhythm,
    /// When the next sample is due.
    next: Instant,
    /// How long the last one took.
    took: Duration,
    n_failed: u32,
    sample: String,
    roots: Option<String>,
    roots_due: Instant,
    /// Takes a sample with the statements; `None`: this server rejects it.
    statements: Option<String>,
    statements_due: Instant,
    has_io_events: bool,
    /// Whether the load's and pgdyno's own sessions are known by their process ids.
    are_sessions_known: bool,
}

impl Sampling {
    /// Of a session that is the server's own, not a pooler's, and where it is known whose the others are.
    pub(crate) fn start(session: &mut Session, wanted: &WatchedParts, is_direct: bool) -> Sampling {
        let version_num = session.server_version_num();
        let mut sample = statistics::with_activity(version_num, &waits::sample_sql());
        let mut statements =
            statistics::with_activity(version_num, &waits::sample_statements_sql(&wanted.database));
        let mut roots = Release::new(version_num)
            .has(release::statistics::WAIT_EVENTS)
            .then(|| statistics::with_activity(version_num, &roots::sql()));
        if is_direct {
            sample = prepare(session, "pgdyno_waits", sample);
            statements = prepare(session, "pgdyno_statements", statements);
            roots = roots.map(|roots| prepare(session, "pgdyno_roots", roots));
        }
        let rhythm = Rhythm::new(unix_ns());
        Sampling {
            tally: WaitTally::default(),
            rhythm,
            next: Instant::now(),
            took: Duration::ZERO,
            n_failed: 0,
            sample,
            roots,
            roots_due: Instant::now(),
            statements: Some(statements),
            statements_due: Instant::now(),
            has_io_events: Release::new(version_num).has(release::statistics::IO_WAITS),
            are_sessions_known: is_direct && wanted.has_backends,
        }
    }

    /// When the next sample is due, if it and a look for roots are likely to be over before the tick ends at `end`.
    pub(crate) fn next_before(&self, end: Instant) -> Option<Instant> {
        Some(self.next).filter(|next| *next + 3 * self.took < end)
    }

    /// Whether this server rejects samples again and again: a single one may have taken too long.
    pub(crate) fn has_given_up(&self) -> bool {
        self.n_failed >= FAILED_MAX
    }

    /// Takes a sample. The server's processes are looked at if its first one is on this machine.
    pub(crate) fn take(
        &mut self,
        session: &mut Session,
        names: &mut Names,
        control: &ObserverControl,
    ) -> Result<(), SessionError> {
        let begin = Instant::now();
        self.next = begin + FAILED_PAUSE;
        self.n_failed += 1;
        let statements = if begin >= self.statements_due { self.statements.as_ref() } else { None };
        let (rows, names) = match statements.map(|sql| session.query(sql)) {
            Some(Ok(rows)) => (rows, Some(names)),
            Some(Err(error)) if is_fatal(&error) => return Err(error),
            // Samples are worth having without it.
            Some(Err(_)) => {
                self.statements = None;
                (session.query(&self.sample)?, None)
            }
            None => (session.query(&self.sample)?, None),
        };
        self.n_failed = 0;
        let took = begin.elapsed();
        self.took = took;
        if names.is_some() {
            self.statements_due = begin + statements::PAUSE;
        }
        let server_pid = control.get().server_pid;
        let look = |pid| ProcessPlace::find(pid, server_pid?);
        let kernel = Kernel { look: &look, has_io_events: self.has_io_events };
        let cpu_before = thread_cpu_time();
        let seen = self.tally.add(&rows.rows, &kernel, took, names);
        let looks = thread_cpu_time().saturating_sub(cpu_before);
        if seen.has_lock_waits && begin >= self.roots_due {
            self.look_for_roots(session, &kernel, control)?;
        }
        self.next = Instant::now() + self.rhythm.pause(seen, took, looks);
        Ok(())
    }

    fn look_for_roots(
        &mut self,
        session: &mut Session,
        kernel: &Kernel,
        control: &ObserverControl,
    ) -> Result<(), SessionError> {
        let Some(sql) = &self.roots else { return Ok(()) };
        let begin = Instant::now();
        match session.query(sql) {
            Ok(rows) => {
                let backends = control.backends();
                let ours = if self.are_sessions_known { Some(&*backends) } else { None };
                self.tally.add_roots(&rows.rows, kernel, ours, begin.elapsed());
            }
            Err(error) if is_fatal(&error) => return Err(error),
            // Samples are worth having without it.
            Err(_) => self.roots = None,
        }
        self.roots_due = begin + roots::ROOTS_PAUSE;
        Ok(())
    }
}
