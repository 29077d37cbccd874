//! All drivers of a load, addressed as one.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail, ensure};
use model::load::Window;
use model::load::drive::{DriveCommand, DriveOrder, DriverLine, Ready};
use model::run::driver::DriverRecord;

use crate::clocks::{PINGS, Pings, shifted};
use crate::pipes::{DriverOutput, Inbox, OutputEvent, since_epoch};
use crate::process::{self, DriverProcess, LOAD_DID, Mailbox, Start, StderrTo};

/// How long to wait before looking at the stop flag again.
pub(crate) const TURN: Duration = Duration::from_millis(100);
/// Most lines that are kept from before `go`, when drivers have little to say.
const EARLY_LINES_MAX: usize = 10_000;
/// How often a driver on another machine is pinged: it takes a longer silence for our end.
pub(crate) const BEAT: Duration = Duration::from_secs(1);
/// Longest silence of a driver on another machine, in any phase; and how long a comparison of clocks may take.
pub(crate) const SILENCE: Duration = Duration::from_secs(5);

/// Seconds of a load that are kept for each driver: a day.
const SECONDS_MAX: u32 = 86_400;

/// The drivers of one load. Dropping it ends them: those elsewhere by the end of their input, which gives them some time, then
/// all by a kill.
pub struct Fleet {
    pub(crate) drivers: Vec<Member>,
    lines: Receiver<DriverOutput>,
    /// Events and ticks that arrived before `go`.
    early: VecDeque<(usize, DriverLine)>,
    last_beat: Instant,
}

/// A driver, and what is known of it.
pub(crate) struct Member {
    pub(crate) process: DriverProcess,
    /// `None`: a child on this machine, or nobody has answered the greeting yet.
    pub(crate) record: Option<DriverRecord>,
    pub(crate) pings: Pings,
    /// The lead of its wall clock over its time line before the load, nanoseconds; later pings leave it alone.
    wall_less_line_before_ns: i64,
    /// When something of it arrived last.
    pub(crate) last_heard: Instant,
    pub(crate) has_ended: bool,
    /// Whether nothing can arrive of it any more.
    is_gone: bool,
}

impl Member {
    pub(crate) fn new(process: DriverProcess) -> Member {
        Member {
            process,
            record: None,
            pings: Pings::default(),
            wall_less_line_before_ns: 0,
            last_heard: Instant::now(),
            has_ended: false,
            is_gone: false,
        }
    }

    /// Keeps what the line says of this driver alone.
    ///
    /// # Errors
    /// When lines were left out.
    pub(crate) fn enter(&mut self, line: &DriverLine) -> Result<()> {
        if let DriverLine::Done(done) = line {
            self.has_ended = true;
            if done.lines_dropped > 0 {
                let (who, n) = (&self.process.who, done.lines_dropped);
                bail!("{who} left out {n} lines of its report, because they were not read for too long");
            }
        }
        let Some(record) = &mut self.record else { return Ok(()) };
        match line {
            DriverLine::Interval { interval, .. } => {
                let (seconds, t) = (&mut record.committed_by_second, interval.t as usize);
                if seconds.len() <= t && interval.t < SECONDS_MAX {
                    seconds.resize(t + 1, 0);
                }
                if let Some(n) = seconds.get_mut(t) {
                    *n += interval.counts.committed;
                }
                record.latency += interval.latency;
            }
            DriverLine::Done(done) => {
                record.counts = done.counts;
                record.late_ns = done.late_ns;
            }
            _ => {}
        }
        Ok(())
    }

    /// Pings it. Returns the number that its answer will have.
    fn ping(&self) -> Result<u64> {
        let id = id_of_now();
        self.process.say(&DriveCommand::Ping(id))?;
        Ok(id)
    }

    /// Its record, if its clock is not ours.
    pub(crate) fn elsewhere(&mut self) -> Option<&mut DriverRecord> {
        self.record.as_mut().filter(|record| !record.is_here)
    }

    /// Its name; a child on this machine has none.
    pub(crate) fn name(&self) -> &str {
        self.record.as_ref().map_or("", |record| &record.name)
    }

    /// Its clock less ours, nanoseconds.
    pub(crate) fn offset_ns(&self) -> i64 {
        let clock = self.record.as_ref().and_then(|record| record.clock_before);
        clock.map_or(0, |clock| clock.offset_ns)
    }
}

impl Fleet {
    /// Starts one driver on this machine and sends it its order, without waiting for it.
    ///
    /// Call this from a thread that lives as long as the driver is needed: the kernel kills the driver when the thread
    /// that started it ends.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn local<A: AsRef<OsStr>>(
        program: &Path,
        args: impl IntoIterator<Item = A>,
        order: &DriveOrder,
        stderr_to: StderrTo,
    ) -> Result<Fleet> {
        let args: Vec<A> = args.into_iter().collect();
        let inbox = Inbox::for_drivers(1);
        let start = Start {
            who: "the driver".to_string(),
            until: LOAD_DID,
            program,
            args: args.iter().map(AsRef::as_ref).collect(),
            stderr_to,
            index: 0,
            inbox: inbox.sender,
            nonce: None,
        };
        let mut process = DriverProcess::start(start)?;
        process.order(order)?;
        Ok(Fleet::new(vec![Member::new(process)], inbox.receiver))
    }

    pub(crate) fn new(drivers: Vec<Member>, lines: Receiver<DriverOutput>) -> Fleet {
        Fleet { drivers, lines, early: VecDeque::new(), last_beat: Instant::now() }
    }

    /// Process ids of the drivers that share our kernel, as far as they are known. A container has numbers of its own.
    pub fn pids_here(&self) -> Vec<u32> {
        let link = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        let own = link.to_string_lossy();
        let pid = |driver: &Member| match &driver.record {
            None => Some(driver.process.pid()),
            Some(DriverRecord { is_here, hello, .. }) => {
                let has_our_numbers = *is_here && !own.is_empty() && hello.pid_namespace == own;
                has_our_numbers.then_some(hello.pid)
            }
        };
        self.drivers.iter().filter_map(pid).collect()
    }

    /// What is known of each driver; nothing of a child on this machine.
    pub fn records(&self) -> Vec<DriverRecord> {
        self.drivers.iter().filter_map(|driver| driver.record.clone()).collect()
    }

    /// Waits until every client of every driver is connected, and compares clocks. Returns early with an error when
    /// `stop` is raised.
    ///
    /// # Errors
    /// The driver's own message if the load cannot begin; the end of its stderr if it died; a timeout.
    pub fn wait_ready(&mut self, timeout: Duration, stop: &AtomicBool) -> Result<Ready> {
        let ready = self.wait_connected(timeout, stop)?;
        self.meet_clocks(stop)?;
        Ok(ready)
    }

    /// [`Fleet::wait_ready`] without a comparison of clocks.
    ///
    /// # Errors
    /// As [`Fleet::wait_ready`].
    pub fn wait_connected(&mut self, timeout: Duration, stop: &AtomicBool) -> Result<Ready> {
        let begun = Instant::now();
        let mut ready: Vec<Option<Ready>> = vec![None; self.drivers.len()];
        while ready.iter().any(Option::is_none) {
            if begun.elapsed() >= timeout {
                let late = ready.iter().position(Option::is_none).unwrap_or(0);
                let process = &self.drivers[late].process;
                bail!(
                    "{} was not ready after {} s{}",
                    process.who,
                    timeout.as_secs_f64(),
                    process.last_words()
                );
            }
            if stop.load(Ordering::Relaxed) {
                bail!("stopped before the load began");
            }
            let left = timeout.saturating_sub(begun.elapsed());
            match self.receive(left.min(TURN))? {
                None => {}
                Some((from, DriverLine::Ready(word))) => ready[from] = Some(word),
                Some((from, line)) => self.keep_early(from, line, "ready")?,
            }
        }
        Ok(all_ready(ready.into_iter().flatten().collect()))
    }

    /// Keeps drivers that are ready waiting for longer: call this every second.
    ///
    /// # Errors
    /// When one of them is gone, or says something else than that it waits.
    pub fn keep_waiting(&mut self) -> Result<()> {
        while let Some((from, line)) = self.receive(Duration::ZERO)? {
            self.keep_early(from, line, "asked to begin")?;
        }
        Ok(())
    }

    /// Keeps a line for later that came before the driver was `what`.
    fn keep_early(&mut self, from: usize, line: DriverLine, what: &str) -> Result<()> {
        let who = &self.drivers[from].process.who;
        match line {
            DriverLine::Event(_) | DriverLine::Tick(_) => {
                ensure!(
                    self.early.len() < EARLY_LINES_MAX,
                    "{who} wrote {EARLY_LINES_MAX} lines before it was {what}"
                );
                self.early.push_back((from, line));
            }
            DriverLine::Failed { message } => return Err(self.failure(from, message)),
            DriverLine::Hello(_) | DriverLine::Pong(_) => {}
            _ => bail!("{who} reported a load before it was {what}"),
        }
        Ok(())
    }

    /// Sends the drivers the time to begin, nanoseconds since the Unix epoch by our clock, each in its own clock's time.
    pub(crate) fn go(&self, unix_ns: u64) -> Result<()> {
        let go = |driver: &Member| DriveCommand::Go(shifted(unix_ns, driver.offset_ns()));
        self.drivers.iter().try_for_each(|driver| driver.process.say(&go(driver)))
    }

    /// A handle that sends orders to the drivers while another part of the program reads their lines.
    pub fn orders(&self) -> Orders {
        Orders { mailboxes: self.drivers.iter().filter_map(|driver| driver.process.mailbox()).collect() }
    }

    /// Tells the drivers to begin no more transactions and to end.
    ///
    /// # Errors
    /// Never for a driver that is gone: whoever reads its lines reports that.
    pub fn stop(&self) -> Result<()> {
        self.drivers.iter().try_for_each(|driver| driver.process.say(&DriveCommand::Stop))
    }

    /// Kills the drivers. Those on other machines end when their input does.
    pub fn kill(&mut self) {
        self.drivers.iter_mut().for_each(|driver| driver.process.kill());
    }

    /// The next line and the number of its driver, or `None` if none came within `timeout`.
    ///
    /// # Errors
    /// When a driver is gone or its line cannot be parsed.
    pub(crate) fn next(&mut self, timeout: Duration) -> Result<Option<(usize, DriverLine)>> {
        match self.early.pop_front() {
            Some(line) => Ok(Some(line)),
            None => self.receive(timeout),
        }
    }

    fn receive(&mut self, timeout: Duration) -> Result<Option<(usize, DriverLine)>> {
        self.beat()?;
        let heard = match self.lines.recv_timeout(timeout) {
            Ok(heard) => heard,
            Err(RecvTimeoutError::Timeout) => return Ok(None),
            Err(RecvTimeoutError::Disconnected) => return Err(self.drivers[0].process.obituary()),
        };
        let driver = &mut self.drivers[heard.from];
        driver.last_heard = Instant::now();
        match heard.what {
            OutputEvent::Line(line) => {
                if let DriverLine::Pong(pong) = *line {
                    driver.pings.add(pong, heard.at_unix_ns);
                }
                Ok(Some((heard.from, *line)))
            }
            // After its last line a driver may go, and what it says no longer matters.
            OutputEvent::Garbage(_) | OutputEvent::End(_) if driver.has_ended => {
                driver.is_gone = true;
                Ok(None)
            }
            OutputEvent::Garbage(garbage) => Err(driver.process.misspoke(&garbage)),
            OutputEvent::End(_) => Err(driver.process.obituary()),
        }
    }

    /// Pings the drivers on other machines, so that they know that we are there, and we of them. One that has ended waits for
    /// the others, until all are let go.
    ///
    /// # Errors
    /// When one has been silent for too long before its end.
    fn beat(&mut self) -> Result<()> {
        if self.last_beat.elapsed() < BEAT {
            return Ok(());
        }
        // Whoever was suspended has heard nobody.
        let was_away = self.last_beat.elapsed() > SILENCE / 2;
        self.last_beat = Instant::now();
        for driver in self.drivers.iter_mut().filter(|driver| driver.record.is_some()) {
            if was_away {
                driver.last_heard = Instant::now();
            }
            if !driver.has_ended && driver.last_heard.elapsed() > SILENCE {
                let (who, words) = (&driver.process.who, driver.process.last_words());
                bail!("nothing of {who} has arrived for {} s{words}", SILENCE.as_secs());
            }
            driver.ping()?;
        }
        Ok(())
    }

    /// Compares the clocks before the load, and records what came of it.
    pub(crate) fn meet_clocks(&mut self, stop: &AtomicBool) -> Result<()> {
        self.compare_clocks(stop)?;
        for driver in &mut self.drivers {
            let clock = driver.pings.offset();
            driver.wall_less_line_before_ns = driver.pings.wall_less_line_ns();
            if let Some(record) = driver.elsewhere() {
                record.clock_before = clock;
            }
        }
        Ok(())
    }

    /// Pings each driver on another machine many times: all at once, so that nobody waits for all others.
    fn compare_clocks(&mut self, stop: &AtomicBool) -> Result<()> {
        // The answer that is awaited from each, and how many pings are left.
        let mut asked: Vec<(Option<u64>, u32)> = vec![(None, 0); self.drivers.len()];
        for (index, driver) in self.drivers.iter_mut().enumerate() {
            if driver.elsewhere().is_some() {
                driver.pings.begin_again();
                asked[index] = (Some(driver.ping()?), PINGS - 1);
            }
        }
        let begun = Instant::now();
        let is_awaited = |((id, _), driver): (&(Option<u64>, u32), &Member)| id.is_some() && !driver.is_gone;
        while asked.iter().zip(&self.drivers).any(is_awaited)
            && begun.elapsed() < SILENCE
            && !stop.load(Ordering::Relaxed)
        {
            match self.receive(TURN)? {
                Some((from, DriverLine::Pong(pong))) if asked[from].0 == Some(pong.id) => {
                    let n_left = asked[from].1;
                    let next = (n_left > 0).then(|| self.drivers[from].ping()).transpose()?;
                    asked[from] = (next, n_left.saturating_sub(1));
                }
                Some((
                    from,
                    line @ (DriverLine::Event(_) | DriverLine::Tick(_) | DriverLine::Failed { .. }),
                )) if !self.drivers[from].has_ended => {
                    self.keep_early(from, line, "asked to begin")?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Compares the clocks once more, and lets the drivers exit.
    pub(crate) fn take_leave(&mut self) {
        // What went wrong after the load does not change it.
        self.compare_clocks(&AtomicBool::new(false)).ok();
        for driver in &mut self.drivers {
            let clock = driver.pings.offset();
            let set_ns = driver.pings.wall_less_line_ns().saturating_sub(driver.wall_less_line_before_ns);
            if let Some(record) = driver.elsewhere() {
                record.clock_after = clock;
                record.clock_set_ns = set_ns;
            }
            driver.process.finish();
        }
    }

    /// A driver's own message, with its name if it has one.
    pub(crate) fn failure(&self, from: usize, message: String) -> anyhow::Error {
        match &self.drivers[from] {
            Member { record: Some(_), process, .. } => anyhow!("{}: {message}", process.who),
            _ => anyhow!(message),
        }
    }
}

/// The number of a ping that is sent now: nanoseconds since the Unix epoch.
fn id_of_now() -> u64 {
    u64::try_from(since_epoch().as_nanos()).unwrap_or(u64::MAX)
}

/// What all drivers reported when they were ready.
fn all_ready(each: Vec<Ready>) -> Ready {
    let mut each = each.into_iter();
    let mut all = each.next().unwrap_or_default();
    for ready in each {
        all.connect_ns = all.connect_ns.max(ready.connect_ns);
        all.prepare_ns = all.prepare_ns.max(ready.prepare_ns);
        if all.poller != ready.poller {
            all.poller = format!("{}, {}", all.poller, ready.poller);
        }
        all.rehearses |= ready.rehearses;
        all.tls = all.tls.or(ready.tls);
        all.backend_pids.extend(ready.backend_pids);
    }
    all
}

/// Sends orders to drivers whose load runs. Whoever conducts the load reports a driver that is gone.
#[derive(Debug, Clone)]
pub struct Orders {
    mailboxes: Vec<Mailbox>,
}

impl Orders {
    /// Changes the rate of a search, transactions per second over all drivers.
    pub fn rate(&self, rate_per_s: f64) -> Result<()> {
        self.say(&DriveCommand::Rate(rate_per_s))
    }

    /// Asks for another window. Drivers that move it reply with a line; if the time to be moved has already passed, they
    /// do nothing.
    pub fn window(&self, window: Window) -> Result<()> {
        self.say(&DriveCommand::Window(window))
    }

    fn say(&self, command: &DriveCommand) -> Result<()> {
        self.mailboxes.iter().try_for_each(|mailbox| mailbox.say(command))
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        process::dismiss(self.drivers.iter_mut().map(|driver| &mut driver.process));
    }
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let pids: Vec<u32> = self.drivers.iter().map(|driver| driver.process.pid()).collect();
        f.debug_struct("Fleet").field("pids", &pids).finish_non_exhaustive()
    }
}
