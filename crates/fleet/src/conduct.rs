//! Follows a driver from `go` to its last line: forwards its lines and makes sure that it ends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, anyhow, bail};
use model::load::Window;
use model::load::drive::{Done, DriverLine};

use crate::local::{LocalDriver, TURN};

/// How long to wait for a driver.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// Longest silence while the load runs. A driver writes something every second.
    pub(crate) silence: Duration,
    /// Longest time past the moment at which it should have ended.
    pub(crate) overdue: Duration,
}

impl Patience {
    const USUAL: Patience = Patience { silence: Duration::from_secs(5), overdue: Duration::from_secs(15) };
}

/// Starts a driver that is ready at `go_unix_ns` (nanoseconds since the Unix epoch), passes each of its lines to
/// `on_line`, and returns the last line, which `on_line` does not get. The driver has exited by then.
///
/// When `stop` is raised, the driver is asked to end early, and its `Done` says so.
///
/// # Errors
/// When the driver fails, dies, writes nonsense, is silent for 5 s, or has not ended 15 s after the end of the grace
/// period; and when `on_line` returns an error. The driver has been killed by then.
pub fn conduct(
    driver: &mut LocalDriver,
    go_unix_ns: u64,
    window: Window,
    on_line: &mut dyn FnMut(&DriverLine) -> Result<()>,
    stop: &AtomicBool,
) -> Result<Done> {
    conduct_with(driver, go_unix_ns, window, on_line, stop, Patience::USUAL)
}

/// [`conduct`] with shorter limits, for tests.
pub(crate) fn conduct_with(
    driver: &mut LocalDriver,
    go_unix_ns: u64,
    window: Window,
    on_line: &mut dyn FnMut(&DriverLine) -> Result<()>,
    stop: &AtomicBool,
    patience: Patience,
) -> Result<Done> {
    let course = Course::new(go_unix_ns, window, patience);
    let result = driver.go(go_unix_ns).and_then(|()| listen(driver, course, on_line, stop));
    match result {
        Ok(_) => driver.finish(),
        Err(_) => driver.kill(),
    }
    result
}

/// The times of a load by this process's clock.
struct Course {
    go: Instant,
    /// When the driver must have ended.
    deadline: Instant,
    grace: Duration,
    patience: Patience,
}

impl Course {
    fn new(go_unix_ns: u64, window: Window, patience: Patience) -> Course {
        let until_go = Duration::from_nanos(go_unix_ns).saturating_sub(since_epoch());
        let load = Duration::from_secs(u64::from(window.ramp_up_s) + u64::from(window.measure_s));
        let grace = Duration::from_secs(window.grace_s.into());
        let go = Instant::now() + until_go;
        Course { go, deadline: go + load + grace + patience.overdue, grace, patience }
    }

    /// Moves the deadline to that of a load that is asked to stop now.
    fn shorten(&mut self) {
        self.deadline = self.deadline.min(Instant::now() + self.grace + self.patience.overdue);
    }
}

/// Time since the Unix epoch.
fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn listen(
    driver: &mut LocalDriver,
    mut course: Course,
    on_line: &mut dyn FnMut(&DriverLine) -> Result<()>,
    stop: &AtomicBool,
) -> Result<Done> {
    let mut told_to_stop = false;
    let mut silent = Duration::ZERO;
    loop {
        if !told_to_stop && stop.load(Ordering::Relaxed) {
            driver.stop()?;
            told_to_stop = true;
            course.shorten();
        }
        let turn = Instant::now();
        match driver.next(TURN)? {
            None => silent += silence_of_turn(turn, course.go),
            Some(line) => {
                silent = Duration::ZERO;
                if let Some(done) = take(line, on_line)? {
                    return Ok(done);
                }
            }
        }
        if silent >= course.patience.silence {
            let (words, silence_s) = (driver.last_words(), course.patience.silence.as_secs_f64());
            bail!("the driver has been silent for {silence_s} s{words}");
        }
        if Instant::now() >= course.deadline {
            let (words, overdue_s) = (driver.last_words(), course.patience.overdue.as_secs_f64());
            bail!("the driver has not ended {overdue_s} s after it should have{words}");
        }
    }
}

/// How much of a turn without a line counts as the driver's silence: nothing before `go`, and little of a turn that
/// took long, because this process did not run during it either (a paused virtual machine).
fn silence_of_turn(turn: Instant, go: Instant) -> Duration {
    let now = Instant::now();
    if now < go { Duration::ZERO } else { now.duration_since(turn.max(go)).min(2 * TURN) }
}

/// Passes a line on; returns the last one.
fn take(line: DriverLine, on_line: &mut dyn FnMut(&DriverLine) -> Result<()>) -> Result<Option<Done>> {
    match line {
        DriverLine::Done(done) => Ok(Some(*done)),
        DriverLine::Failed { message } => Err(anyhow!(message)),
        DriverLine::Ready(_) => bail!("the driver reported `ready` twice"),
        line @ (DriverLine::Interval { .. }
        | DriverLine::Tick(_)
        | DriverLine::Event(_)
        | DriverLine::Window(_)) => {
            on_line(&line)?;
            Ok(None)
        }
    }
}
