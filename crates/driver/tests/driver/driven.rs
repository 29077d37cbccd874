//! Drives a load inside the test's own process, and keeps what it reported.

use std::io::{BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, SystemTime};

use model::load::drive::{Done, DriveCommand, DriveOrder, DriverLine, Ready};
use model::load::execution::Execution;
use model::load::interval::{CommandTally, Interval, Moments};
use model::load::{LoadSpec, OnError, Protocol, ScriptSpec, Window};
use model::telemetry::event::{Event, EventKind};
use model::telemetry::reading::Tick;
use wire::Conninfo;

/// Everything that a driver wrote.
pub(crate) struct Driven {
    pub(crate) ready: Ready,
    pub(crate) intervals: Vec<Interval>,
    pub(crate) events: Vec<Event>,
    pub(crate) ticks: Vec<Tick>,
    /// Of a load that reports each.
    pub(crate) executions: Vec<Execution>,
    pub(crate) done: Done,
}

/// A load as pgbench runs it: each client makes `n` transactions.
pub(crate) fn load(conninfo: &Conninfo, scripts: &[&str], n: u64) -> LoadSpec {
    let script = |(i, source): (usize, &&str)| ScriptSpec {
        name: format!("s{i}"),
        tag: format!("s{i}"),
        weight: 1,
        source: (*source).to_string(),
    };
    LoadSpec {
        target: conninfo.keywords(),
        scripts: scripts.iter().enumerate().map(script).collect(),
        protocol: Protocol::Simple,
        window: Window { ramp_up_s: 0, measure_s: 0, grace_s: 5 },
        seed: 42,
        transactions_per_client: Some(n),
        on_error: OnError::EndClient,
        lazy_parse: true,
        ..LoadSpec::default()
    }
}

/// Drives a load.
///
/// # Errors
/// The driver's own, if it fails.
pub(crate) fn try_drive(load: LoadSpec) -> Result<Driven, String> {
    try_drive_with(load, &[])
}

/// As [`try_drive`], with further commands, each at its time after `go`.
pub(crate) fn try_drive_with(load: LoadSpec, later: &[(Duration, DriveCommand)]) -> Result<Driven, String> {
    let later = later.to_vec();
    try_drive_and(load, move |go, send| {
        for (after, command) in later {
            std::thread::sleep((go + after).saturating_sub(unix_now()));
            send(&command);
        }
    })
}

/// As [`try_drive`], and stops the load as soon as this holds.
pub(crate) fn try_drive_until(
    load: LoadSpec,
    is_enough: impl Fn() -> bool + Send + 'static,
) -> Result<Driven, String> {
    let end = unix_now() + Duration::from_secs(u64::from(load.window.measure_s));
    try_drive_and(load, move |_, send| {
        while !is_enough() && unix_now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        send(&DriveCommand::Stop);
    })
}

fn unix_now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap()
}

/// As [`try_drive`], while `later` is given the moment of `go` and sends commands.
fn try_drive_and(
    load: LoadSpec,
    later: impl FnOnce(Duration, &mut dyn FnMut(&DriveCommand)) + Send + 'static,
) -> Result<Driven, String> {
    let (mut orders, input) = UnixStream::pair().unwrap();
    let each_execution = load.each_execution;
    let order = serde_json::to_string(&DriveOrder::new(load, None)).unwrap();
    let go = unix_now() + Duration::from_millis(20);
    // It stays open, because the end of the input would stop the load.
    let writer = std::thread::spawn(move || {
        writeln!(orders, "{order}").unwrap();
        // A load that ended by itself takes no more commands.
        let mut send = |command: &DriveCommand| {
            let _ = writeln!(orders, "{}", serde_json::to_string(command).unwrap());
        };
        send(&DriveCommand::Go(go.as_nanos() as u64));
        later(go, &mut send);
        orders
    });
    let mut output = Vec::new();
    driver::drive(BufReader::new(input), &mut output, driver::SenderTrust::OfUser, |_, _, _| ()).unwrap();
    drop(writer.join());
    let (mut ready, mut done) = (None, None);
    let (mut intervals, mut events, mut ticks) = (Vec::new(), Vec::new(), Vec::new());
    let mut executions = Vec::new();
    for line in String::from_utf8(output).unwrap().lines() {
        match serde_json::from_str(line).unwrap() {
            DriverLine::Ready(word) => {
                assert!(word.prepare_ns <= word.connect_ns, "{word:?}");
                ready = Some(word);
            }
            DriverLine::Interval { interval, .. } => intervals.push(interval),
            DriverLine::Event(event) => events.push(event),
            DriverLine::Tick(tick) => ticks.push(tick),
            DriverLine::Done(word) => done = Some(*word),
            DriverLine::Execution(line) if each_execution => executions.push(line.execution),
            line @ (DriverLine::Window(_)
            | DriverLine::Execution(_)
            | DriverLine::Hello(_)
            | DriverLine::Pong(_)
            | DriverLine::Watching(_)
            | DriverLine::Missing { .. }
            | DriverLine::Watched(_)
            | DriverLine::Hands(_)
            | DriverLine::Pages(_)) => {
                panic!("nobody asked for {line:?}")
            }
            DriverLine::Failed { message } => return Err(message),
        }
    }
    let done = done.expect("done was said");
    let ready = ready.expect("ready was said");
    assert!(done.counts.identity_holds(0), "{:?}", done.counts);
    Ok(Driven { ready, intervals, events, ticks, executions, done })
}

/// Drives a load, which must succeed.
pub(crate) fn drive(load: LoadSpec) -> Driven {
    try_drive(load).unwrap_or_else(|error| panic!("{error}"))
}

impl Driven {
    /// The texts of all events of a kind, a cause in front of them.
    pub(crate) fn texts(&self, kind: EventKind) -> Vec<String> {
        let text = |event: &Event| match event.detail.get("cause") {
            Some(cause) => format!("{cause} | {}", event.text),
            None => event.text.clone(),
        };
        self.events.iter().filter(|event| event.kind == kind).map(text).collect()
    }

    /// Each command of a script, over all intervals.
    pub(crate) fn commands(&self, script: u32) -> Vec<CommandTally> {
        let mut sums: Vec<CommandTally> = Vec::new();
        for interval in self.intervals.iter().filter(|interval| interval.script == script) {
            sums.resize(interval.commands.len(), CommandTally::default());
            for (sum, one) in sums.iter_mut().zip(&interval.commands) {
                sum.n += one.n;
                sum.sum_ns += one.sum_ns;
                sum.failed += one.failed;
                sum.retries += one.retries;
            }
        }
        sums
    }

    /// The first script's statements, over all intervals.
    pub(crate) fn statements(&self) -> Vec<u64> {
        let mut sums: Vec<u64> = Vec::new();
        for interval in self.intervals.iter().filter(|interval| interval.script == 0) {
            sums.resize(interval.statements.len(), 0);
            sums.iter_mut().zip(&interval.statements).for_each(|(sum, n)| *sum += n);
        }
        sums
    }

    /// The sums of the latencies over all intervals.
    pub(crate) fn latency(&self) -> Moments {
        self.intervals.iter().fold(Moments::default(), |mut sum, interval| {
            sum += interval.latency;
            sum
        })
    }
}
