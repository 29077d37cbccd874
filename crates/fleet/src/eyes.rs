//! Eyes on a server's host: `pgdyno watch` behind a command that leads a pipe there, followed by a thread of its own.
//!
//! The thread sends the beats, compares the clocks before and after, and passes on what is seen in our clock's time. Eyes
//! that fail end nothing else: the load goes on, and whoever asked for them learns why they failed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use model::experiment::driver::DriverSpec;
use model::load::drive::DriverLine;
use model::run::eyes::HostObserverRecord;
use model::telemetry::event::Event;
use model::telemetry::reading::Tick;
use model::telemetry::watch::{Backends, WatchCommand, WatchOrder, Watching};

use crate::clocks::shifted;
use crate::conduct::to_our_clock;
use crate::connect::RemoteRole;
use crate::drivers::{Fleet, TURN};

/// How long the eyes may take to describe their host after their hello.
const LOOK_AROUND_TIMEOUT: Duration = Duration::from_secs(30);
/// How long they may take to observe for the last time.
const LAST_LOOK_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the login, the hello and the description may take together: tries of a login included.
const OPEN_TIMEOUT: Duration = Duration::from_secs(150);

/// Something that was seen on the host, in our clock's time.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Debug, Clone, PartialEq)]
pub enum HostObservation {
    Tick(Tick),
    Event(Event),
    /// Something cannot be observed there.
    Missing {
        what: String,
        reason: String,
    },
}

/// Where everything that is seen goes.
pub(crate) type ObservationSink = Box<dyn FnMut(HostObservation) + Send>;
/// Returns whose backends are whose; it is asked every second.
pub(crate) type AskBackends = Box<dyn FnMut() -> Backends + Send>;

/// `pgdyno watch` on a server's host. Dropping it ends it.
#[derive(Debug)]
pub struct HostObserver {
    /// The host and the server on it, as the eyes found them.
    pub watching: Watching,
    /// Who they are, and their clock before the load.
    pub record: HostObserverRecord,
    /// `None` after the end.
    asks: Option<Sender<Ask>>,
    thread: Option<JoinHandle<Outcome>>,
    stop: Arc<AtomicBool>,
}

/// The last record of the eyes, and why they failed if they did.
type Outcome = (HostObserverRecord, Result<()>);

enum Ask {
    Go { align_unix_ns: u64, sink: ObservationSink, backends: AskBackends },
    Stop,
}

impl HostObserver {
    /// Logs in, and waits until the eyes have found the server that `order` describes and have compared their clock.
    /// `own` is this program's file.
    ///
    /// # Errors
    /// When the host cannot be reached, its program is missing or of another build, or `stop` is raised.
    pub fn open(
        spec: &DriverSpec,
        order: WatchOrder,
        own: PathBuf,
        stop: &AtomicBool,
    ) -> Result<HostObserver> {
        let (asks, asked) = mpsc::channel();
        let (found, opened) = mpsc::channel();
        let own_stop = Arc::new(AtomicBool::new(false));
        let (spec, thread_stop) = (spec.clone(), Arc::clone(&own_stop));
        // The kernel kills the command when the thread that started it ends.
        let body = move || Look { spec: &spec, own: &own, stop: &thread_stop }.take(&order, &found, &asked);
        let thread = std::thread::Builder::new().name("eyes".into()).spawn(body);
        let mut eyes = HostObserver {
            watching: Watching::default(),
            record: HostObserverRecord::default(),
            asks: Some(asks),
            thread: Some(thread.context("cannot start a thread for the eyes on the host")?),
            stop: own_stop,
        };
        let begun = Instant::now();
        loop {
            match opened.recv_timeout(TURN) {
                Ok((record, watching)) => {
                    (eyes.record, eyes.watching) = (record, watching);
                    return Ok(eyes);
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let failed = eyes.join().1;
                    return Err(failed.err().unwrap_or_else(|| anyhow!("the eyes have ended early")));
                }
                Err(RecvTimeoutError::Timeout) => {
                    ensure!(!stop.load(Ordering::Relaxed), "stopped before the load began");
                    ensure!(begun.elapsed() < OPEN_TIMEOUT, "the host was not reached in time");
                }
            }
        }
    }

    /// Whether eyes of the same build as `own` answer behind `spec`. They get no order, and end.
    ///
    /// # Errors
    /// As [`HostObserver::open`].
    pub fn try_to_greet(spec: &DriverSpec, own: &Path, stop: &AtomicBool) -> Result<()> {
        Fleet::logged_in(std::slice::from_ref(spec), RemoteRole::Eyes, own, stop).map(drop)
    }

    /// Has the host observed from now on; ticks end at `align_unix_ns` plus or minus whole seconds.
    pub fn go(&self, align_unix_ns: u64, sink: ObservationSink, backends: AskBackends) {
        if let Some(asks) = &self.asks {
            // Eyes that have failed report that at the end.
            asks.send(Ask::Go { align_unix_ns, sink, backends }).unwrap_or_default();
        }
    }

    /// Ends the observation. Returns the record with both clocks, and why the eyes failed if they did.
    pub fn end(mut self) -> (HostObserverRecord, Option<String>) {
        if let Some(asks) = &self.asks {
            asks.send(Ask::Stop).unwrap_or_default();
        }
        let (record, result) = self.join();
        (record, result.err().map(|error| format!("{error:#}")))
    }

    fn join(&mut self) -> Outcome {
        let thread = self.thread.take().map(JoinHandle::join);
        let died =
            || (self.record.clone(), Err(anyhow!("the thread of the eyes died; this is a defect of pgdyno")));
        thread.and_then(Result::ok).unwrap_or_else(died)
    }
}

impl Drop for HostObserver {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.asks = None;
        if self.thread.is_some() {
            let _what_they_saw_is_not_needed = self.join();
        }
    }
}

/// What the thread of the eyes needs.
struct Look<'a> {
    spec: &'a DriverSpec,
    own: &'a std::path::Path,
    stop: &'a AtomicBool,
}

/// The state of an observation.
#[derive(Default)]
struct Course {
    sink: Option<ObservationSink>,
    backends: Option<AskBackends>,
    sent: Option<Backends>,
    last_asked: Option<Instant>,
    stopping: Option<Instant>,
    n_ticks: u64,
}

impl Look<'_> {
    fn take(
        &self,
        order: &WatchOrder,
        found: &Sender<(HostObserverRecord, Watching)>,
        asked: &Receiver<Ask>,
    ) -> Outcome {
        let mut record = HostObserverRecord::default();
        let result = self.open(order, &mut record).and_then(|(mut fleet, watching)| {
            let is_heard = found.send((record.clone(), watching)).is_ok();
            if is_heard { follow(&mut fleet, asked, &mut record) } else { Ok(()) }
        });
        (record, result)
    }

    fn open(&self, order: &WatchOrder, record: &mut HostObserverRecord) -> Result<(Fleet, Watching)> {
        let asked_at = Instant::now();
        let mut fleet =
            Fleet::logged_in(std::slice::from_ref(self.spec), RemoteRole::Eyes, self.own, self.stop)?;
        // The login took time, by which the server process is older now.
        let mut order = order.clone();
        order.backend.iter_mut().for_each(|backend| backend.age_s += asked_at.elapsed().as_secs_f64());
        fleet.drivers[0].process.say(&order)?;
        let begun = Instant::now();
        let watching = loop {
            match fleet.next(TURN)? {
                Some((_, DriverLine::Watching(watching))) => break *watching,
                Some((from, DriverLine::Failed { message })) => return Err(fleet.failure(from, message)),
                _ => {}
            }
            ensure!(!self.stop.load(Ordering::Relaxed), "stopped before the load began");
            if begun.elapsed() > LOOK_AROUND_TIMEOUT {
                let process = &fleet.drivers[0].process;
                bail!("{} has not described its host{}", process.who, process.last_words());
            }
        };
        fleet.meet_clocks(self.stop)?;
        if let Some(known) = &fleet.drivers[0].record {
            record.name = known.name.clone();
            record.hello = known.hello.clone();
            record.is_here = known.is_here;
            record.clock_before = known.clock_before;
        }
        record.postmaster_pid = watching.postmaster_pid;
        Ok((fleet, watching))
    }
}

/// Follows the eyes to their last line.
fn follow(fleet: &mut Fleet, asked: &Receiver<Ask>, record: &mut HostObserverRecord) -> Result<()> {
    let mut course = Course::default();
    loop {
        match asked.try_recv() {
            Ok(Ask::Go { align_unix_ns, sink, backends }) => {
                (course.sink, course.backends) = (Some(sink), Some(backends));
                course.send_backends(fleet)?;
                let driver = &fleet.drivers[0];
                driver.process.say(&WatchCommand::Go(shifted(align_unix_ns, driver.offset_ns())))?;
            }
            Ok(Ask::Stop) => {
                fleet.drivers[0].process.say(&WatchCommand::Stop)?;
                course.stopping = Some(Instant::now());
            }
            Err(TryRecvError::Empty) => {}
            // Nobody needs them any more.
            Err(TryRecvError::Disconnected) => return Ok(()),
        }
        course.send_backends(fleet)?;
        if let Some((from, line)) = fleet.next(TURN)?
            && let Some(n_ticks) = course.take(fleet, from, line)?
        {
            record.n_ticks = course.n_ticks;
            record.n_ticks_lost = n_ticks.saturating_sub(course.n_ticks);
            fleet.drivers[0].has_ended = true;
            fleet.take_leave();
            record.clock_after = fleet.drivers[0].record.as_ref().and_then(|known| known.clock_after);
            return Ok(());
        }
        record.n_ticks = course.n_ticks;
        let who = &fleet.drivers[0].process.who;
        ensure!(
            course.stopping.is_none_or(|since| since.elapsed() < LAST_LOOK_TIMEOUT),
            "{who} has not ended {} s after it was asked to",
            LAST_LOOK_TIMEOUT.as_secs()
        );
    }
}

impl Course {
    /// Sends whose backends are whose, if that has changed; it is looked at once a second.
    fn send_backends(&mut self, fleet: &Fleet) -> Result<()> {
        if self.last_asked.is_some_and(|at| at.elapsed() < Duration::from_secs(1)) {
            return Ok(());
        }
        let Some(ask) = &mut self.backends else { return Ok(()) };
        self.last_asked = Some(Instant::now());
        let now = ask();
        if self.sent.as_ref() == Some(&now) {
            return Ok(());
        }
        fleet.drivers[0].process.say(&WatchCommand::Backends(now.clone()))?;
        self.sent = Some(now);
        Ok(())
    }

    /// Passes a line on; returns the number of ticks that were observed if it was the last line.
    fn take(&mut self, fleet: &Fleet, from: usize, mut line: DriverLine) -> Result<Option<u64>> {
        to_our_clock(&mut line, fleet.drivers[from].offset_ns());
        let seen = match line {
            DriverLine::Tick(tick) => {
                self.n_ticks += 1;
                HostObservation::Tick(tick)
            }
            DriverLine::Event(event) => HostObservation::Event(event),
            DriverLine::Missing { what, reason } => HostObservation::Missing { what, reason },
            DriverLine::Failed { message } => return Err(fleet.failure(from, message)),
            DriverLine::Watched(watched) => return Ok(Some(watched.n_ticks)),
            _ => return Ok(None),
        };
        if let Some(sink) = &mut self.sink {
            sink(seen);
        }
        Ok(None)
    }
}
