//! The control loop of a running load: gathers the threads' reports and passes on what the parent asks.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use model::load::drive::{Done, DriveCommand, DriverLine, LoadEnding};
use model::load::interval::Connects;
use model::telemetry::event::{Event, EventKind};
use workload::emulator::traced::TracedFigures;

use crate::clock::{self, Nanos};
use crate::control::commands::{Commands, ParentInput};
use crate::control::merge::Merger;
use crate::control::output::{Failure, Outbox};
use crate::control::traced;
use crate::tally::{IntervalTally, SqlState, sqlstate_text};
use crate::thread::controls::Controls;
use crate::thread::order::OrderedLoad;
use crate::thread::report::{Finished, Report};
use crate::thread::stop;

/// Lost connections that are reported one by one, and restored ones; further ones are only counted.
const LOST_EVENTS_MAX: u32 = 20;
/// How long a stop may go unnoticed.
const STOP_GRAIN: Duration = Duration::from_millis(50);

/// Gathers reports until every thread has finished.
pub(crate) struct Collector<'a> {
    order: &'a OrderedLoad<'a>,
    merger: Merger,
    /// Returns emptied tallies to their threads.
    recycle: Vec<Sender<IntervalTally>>,
    outbox: &'a Outbox,
    n_running: usize,
    n_lost_reported: u32,
    n_restored_reported: u32,
    /// Why the load is void.
    failure: Option<String>,
    stopped: bool,
    done: Done,
    messages: BTreeMap<SqlState, String>,
    /// What clients of a trace have seen.
    traced: Vec<TracedFigures>,
    end: Nanos,
}

impl<'a> Collector<'a> {
    pub(crate) fn new(
        order: &'a OrderedLoad<'a>,
        recycle: Vec<Sender<IntervalTally>>,
        outbox: &'a Outbox,
    ) -> Collector<'a> {
        let n_clients = order.load.n_clients as usize;
        Collector {
            merger: Merger::new(order.load.scripts.clone(), order.scripts.facts(), order.wall, recycle.len()),
            n_running: recycle.len(),
            order,
            recycle,
            outbox,
            n_lost_reported: 0,
            n_restored_reported: 0,
            failure: None,
            stopped: false,
            done: Done {
                ending: LoadEnding::Completed,
                end_unix_ns: 0,
                counts: Default::default(),
                backlog: 0,
                errors: BTreeMap::new(),
                messages: BTreeMap::new(),
                measured_by_client: vec![0; n_clients],
                clients_lost: 0,
                unanswered: 0,
                unanswered_ns: 0,
                connect_ns_total: 0.0,
                n_connects: 0,
                n_lost: 0,
                outage_ns_total: 0.0,
                late_ns: 0,
                lines_dropped: 0,
                committed_by_slice: Vec::new(),
                sessions: None,
                replayed: None,
            },
            messages: BTreeMap::new(),
            traced: Vec::new(),
            end: 0,
        }
    }

    /// Runs until every thread has finished, then writes `done`.
    pub(crate) fn collect(
        &mut self,
        inbox: &Receiver<Report>,
        commands: &Commands,
        controls: Controls,
    ) -> Result<(), Failure> {
        while self.n_running > 0 {
            while let Some(heard) = commands.try_recv() {
                match heard {
                    ParentInput::Command(command) => self.take_command(command, controls)?,
                    ParentInput::ParentIsGone { is_far } => self.stop(is_far, controls),
                    ParentInput::TooManyLines => self.stop(true, controls),
                }
            }
            controls.events.set_parent_behind(self.outbox.is_half_full());
            match inbox.recv_timeout(STOP_GRAIN) {
                Ok(report) => {
                    if matches!(report, Report::Event { .. } | Report::Executions(_)) {
                        controls.events.take();
                    }
                    self.take(report)?;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::Load("a driver thread died; this is a defect of pgdyno".into()));
                }
            }
        }
        self.write_done()
    }

    /// Carries out a command. A line confirms a window that was moved.
    fn take_command(&mut self, command: DriveCommand, controls: Controls) -> Result<(), Failure> {
        match command {
            DriveCommand::Stop => self.stop(self.order.load.cancel_on_stop, controls),
            DriveCommand::Rate(rate_per_s) if rate_per_s.is_finite() && rate_per_s > 0.0 => {
                controls.rate.order(rate_per_s);
            }
            DriveCommand::Window(window) if !self.stopped && controls.frame.change(window, clock::now()) => {
                self.outbox.say(&DriverLine::Window(window))?;
            }
            DriveCommand::Rate(_) | DriveCommand::Window(_) | DriveCommand::Go(_) | DriveCommand::Ping(_) => {
            }
        }
        Ok(())
    }

    fn stop(&mut self, at_once: bool, controls: Controls) {
        self.stopped = true;
        controls.stop.fetch_max(if at_once { stop::AT_ONCE } else { stop::GENTLY }, Ordering::Relaxed);
    }

    fn take(&mut self, report: Report) -> Result<(), Failure> {
        match report {
            Report::Part(part) => {
                let thread = part.thread;
                if let Some(tally) = self.merger.add(*part) {
                    self.give_back(thread, tally);
                }
                self.write_complete()
            }
            Report::Event { at, event } => self.report_event(at, *event),
            Report::Executions(lines) => {
                let lines = lines.into_iter().map(|line| DriverLine::Execution(Box::new(line)));
                Ok(self.outbox.say_all(lines)?)
            }
            Report::Failed(message) => {
                self.failure.get_or_insert(message);
                Ok(())
            }
            Report::Paused { at, pause_ns } => {
                let pause_s = pause_ns as f64 / 1e9;
                let text = format!("the driver did not run for {pause_s:.3} s");
                let event = Event::new(self.order.wall.unix(at), EventKind::DriverPaused, text);
                Ok(self.outbox.say(&DriverLine::Event(event.with("pause_s", pause_s)))?)
            }
            Report::Broken(error) => {
                Err(Failure::Load(format!("the driver cannot wait for its connections any more: {error}")))
            }
            Report::Finished(finished) => {
                self.merger.finished(finished.thread);
                self.n_running -= 1;
                self.add_finished(*finished);
                self.write_complete()
            }
        }
    }

    fn give_back(&mut self, thread: usize, mut tally: IntervalTally) {
        tally.clear();
        // A thread that has finished needs none.
        self.recycle[thread].send(tally).ok();
    }

    fn write_complete(&mut self) -> Result<(), Failure> {
        let (lines, spare) = self.merger.complete();
        for line in &lines {
            self.outbox.say(line)?;
        }
        for tally in spare {
            self.give_back(0, tally);
        }
        Ok(())
    }

    fn report_event(&mut self, at: Nanos, mut event: Event) -> Result<(), Failure> {
        let n_reported = match event.kind {
            EventKind::ConnectionLost => &mut self.n_lost_reported,
            EventKind::ConnectionRestored => &mut self.n_restored_reported,
            _ => &mut 0,
        };
        *n_reported += 1;
        if *n_reported > LOST_EVENTS_MAX {
            return Ok(());
        }
        event.t_unix_ns = self.order.wall.unix(at);
        Ok(self.outbox.say(&DriverLine::Event(event))?)
    }

    fn add_finished(&mut self, finished: Finished) {
        self.end = self.end.max(finished.end);
        self.done.late_ns = self.done.late_ns.max(finished.late);
        self.done.backlog += finished.backlog;
        self.done.clients_lost += finished.clients_lost;
        self.done.unanswered += finished.unanswered;
        self.done.unanswered_ns = self.done.unanswered_ns.max(finished.unanswered_ns);
        self.done.committed_by_slice.resize(finished.committed_by_slice.len(), 0);
        for (sum, n) in self.done.committed_by_slice.iter_mut().zip(finished.committed_by_slice) {
            *sum += n;
        }
        self.traced.extend(finished.traced);
        if let Some(sessions) = finished.sessions {
            self.done.sessions.get_or_insert_default().add(sessions);
        }
        for (client, n) in finished.measured {
            self.done.measured_by_client[client] = n;
        }
        for (sqlstate, message) in finished.messages {
            self.messages.entry(sqlstate).or_insert(message);
        }
    }

    fn write_done(&mut self) -> Result<(), Failure> {
        if let Some(message) = self.failure.take() {
            return Err(Failure::Load(message));
        }
        let lost_all = self.done.clients_lost as usize == self.order.shares().iter().sum::<usize>();
        self.done.ending = match (lost_all, self.stopped) {
            (true, _) => LoadEnding::ConnectionsLost,
            (false, true) => LoadEnding::Stopped,
            (false, false) => LoadEnding::Completed,
        };
        self.done.end_unix_ns = self.order.wall.unix(self.end);
        self.done.counts = self.merger.totals;
        self.done.errors = std::mem::take(&mut self.merger.errors);
        let Connects { opened, sum_ns, lost, outage_ns, failed: _ } = self.merger.connects;
        (self.done.n_connects, self.done.connect_ns_total) = (opened, sum_ns);
        (self.done.n_lost, self.done.outage_ns_total) = (lost, outage_ns);
        self.done.messages =
            self.messages.iter().map(|(state, message)| (sqlstate_text(state), message.clone())).collect();
        self.done.replayed = traced::outcome(std::mem::take(&mut self.traced));
        if let Some(trace) = &self.done.replayed {
            assert!(trace.identity_holds(), "the statements of a trace obey their identity: {trace:?}");
        }
        assert!(self.done.counts.identity_holds(0), "the counts obey their identity: {:?}", self.done.counts);
        self.done.lines_dropped = self.outbox.n_dropped();
        Ok(self.outbox.say_last(&DriverLine::Done(Box::new(self.done.clone())))?)
    }
}
