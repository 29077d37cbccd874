//! The process of one driver: a child on this machine, or the command that leads to another one. It outlives neither its
//! [`DriverProcess`] nor this process.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Sender, SyncSender};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use model::load::drive::DriveOrder;
use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, getpid, getppid, setsid};

use crate::pipes::{DriverOutput, Garbage, OutputTail, STDERR_BYTES_KEPT, feed, hear};

/// How long a driver may take to exit after its last line, and the kernel to end one that was killed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long commands that lead elsewhere may take to pass on the end of their input, all together.
const FAREWELL: Duration = Duration::from_secs(2);

/// Where a driver's stderr goes, and with it that of the commands that `\shell` starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StderrTo {
    /// The last lines become part of the error message if the driver dies, without secrets.
    Messages,
    /// To this process's stderr, for users who want to see the output of their commands.
    Parent,
}

/// The end of a load.
pub(crate) const LOAD_DID: &str = "the load did";

/// A driver's process. Dropping it kills it.
pub(crate) struct DriverProcess {
    /// What messages call it: "the driver", or "driver `NAME`".
    pub(crate) who: String,
    /// What it should have waited for before it ended: "the load did".
    until: &'static str,
    child: Child,
    /// `None`: no more orders will be sent. The input ends with it.
    orders: Option<Arc<Sender<Vec<u8>>>>,
    /// Whether it was greeted: it is a command that leads to a driver.
    leads_elsewhere: bool,
    /// `None`: stderr goes to the parent's stderr.
    stderr: Option<OutputTail>,
    secrets: Secrets,
}

/// How a driver's process is started, and where its lines go.
pub(crate) struct Start<'a> {
    pub(crate) who: String,
    pub(crate) until: &'static str,
    pub(crate) program: &'a Path,
    pub(crate) args: Vec<&'a OsStr>,
    pub(crate) stderr_to: StderrTo,
    /// Number of the driver, and where its lines go.
    pub(crate) index: usize,
    pub(crate) inbox: SyncSender<DriverOutput>,
    /// What its hello must repeat, if it is greeted.
    pub(crate) nonce: Option<String>,
}

impl DriverProcess {
    /// Starts the process, without waiting for anything.
    ///
    /// Call this from a thread that lives as long as the driver is needed: the kernel kills the process when the thread
    /// that started it ends (`PR_SET_PDEATHSIG`), so that no load outlives a killed parent. The process is in a group of
    /// its own, so Ctrl-C in the terminal does not reach it.
    pub(crate) fn start(start: Start) -> Result<DriverProcess> {
        let Start { who, until, program, args, stderr_to, index, inbox, nonce } = start;
        let mut child = spawn(program, args, stderr_to)
            .with_context(|| format!("cannot start `{}` for {who}", program.display()))?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("both were asked for as pipes");
        };
        let stderr = child.stderr.take();
        let leads_elsewhere = nonce.is_some();
        let listen = || -> io::Result<_> {
            hear(stdout, index, nonce, inbox)?;
            Ok((feed(stdin)?, stderr.map(|stderr| OutputTail::keep(stderr, STDERR_BYTES_KEPT)).transpose()?))
        };
        match listen() {
            Ok((orders, stderr)) => Ok(DriverProcess {
                who,
                until,
                child,
                orders: Some(Arc::new(orders)),
                leads_elsewhere,
                stderr,
                secrets: Secrets(Vec::new()),
            }),
            Err(error) => {
                // Dropping a `Child` neither kills nor reaps it.
                child.kill().and_then(|()| child.wait()).ok();
                Err(error).context("cannot start a thread for the driver's pipes")
            }
        }
    }

    /// The process id on this machine.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a line. A driver that is gone is reported by whoever reads its lines.
    pub(crate) fn say(&self, line: &impl serde::Serialize) -> Result<()> {
        self.orders.as_ref().map_or(Ok(()), |orders| send(orders, line))
    }

    /// Sends bytes that are no line of a driver's.
    pub(crate) fn send(&self, bytes: Vec<u8>) {
        let _a_gone_process_is_reported_by_its_reader = self.orders.as_ref().map(|orders| orders.send(bytes));
    }

    /// Sends the order; its password appears in no message from now on.
    pub(crate) fn order(&mut self, order: &DriveOrder) -> Result<()> {
        self.secrets = Secrets::from_order(order);
        self.say(order)
    }

    /// Where others leave lines for this driver.
    pub(crate) fn mailbox(&self) -> Option<Mailbox> {
        self.orders.as_ref().map(|orders| Mailbox(Arc::downgrade(orders)))
    }

    /// Kills the process.
    pub(crate) fn kill(&mut self) {
        self.orders = None;
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        // Not reaped yet, so no other process can have its id.
        let _already_gone = killpg(group_of(&self.child), Signal::SIGKILL);
        // A process in uninterruptible sleep dies later; do not wait for it.
        self.wait_exit(EXIT_TIMEOUT);
    }

    /// Lets the process exit by itself after its last line, and kills it if it does not.
    pub(crate) fn finish(&mut self) {
        self.orders = None;
        if self.wait_exit(EXIT_TIMEOUT).is_none() {
            self.kill();
        }
    }

    /// The error for a line that cannot be parsed.
    pub(crate) fn misspoke(&self, garbage: &Garbage) -> anyhow::Error {
        let line: String = self.secrets.hide(&garbage.line).chars().take(100).collect();
        let reason = self.secrets.hide(&garbage.reason);
        anyhow!("cannot parse a line of {}: `{line}` ({reason})", self.who)
    }

    /// Whether the process has ended, and how.
    pub(crate) fn exit_status(&mut self) -> Option<ExitStatus> {
        let status = self.wait_exit(EXIT_TIMEOUT);
        self.kill();
        if let Some(stderr) = &self.stderr {
            stderr.wait(Duration::from_secs(1));
        }
        status
    }

    /// Why a driver ended that wrote neither `done` nor `failed`.
    pub(crate) fn obituary(&mut self) -> anyhow::Error {
        let status = self.exit_status();
        let (who, words) = (&self.who, self.last_words());
        match status {
            None => anyhow!("{who} closed its output but kept running; it was killed{words}"),
            Some(status) if status.signal() == Some(Signal::SIGKILL as i32) => {
                anyhow!("{who} was killed ({status}); was memory exhausted?{words}")
            }
            Some(status) => anyhow!("{who} ended before {} ({status}){words}", self.until),
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

impl Drop for DriverProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Ends the inputs of these processes, and leaves those that lead elsewhere some time to pass that on. A command that is
/// killed says nothing to its far end, which then waits for a silence before it is free for others.
pub(crate) fn dismiss<'a>(processes: impl Iterator<Item = &'a mut DriverProcess>) {
    let mut led: Vec<&mut DriverProcess> = processes.filter(|process| process.leads_elsewhere).collect();
    led.iter_mut().for_each(|process| process.orders = None);
    let begun = Instant::now();
    for process in led {
        process.wait_exit(FAREWELL.saturating_sub(begun.elapsed()));
    }
}

/// Where lines for a driver are left while its input is open. Whoever has one does not keep the input open.
#[derive(Debug, Clone)]
pub(crate) struct Mailbox(Weak<Sender<Vec<u8>>>);

impl Mailbox {
    /// Leaves a line. A driver that is gone is reported by whoever reads its lines.
    pub(crate) fn say(&self, line: &impl serde::Serialize) -> Result<()> {
        self.0.upgrade().map_or(Ok(()), |orders| send(&orders, line))
    }
}

fn send(orders: &Sender<Vec<u8>>, line: &impl serde::Serialize) -> Result<()> {
    let mut line = serde_json::to_vec(line).context("cannot encode an order for the driver")?;
    line.push(b'\n');
    let _a_gone_driver_is_reported_by_its_reader = orders.send(line);
    Ok(())
}

fn spawn<A: AsRef<OsStr>>(
    program: &Path,
    args: impl IntoIterator<Item = A>,
    stderr_to: StderrTo,
) -> io::Result<Child> {
    let mut command = Command::new(program);
    // The password is part of the order: an environment can be read by others.
    command.env_remove("PGPASSWORD");
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
    command.stderr(match stderr_to {
        StderrTo::Messages => Stdio::piped(),
        StderrTo::Parent => Stdio::inherit(),
    });
    let parent = getpid();
    let in_child = move || -> io::Result<()> {
        // No key of our terminal stops or ends it, or what it starts, and it cannot wait for the terminal.
        setsid()?;
        nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
        // The parent may have ended before the line above took effect.
        if getppid() == parent { Ok(()) } else { Err(Errno::ESRCH.into()) }
    };
    // SAFETY: between fork and exec the closure makes three system calls and allocates nothing.
    unsafe { command.pre_exec(in_child) };
    command.spawn()
}

fn group_of(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).expect("the kernel's process ids are positive i32"))
}

/// Texts that must not appear in a message, even if a driver wrote them.
struct Secrets(Vec<String>);

impl Secrets {
    /// The passwords, also as JSON escapes them, longest first.
    fn from_order(order: &DriveOrder) -> Secrets {
        let both = |password: &str| {
            let in_json = serde_json::Value::from(password).to_string();
            [in_json[1..in_json.len() - 1].to_string(), password.to_string()]
        };
        let mut texts: Vec<String> = order.passwords().filter(|p| !p.is_empty()).flat_map(both).collect();
        texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
        Secrets(texts)
    }

    fn hide(&self, text: &str) -> String {
        self.0.iter().fold(text.to_string(), |text, secret| text.replace(secret, "***"))
    }
}
