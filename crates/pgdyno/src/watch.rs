//! `pgdyno watch`: the eyes on a server's host. A pgdyno elsewhere starts it through a remote shell; its lines are those of
//! `model::telemetry::watch`. It needs no rights of its own: what its user cannot read is named and left out.

use std::collections::BTreeMap;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use driver::SenderTrust;
use driver::far::{Begin, Commands, Outbox, ParentInput, WallClock, begin, until_the_parent_has_gone};
use model::load::drive::DriverLine;
use model::telemetry::watch::{Backends, WatchCommand, WatchOrder, Watched, Watching};
use observe::host::counters::ProcessCounters;
use observe::{Observation, ObserveSpec, Observer};
use server::database::target::{postmaster_of, wal_of};

use crate::{Exit, pipe, spot};

/// Observes as a parent asks until it is asked to stop or is gone. Only a pgdyno elsewhere starts this.
pub(crate) fn watch(rights: SenderTrust) -> Exit {
    let input = BufReader::new(std::io::stdin());
    pipe::answer(|outbox| serve(input, rights, outbox))
}

fn serve(input: BufReader<std::io::Stdin>, rights: SenderTrust, outbox: &Outbox) -> Result<(), String> {
    let wall = WallClock::read();
    let Begin { order, is_far, commands } = begin::<WatchOrder, WatchCommand>(input, wall, outbox)?;
    if !is_far {
        return Err("`pgdyno watch` is started by a pgdyno on another machine (--host)".to_string());
    }
    pipe::expect_format(order.format)?;
    let place = ObservedServer::find(&order, rights);
    // Before the load connects: its backends are then counted from their beginning.
    let counters = place.pid().filter(|_| order.counters).map(ProcessCounters::attach);
    let said = outbox.say(&DriverLine::Watching(Box::new(place.describe())));
    said.map_err(|error| error.to_string())?;
    let mut backends = Backends::default();
    let Some(go) = until_go(&commands, &mut backends) else { return Ok(()) };
    let n_ticks = Arc::new(AtomicU64::new(0));
    // The observer reads the wall clock when it starts; all that the parent hears is on the time line of our answers to
    // its pings.
    let shift_ns = wall.less(WallClock::read());
    order.spot_notice.iter().for_each(|url| spot::poll_for_other(url, wall, outbox));
    let spec = ObserveSpec {
        align_unix_ns: go.saturating_add_signed(shift_ns.saturating_neg()),
        counters,
        ..place.observe()
    };
    let sink = sink(outbox.clone(), shift_ns, Arc::clone(&n_ticks));
    let observer = Observer::start(spec, sink).map_err(|error| format!("{error:#}"))?;
    observer.set_backends(backends);
    loop {
        match commands.recv() {
            Some(ParentInput::Command(WatchCommand::Backends(backends))) => observer.set_backends(backends),
            Some(ParentInput::Command(WatchCommand::Go(_) | WatchCommand::Ping(_))) => {}
            Some(ParentInput::Command(WatchCommand::Stop)) => break,
            Some(ParentInput::ParentIsGone { .. } | ParentInput::TooManyLines) | None => return Ok(()),
        }
    }
    observer.stop();
    let watched = Watched { n_ticks: n_ticks.load(Ordering::Relaxed) };
    outbox.say_last(&DriverLine::Watched(watched)).map_err(|error| error.to_string())?;
    until_the_parent_has_gone(&commands);
    Ok(())
}

/// The time to align ticks with; `None` if the parent does not want to see anything.
fn until_go(commands: &Commands<WatchCommand>, backends: &mut Backends) -> Option<u64> {
    loop {
        match commands.recv()? {
            ParentInput::Command(WatchCommand::Go(unix_ns)) => return Some(unix_ns),
            ParentInput::Command(WatchCommand::Backends(all)) => *backends = all,
            ParentInput::Command(WatchCommand::Ping(_)) => {}
            ParentInput::Command(WatchCommand::Stop)
            | ParentInput::ParentIsGone { .. }
            | ParentInput::TooManyLines => {
                return None;
            }
        }
    }
}

/// Sends samples to the parent. What this process uses itself has a name of its own there.
fn sink(outbox: Outbox, shift_ns: i64, n_ticks: Arc<AtomicU64>) -> Box<dyn FnMut(Observation) + Send> {
    Box::new(move |sample| {
        let line = match sample {
            Observation::Tick(mut tick) => {
                n_ticks.fetch_add(1, Ordering::Relaxed);
                tick.end_unix_ns = tick.end_unix_ns.saturating_add_signed(shift_ns);
                if let Some(own) = tick.values.remove("pgdyno.cpu") {
                    tick.values.insert("watch.cpu", own);
                }
                DriverLine::Tick(tick)
            }
            Observation::Event(mut event) => {
                event.t_unix_ns = event.t_unix_ns.saturating_add_signed(shift_ns);
                DriverLine::Event(event)
            }
            Observation::Unavailable { what, reason } => DriverLine::Missing { what, reason },
            Observation::Scrape { .. } | Observation::Statement { .. } => return,
        };
        // A parent that has gone ends this process elsewhere.
        outbox.say(&line).unwrap_or_default();
    })
}

/// What of the server was found on this machine.
pub(crate) struct ObservedServer {
    pub(crate) postmaster_pid: Option<u32>,
    pub(crate) dirs: BTreeMap<String, PathBuf>,
    log_path: Option<PathBuf>,
    missing: BTreeMap<String, String>,
}

impl ObservedServer {
    /// Without the rights of our user only the kernel says where something is: whoever sends the order could name any file that our user
    /// may read, and so could the server's user, who says where the log collector writes.
    pub(crate) fn find(order: &WatchOrder, rights: SenderTrust) -> ObservedServer {
        let may_name = |_: &&PathBuf| rights == SenderTrust::OfUser;
        let mut missing = BTreeMap::new();
        let asked = order.backend.ok_or("the server did not say which process serves a session".to_string());
        let postmaster_pid = asked.and_then(postmaster_of);
        if let Err(reason) = &postmaster_pid {
            missing.insert("server.cpu".to_string(), reason.clone());
        }
        let postmaster_pid = postmaster_pid.ok();
        let mut dirs = BTreeMap::new();
        let named = order.data_directory.as_ref().filter(may_name);
        match data_directory(named, postmaster_pid, unsaid(rights, DATA_UNSAID)) {
            Ok(data) => {
                match wal_of(&data) {
                    Ok(wal) => drop(dirs.insert("wal".to_string(), wal)),
                    Err(reason) => drop(missing.insert("disk (wal)".to_string(), reason)),
                }
                dirs.insert("data".to_string(), data);
            }
            Err(reason) => drop(missing.insert("disk (data)".to_string(), reason)),
        }
        let log_path = log_path(
            order.log_path.as_ref().filter(may_name),
            postmaster_pid,
            dirs.get("data").filter(may_name),
            unsaid(rights, LOG_UNSAID),
        );
        if let Err(reason) = &log_path {
            missing.insert("server.log".to_string(), reason.clone());
        }
        ObservedServer { postmaster_pid, dirs, log_path: log_path.ok(), missing }
    }

    pub(crate) fn describe(&self) -> Watching {
        Watching {
            host: observe::host::facts::record_with_server(&self.dirs, self.postmaster_pid),
            postmaster_pid: self.postmaster_pid,
            follows_log: self.log_path.is_some(),
            missing: self.missing.clone(),
        }
    }

    fn pid(&self) -> Option<i32> {
        self.postmaster_pid.and_then(|pid| i32::try_from(pid).ok())
    }

    fn observe(&self) -> ObserveSpec {
        let length = |path: &PathBuf| path.metadata().map_or(0, |meta| meta.len());
        ObserveSpec {
            server_pid: self.pid(),
            dirs: self.dirs.clone(),
            may_observe_all_disks: true,
            log_offset: self.log_path.as_ref().map_or(0, length),
            log_path: self.log_path.clone(),
            ..ObserveSpec::of_host()
        }
    }
}

const DATA_UNSAID: &str = "the server does not say where its data directory is (grant pg_read_all_settings)";
const LOG_UNSAID: &str = "the server does not say where (grant execute on function pg_current_logfile(text), which pg_monitor may from 17 on)";
/// What the server says does not matter then.
const NOT_LOOKED_AT: &str =
    "the agent there looks at no path that a message or the server names (`pgdyno agent --allow-shell` does)";

/// Why a path is not known that the server could have said.
fn unsaid(rights: SenderTrust, reason: &'static str) -> &'static str {
    match rights {
        SenderTrust::OfUser => reason,
        SenderTrust::LoadOnly => NOT_LOOKED_AT,
    }
}

/// The data directory, as the server says or as the postmaster's working directory, which only its user may see.
fn data_directory(
    named: Option<&PathBuf>,
    postmaster_pid: Option<u32>,
    unsaid: &str,
) -> Result<PathBuf, String> {
    if let Some(path) = named
        && postmaster_pid.is_some()
    {
        return path.canonicalize().map_err(|error| format!("`{}`: {error}", path.display()));
    }
    let pid = postmaster_pid.ok_or("the server's processes were not found".to_string())?;
    std::fs::read_link(format!("/proc/{pid}/cwd"))
        .map_err(|error| format!("{unsaid}, and the working directory of process {pid}: {error}"))
}

/// The server's log: the file of its log collector, else where the postmaster's messages go.
fn log_path(
    named: Option<&PathBuf>,
    postmaster_pid: Option<u32>,
    data: Option<&PathBuf>,
    unsaid: &str,
) -> Result<PathBuf, String> {
    let pid = postmaster_pid.ok_or("the server's processes were not found".to_string())?;
    if let Some(path) = named {
        return readable(path.clone());
    }
    let stderr = format!("/proc/{pid}/fd/2");
    let path = std::fs::read_link(&stderr).map_err(|error| format!("`{stderr}`: {error}"))?;
    if !path.to_string_lossy().starts_with("pipe:") {
        return readable(path);
    }
    let collected = data.and_then(|data| collected(data));
    let collected = collected.ok_or_else(|| format!("the server's log collector has it, and {unsaid}"))?;
    readable(collected)
}

/// Longest list of a log collector's files: three lines with a path each.
const LIST_BYTES_MAX: u64 = 16 << 10;

/// Where the log collector of the server with this data directory writes, if we may know it (`current_logfiles`).
fn collected(data: &Path) -> Option<PathBuf> {
    // The server's user may put anything there.
    let bytes = files::read(&data.join("current_logfiles"), LIST_BYTES_MAX).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let path = text.lines().find_map(|line| line.strip_prefix("stderr "))?;
    Some(data.join(path))
}

/// The path, if it is that of a file that our user may read.
fn readable(path: PathBuf) -> Result<PathBuf, String> {
    // A pipe would be waited for.
    let is_file = path.metadata().map(|meta| meta.is_file());
    let opened =
        is_file.and_then(|is_file| if is_file { std::fs::File::open(&path).map(Some) } else { Ok(None) });
    match opened {
        Ok(Some(_)) => Ok(path),
        Ok(None) => Err(format!("`{}` is no file", path.display())),
        Err(error) => Err(format!("`{}`: {error}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_a_log_collector_is_known_to_those_who_may_read_the_data_directory() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(collected(dir.path()), None);
        let lines = "csvlog log/postgresql.csv\nstderr log/postgresql.log\n";
        std::fs::write(dir.path().join("current_logfiles"), lines).unwrap();
        assert_eq!(collected(dir.path()), Some(dir.path().join("log/postgresql.log")));
        std::fs::write(dir.path().join("current_logfiles"), "stderr /var/log/pg.log\n").unwrap();
        assert_eq!(collected(dir.path()), Some(PathBuf::from("/var/log/pg.log")));
        std::fs::remove_file(dir.path().join("current_logfiles")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", dir.path().join("current_logfiles")).unwrap();
        assert_eq!(collected(dir.path()), None, "it has no end");
    }
}
