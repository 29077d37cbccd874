//! A driver on this machine: a child process that outlives neither its [`LocalDriver`] nor this process.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use model::load::Window;
use model::load::drive::{DriveCommand, DriveOrder, DriverLine, Ready};
use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, getpid, getppid};

use crate::pipes::{Garbage, Stderr, feed, hear};

/// How long to wait before looking at the stop flag again.
pub(crate) const TURN: Duration = Duration::from_millis(100);
/// How long a driver may take to exit after its last line, and the kernel to end one that was killed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);
/// Most lines that are kept from before `ready`, when a driver has little to say.
const EARLY_LINES_MAX: usize = 10_000;

/// Where a driver's stderr goes, and with it that of the commands that `\shell` starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StderrTo {
    /// The last lines become part of the error message if the driver dies, without secrets.
    Messages,
    /// To this process's stderr, for users who want to see the output of their commands.
    Parent,
}

/// A driver process. Dropping it kills it.
pub struct LocalDriver {
    child: Child,
    orders: Sender<Vec<u8>>,
    lines: Receiver<Result<DriverLine, Garbage>>,
    /// Events and ticks that arrived before `ready`.
    early: VecDeque<DriverLine>,
    /// `None`: stderr goes to the parent's stderr.
    stderr: Option<Stderr>,
    secrets: Secrets,
}

impl LocalDriver {
    /// Starts a driver and sends it its order, without waiting for it.
    ///
    /// Call this from a thread that lives as long as the driver is needed: the kernel kills the driver when the thread
    /// that started it ends (`PR_SET_PDEATHSIG`), so that no load outlives a killed parent. The driver is in a process
    /// group of its own, so Ctrl-C in the terminal does not reach it.
    pub fn spawn<A: AsRef<OsStr>>(
        program: &Path,
        args: impl IntoIterator<Item = A>,
        order: &DriveOrder,
        stderr_to: StderrTo,
    ) -> Result<LocalDriver> {
        let mut child = start(program, args, stderr_to)
            .with_context(|| format!("cannot start the driver process `{}`", program.display()))?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("both were asked for as pipes");
        };
        let stderr = child.stderr.take();
        let listen =
            || -> io::Result<_> { Ok((feed(stdin)?, hear(stdout)?, stderr.map(Stderr::keep).transpose()?)) };
        let (orders, lines, stderr) = match listen() {
            Ok(threads) => threads,
            Err(error) => {
                // Dropping a `Child` neither kills nor reaps it.
                child.kill().and_then(|()| child.wait()).ok();
                return Err(error).context("cannot start a thread for the driver's pipes");
            }
        };
        let secrets = Secrets::of(order);
        let driver = LocalDriver { child, orders, lines, early: VecDeque::new(), stderr, secrets };
        driver.say(serde_json::to_vec(order))?;
        Ok(driver)
    }

    /// The driver's process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until every client is connected. Returns early with an error when `stop` is raised.
    ///
    /// # Errors
    /// The driver's own message if the load cannot begin; the end of its stderr if it died; a timeout.
    pub fn wait_ready(&mut self, timeout: Duration, stop: &AtomicBool) -> Result<Ready> {
        let begun = Instant::now();
        while begun.elapsed() < timeout {
            if stop.load(Ordering::Relaxed) {
                bail!("stopped before the load began");
            }
            let left = timeout.saturating_sub(begun.elapsed());
            match self.receive(left.min(TURN))? {
                None => {}
                Some(DriverLine::Ready(ready)) => return Ok(ready),
                Some(DriverLine::Failed { message }) => return Err(anyhow!(message)),
                Some(line @ (DriverLine::Event(_) | DriverLine::Tick(_))) => {
                    if self.early.len() >= EARLY_LINES_MAX {
                        bail!("the driver wrote {EARLY_LINES_MAX} lines before it was ready");
                    }
                    self.early.push_back(line);
                }
                Some(DriverLine::Interval { .. } | DriverLine::Window(_) | DriverLine::Done(_)) => {
                    bail!("the driver reported a load before it was ready");
                }
            }
        }
        let words = self.last_words();
        bail!("the driver was not ready after {} s{words}", timeout.as_secs_f64())
    }

    /// Sends the driver the time to begin, nanoseconds since the Unix epoch. A driver that is gone is reported by
    /// `next`, both here and in `stop`.
    pub fn go(&self, unix_ns: u64) -> Result<()> {
        self.say(serde_json::to_vec(&DriveCommand::Go(unix_ns)))
    }

    /// A handle that sends orders to the driver while another part of the program reads its lines.
    pub fn orders(&self) -> Orders {
        Orders { lines: self.orders.clone() }
    }

    /// Tells the driver to begin no more transactions and to end.
    pub fn stop(&self) -> Result<()> {
        self.say(serde_json::to_vec(&DriveCommand::Stop))
    }

    /// The next line, or `None` if none came within `timeout`.
    ///
    /// # Errors
    /// When the driver is gone or its line cannot be parsed.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<DriverLine>> {
        match self.early.pop_front() {
            Some(line) => Ok(Some(line)),
            None => self.receive(timeout),
        }
    }

    /// Kills the driver.
    pub fn kill(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        // Not reaped yet, so no other process can have its id.
        let _already_gone = killpg(group_of(&self.child), Signal::SIGKILL);
        // A process in uninterruptible sleep dies later; do not wait for it.
        self.wait_exit(EXIT_TIMEOUT);
    }

    /// Lets the driver exit by itself after its last line, and kills it if it does not.
    pub(crate) fn finish(&mut self) {
        if self.wait_exit(EXIT_TIMEOUT).is_none() {
            self.kill();
        }
    }

    fn say(&self, json: serde_json::Result<Vec<u8>>) -> Result<()> {
        say_to(&self.orders, json)
    }

    fn receive(&mut self, timeout: Duration) -> Result<Option<DriverLine>> {
        match self.lines.recv_timeout(timeout) {
            Ok(Ok(line)) => Ok(Some(line)),
            Ok(Err(Garbage { line, reason })) => {
                let line: String = self.secrets.hide(&line).chars().take(100).collect();
                let reason = self.secrets.hide(&reason);
                bail!("cannot parse a line of the driver: `{line}` ({reason})")
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(self.obituary()),
        }
    }

    /// Why a driver ended that wrote neither `done` nor `failed`.
    fn obituary(&mut self) -> anyhow::Error {
        let status = self.wait_exit(EXIT_TIMEOUT);
        self.kill();
        if let Some(stderr) = &self.stderr {
            stderr.wait(Duration::from_secs(1));
        }
        let words = self.last_words();
        match status {
            None => anyhow!("the driver closed its output but kept running; it was killed{words}"),
            Some(status) if status.signal() == Some(Signal::SIGKILL as i32) => {
                anyhow!("the driver was killed ({status}); was memory exhausted?{words}")
            }
            Some(status) => anyhow!("the driver ended before the load did ({status}){words}"),
        }
    }

    /// The last lines of the driver's stderr, for the end of a message.
    pub(crate) fn last_words(&self) -> String {
        const LINES_SHOWN: usize = 10;
        let text = self.stderr.as_ref().map(|stderr| self.secrets.hide(&stderr.text())).unwrap_or_default();
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        match lines.len() {
            0 => String::new(),
            n => format!("; it said: {}", lines[n.saturating_sub(LINES_SHOWN)..].join("\n")),
        }
    }

    /// Waits for the exit and reaps. `None`: still running after `timeout`.
    fn wait_exit(&mut self, timeout: Duration) -> Option<ExitStatus> {
        let begun = Instant::now();
        let mut pause = Duration::from_micros(100);
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            if begun.elapsed() >= timeout {
                return None;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }
}

/// Sends orders to a driver whose load runs. [`LocalDriver::next`] reports a driver that is gone.
#[derive(Debug, Clone)]
pub struct Orders {
    lines: Sender<Vec<u8>>,
}

impl Orders {
    /// Changes the rate of a search, transactions per second.
    pub fn rate(&self, rate_per_s: f64) -> Result<()> {
        say_to(&self.lines, serde_json::to_vec(&DriveCommand::Rate(rate_per_s)))
    }

    /// Asks for another window. A driver that moves it replies with a line; if the time to be moved has already passed,
    /// it does nothing.
    pub fn window(&self, window: Window) -> Result<()> {
        say_to(&self.lines, serde_json::to_vec(&DriveCommand::Window(window)))
    }
}

impl fmt::Debug for LocalDriver {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("LocalDriver").field("pid", &self.pid()).finish_non_exhaustive()
    }
}

impl Drop for LocalDriver {
    fn drop(&mut self) {
        self.kill();
    }
}

fn say_to(orders: &Sender<Vec<u8>>, json: serde_json::Result<Vec<u8>>) -> Result<()> {
    let mut line = json.context("cannot encode an order for the driver")?;
    line.push(b'\n');
    let _gone_driver_is_told_by_next = orders.send(line);
    Ok(())
}

fn start<A: AsRef<OsStr>>(
    program: &Path,
    args: impl IntoIterator<Item = A>,
    stderr_to: StderrTo,
) -> io::Result<Child> {
    let mut command = Command::new(program);
    // The password is part of the order: an environment can be read by others.
    command.env_remove("PGPASSWORD");
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
    command.stderr(match stderr_to {
        StderrTo::Messages => Stdio::piped(),
        StderrTo::Parent => Stdio::inherit(),
    });
    let parent = getpid();
    let die_with_parent = move || -> io::Result<()> {
        nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
        // The parent may have ended before the line above took effect.
        if getppid() == parent { Ok(()) } else { Err(Errno::ESRCH.into()) }
    };
    // SAFETY: between fork and exec the closure makes two system calls and allocates nothing.
    unsafe { command.pre_exec(die_with_parent) };
    command.spawn()
}

fn group_of(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).expect("the kernel's process ids are positive i32"))
}

/// Texts that may not appear in a message, even if a driver wrote them.
struct Secrets(Vec<String>);

impl Secrets {
    /// The password, also as JSON escapes it, longest first.
    fn of(order: &DriveOrder) -> Secrets {
        let Some(password) = order.password.as_deref().filter(|p| !p.is_empty()) else {
            return Secrets(Vec::new());
        };
        let in_json = serde_json::Value::from(password).to_string();
        Secrets(vec![in_json[1..in_json.len() - 1].to_string(), password.to_string()])
    }

    fn hide(&self, text: &str) -> String {
        self.0.iter().fold(text.to_string(), |text, secret| text.replace(secret, "***"))
    }
}
