//! Follows drivers from `go` to their last lines: adds up and forwards their lines, and makes sure that they end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use model::load::Window;
use model::load::drive::{Done, DriverLine, LoadEnding};
use model::telemetry::reading::{Tick, key};

use crate::add_up::{self, Adder};
use crate::clocks::shifted;
use crate::drivers::{Fleet, Member, SILENCE, TURN};
use crate::pipes::since_epoch;

/// How long to wait for a driver.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DriverWait {
    /// Longest silence while the load runs. A driver writes something every second.
    pub(crate) silence: Duration,
    /// Longest time past the moment at which it should have ended.
    pub(crate) overdue: Duration,
}

impl DriverWait {
    const USUAL: DriverWait =
        DriverWait { silence: Duration::from_secs(5), overdue: Duration::from_secs(15) };
}

/// Starts drivers that are ready at `go_unix_ns` (nanoseconds since the Unix epoch), passes each of their lines to
/// `on_line`, and returns the last line, which `on_line` does not get. The drivers have exited by then. Lines of several
/// drivers are added up for each second, and their times are those of our clock.
///
/// When `stop` is raised, the drivers are asked to end early, and `Done` says so.
///
/// # Errors
/// When a driver fails, dies, writes nonsense, is silent for 5 s, has stopped because it heard nothing of us, has measured
/// another window than the others, or has not ended 15 s after the end of the grace period and its last execution; and when
/// `on_line` returns an error. All drivers have been killed by then: a load is never smaller in silence.
pub fn conduct(
    fleet: &mut Fleet,
    go_unix_ns: u64,
    window: Window,
    on_line: &mut dyn FnMut(&DriverLine) -> Result<()>,
    stop: &AtomicBool,
) -> Result<Done> {
    conduct_with(fleet, go_unix_ns, window, on_line, stop, DriverWait::USUAL)
}

/// [`conduct`] with shorter limits, for tests.
pub(crate) fn conduct_with(
    fleet: &mut Fleet,
    go_unix_ns: u64,
    window: Window,
    on_line: &mut dyn FnMut(&DriverLine) -> Result<()>,
    stop: &AtomicBool,
    patience: DriverWait,
) -> Result<Done> {
    let course = Course::new(go_unix_ns, window, patience);
    let mut books = Books::new(fleet);
    let result = fleet.go(go_unix_ns).and_then(|()| listen(fleet, course, &mut books, on_line, stop));
    match result {
        Ok(done) => {
            fleet.take_leave();
            Ok(done)
        }
        Err(error) => {
            fleet.kill();
            Err(error)
        }
    }
}

/// The times of a load by this process's clock.
struct Course {
    go: Instant,
    /// When the driver must have ended.
    deadline: Instant,
    grace: Duration,
    patience: DriverWait,
}

impl Course {
    fn new(go_unix_ns: u64, window: Window, patience: DriverWait) -> Course {
        let until_go = Duration::from_nanos(go_unix_ns).saturating_sub(since_epoch());
        let load = Duration::from_secs(u64::from(window.ramp_up_s) + u64::from(window.measure_s));
        let grace = Duration::from_secs(window.grace_s.into());
        let go = Instant::now() + until_go;
        Course { go, deadline: go + load + grace + patience.overdue, grace, patience }
    }

    /// Moves the deadline of a driver that still reports what was due: that is as much as the whole load may have, and comes after it.
    fn extend(&mut self) {
        self.deadline = self.deadline.max(Instant::now() + self.patience.overdue);
    }

    /// Moves the deadline to that of a load that is asked to stop now.
    fn shorten(&mut self) {
        self.deadline = self.deadline.min(Instant::now() + self.grace + self.patience.overdue);
    }
}

/// What the drivers have reported.
struct Books {
    dones: Vec<Option<Done>>,
    /// `None`: the lines of a single driver are passed on as they are.
    adder: Option<Adder>,
    /// The last window that each has confirmed. One that an order reaches too late keeps its window, and says nothing.
    windows: Vec<Option<Window>>,
    /// How long each has been silent since `go`.
    silent: Vec<Duration>,
}

impl Books {
    fn new(fleet: &Fleet) -> Books {
        let n = fleet.drivers.len();
        let names = || fleet.drivers.iter().map(|driver| driver.name().to_string()).collect();
        Books {
            dones: vec![None; n],
            adder: (n > 1).then(|| Adder::new(names())),
            windows: vec![None; n],
            silent: vec![Duration::ZERO; n],
        }
    }

    /// Fails if drivers have measured different windows, once every driver has reported its totals.
    fn expect_one_window(&self, fleet: &Fleet) -> Result<()> {
        let Some(dones) = self.dones.iter().map(Option::as_ref).collect::<Option<Vec<&Done>>>() else {
            return Ok(());
        };
        // One that lost all its clients ended before, and moved nothing.
        let mut lasting = (0..dones.len()).filter(|n| dones[*n].ending == LoadEnding::Completed);
        let Some(first) = lasting.next() else { return Ok(()) };
        let Some(other) = lasting.find(|n| self.windows[*n] != self.windows[first]) else { return Ok(()) };
        let [first, other] = [first, other].map(|n| &fleet.drivers[n].process.who);
        bail!(
            "{first} and {other} have measured different windows: an order to move them reached one too late"
        )
    }

    /// The totals, once every driver has reported its own.
    fn total(&mut self) -> Option<Done> {
        if self.dones.iter().any(Option::is_none) {
            return None;
        }
        let mut dones: Vec<Done> = self.dones.drain(..).flatten().collect();
        Some(if dones.len() == 1 { dones.swap_remove(0) } else { add_up::total(dones) })
    }
}

fn listen(
    fleet: &mut Fleet,
    mut course: Course,
    books: &mut Books,
    on_line: &mut dyn FnMut(&DriverLine) -> Result<()>,
    stop: &AtomicBool,
) -> Result<Done> {
    let mut was_stopped = false;
    loop {
        if !was_stopped && stop.load(Ordering::Relaxed) {
            fleet.stop()?;
            was_stopped = true;
            course.shorten();
        }
        let turn = Instant::now();
        let heard = fleet.next(TURN)?;
        let silence = silence_of_turn(turn, course.go);
        books.silent.iter_mut().for_each(|silent| *silent += silence);
        if let Some((from, line)) = heard
            && !matches!(line, DriverLine::Pong(_))
        {
            books.silent[from] = Duration::ZERO;
            if matches!(line, DriverLine::Execution(_)) {
                course.extend();
            }
            if !was_stopped {
                expect_not_given_up(&fleet.drivers[from], &line)?;
            }
            take(fleet, from, line, books, on_line)?;
            if !was_stopped {
                books.expect_one_window(fleet)?;
            }
            if let Some(done) = books.total() {
                return Ok(done);
            }
        }
        for (driver, silent) in fleet.drivers.iter().zip(&books.silent) {
            let process = &driver.process;
            if !driver.has_ended && *silent >= course.patience.silence {
                let (words, silence_s) = (process.last_words(), course.patience.silence.as_secs_f64());
                bail!("{} has been silent for {silence_s} s{words}", process.who);
            }
            if !driver.has_ended && Instant::now() >= course.deadline {
                let (words, overdue_s) = (process.last_words(), course.patience.overdue.as_secs_f64());
                bail!("{} has not ended {overdue_s} s after it should have{words}", process.who);
            }
        }
    }
}

/// A driver on another machine stops by itself when nothing of us reaches it any more, and what it did then may still reach us.
fn expect_not_given_up(driver: &Member, line: &DriverLine) -> Result<()> {
    if let DriverLine::Done(done) = line {
        ensure!(
            done.ending != LoadEnding::Stopped || driver.record.is_none(),
            "{} stopped by itself, because nothing of pgdyno had reached it for {} s: pgdyno or the network stood still",
            driver.process.who,
            SILENCE.as_secs(),
        );
    }
    Ok(())
}

/// How much of a turn counts as the drivers' silence: nothing before `go`, and little of a turn that took long, because
/// this process did not run during it either (a paused virtual machine).
fn silence_of_turn(turn: Instant, go: Instant) -> Duration {
    let now = Instant::now();
    if now < go { Duration::ZERO } else { now.duration_since(turn.max(go)).min(2 * TURN) }
}

/// Enters a line into the books, and passes on what is complete.
fn take(
    fleet: &mut Fleet,
    from: usize,
    mut line: DriverLine,
    books: &mut Books,
    on_line: &mut dyn FnMut(&DriverLine) -> Result<()>,
) -> Result<()> {
    let driver = &mut fleet.drivers[from];
    to_our_clock(&mut line, driver.offset_ns());
    if let (DriverLine::Tick(tick), Some(record)) = (&mut line, driver.elsewhere()) {
        used_elsewhere(tick, &record.name);
    }
    if let (DriverLine::Event(event), Some(record)) = (&mut line, &driver.record) {
        event.detail.insert("driver".to_string(), record.name.clone());
    }
    driver.enter(&line)?;
    let lines = match (line, &mut books.adder) {
        (DriverLine::Done(done), adder) => {
            books.dones[from] = Some(*done);
            adder.as_mut().map_or(Vec::new(), |adder| {
                adder.ended(from);
                adder.complete()
            })
        }
        (DriverLine::Failed { message }, _) => return Err(fleet.failure(from, message)),
        (DriverLine::Ready(_) | DriverLine::Hello(_), _) => {
            bail!("{} reported `ready` twice", driver.process.who)
        }
        (DriverLine::Watching(_) | DriverLine::Missing { .. } | DriverLine::Watched(_), _) => {
            bail!("{} answered as the eyes of a host do", driver.process.who)
        }
        (DriverLine::Hands(_), _) => bail!("{} answered as the hands of a host do", driver.process.who),
        (DriverLine::Pages(_), _) => bail!("{} answered as who makes pages does", driver.process.who),
        (DriverLine::Pong(_), _) => Vec::new(),
        (DriverLine::Interval { interval, histograms }, Some(adder)) => {
            adder.interval(from, interval, &histograms)?;
            Vec::new()
        }
        (DriverLine::Tick(tick), Some(adder)) => {
            adder.tick(from, tick);
            adder.complete()
        }
        (DriverLine::Window(window), Some(_)) => {
            books.windows[from] = Some(window);
            let is_of_all = books.windows.iter().all(|confirmed| *confirmed == Some(window));
            is_of_all.then_some(DriverLine::Window(window)).into_iter().collect()
        }
        (line @ (DriverLine::Event(_) | DriverLine::Execution(_)), Some(_)) | (line, None) => vec![line],
    };
    lines.iter().try_for_each(on_line)
}

/// What a driver on another machine used is not part of this machine's use.
fn used_elsewhere(tick: &mut Tick, name: &str) {
    let used =
        ["driver.cpu.user", "driver.cpu.system"].map(|metric| tick.values.remove(metric).unwrap_or(0.0));
    tick.values.remove("driver.memory");
    tick.values.insert(&key("driver.remote_cpu", name), used.iter().sum());
}

/// Converts the times of a line to our clock.
pub(crate) fn to_our_clock(line: &mut DriverLine, offset_ns: i64) {
    let time = match line {
        DriverLine::Interval { interval, .. } => &mut interval.start_unix_ns,
        DriverLine::Tick(tick) => &mut tick.end_unix_ns,
        DriverLine::Event(event) => &mut event.t_unix_ns,
        DriverLine::Done(done) => &mut done.end_unix_ns,
        _ => return,
    };
    *time = shifted(*time, offset_ns.saturating_neg());
}
