//! The processes of our own servers: who they are, and stopping them for a while.

use std::fs;
use std::os::fd::OwnedFd;

use anyhow::{Context, Result, ensure};
use model::text::process_title;
use nix::unistd::Pid;
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// A process of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerProcess {
    /// Process id.
    pub pid: i32,
    /// Its title, such as `postgres: startup recovering 000000010000000000000003`.
    pub title: String,
}

impl ServerProcess {
    pub(super) fn find(pid: Pid) -> ServerProcess {
        let title = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words = title.split(|byte| *byte == 0).filter(|word| !word.is_empty());
        let words: Vec<String> = words.map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        ServerProcess { pid: pid.as_raw(), title: words.join(" ") }
    }

    /// Whether it is of this kind, such as `walreceiver`.
    pub fn is_kind(&self, kind: &str) -> bool {
        process_title::is_kind(&self.title, kind)
    }
}

/// A process that is meant for good, unlike its id, which another one may have later.
#[derive(Debug)]
pub struct Held {
    pid: i32,
    process: OwnedFd,
}

impl Held {
    /// The process that has this id now.
    ///
    /// # Errors
    /// When there is none.
    pub fn find(pid: i32) -> Result<Held> {
        let number = rustix::process::Pid::from_raw(pid).context("a process id is above 0")?;
        Ok(Held { pid, process: pidfd_open(number, PidfdFlags::empty())? })
    }

    fn stop(&self) -> Result<()> {
        Ok(pidfd_send_signal(&self.process, Signal::STOP)?)
    }

    /// Lets it go on. One that was killed meanwhile needs it no more.
    pub fn go_on(&self) {
        pidfd_send_signal(&self.process, Signal::CONT).ok();
    }
}

/// Processes that are stopped (SIGSTOP) until this is dropped.
#[derive(Debug)]
pub struct Frozen {
    stopped: Vec<Held>,
}

impl Frozen {
    /// Stops these processes.
    ///
    /// # Errors
    /// When one has ended, or does not stop. Those that were stopped go on then.
    pub fn stop(processes: &[ServerProcess]) -> Result<Frozen> {
        let mut frozen = Frozen { stopped: Vec::new() };
        for process in processes {
            let context = || format!("stop process {} (`{}`)", process.pid, process.title);
            let held = Held::find(process.pid).with_context(context)?;
            held.stop().with_context(context)?;
            frozen.stopped.push(held);
        }
        ensure!(!frozen.stopped.is_empty(), "there is no such process");
        Ok(frozen)
    }

    /// Ids of the processes.
    pub fn pids(&self) -> Vec<i32> {
        self.stopped.iter().map(|stopped| stopped.pid).collect()
    }

    /// Whether all of them are stopped now (state `T` in `/proc`).
    pub fn is_seen(&self) -> bool {
        self.stopped.iter().all(|stopped| stat_fields(stopped.pid).is_some_and(|(state, _)| state == 'T'))
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        self.stopped.iter().for_each(Held::go_on);
    }
}

/// The existing processes that `parent` started.
pub(super) fn children_of(parent: Pid) -> Result<Vec<Pid>> {
    let of = |entry: fs::DirEntry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        (stat_fields(pid)?.1 == parent.as_raw()).then(|| Pid::from_raw(pid))
    };
    let entries = fs::read_dir("/proc").context("list the server's processes in `/proc`")?;
    Ok(entries.flatten().filter_map(of).collect())
}

/// Whether a process exists and has not ended; a zombie has ended.
pub(super) fn is_alive(pid: Pid) -> bool {
    stat_fields(pid.as_raw()).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
}

/// State and parent of a process (proc_pid_stat(5)).
fn stat_fields(pid: i32) -> Option<(char, i32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before them may contain blanks and parentheses.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.next()?.parse().ok()?))
}
