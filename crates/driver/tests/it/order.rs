//! A driver that a test gives its orders.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::io::{BufReader, PipeWriter, Write, pipe};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use model::load::drive::{Done, DriveCommand, DriveOrder, DriverLine, Ready};
use model::load::interval::{Counts, Interval};
use model::load::{LoadSpec, Pace, Protocol, ScriptSpec, Window};
use model::telemetry::event::{Event, EventKind};
use wire::Conninfo;

/// No line of a driver takes longer.
const PATIENCE: Duration = Duration::from_secs(40);

/// One client, one thread, closed loop, one second, no grace, prepared; a test changes what it is about.
pub(crate) fn load(target: &Conninfo, source: &str) -> LoadSpec {
    LoadSpec {
        format: model::FORMAT,
        target: target.keywords(),
        scripts: vec![script("q", 1, source)],
        defines: BTreeMap::from([("scale".to_string(), "1".to_string())]),
        protocol: Protocol::Prepared,
        n_clients: 1,
        n_threads: 1,
        pace: Pace::Closed,
        window: Window { ramp_up_s: 0, measure_s: 1, grace_s: 1 },
        seed: 42,
        ..LoadSpec::default()
    }
}

/// A script of a load.
pub(crate) fn script(name: &str, weight: u32, source: &str) -> ScriptSpec {
    ScriptSpec { name: format!("{name}.sql"), tag: name.to_string(), weight, source: source.to_string() }
}

/// A driver at work. When it is dropped its input ends, and so does it.
pub(crate) struct Driving {
    orders: Option<PipeWriter>,
    lines: Receiver<DriverLine>,
    driver: JoinHandle<std::io::Result<bool>>,
}

/// What a driver reported about a load.
#[derive(Debug)]
pub(crate) struct Story {
    pub(crate) intervals: Vec<Interval>,
    pub(crate) events: Vec<Event>,
    pub(crate) done: Done,
}

impl Driving {
    /// Gives the order.
    pub(crate) fn start(load: LoadSpec) -> Driving {
        let order = DriveOrder::new(load, None);
        Driving::start_with(&serde_json::to_string(&order).unwrap())
    }

    /// Gives any first line.
    pub(crate) fn start_with(first_line: &str) -> Driving {
        let (input, mut orders) = pipe().unwrap();
        let (output, mut said) = pipe().unwrap();
        writeln!(orders, "{first_line}").unwrap();
        let driver = std::thread::spawn(move || {
            driver::drive(BufReader::new(input), &mut said, driver::SenderTrust::OfUser, |_, _, _| ())
        });
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let line = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Driving { orders: Some(orders), lines, driver }
    }

    /// Waits until it is ready, and lets it begin at once.
    #[track_caller]
    pub(crate) fn go(&mut self) -> Ready {
        let ready = match self.next() {
            DriverLine::Ready(ready) => ready,
            other => panic!("not ready: {other:?}"),
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        self.command(DriveCommand::Go(now.as_nanos() as u64));
        ready
    }

    /// Sends a command.
    pub(crate) fn command(&mut self, command: DriveCommand) {
        writeln!(self.orders.as_mut().unwrap(), "{}", serde_json::to_string(&command).unwrap()).unwrap();
    }

    /// Closes the driver's input, as a parent that died would.
    pub(crate) fn hang_up(&mut self) {
        self.orders = None;
    }

    /// Waits for the first interval, which is not part of the story any more.
    #[track_caller]
    pub(crate) fn wait_for_interval(&mut self) -> Interval {
        loop {
            if let DriverLine::Interval { interval, .. } = self.next() {
                return interval;
            }
        }
    }

    /// Waits until it has moved its window; the intervals before are not part of the story any more.
    #[track_caller]
    pub(crate) fn wait_for_window(&mut self) -> (Window, Vec<Interval>) {
        let mut intervals = Vec::new();
        loop {
            match self.next() {
                DriverLine::Window(window) => return (window, intervals),
                DriverLine::Interval { interval, .. } => intervals.push(interval),
                _ => {}
            }
        }
    }

    /// Why the load could not begin.
    #[track_caller]
    pub(crate) fn failure(self) -> String {
        loop {
            match self.next() {
                // It may have been ready before it learned that there is no load.
                DriverLine::Ready(_) => {}
                DriverLine::Failed { message } => {
                    assert!(!self.driver.join().unwrap().unwrap(), "no load took place");
                    return message;
                }
                other => panic!("not refused: {other:?}"),
            }
        }
    }

    /// All lines to the end; the books must balance.
    #[track_caller]
    pub(crate) fn story(self, mut intervals: Vec<Interval>) -> Story {
        let mut events = Vec::new();
        let done = loop {
            match self.next() {
                DriverLine::Interval { interval, .. } => intervals.push(interval),
                DriverLine::Event(event) => events.push(event),
                DriverLine::Done(done) => break *done,
                DriverLine::Tick(_) => {}
                other => panic!("{other:?}"),
            }
        };
        assert!(self.driver.join().unwrap().unwrap(), "the load took place");
        // A busy machine may keep the driver from running; that is reported, and is not a failure.
        events.retain(|event| event.kind != EventKind::DriverPaused);
        let story = Story { intervals, events, done };
        story.expect_balance();
        story
    }

    fn next(&self) -> DriverLine {
        self.lines.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("no line of the driver: {error}"))
    }
}

/// Runs a load to its end.
#[track_caller]
pub(crate) fn drive(load: LoadSpec) -> Story {
    let mut driving = Driving::start(load);
    driving.go();
    driving.story(Vec::new())
}

impl Story {
    /// Totals obey the identity and are the sum of the intervals, and so are the errors.
    #[track_caller]
    fn expect_balance(&self) {
        let done = &self.done;
        assert!(done.counts.identity_holds(0), "{:?}", done.counts);
        let mut sum = Counts::default();
        let mut errors = BTreeMap::<String, u64>::new();
        for interval in &self.intervals {
            sum += interval.counts;
            for (state, n) in &interval.errors {
                *errors.entry(state.clone()).or_default() += n;
            }
        }
        assert_eq!((sum, &errors), (done.counts, &done.errors));
        assert_eq!(
            errors.keys().collect::<Vec<_>>(),
            errors.keys().filter(|s| done.messages.contains_key(*s)).collect::<Vec<_>>(),
            "an example for each"
        );
    }

    /// Committed, failed, unknown, aborted.
    pub(crate) fn outcomes(&self) -> (u64, u64, u64, u64) {
        let counts = self.done.counts;
        (counts.committed, counts.failed, counts.unknown, counts.aborted)
    }
}
