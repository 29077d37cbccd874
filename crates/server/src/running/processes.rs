//! The processes of our own servers: who they are, and stopping them for a while.

use std::fs;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use model::text::process_title;
use nix::unistd::Pid;
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Pause between two looks at processes that are to stop.
const LOOK: Duration = Duration::from_millis(1);
/// Pause between two looks at one process that is to stop before it is killed.
const STOP_PAUSE: Duration = Duration::from_micros(200);

/// A process of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerProcess {
    /// Process id.
    pub pid: i32,
    /// Its title, such as `postgres: startup recovering 000000010000000000000003`.
    pub title: String,
    parent: Option<i32>,
}

impl ServerProcess {
    /// A process that nobody else reaps, first, and then those that it has started.
    pub(super) fn family(pid: Pid) -> Result<Vec<ServerProcess>> {
        let parent = stat_fields(pid.as_raw()).map(|(_, parent)| parent);
        let first = ServerProcess::new(pid, parent);
        // By the look that found them: another process may have the id of one that has ended since.
        let children =
            children_of(pid)?.into_iter().map(|child| ServerProcess::new(child, Some(pid.as_raw())));
        Ok(std::iter::once(first).chain(children).collect())
    }

    fn new(pid: Pid, parent: Option<i32>) -> ServerProcess {
        let title = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words = title.split(|byte| *byte == 0).filter(|word| !word.is_empty());
        let words: Vec<String> = words.map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        ServerProcess { pid: pid.as_raw(), title: words.join(" "), parent }
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

    /// Lets the processes that it has started go on, and then itself.
    pub fn go_on_with_children(&self) {
        let children = children_of(Pid::from_raw(self.pid)).unwrap_or_default();
        let held: Vec<Held> = children.iter().filter_map(|pid| Held::find(pid.as_raw()).ok()).collect();
        // One that can still be signalled had its id all the time, so that these are its own.
        if pidfd_send_signal(&self.process, Signal::CONT).is_ok() {
            held.iter().for_each(Held::go_on);
        }
    }

    fn is_still(&self) -> bool {
        is_still(Pid::from_raw(self.pid))
    }
}

/// Processes that are stopped (SIGSTOP) until this is dropped.
#[derive(Debug)]
pub struct Frozen {
    stopped: Vec<Held>,
}

impl Frozen {
    /// Stops the processes that `list` names, in its order, and lists them again until a look finds none that runs: sessions come and go
    /// meanwhile. With the postmaster first, none comes any more once that is stopped.
    ///
    /// # Errors
    /// When one does not stop, or there are always new ones, for `longest`. Those that were stopped go on then.
    pub fn stop(list: impl Fn() -> Result<Vec<ServerProcess>>, longest: Duration) -> Result<Frozen> {
        let end = Instant::now() + longest;
        let mut frozen = Frozen { stopped: Vec::new() };
        loop {
            // What is stopped starts nothing, so that those listed after it are all.
            let were_still = frozen.stopped.iter().all(Held::is_still);
            let is_held = |pid: i32| frozen.stopped.iter().any(|held| held.pid == pid);
            let is_new =
                |process: &ServerProcess| !is_held(process.pid) && is_alive(Pid::from_raw(process.pid));
            let found: Vec<ServerProcess> = list()?.into_iter().filter(is_new).collect();
            if found.is_empty() && were_still {
                break;
            }
            ensure!(Instant::now() < end, "not all of its processes are shown as stopped");
            for process in found {
                frozen.add(&process)?;
            }
            thread::sleep(LOOK);
        }
        ensure!(!frozen.stopped.is_empty(), "there is no such process");
        Ok(frozen)
    }

    /// Stops one process that nobody else reaps, so that it starts no more of its own.
    ///
    /// # Errors
    /// When it does not stop for `longest`. It goes on then.
    pub(super) fn stop_one(pid: Pid, longest: Duration) -> Result<Frozen> {
        let held = Held::find(pid.as_raw())?;
        held.stop()?;
        // From here on it goes on wherever this ends.
        let frozen = Frozen { stopped: vec![held] };
        let end = Instant::now() + longest;
        while !is_still(pid) {
            ensure!(Instant::now() < end, "it does not stop; its disk may hang");
            thread::sleep(STOP_PAUSE);
        }
        Ok(frozen)
    }

    fn add(&mut self, process: &ServerProcess) -> Result<()> {
        let context = || format!("stop process {} (`{}`)", process.pid, process.title);
        let held = match Held::find(process.pid) {
            Ok(held) => held,
            Err(_) if !is_alive(Pid::from_raw(process.pid)) => return Ok(()),
            Err(error) => return Err(error.context(context())),
        };
        // It may have ended since it was listed, and another one have its id.
        let is_it = |(state, parent)| !matches!(state, 'Z' | 'X') && Some(parent) == process.parent;
        if stat_fields(process.pid).is_some_and(is_it) {
            held.stop().with_context(context)?;
            self.stopped.push(held);
        }
        Ok(())
    }

    /// Number of the processes.
    pub fn n(&self) -> usize {
        self.stopped.len()
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

/// Whether a process does nothing: it is stopped (state `T` in `/proc`), or has ended.
fn is_still(pid: Pid) -> bool {
    stat_fields(pid.as_raw()).is_none_or(|(state, _)| matches!(state, 'T' | 'Z' | 'X'))
}

/// Whether a process group has a process that has not ended.
pub(crate) fn runs_in_group(group: Pid) -> Result<bool> {
    let runs = |entry: fs::DirEntry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let (state, _, of) = all_fields(pid)?;
        (of == group.as_raw() && !matches!(state, 'Z' | 'X')).then_some(())
    };
    let entries = fs::read_dir("/proc").context("list the processes of a group in `/proc`")?;
    Ok(entries.flatten().find_map(runs).is_some())
}

/// State and parent of a process.
fn stat_fields(pid: i32) -> Option<(char, i32)> {
    all_fields(pid).map(|(state, parent, _)| (state, parent))
}

/// State, parent and process group of a process (proc_pid_stat(5)).
fn all_fields(pid: i32) -> Option<(char, i32, i32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before them may contain blanks and parentheses.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command, Stdio};

    use super::*;

    const LONGEST: Duration = Duration::from_secs(10);

    fn start(script: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null()).process_group(0);
        command.spawn().unwrap()
    }

    fn end(mut child: Child) {
        let group = Pid::from_raw(child.id() as i32);
        nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL).unwrap();
        child.wait().unwrap();
    }

    fn family(parent: i32) -> Result<Vec<ServerProcess>> {
        ServerProcess::family(Pid::from_raw(parent))
    }

    fn states(parent: i32) -> Vec<char> {
        family(parent).unwrap().iter().filter_map(|process| Some(stat_fields(process.pid)?.0)).collect()
    }

    #[test]
    fn none_runs_on_where_processes_come_and_go() {
        // Each child lives for a moment, and is followed by the next one. A subshell is forked, as PostgreSQL forks.
        let parent = start("while :; do (:; :); done");
        let pid = parent.id() as i32;
        for _ in 0..5 {
            let frozen = Frozen::stop(|| family(pid), LONGEST);
            let seen = states(pid);
            let n = frozen.as_ref().map_or(0, Frozen::n);
            drop(frozen);
            if n == 0 || !seen.iter().all(|state| matches!(state, 'T' | 'Z' | 'X')) {
                end(parent);
                panic!("{n} were stopped: {seen:?}");
            }
        }
        end(parent);
    }

    #[test]
    fn a_process_that_has_the_id_of_one_that_was_listed_is_not_stopped() {
        let (parent, stranger) = (start("sleep 60"), start("sleep 60"));
        let (of, id) = (parent.id() as i32, stranger.id() as i32);
        let listed = || Ok(vec![ServerProcess::new(Pid::from_raw(id), Some(of))]);
        let refused = Frozen::stop(listed, Duration::from_millis(50)).is_err();
        let state = stat_fields(id).map(|(state, _)| state);
        end(parent);
        end(stranger);
        assert!(refused && state.is_some_and(|state| state != 'T'), "{state:?}");
    }

    #[test]
    fn a_process_that_was_stopped_to_be_killed_goes_on_if_it_is_not() {
        let parent = start("sleep 60 & wait");
        let pid = Pid::from_raw(parent.id() as i32);
        let stopped = Frozen::stop_one(pid, LONGEST).unwrap();
        let before = stat_fields(pid.as_raw()).map(|(state, _)| state);
        drop(stopped);
        let went_on = Instant::now() + LONGEST;
        while is_still(pid) && Instant::now() < went_on {
            thread::sleep(LOOK);
        }
        let goes_on = !is_still(pid);
        end(parent);
        assert_eq!((before, goes_on), (Some('T'), true));
    }

    #[test]
    fn a_child_that_nobody_named_goes_on_with_its_parent() {
        let parent = start("sleep 60 & wait");
        let pid = parent.id() as i32;
        while family(pid).unwrap().len() < 2 {
            thread::sleep(LOOK);
        }
        let held = Held::find(pid).unwrap();
        // As one that is killed leaves them behind.
        std::mem::forget(Frozen::stop(|| family(pid), LONGEST).unwrap());
        let before = states(pid);
        held.go_on_with_children();
        let went_on = Instant::now() + LONGEST;
        while states(pid).contains(&'T') && Instant::now() < went_on {
            thread::sleep(LOOK);
        }
        let after = states(pid);
        end(parent);
        assert_eq!(before, ['T', 'T']);
        assert!(after.len() == 2 && !after.contains(&'T'), "{after:?}");
    }
}
