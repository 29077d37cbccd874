//! A worker with a scripted poller and a simulated clock, and what it reports.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU8, AtomicUsize};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use model::load::LoadSpec;
use model::load::drive::DriverPart;
use model::load::execution::ExecutionLine;
use model::load::interval::{Connects, Counts};
use model::telemetry::event::{Event, EventKind};
use testbed::hostile::{done, message, read_startup, serve, welcome};
use wire::{Conninfo, Link};
use workload::{Emulator, Prng};

use crate::client::Client;
use crate::client::script::Scripts;
use crate::client::transaction::ClientRole;
use crate::clock::{Nanos, SECOND_NS, WallClock, simulated};
use crate::poller::Poller;
use crate::poller::scripted::{Act, ScriptedEvent, ScriptedMessage};
use crate::tally::{IntervalTally, SqlState};
use crate::thread::controls::{Controls, Events};
use crate::thread::frame::WindowFrame;
use crate::thread::order::{Conninfos, OrderedLoad};
use crate::thread::rate::OrderedRate;
use crate::thread::report::{Finished, Report};
use crate::thread::schedule::{LoadShare, Schedule};
use crate::thread::stop;
use crate::thread::worker::{Setup, Worker};

pub(super) const MS: Nanos = SECOND_NS / 1000;
const GO: Nanos = 1000 * SECOND_NS;

/// A load of one thread.
pub(super) struct Bench {
    load: LoadSpec,
    conninfo: Conninfo,
    /// Clients have their connections when the load begins.
    is_connected: bool,
    /// Whether the sessions can be cancelled.
    can_cancel: bool,
    /// How long nobody reads the events.
    reads_after: Duration,
    /// Other threads of the load, which keep their clients.
    n_other_threads: usize,
}

/// The counts, errors and events of a load.
pub(super) struct Run {
    pub(super) counts: Counts,
    pub(super) errors: Vec<(SqlState, u64)>,
    /// Connections of each interval.
    pub(super) connects: Vec<Connects>,
    pub(super) latency_ns_min: f64,
    pub(super) latency_ns_max: f64,
    pub(super) events: Vec<Event>,
    /// Of a load that reports each.
    pub(super) executions: Vec<ExecutionLine>,
    pub(super) n_pauses: usize,
    /// From `go` to the end.
    pub(super) took_ns: Nanos,
    pub(super) finished: Finished,
}

impl Run {
    /// The texts of all events of a kind.
    pub(super) fn texts(&self, kind: EventKind) -> Vec<&str> {
        self.events.iter().filter(|event| event.kind == kind).map(|event| event.text.as_str()).collect()
    }
}

impl Bench {
    pub(super) fn new(load: LoadSpec) -> Bench {
        let conninfo = Conninfo::new("127.0.0.1", 1, "u", "d");
        let reads_after = Duration::ZERO;
        Bench { load, conninfo, is_connected: true, can_cancel: false, reads_after, n_other_threads: 0 }
    }

    /// Another thread goes on with its own clients to the end.
    pub(super) fn beside_another(self) -> Bench {
        Bench { n_other_threads: 1, ..self }
    }

    /// No client has a connection, and none can be made: nobody listens there.
    pub(super) fn refused(self) -> Bench {
        let conninfo = Conninfo::new("/nonexistent", 5432, "u", "d");
        Bench { conninfo, is_connected: false, ..self }
    }

    /// Nobody reads events for so long.
    pub(super) fn read_after(self, reads_after: Duration) -> Bench {
        Bench { reads_after, ..self }
    }

    /// The connection's cancel requests go to a real socket, and from there to the receiver.
    pub(super) fn with_cancel(self) -> (Bench, Receiver<[u8; 16]>) {
        let (conninfo, receiver) = admits_and_cancels_after(Duration::ZERO);
        (Bench { conninfo, can_cancel: true, ..self }, receiver)
    }

    /// Runs the load, which must take place.
    pub(super) fn run(
        self,
        script: impl FnMut(ScriptedMessage) -> io::Result<Vec<Act>> + Send + 'static,
    ) -> Run {
        self.try_run(script).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Runs the load.
    ///
    /// # Errors
    /// The thread's own.
    pub(super) fn try_run(
        self,
        script: impl FnMut(ScriptedMessage) -> io::Result<Vec<Act>> + Send + 'static,
    ) -> Result<Run, String> {
        let Bench { load, conninfo, .. } = &self;
        let scripts = Scripts::compile(load).unwrap();
        let order = OrderedLoad {
            load,
            part: DriverPart::WHOLE,
            conninfos: Conninfos::new(conninfo.clone(), None, &scripts),
            scripts: &scripts,
            wall: WallClock::read(),
        };
        let mut peers = Vec::new();
        let clients = (0..load.n_clients as usize).map(|id| self.client(&order, id, &mut peers)).collect();
        let frame = WindowFrame::new(load.window, GO);
        let (stop, rate) = (AtomicU8::new(stop::NOT), OrderedRate::default());
        let n_with_clients = AtomicUsize::new(1 + self.n_other_threads);
        let events = Events::default();
        events.set_parent_behind(!self.reads_after.is_zero());
        let share = LoadShare { thread: 0, n_threads: 1 };
        let (reports, inbox) = mpsc::channel();
        simulated::set(GO);
        let worker = Worker::new(Setup {
            thread: 0,
            load,
            scripts: &scripts,
            conninfos: order.conninfos.clone(),
            wall: order.wall,
            poller: Poller::scripted(Box::new(script)),
            rehearsal: None,
            clients,
            choose: Prng::seed(1),
            share,
            throttle: Prng::seed(2),
            schedule: Schedule::new(load.pace, share, Prng::seed(2), GO, frame.seen().end),
            turns: None,
            shape: order.shape(),
            log: None,
            go: GO,
            controls: Controls {
                stop: &stop,
                rate: &rate,
                frame: &frame,
                events: &events,
                n_with_clients: &n_with_clients,
            },
            reports,
            spare: mpsc::channel::<IntervalTally>().1,
        });
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(self.reads_after);
                events.set_parent_behind(false);
            });
            worker.run();
        });
        gather(&inbox, load.each_execution)
    }

    fn client(&self, order: &OrderedLoad, id: usize, peers: &mut Vec<Link>) -> Client {
        let emulator = Emulator::new(&order.scripts.bundle, Prng::seed(3), id, &order.defines());
        let mut client = Client::new(id, emulator);
        if self.can_cancel {
            client.connect(wire::connect(&self.conninfo).unwrap(), None).unwrap();
        } else if self.is_connected {
            // The other end says nothing, and stays open.
            let (link, peer) = Link::pair().unwrap();
            client.session.link = Some(link);
            peers.push(peer);
        }
        if self.load.each_execution {
            // Passes are through an order.
            client.role = ClientRole::new(0, vec![0]);
        }
        client
    }
}

/// Sums up the reports. The counts obey their identity at the end of each interval.
fn gather(inbox: &Receiver<Report>, each_execution: bool) -> Result<Run, String> {
    let (mut counts, mut errors) = (Counts::default(), Vec::new());
    let (mut latency_ns_min, mut latency_ns_max) = (f64::MAX, 0.0_f64);
    let (mut events, mut executions, mut connects, mut n_pauses) = (Vec::new(), Vec::new(), Vec::new(), 0);
    while let Ok(report) = inbox.try_recv() {
        match report {
            Report::Part(part) => {
                let script = &part.tally.scripts[0];
                counts += script.counts;
                assert!(counts.identity_holds(part.in_flight), "interval {}: {counts:?}", part.t);
                errors.extend(script.errors.iter().copied());
                connects.push(script.connects);
                if script.latency_moments.n > 0 {
                    latency_ns_min = latency_ns_min.min(script.latency_moments.min);
                    latency_ns_max = latency_ns_max.max(script.latency_moments.max);
                }
            }
            Report::Event { event, .. } => events.push(*event),
            Report::Executions(lines) if each_execution => executions.extend(lines),
            Report::Executions(lines) => return Err(format!("the load reports no executions: {lines:?}")),
            Report::Paused { .. } => n_pauses += 1,
            Report::Failed(message) => return Err(message),
            Report::Broken(error) => return Err(error.to_string()),
            Report::Finished(finished) => {
                assert!(counts.identity_holds(0), "{counts:?}");
                assert!(inbox.try_recv().is_err(), "nothing follows");
                let (took_ns, finished) = (finished.end - GO, *finished);
                return Ok(Run {
                    counts,
                    errors,
                    connects,
                    latency_ns_min,
                    latency_ns_max,
                    events,
                    executions,
                    n_pauses,
                    took_ns,
                    finished,
                });
            }
        }
    }
    Err("the thread ended without a word".into())
}

/// A server that lets sessions in, and whose cancel requests, each taken after a while, go to the receiver.
pub(super) fn admits_and_cancels_after(pause: Duration) -> (Conninfo, Receiver<[u8; 16]>) {
    let (sender, receiver) = mpsc::channel();
    (serve(move |stream| admit_or_cancel(stream, pause, &sender)), receiver)
}

/// Lets a session in; a cancel request goes to the test.
fn admit_or_cancel(mut stream: TcpStream, pause: Duration, cancelled: &Sender<[u8; 16]>) -> io::Result<()> {
    const CANCEL_CODE: [u8; 4] = 80_877_102_u32.to_be_bytes();
    let mut start = [0; 8];
    while stream.peek(&mut start)? < start.len() {}
    if start[4..] == CANCEL_CODE {
        std::thread::sleep(pause);
        let mut request = [0; 16];
        stream.read_exact(&mut request)?;
        cancelled.send(request).ok();
        return Ok(());
    }
    read_startup(&mut stream)?;
    stream.write_all(&welcome())?;
    // Until the client hangs up.
    io::copy(&mut stream, &mut io::sink()).map(drop)
}

pub(super) fn says(after_ns: Nanos, bytes: Vec<u8>) -> Act {
    Act { after_ns, what: ScriptedEvent::Says(bytes) }
}

pub(super) fn closes(after_ns: Nanos) -> Act {
    Act { after_ns, what: ScriptedEvent::Closes }
}

/// The reply to a statement inside a transaction block.
pub(super) fn in_block() -> Vec<u8> {
    [done(), message(b'Z', b"T")].concat()
}

pub(super) fn error(sqlstate: &str) -> Vec<u8> {
    message(b'E', format!("SERROR\0VERROR\0C{sqlstate}\0Mno\0\0").as_bytes())
}
