//! Transactions that a thread runs against itself while it polls without news.
//!
//! A thread that waits for milliseconds finds its code, and that of the kernel's sockets, gone from the processor's caches
//! when the answer comes: on a shared machine the neighbours have displaced them, and going from an answer to the next
//! statement takes ten times as long. So a thread that is awake anyway (`busy_poll_us`) keeps practising: a separate
//! worker, with one client and the load's scripts, has its statements answered at once by the same thread. The server
//! sees none of it, none of it is counted, and it has its own random numbers.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU8, AtomicUsize};
use std::sync::mpsc;

use model::load::{LoadSpec, Pace, PollerChoice, Window};
use wire::Link;
use workload::{Emulator, Prng, ScriptCommand};

use crate::client::Client;
use crate::clock::{self, Nanos};
use crate::poller::Poller;
use crate::tally::TallyShape;
use crate::thread::controls::{Controls, Events};
use crate::thread::frame::WindowFrame;
use crate::thread::log::ThreadLog;
use crate::thread::order::OrderedLoad;
use crate::thread::rate::OrderedRate;
use crate::thread::schedule::LoadShare;
use crate::thread::stop;
use crate::thread::worker::{Setup, Worker};

/// Shortest time between two rehearsals: caches stayed warm for some hundred microseconds.
const EVERY_NS: Nanos = 20_000;
/// Rehearsals take at most about one part in this many of the time: while one lasts, an answer waits.
const PART: u64 = 8;
/// A rehearsal needs this much time before something is due, or twice its own length where that is more.
const ROOM_NS: Nanos = 30_000;
/// Later than the end of any load, and small enough to be added to.
const NEVER: Nanos = u64::MAX / 2;

/// What all rehearsals of a load share: a load of their own, which has no end.
pub(crate) struct RehearsedLoad {
    load: LoadSpec,
    /// The variables of its clients.
    defines: BTreeMap<String, String>,
    frame: WindowFrame,
    stop: AtomicU8,
    rate: OrderedRate,
    events: Events,
    n_with_clients: AtomicUsize,
}

impl RehearsedLoad {
    /// The load that is rehearsed for `order`, with the same `poller`. `None` where rehearsals are useless or might do
    /// harm: threads that sleep, scripts that call a shell, scripts that need rows, which only a server has, traces, whose transactions
    /// run once, clients that have two connections, and loads that take turns with another load, which has the machine meanwhile.
    pub(crate) fn new(order: &OrderedLoad, poller: PollerChoice) -> Option<RehearsedLoad> {
        let OrderedLoad { load, scripts, .. } = order;
        let is_shell = |command: &ScriptCommand| {
            matches!(command, ScriptCommand::Shell { .. } | ScriptCommand::SetShell { .. })
        };
        let mut programs = scripts.bundle.programs.iter();
        let is_plain = programs.all(|program| {
            program.transaction.is_none() && !program.commands.iter().any(|step| is_shell(&step.command))
        });
        let is_traced = load.directory.as_ref().is_some_and(|directory| directory.replay.is_some());
        let is_alone = load.reads.is_none() && load.turns.is_none();
        if load.busy_poll_us == 0 || is_traced || !is_alone || scripts.fetches || !is_plain {
            return None;
        }
        let window = Window { ramp_up_s: 0, measure_s: 0, grace_s: 0 };
        let load = LoadSpec {
            n_clients: 1,
            n_threads: 1,
            pace: Pace::Closed,
            window,
            protocol: load.protocol,
            time_commands: load.time_commands,
            poller,
            ..LoadSpec::default()
        };
        let (stop, rate) = (AtomicU8::new(stop::NOT), OrderedRate::default());
        let (frame, events) = (WindowFrame::new(window, NEVER), Events::default());
        let n_with_clients = AtomicUsize::new(1);
        Some(RehearsedLoad { load, defines: order.defines(), frame, stop, rate, events, n_with_clients })
    }
}

/// One thread's rehearsals.
pub(crate) struct Rehearsal<'a> {
    worker: Worker<'a>,
    /// Where the worker's one client sends its statements.
    server: Link,
    statements: Box<[u8]>,
    answers: Vec<u8>,
    next: Nanos,
    /// How long the last two took: a single one may have been interrupted.
    took_ns: [Nanos; 2],
    n_rehearsed: usize,
}

impl<'a> Rehearsal<'a> {
    /// Prepares the rehearsals of one thread.
    pub(crate) fn new(
        order: &'a OrderedLoad<'a>,
        rehearsed: &'a RehearsedLoad,
    ) -> Result<Rehearsal<'a>, String> {
        let (link, server) = Link::pair().map_err(|e| format!("cannot make a pair of sockets: {e}"))?;
        let scripts = order.scripts;
        let emulator = Emulator::new(&scripts.bundle, Prng::seed(0), 0, &rehearsed.defines);
        let emulator = emulator.drawing(&scripts.bundle, order.drawer(0));
        let mut client = Client::new(0, emulator);
        client.session.link = Some(link);
        let poller = Poller::for_threads(rehearsed.load.poller, 0, &[1], 1)?.swap_remove(0);
        let worker = Worker::new(Setup {
            thread: 0,
            load: &rehearsed.load,
            scripts,
            conninfos: order.conninfos.clone(),
            wall: order.wall,
            poller,
            rehearsal: None,
            clients: vec![client],
            choose: Prng::seed(0),
            share: LoadShare { thread: 0, n_threads: 1 },
            throttle: Prng::seed(0),
            schedule: None,
            turns: None,
            shape: TallyShape { is_open_loop: false, ..order.shape() },
            log: ThreadLog::rehearsed(order.load, Prng::seed(0)),
            // No second of it is ever over, so that nothing is ever reported.
            go: NEVER,
            controls: Controls {
                frame: &rehearsed.frame,
                stop: &rehearsed.stop,
                rate: &rehearsed.rate,
                events: &rehearsed.events,
                n_with_clients: &rehearsed.n_with_clients,
            },
            reports: mpsc::channel().0,
            spare: mpsc::channel().1,
        });
        let statements = vec![0; 16 * 1024].into();
        let answers = Vec::new();
        Ok(Rehearsal { worker, server, statements, answers, next: 0, took_ns: [0; 2], n_rehearsed: 0 })
    }

    /// Called by the thread that rehearses, before anything else.
    pub(crate) fn enter_thread(&mut self) -> io::Result<()> {
        self.worker.watch_all()
    }

    /// Rehearses a statement if it is time, and returns whether it was. Nothing else is due before `until`.
    #[inline]
    pub(crate) fn go_on(&mut self, now: Nanos, until: Nanos, clients: &[Client]) -> bool {
        if now < self.next || until < now + ROOM_NS.max(2 * self.lasts_ns()) {
            return false;
        }
        let is_understood = self.rehearse(now);
        // The kernel's data about a connection leaves the caches too: each connection is touched in turn.
        self.n_rehearsed += 1;
        if let Some(link) =
            clients.get(self.n_rehearsed % clients.len().max(1)).and_then(|c| c.session.link.as_ref())
        {
            link.look_at();
        }
        self.took_ns = [self.took_ns[1], clock::now() - now];
        self.next = match is_understood {
            Ok(true) => now + EVERY_NS.max(PART * self.lasts_ns()),
            // The load goes on without rehearsals.
            Ok(false) | Err(_) => NEVER,
        };
        true
    }

    fn lasts_ns(&self) -> Nanos {
        self.took_ns[0].min(self.took_ns[1])
    }

    /// Sends a statement and answers it; `false` if it cannot be rehearsed.
    fn rehearse(&mut self, now: Nanos) -> io::Result<bool> {
        let Rehearsal { worker, server, statements, answers, .. } = self;
        worker.attend(now);
        worker.look()?;
        answers.clear();
        let is_understood = match server.recv(statements) {
            Ok(n) => answer(&statements[..n], answers),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => true,
            Err(e) => return Err(e),
        };
        server.send(answers)?;
        worker.look()?;
        Ok(is_understood)
    }
}

/// Answers messages like a server whose statements find no rows; `false` if they are incomplete.
fn answer(mut statements: &[u8], out: &mut Vec<u8>) -> bool {
    while let [tag, l0, l1, l2, l3, ..] = *statements {
        let length = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
        let Some(rest) = statements.get(length + 1..) else { return false };
        out.extend_from_slice(match tag {
            b'Q' => b"C\0\0\0\x0dSELECT 0\0Z\0\0\0\x05I",
            b'P' => b"1\0\0\0\x04",
            b'B' => b"2\0\0\0\x04",
            b'E' => b"C\0\0\0\x0dSELECT 0\0",
            b'S' => b"Z\0\0\0\x05I",
            _ => b"",
        });
        statements = rest;
    }
    statements.is_empty()
}

#[cfg(test)]
mod tests {
    use model::load::drive::DriverPart;
    use model::load::{Protocol, ScriptSpec};

    use super::*;
    use crate::client::script::Scripts;
    use crate::clock::WallClock;
    use crate::thread::order::Conninfos;

    fn load(source: &str, poller: PollerChoice) -> LoadSpec {
        let script =
            ScriptSpec { name: "script".into(), tag: "script".into(), weight: 1, source: source.into() };
        // The text of each statement goes with it.
        let protocol = Protocol::Extended;
        LoadSpec { scripts: vec![script], busy_poll_us: 50, poller, protocol, ..LoadSpec::default() }
    }

    /// Calls `f` with the order of a load.
    fn with_order<T>(load: &LoadSpec, f: impl FnOnce(&OrderedLoad) -> T) -> T {
        let scripts = Scripts::compile(load).unwrap();
        let conninfo = wire::Conninfo::from_keywords(&load.target, None).unwrap();
        f(&OrderedLoad {
            load,
            part: DriverPart::WHOLE,
            conninfos: Conninfos::new(conninfo, None, &scripts),
            scripts: &scripts,
            wall: WallClock::read(),
        })
    }

    fn is_rehearsed(load: &LoadSpec) -> bool {
        with_order(load, |order| RehearsedLoad::new(order, load.poller).is_some())
    }

    /// How many of `n` rehearsals were answered, and whether more would follow.
    fn answered(source: &str, poller: PollerChoice, n: usize) -> (usize, bool) {
        with_order(&load(source, poller), |order| answered_of(order, n))
    }

    fn answered_of(order: &OrderedLoad, n: usize) -> (usize, bool) {
        let rehearsed = RehearsedLoad::new(order, order.load.poller).unwrap();
        let mut rehearsal = Rehearsal::new(order, &rehearsed).unwrap();
        rehearsal.enter_thread().unwrap();
        let client =
            Client::new(0, Emulator::new(&order.scripts.bundle, Prng::seed(0), 0, &rehearsed.defines));
        let rehearse = |_: &usize| {
            // It may have ended, which leaves a moment that never comes.
            let next = if rehearsal.next == NEVER { 0 } else { rehearsal.next };
            while clock::now() < next {}
            let now = clock::now();
            assert!(!rehearsal.go_on(now, now + ROOM_NS - 1, std::slice::from_ref(&client)), "no room");
            rehearsal.go_on(now, NEVER, std::slice::from_ref(&client)) && !rehearsal.answers.is_empty()
        };
        let n_answered = (0..n).filter(rehearse).count();
        (n_answered, rehearsal.next != NEVER)
    }

    #[test]
    fn each_rehearsal_sends_and_answers_a_statement() {
        const TWO: &str = "\\set aid random(1, 100)\nBEGIN;\nSELECT :aid;\nEND;\n";
        let pipeline = format!("\\startpipeline\n{TWO}\\endpipeline\n");
        for poller in [PollerChoice::Auto, PollerChoice::Epoll] {
            assert_eq!(answered(TWO, poller, 1000), (1000, true), "{poller:?}");
            assert_eq!(answered(&pipeline, poller, 100), (100, true), "{poller:?}, pipelines");
        }
    }

    #[test]
    fn a_rehearsal_that_cannot_go_on_ends_in_silence() {
        let failing = "\\set x 1/0\nSELECT :x;\n";
        // Longer than what is read at once, and full of what could be taken for messages.
        let long = format!("\\set x 1\nSELECT :x, '{}';\n", "SQ".repeat(100_000));
        let many = format!("\\startpipeline\n{}\\endpipeline\n", "SELECT 1;\n".repeat(1000));
        for poller in [PollerChoice::Auto, PollerChoice::Epoll] {
            for (source, n_most) in [(failing, 0), (&long, 1), (&many, 1)] {
                let (n, goes_on) = answered(source, poller, 50);
                assert!(n <= n_most && !goes_on, "{n} answers, {source:.40}");
            }
        }
    }

    #[test]
    fn loads_that_would_suffer_or_need_rows_are_not_rehearsed() {
        let is_plain = |source| is_rehearsed(&load(source, PollerChoice::Auto));
        assert!(is_plain("SELECT 1;\n"));
        assert!(!is_plain("\\shell true\nSELECT 1;\n"));
        assert!(!is_plain("\\setshell x echo 1\nSELECT :x;\n"));
        assert!(!is_plain("SELECT 1 AS x \\gset\n"));
        let asleep = LoadSpec { busy_poll_us: 0, ..load("SELECT 1;\n", PollerChoice::Auto) };
        let turns = model::load::Turns { slice_ns: 1000, guard_ns: 1, slices: "01".into() };
        let in_turns = LoadSpec { turns: Some(turns), ..load("SELECT 1;\n", PollerChoice::Auto) };
        assert!(!is_rehearsed(&asleep) && !is_rehearsed(&in_turns));
    }
}
