//! The driver process: reads its order, connects, waits for `go`, reports every second, ends.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};

use model::directory::drawn::DrawnFiles;
use model::load::Protocol;
use model::load::drive::{DriveCommand, DriveOrder, DriverLine, Ready};
use wire::{Conninfo, Secret};
use workload::{Emulator, ThreadStreams};

use crate::client::Client;
use crate::client::fetch::Fetched;
use crate::client::script::Scripts;
use crate::client::session::Destination;
use crate::clock::{self, Nanos, WallClock};
use crate::control::collect::Collector;
use crate::control::commands::{Commands, ParentInput};
use crate::control::listen::{self, Begin};
use crate::control::output::{Failure, Outbox, with_outbox};
use crate::control::rights::SenderTrust;
use crate::control::usage;
use crate::poller::Poller;
use crate::tally::IntervalTally;
use crate::thread::connect::{self, Connected};
use crate::thread::controls::{Controls, Events};
use crate::thread::frame::WindowFrame;
use crate::thread::log::ThreadLog;
use crate::thread::order::{Conninfos, OrderedLoad};
use crate::thread::rate::OrderedRate;
use crate::thread::rehearsal::{Rehearsal, RehearsedLoad};
use crate::thread::report::Report;
use crate::thread::schedule::Schedule;
use crate::thread::stop;
use crate::thread::turns::TurnClock;
use crate::thread::worker::{Setup, Worker};

/// Begins to poll an address for the notice that this machine will be taken away.
pub type PollSpotNotice = fn(&str, WallClock, &Outbox);

/// Carries out one order read from `input`, reporting on `output`. Returns whether the load took place;
/// if it could not, the last line says why. With the load begins `poll_spot_notice` at the address of the order, if it has
/// one: what it finds are events on the given time line. An order that needs more than `rights` fails.
///
/// # Errors
/// Only when `output` cannot be written: nobody listens any more.
pub fn drive(
    input: impl BufRead + Send + 'static,
    output: &mut (dyn Write + Send),
    rights: SenderTrust,
    poll_spot_notice: PollSpotNotice,
) -> io::Result<bool> {
    with_outbox(output, |outbox| match prepare_and_run(input, outbox, rights, poll_spot_notice) {
        Ok(()) => Ok(true),
        Err(Failure::Output(e)) => Err(e),
        Err(Failure::Load(message)) => outbox.say_last(&DriverLine::Failed { message }).map(|()| false),
    })?
}

fn prepare_and_run(
    input: impl BufRead + Send + 'static,
    outbox: &Outbox,
    rights: SenderTrust,
    poll_spot_notice: PollSpotNotice,
) -> Result<(), Failure> {
    let wall = WallClock::read();
    let Begin { order: mut first, is_far, commands } =
        listen::begin::<DriveOrder, DriveCommand>(input, wall, outbox)?;
    let mut load = std::mem::take(&mut first.load);
    if let Some(directory) = &mut load.directory {
        directory.draws = DrawnFiles::decoded(&first.draws)?;
    }
    drop(std::mem::take(&mut first.draws));
    if load.format > model::FORMAT {
        return Err(
            format!("the order has format {}, this driver knows {}", load.format, model::FORMAT).into()
        );
    }
    let scripts = Scripts::compile(&load)?;
    rights.check(&load, &scripts.bundle)?;
    let access = Access::new(&mut first, rights);
    let target = access.conninfo(&load.target)?;
    let reads = load.reads.as_ref().map(|reads| access.conninfo(&reads.target)).transpose()?;
    if load.window.measure_s == 0 && load.transactions_per_client.is_none() {
        return Err("the load has no end: give it a time or a number of transactions".to_string().into());
    }
    let part = first.part;
    if part.index >= part.of {
        return Err(format!("the order is for driver {} of {}", part.index, part.of).into());
    }
    let n_connections = load.connections_each() * load.n_clients.div_ceil(part.of);
    usage::expect_open_files(n_connections, load.n_threads)?;
    usage::raise_open_files()?;

    let conninfos = Conninfos::new(target, reads, &scripts);
    let order = OrderedLoad { load: &load, part, conninfos, scripts: &scripts, wall };
    let begun = clock::now();
    let busy_poll_ns = u64::from(load.busy_poll_us) * 1000;
    // One that is made for a single transaction leads there, too.
    let connections_each = if load.reads.is_some() { 2 } else { 1 };
    let pollers = Poller::for_threads(load.poller, busy_poll_ns, &order.shares(), connections_each)?;
    let poller = pollers.first().map_or(load.poller, Poller::kind);
    let Crew { shares, tls, prepare_ns, backend_pids } = order.connect()?;
    let connect_ns = clock::now() - begun;
    let rehearsed = RehearsedLoad::new(&order, poller);
    let rehearsal =
        |_: &Poller| rehearsed.as_ref().map(|rehearsed| Rehearsal::new(&order, rehearsed)).transpose();
    let rehearsals = pollers.iter().map(rehearsal).collect::<Result<Vec<_>, String>>()?;
    let ready = Ready {
        pid: std::process::id(),
        connect_ns,
        prepare_ns,
        poller: poller.to_string(),
        build_profile: env!("PGDYNO_BUILD_PROFILE").to_string(),
        opt_level: env!("PGDYNO_OPT_LEVEL").to_string(),
        rehearses: rehearsed.is_some(),
        tls,
        statements: scripts.labels(),
        backend_pids,
    };
    outbox.say(&DriverLine::Ready(ready))?;
    match commands.recv() {
        Some(ParentInput::Command(DriveCommand::Go(unix_ns))) => {
            first.spot_notice.iter().for_each(|url| poll_spot_notice(url, wall, outbox));
            order.run(
                shares.into_iter().zip(pollers.into_iter().zip(rehearsals)).collect(),
                // A parent on this machine names a time of now, and the wall clock may have been set since the first reading;
                // another one has converted it to our time line.
                if is_far { wall } else { WallClock::read() }.monotonic(unix_ns),
                &commands,
                outbox,
            )?;
        }
        _ => return Err("stopped before the load began".to_string().into()),
    }
    if is_far {
        listen::until_the_parent_has_gone(&commands);
    }
    Ok(())
}

/// What lets an order's clients in, wherever they connect.
struct Access {
    password: Option<Secret>,
    host_passwords: Vec<Option<Secret>>,
    key_password: Option<Secret>,
    root_certificates: Option<String>,
    rights: SenderTrust,
}

impl Access {
    /// Takes it out of the order.
    fn new(order: &mut DriveOrder, rights: SenderTrust) -> Access {
        let of_hosts = std::mem::take(&mut order.host_passwords);
        Access {
            password: order.password.take().map(Secret::new),
            host_passwords: of_hosts.into_iter().map(|of| of.map(Secret::new)).collect(),
            key_password: order.key_password.take().map(Secret::new),
            root_certificates: order.root_certificates.take(),
            rights,
        }
    }

    /// How clients connect. Threads that connect while the load runs must not wait for a resolver.
    fn conninfo(&self, keywords: &BTreeMap<String, String>) -> Result<Conninfo, String> {
        let mut conninfo =
            Conninfo::from_keywords(keywords, self.password.clone()).map_err(|e| e.to_string())?;
        conninfo.host_passwords.clone_from(&self.host_passwords);
        conninfo.key_password.clone_from(&self.key_password);
        conninfo.root_certificates.clone_from(&self.root_certificates);
        self.rights.limit(&mut conninfo)?;
        conninfo.with_addresses().map_err(|e| e.to_string())
    }
}

/// A thread's share before the load begins.
struct ThreadShare {
    clients: Vec<Client>,
    streams: ThreadStreams,
}

/// A thread's poller, and its rehearsals.
type Waiting<'a> = (Poller, Option<Rehearsal<'a>>);

/// All clients, ready to begin.
#[derive(Default)]
struct Crew {
    shares: Vec<ThreadShare>,
    /// TLS version and cipher of the connections.
    tls: Option<String>,
    /// See [`Ready::prepare_ns`].
    prepare_ns: Nanos,
    /// See [`Ready::backend_pids`].
    backend_pids: Vec<i32>,
}

impl OrderedLoad<'_> {
    /// Connects and prepares all clients, each thread its own. Clients with a connection for each transaction have
    /// none yet.
    fn connect(&self) -> Result<Crew, String> {
        let sizes = self.shares();
        let (seeds, defines) = self.seeds();
        let connected: Vec<Result<[Connected; 2], String>> = std::thread::scope(|scope| {
            let connect = |clients: Range<usize>| {
                let to = |destination, is_kept: bool| {
                    let all =
                        || connect::connect_all(&self.conninfos, destination, self.scripts, clients.clone());
                    if is_kept { all() } else { Ok(Connected::default()) }
                };
                let target = to(Destination::Target, !self.load.connect_each)?;
                Ok([target, to(Destination::Reads, self.load.connections_each() > 1)?])
            };
            let mut next = self.first_client();
            let of_thread = |n: &usize| {
                let clients = next..next + n;
                next = clients.end;
                scope.spawn(move || connect(clients))
            };
            let threads: Vec<_> = sizes.iter().map(of_thread).collect();
            threads.into_iter().map(|t| t.join().unwrap_or_else(|_| Err("a thread died".into()))).collect()
        });

        let mut numbered = seeds.client.into_iter().enumerate().skip(self.first_client());
        let streams = seeds.thread.into_iter().skip(self.first_thread());
        let mut crew = Crew::default();
        for ((connected, streams), n) in connected.into_iter().zip(streams).zip(sizes) {
            let [target, reads] = connected?;
            crew.prepare_ns = crew.prepare_ns.max(target.prepare_ns + reads.prepare_ns);
            let (mut connections, mut of_reads) =
                (target.connections.into_iter(), reads.connections.into_iter());
            let mut clients = Vec::with_capacity(n);
            for (id, prng) in numbered.by_ref().take(n) {
                let bundle = &self.scripts.bundle;
                let emulator = Emulator::new(bundle, prng, id, &defines).drawing(bundle, self.drawer(id));
                let mut client = Client::new(id, emulator);
                client.role = self.scripts.role(id, self.load.seed);
                client.exchange.may_copy = self.load.copy;
                client.notices.are_all_read = self.load.all_notices;
                client.limit_messages(self.load.message_bytes_max);
                if self.load.protocol != Protocol::Simple {
                    client.exchange.n_results_max = 1;
                }
                let fetched = || Box::new(Fetched::new(self.load.message_bytes_max));
                client.exchange.fetched = self.scripts.fetches.then(fetched);
                if let Some(connection) = connections.next() {
                    crew.tls = crew.tls.or_else(|| connection.tls.clone());
                    crew.backend_pids.push(connection.backend_pid);
                    client.connect(connection, self.parsed_beforehand()).map_err(|e| e.to_string())?;
                }
                if let Some(connection) = of_reads.next() {
                    crew.backend_pids.push(connection.backend_pid);
                    let connected = client.connect_reads(connection, self.parsed_beforehand());
                    connected.map_err(|e| e.to_string())?;
                }
                clients.push(client);
            }
            crew.shares.push(ThreadShare { clients, streams });
        }
        Ok(crew)
    }

    /// Runs the load with one worker per share.
    fn run<'a>(
        &'a self,
        shares: Vec<(ThreadShare, Waiting<'a>)>,
        go: Nanos,
        commands: &Commands,
        outbox: &Outbox,
    ) -> Result<(), Failure> {
        let (reports, inbox) = mpsc::channel();
        let stop = AtomicU8::new(stop::NOT);
        let rate = OrderedRate::default();
        let frame = WindowFrame::new(self.load.window, go);
        let events = Events::default();
        let n_with_clients = AtomicUsize::new(shares.len());
        let controls = Controls {
            stop: &stop,
            rate: &rate,
            frame: &frame,
            events: &events,
            n_with_clients: &n_with_clients,
        };
        let shared = Shared { go, controls };
        let mut recycle = Vec::new();
        let mut workers = Vec::new();
        for (thread, share) in shares.into_iter().enumerate() {
            let (sender, spare) = mpsc::channel();
            recycle.push(sender);
            workers.push(self.worker(thread, share, &shared, reports.clone(), spare)?);
        }
        drop(reports);
        std::thread::scope(|scope| {
            for worker in workers {
                scope.spawn(move || worker.run());
            }
            let mut collector = Collector::new(self, recycle, outbox);
            let result = collector.collect(&inbox, commands, controls);
            // Also when the output is gone: the threads must see it.
            stop.fetch_max(stop::AT_ONCE, Ordering::Relaxed);
            result
        })
    }

    fn worker<'a>(
        &'a self,
        thread: usize,
        (share, (poller, rehearsal)): (ThreadShare, Waiting<'a>),
        shared: &Shared<'a>,
        reports: Sender<Report>,
        spare: Receiver<IntervalTally>,
    ) -> Result<Worker<'a>, String> {
        let ThreadShare { clients, streams } = share;
        let share = self.share(thread);
        Ok(Worker::new(Setup {
            thread,
            load: self.load,
            scripts: self.scripts,
            conninfos: self.conninfos.clone(),
            wall: self.wall,
            clients,
            poller,
            rehearsal: rehearsal.map(Box::new),
            choose: streams.choose,
            turns: TurnClock::new(self.load, shared.go)?,
            share,
            throttle: streams.throttle.clone(),
            schedule: Schedule::new(
                self.load.pace,
                share,
                streams.throttle,
                shared.go,
                shared.controls.frame.seen().end,
            ),
            shape: self.shape(),
            log: ThreadLog::create(self.load, thread, streams.sample)?,
            go: shared.go,
            controls: shared.controls,
            reports,
            spare,
        }))
    }
}

/// What every worker needs to know.
struct Shared<'a> {
    go: Nanos,
    controls: Controls<'a>,
}
