//! The driver process: takes its order, connects, waits for `go`, reports every second, ends.

use std::io::{self, BufRead, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};

use model::drive::{DriveCommand, DriveOrder, DriverLine, Ready};
use model::load::LoadSpec;
use wire::{CancelHandle, Connection, Conninfo, Secret};
use workload::{Machine, Seeds, ThreadStreams};

use crate::client::Client;
use crate::clock::{self, Nanos, SECOND_NS, WallClock};
use crate::collect::Collector;
use crate::connect;
use crate::poller::Poller;
use crate::schedule::{Schedule, Share};
use crate::script::Scripts;
use crate::tally::Tally;
use crate::usage;
use crate::worker::{Report, Setup, Worker};

/// Carries out one order read from `input`, reporting on `output`. Returns whether the load took place;
/// if it could not, the last line says why.
///
/// # Errors
/// Only when `output` cannot be written: then nobody listens.
pub fn drive(input: impl BufRead + Send + 'static, output: &mut dyn Write) -> io::Result<bool> {
    match prepare_and_run(input, output) {
        Ok(()) => Ok(true),
        Err(Failure::Output(e)) => Err(e),
        Err(Failure::Load(message)) => {
            say(output, &DriverLine::Failed { message })?;
            Ok(false)
        }
    }
}

/// Why a load did not take place, or could not be told of.
pub(crate) enum Failure {
    /// The parent does not listen any more.
    Output(io::Error),
    /// What was wrong and what to do about it.
    Load(String),
}

impl From<io::Error> for Failure {
    fn from(e: io::Error) -> Failure {
        Failure::Output(e)
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Failure {
        Failure::Load(message)
    }
}

/// Writes one line, at once.
pub(crate) fn say(output: &mut dyn Write, line: &DriverLine) -> io::Result<()> {
    let mut text = serde_json::to_string(line).map_err(io::Error::other)?;
    text.push('\n');
    output.write_all(text.as_bytes())?;
    output.flush()
}

fn prepare_and_run(mut input: impl BufRead + Send + 'static, output: &mut dyn Write) -> Result<(), Failure> {
    let mut first = String::new();
    input.read_line(&mut first).map_err(|e| format!("cannot read the order: {e}"))?;
    let order: DriveOrder =
        serde_json::from_str(&first).map_err(|e| format!("the order is not understood: {e}"))?;
    let load = order.load;
    if load.format > model::FORMAT {
        return Err(
            format!("the order has format {}, this driver knows {}", load.format, model::FORMAT).into()
        );
    }
    let conninfo =
        Conninfo::from_keywords(&load.target, order.password.map(Secret::new)).map_err(|e| e.to_string())?;
    let scripts = Scripts::compile(&load)?;
    usage::allow_open_files(load.n_clients)?;

    let control = Control { load: &load, conninfo: &conninfo, scripts: &scripts, wall: WallClock::read() };
    let commands = listen(input);
    let begun = clock::now();
    let shares = control.connect()?;
    let ready = Ready {
        pid: std::process::id(),
        connect_ns: clock::now() - begun,
        poller: Poller::NAME.to_string(),
        tls: shares.iter().flat_map(|share| &share.clients).find_map(|client| client.tls.clone()),
        statements: scripts.labels(),
    };
    say(output, &DriverLine::Ready(ready))?;
    match commands.recv() {
        Ok(DriveCommand::Go(unix_ns)) => {
            control.run(shares, control.wall.monotonic(unix_ns), &commands, output)
        }
        _ => Err("told to stop before the load began".to_string().into()),
    }
}

/// Reads commands on a thread of its own. The end of the input means that the parent is gone: stop.
fn listen(input: impl BufRead + Send + 'static) -> Receiver<DriveCommand> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in input.lines().map_while(Result::ok) {
            if let Ok(command) = serde_json::from_str(&line) {
                sender.send(command).ok();
            }
        }
        sender.send(DriveCommand::Stop).ok();
    });
    receiver
}

/// What all threads of the load share.
pub(crate) struct Control<'a> {
    pub(crate) load: &'a LoadSpec,
    conninfo: &'a Conninfo,
    scripts: &'a Scripts,
    pub(crate) wall: WallClock,
}

/// A thread's share before the load begins.
struct ThreadShare {
    clients: Vec<Client>,
    streams: ThreadStreams,
}

impl Control<'_> {
    /// Connects and prepares all clients, each thread its own.
    fn connect(&self) -> Result<Vec<ThreadShare>, String> {
        let (n_clients, n_threads) = (self.load.n_clients as usize, self.load.n_threads.max(1) as usize);
        let seeds = Seeds::derive(self.load.seed, n_clients, n_threads);
        let mut defines = self.load.defines.clone();
        let scale = defines.get("scale").and_then(|scale| scale.parse().ok()).unwrap_or(1);
        workload::insert_automatic_variables(&mut defines, scale, self.load.seed, seeds.default_seed);

        let connected: Vec<Result<Vec<Connection>, String>> = std::thread::scope(|scope| {
            let connect = |n: usize| connect::connect_all(self.conninfo, self.scripts, n);
            let threads: Vec<_> =
                split(n_clients, n_threads).into_iter().map(|n| scope.spawn(move || connect(n))).collect();
            threads.into_iter().map(|t| t.join().unwrap_or_else(|_| Err("a thread died".into()))).collect()
        });

        let mut numbered = seeds.client.into_iter().enumerate();
        let mut shares = Vec::with_capacity(n_threads);
        for (connections, streams) in connected.into_iter().zip(seeds.thread) {
            let client = |connection| {
                let (id, prng) = numbered.next().expect("one stream was derived for each client");
                Client::new(id, connection, Machine::new(&self.scripts.bundle, prng, id, &defines))
            };
            shares.push(ThreadShare { clients: connections?.into_iter().map(client).collect(), streams });
        }
        Ok(shares)
    }

    /// Runs the load with one worker per share.
    fn run(
        &self,
        shares: Vec<ThreadShare>,
        go: Nanos,
        commands: &Receiver<DriveCommand>,
        output: &mut dyn Write,
    ) -> Result<(), Failure> {
        let (reports, inbox) = mpsc::channel();
        let stop = AtomicBool::new(false);
        let place = Place { n_threads: shares.len(), go, stop: &stop };
        let mut recycle = Vec::new();
        let mut workers = Vec::new();
        for (thread, share) in shares.into_iter().enumerate() {
            let (sender, spare) = mpsc::channel();
            recycle.push(sender);
            workers.push(self.worker(thread, share, &place, reports.clone(), spare)?);
        }
        drop(reports);
        std::thread::scope(|scope| {
            for worker in workers {
                scope.spawn(move || worker.run());
            }
            let mut collector = Collector::new(self, recycle, output);
            let result = collector.collect(&inbox, commands, &stop);
            // Also when the output is gone: the threads must see it.
            stop.store(true, Ordering::Relaxed);
            result
        })
    }

    fn worker<'a>(
        &'a self,
        thread: usize,
        share: ThreadShare,
        place: &Place<'a>,
        reports: Sender<Report>,
        spare: Receiver<Tally>,
    ) -> Result<Worker<'a>, String> {
        let ThreadShare { mut clients, streams } = share;
        let poller = Poller::new(clients.len()).map_err(|e| format!("cannot wait for sockets: {e}"))?;
        for (index, client) in clients.iter_mut().enumerate() {
            poller.watch(client, index).map_err(|e| format!("cannot watch a connection: {e}"))?;
        }
        let end = place.go + u64::from(self.load.window.load_s()) * SECOND_NS;
        let n_threads = place.n_threads;
        let schedule =
            Schedule::new(self.load.pace, Share { thread, n_threads }, streams.throttle, place.go, end);
        Ok(Worker::new(Setup {
            thread,
            scripts: self.scripts,
            clients,
            poller,
            choose: streams.choose,
            schedule,
            window: self.load.window,
            go: place.go,
            stop: place.stop,
            reports,
            spare,
        }))
    }
}

/// What every worker is told.
struct Place<'a> {
    n_threads: usize,
    go: Nanos,
    stop: &'a AtomicBool,
}

/// Cancels statements from a thread of its own: a server that hangs must not hold up the others.
pub(crate) fn cancel_all(handles: Vec<CancelHandle>) {
    std::thread::spawn(move || {
        for handle in handles {
            // A server that does not take the request is reported by the transaction that stays open.
            handle.cancel().ok();
        }
    });
}

/// Clients per thread, as pgbench spreads them: even, the larger shares last.
fn split(n_clients: usize, n_threads: usize) -> Vec<usize> {
    let mut left = n_clients;
    (0..n_threads)
        .map(|i| {
            let share = (left + n_threads - i - 1) / (n_threads - i);
            left -= share;
            share
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn clients_are_spread_as_pgbench_spreads_them() {
        let check =
            |n_clients, n_threads, expected: &[usize]| assert_eq!(split(n_clients, n_threads), expected);
        check(8, 1, &[8]);
        check(8, 2, &[4, 4]);
        check(7, 3, &[3, 2, 2]);
        check(2, 2, &[1, 1]);
    }
}
