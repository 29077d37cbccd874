//! Gauges, counters and events of host and server in each tick, while a load runs.
//!
//! At most five threads: one reads `/proc`, one queries the server over its own connection, one follows the server's
//! log, one asks the console of our own pooler, and one scrapes an exporter on the machine of a remote server. With standbys, one more for
//! each, and one for the position of their primary. They send [`Observation`]s to a sink and write
//! nothing themselves. A metric that cannot be observed is reported once ([`Observation::Unavailable`]); lost samples are
//! events. Nothing here judges the observations.

pub mod counted;
mod gather;
pub mod host;
pub mod http;
pub mod peer;
mod poll;
mod pooler;
pub mod profile;
mod remote;
mod schedule;
mod server;
mod sink;
mod standby;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use model::telemetry::event::Event;
use model::telemetry::reading::Tick;
use model::telemetry::watch::Backends;
use wire::Conninfo;

use crate::host::counters::ProcessCounters;
use crate::host::process::standbys::{LocalStandby, Senders, StandbyProcesses};
use crate::host::watch::HostWatch;
use crate::pooler::PoolerWatch;
pub use crate::remote::exposition::Mapping;
pub use crate::remote::service::{AskerIdentity, Service};
pub use crate::remote::watch::Exporter;
use crate::remote::watch::RemoteWatch;
use crate::schedule::{Anchor, ObserverControl, Wishes};
use crate::server::statistics;
use crate::server::tail::LogTail;
use crate::server::watch::{ServerWatch, WatchedParts};
use crate::sink::{Out, Sink};
pub use crate::standby::ObservedStandby;
use crate::standby::primary::{PrimaryMarks, PrimaryWatch};
use crate::standby::watch::StandbyWatch;

/// One observation.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Debug, Clone, PartialEq)]
pub enum Observation {
    /// Readings of one source, usually once per second.
    Tick(Tick),
    /// Something happened.
    Event(Event),
    /// The text of a statement that ticks name, without literals; once per statement.
    Statement {
        /// The identifier in ticks.
        id: String,
        text: String,
    },
    /// Output of an exporter on another machine, verbatim.
    Scrape {
        /// Time of the answer, nanoseconds since the Unix epoch.
        end_unix_ns: u64,
        text: String,
    },
    /// A metric that cannot be observed here; reported once per `what`.
    Unavailable {
        /// A metric, a prefix of metric names, or a source.
        what: String,
        /// Reason for people.
        reason: String,
    },
}

/// Specification of what to observe.
pub struct ObserveSpec {
    /// The server to query; `None` leaves its statistics out.
    pub server: Option<Conninfo>,
    /// The database under load: its statistics are read, whichever database the connection uses.
    pub database: String,
    /// Process id of the postmaster, if the server runs on this machine.
    pub server_pid: Option<i32>,
    /// Standbys of the server that run on this machine.
    pub standbys: Vec<ObservedStandby>,
    /// Process ids of a pooler or proxy on this machine that the load goes through.
    pub pooler_pids: Vec<i32>,
    /// The console of each process of our own pooler.
    pub consoles: Vec<Conninfo>,
    /// Counters that are attached to the server already, so that none of its later processes escapes them.
    pub counters: Option<ProcessCounters>,
    /// Process id of the load driver, once it runs.
    pub driver_pid: Option<i32>,
    /// Backends of the load and of pgdyno's other sessions; `None` if unknown: then foreign sessions are not distinguished.
    pub backends: Option<OurBackends>,
    /// Directories by role (`data`, `wal`, `results`): their devices and free space are observed.
    pub dirs: BTreeMap<String, PathBuf>,
    /// An exporter on the database's machine, in Prometheus' text format.
    pub telemetry: Option<Exporter>,
    /// The server's log, if it is readable here.
    pub log_path: Option<PathBuf>,
    /// Whether somebody else follows the server's log on its host.
    pub is_log_followed: bool,
    /// Whether every disk is observed if no directory names one.
    pub may_observe_all_disks: bool,
    /// Length of the log before the run: its older lines are skipped.
    pub log_offset: u64,
    /// Whether nothing is observed after all: no thread starts, no session opens.
    pub is_off: bool,
    /// Length of a tick in nanoseconds; normally [`ObserveSpec::TICK_NS`].
    pub tick_ns: u64,
    /// Ticks end at this time (nanoseconds since the Unix epoch) plus or minus whole ticks.
    pub align_unix_ns: u64,
}

/// Process ids of the server's backends that serve pgdyno.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OurBackends {
    /// Backends of the load's clients.
    pub load: BTreeSet<i32>,
    /// Backends of other sessions, and of a load that takes turns with this one.
    pub others: BTreeSet<i32>,
    /// A word that only this process knows, at the end of its observers' `application_name`: the observer of a load that
    /// takes turns with this one is ours, and anybody else's is not, whatever it calls itself.
    pub word: String,
}

impl ObserveSpec {
    /// One second.
    pub const TICK_NS: u64 = 1_000_000_000;
    /// Shortest tick allowed: with a shorter one, we would observe the observer.
    pub const TICK_MIN_NS: u64 = 100_000_000;

    /// Observes only the machine, every second.
    pub fn of_host() -> ObserveSpec {
        ObserveSpec {
            server: None,
            database: String::new(),
            server_pid: None,
            standbys: Vec::new(),
            pooler_pids: Vec::new(),
            consoles: Vec::new(),
            counters: None,
            driver_pid: None,
            backends: None,
            dirs: BTreeMap::new(),
            telemetry: None,
            log_path: None,
            is_log_followed: false,
            may_observe_all_disks: false,
            log_offset: 0,
            is_off: false,
            tick_ns: ObserveSpec::TICK_NS,
            align_unix_ns: 0,
        }
    }
}

/// Threads that observe until they are stopped. Dropping the value stops them too.
#[derive(Debug)]
pub struct Observer {
    control: Arc<ObserverControl>,
    out: Out,
    threads: Vec<JoinHandle<()>>,
    anchor: Anchor,
}

/// Limit for a stop. A server that does not answer must not delay the end of a run.
const STOP_LIMIT: Duration = Duration::from_millis(1500);

impl Observer {
    /// Starts observing. The sink is called from the observer's threads, one call at a time, and should return
    /// immediately: nothing is observed while it runs.
    ///
    /// # Errors
    /// When the spec is invalid, or a thread cannot be started. A server that is down is not an error: it is reported
    /// as an event, and queried again.
    pub fn start(spec: ObserveSpec, sink: Sink) -> Result<Observer> {
        ensure!(
            spec.tick_ns >= ObserveSpec::TICK_MIN_NS,
            "a tick of {} ns is too short; use at least {}",
            spec.tick_ns,
            ObserveSpec::TICK_MIN_NS
        );
        let anchor = Anchor::now();
        anchor.hold();
        let wishes = Wishes {
            align_unix_ns: spec.align_unix_ns,
            driver_pid: spec.driver_pid,
            server_pid: spec.server_pid,
            ..Wishes::default()
        };
        let are_known = spec.backends.is_some();
        let OurBackends { load, others, word } = spec.backends.unwrap_or_default();
        let backends = Backends { load, own: others, ..Backends::default() };
        let control = Arc::new(ObserverControl::new(wishes, backends));
        let mut observer = Observer { control, out: Out::new(sink), threads: Vec::new(), anchor };
        if spec.is_off {
            return Ok(observer);
        }
        let tick_ns = spec.tick_ns;
        let (marks, senders) = (PrimaryMarks::default(), Senders::default());
        let name = statistics::application_name(&word);
        let local = |of: &ObservedStandby| LocalStandby { name: of.name.clone(), pid: of.pid };
        let host = HostWatch::new(&spec.dirs, spec.may_observe_all_disks, observer.out.clone())
            .with_counters(spec.counters)
            .with_pooler(&spec.pooler_pids)
            .with_standbys(StandbyProcesses::new(spec.standbys.iter().map(local), senders.clone()));
        observer.spawn("observe-host", move |control, _| host.run(control, tick_ns))?;
        let has_log = spec.log_path.is_some() || spec.is_log_followed;
        if !spec.standbys.is_empty()
            && let Some(conninfo) = &spec.server
        {
            let watch = PrimaryWatch::new(
                conninfo.clone(),
                name.clone(),
                marks.clone(),
                senders,
                observer.out.clone(),
            );
            observer.spawn("observe-primary", move |control, _| watch.run(control, tick_ns))?;
        }
        for standby in spec.standbys {
            let watch = StandbyWatch::new(standby, name.clone(), marks.clone(), observer.out.clone());
            observer.spawn("observe-standby", move |control, _| watch.run(control, tick_ns))?;
        }
        if let Some(conninfo) = spec.server {
            let wanted =
                WatchedParts { database: spec.database, has_log, has_backends: are_known, observer: name };
            let server = ServerWatch::new(conninfo, wanted, observer.out.clone());
            observer.spawn("observe-server", move |control, _| server.run(control, tick_ns))?;
        }
        if !spec.consoles.is_empty() {
            let pooler = PoolerWatch::new(spec.consoles, observer.out.clone());
            observer.spawn("observe-pooler", move |control, _| pooler.run(control, tick_ns))?;
        }
        if let Some(exporter) = spec.telemetry {
            let remote = RemoteWatch::new(exporter, observer.out.clone());
            observer.spawn("observe-remote", move |control, _| remote.run(control, tick_ns))?;
        }
        if let Some(path) = spec.log_path {
            let tail = LogTail::new(path, spec.log_offset);
            observer.spawn("observe-log", move |control, out| tail.run(control, out))?;
        }
        Ok(observer)
    }

    fn spawn(&mut self, name: &str, run: impl FnOnce(&ObserverControl, &Out) + Send + 'static) -> Result<()> {
        let (control, out) = (Arc::clone(&self.control), self.out.clone());
        let anchor = self.anchor;
        let body = move || {
            anchor.hold();
            // Also counted as ended if `run` panics, so that a stop does not wait in vain.
            let ended = Ended(Arc::clone(&control));
            run(&control, &out);
            drop(ended);
        };
        let thread = Builder::new().name(name.to_string()).spawn(body);
        self.threads.push(thread.with_context(|| format!("cannot start thread `{name}`"))?);
        Ok(())
    }

    /// Sets the load driver's pid, whose scheduling delay is then observed.
    pub fn set_driver_pid(&self, pid: Option<i32>) {
        self.control.change(|wishes| wishes.driver_pid = pid);
    }

    /// Sets the postmaster's pid, after a start or restart.
    pub fn set_server_pid(&self, pid: Option<i32>) {
        self.control.change(|wishes| wishes.server_pid = pid);
    }

    /// Sets whose backends are whose, for an observer that does not ask the server itself.
    pub fn set_backends(&self, backends: Backends) {
        *self.control.backends() = backends;
    }

    /// Returns a function that knows at any time whose backends are whose.
    pub fn backends(&self) -> impl FnMut() -> Backends + Send + use<> {
        let control = Arc::clone(&self.control);
        move || control.backends().clone()
    }

    /// Ends the observation with a last, shorter tick per source. Returns within two seconds; nothing reaches the sink
    /// afterwards.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.control.change(|wishes| wishes.stop = true);
        let threads = std::mem::take(&mut self.threads);
        let all_ended = self.control.wait_ended(threads.len(), STOP_LIMIT);
        self.out.close();
        if all_ended {
            for thread in threads {
                // A thread that panicked has nothing more to report.
                let _ = thread.join();
            }
        }
        // Otherwise a thread is waiting for a server that does not answer; it ends with its own time limit, unheard.
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        if !self.threads.is_empty() {
            self.end();
        }
    }
}

struct Ended(Arc<ObserverControl>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.change(|wishes| wishes.n_ended += 1);
    }
}

impl fmt::Debug for ObserveSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObserveSpec")
            .field("server", &self.server.as_ref().map(Conninfo::keywords))
            .field("database", &self.database)
            .field("server_pid", &self.server_pid)
            .field("standbys", &self.standbys.iter().map(|standby| &standby.name).collect::<Vec<_>>())
            .field("counters", &self.counters)
            .field("driver_pid", &self.driver_pid)
            .field("backends", &self.backends)
            .field("dirs", &self.dirs)
            .field("telemetry", &self.telemetry)
            .field("log_path", &self.log_path)
            .field("is_log_followed", &self.is_log_followed)
            .field("may_observe_all_disks", &self.may_observe_all_disks)
            .field("log_offset", &self.log_offset)
            .field("is_off", &self.is_off)
            .field("tick_ns", &self.tick_ns)
            .field("align_unix_ns", &self.align_unix_ns)
            .finish()
    }
}
