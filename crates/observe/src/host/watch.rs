//! The thread that observes the machine and the server's processes on it: one tick of source `Host` per second.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Instant;

use model::telemetry::event::{Event, EventKind};
use model::telemetry::reading::{Tick, TickSource};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

use crate::gather::{Backwards, Gather};
use crate::host::device::{self, Space};
use crate::host::process::{self, Tree};
use crate::host::{disk, system};
use crate::schedule::{Control, LATE_NS, unix_ns};
use crate::sink::Out;

pub(crate) struct HostWatch {
    gather: Gather,
    out: Out,
    roles: Vec<Role>,
    devices: Vec<String>,
    /// Device numbers of the file systems that were reported as nearly full.
    nearly_full: BTreeSet<u64>,
    tree: Option<Tree>,
    /// The pid that the caller set last, whether that process runs or not.
    server_pid: Option<i32>,
    may_read_io: bool,
    driver_pid: Option<i32>,
}

struct Role {
    name: String,
    path: PathBuf,
    dev: u64,
}

impl HostWatch {
    /// Will observe the devices below `dirs` (by role), and the processes that `control` will name.
    pub(crate) fn new(dirs: &BTreeMap<String, PathBuf>, out: Out) -> HostWatch {
        let mut roles = Vec::new();
        let mut devices: Vec<String> = Vec::new();
        for (name, path) in dirs {
            match device::place(path) {
                Ok(place) => {
                    if place.devices.is_empty() {
                        let reason = format!(
                            "`{}` is on {}, which has no block device",
                            path.display(),
                            place.fs_type
                        );
                        out.unavailable(&format!("disk ({name})"), reason);
                    }
                    devices.extend(place.devices);
                    roles.push(Role { name: name.clone(), path: path.clone(), dev: place.dev });
                }
                Err(error) => out.unavailable(&format!("disk ({name})"), format!("{error:#}")),
            }
        }
        devices.sort();
        devices.dedup();
        HostWatch {
            gather: Gather::new(Backwards::Jitter),
            out,
            roles,
            devices,
            nearly_full: BTreeSet::new(),
            tree: None,
            server_pid: None,
            may_read_io: true,
            driver_pid: None,
        }
    }

    /// Observes until it is stopped, and then once more.
    pub(crate) fn run(mut self, control: &Control, tick_ns: u64) {
        self.read(control);
        self.gather.take();
        let mut last = Instant::now();
        loop {
            let (meant_ns, stop) = control.sleep_tick(tick_ns);
            self.read(control);
            let now = Instant::now();
            let (values, _) = self.gather.take();
            let end_unix_ns = unix_ns();
            let length_ns = u64::try_from((now - last).as_nanos()).unwrap_or(u64::MAX);
            last = now;
            self.out.tick(Tick { source: TickSource::Host, end_unix_ns, length_ns, values });
            if stop {
                return;
            }
            let late_ns = end_unix_ns.saturating_sub(meant_ns);
            if late_ns > LATE_NS {
                self.out.event(late(end_unix_ns, "host", late_ns));
            }
        }
    }

    fn read(&mut self, control: &Control) {
        let wishes = control.get();
        if self.server_pid != wishes.server_pid {
            self.server_pid = wishes.server_pid;
            self.follow_server();
        }
        if self.driver_pid != wishes.driver_pid {
            self.driver_pid = wishes.driver_pid;
            self.gather.forget("driver.run_delay");
        }
        let out = self.out.clone();
        system::read(&mut self.gather, |what, reason| out.unavailable(what, reason));
        if let Err(error) = disk::read(&mut self.gather, &self.devices) {
            self.out.unavailable("disk", format!("{error:#}"));
        }
        self.read_space();
        self.read_server();
        if let Some(delay_s) = self.driver_pid.and_then(process::run_delay_s) {
            self.gather.put("driver.run_delay", "", delay_s);
        }
        if let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) {
            let us = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
            self.gather.put("pgdyno.cpu", "", us as f64 / 1e6);
        }
    }

    fn follow_server(&mut self) {
        for metric in ["server.cpu.user", "server.cpu.system", "server.read_bytes", "server.write_bytes"] {
            self.gather.forget(metric);
        }
        self.may_read_io = true;
        self.tree = None;
        match self.server_pid.map(Tree::of) {
            Some(Ok(tree)) => self.tree = Some(tree),
            Some(Err(error)) => self.out.unavailable("server.cpu", format!("{error:#}")),
            None => {}
        }
    }

    fn read_server(&mut self) {
        let Some(tree) = &self.tree else { return };
        let pids = match tree.used() {
            Ok((used, pids)) => {
                self.gather.put("server.cpu.user", "", used.user_s);
                self.gather.put("server.cpu.system", "", used.system_s);
                self.gather.put("server.processes", "", f64::from(used.n_processes));
                pids
            }
            Err(error) => {
                let event = Event::new(unix_ns(), EventKind::TelemetryLost, format!("server: {error:#}"));
                self.out.event(event.with("source", "host").with("pid", tree.pid()));
                self.tree = None;
                return;
            }
        };
        if !self.may_read_io {
            return;
        }
        match process::io_bytes(&pids) {
            Ok((read, write)) => {
                self.gather.put("server.read_bytes", "", read);
                self.gather.put("server.write_bytes", "", write);
            }
            Err(error) => {
                self.may_read_io = false;
                self.out.unavailable("server.read_bytes, server.write_bytes", format!("{error:#}"));
            }
        }
    }

    fn read_space(&mut self) {
        for role in &self.roles {
            let Ok(space) = Space::of(&role.path) else { continue };
            self.gather.put("disk.free_bytes", &role.name, space.free_bytes as f64);
            // Reported again only after the space had been well above the limit, so that it does not repeat around the
            // limit.
            let is_well = space.free_bytes / 10 * 9 > space.limit_bytes();
            if is_well {
                self.nearly_full.remove(&role.dev);
            } else if space.is_nearly_full() && self.nearly_full.insert(role.dev) {
                let text = format!(
                    "only {} MiB of disk space are free for `{}`",
                    space.free_bytes >> 20,
                    role.path.display()
                );
                let event = Event::new(unix_ns(), EventKind::DiskNearlyFull, text)
                    .with("free_bytes", space.free_bytes)
                    .with("total_bytes", space.total_bytes)
                    .with("role", &role.name)
                    .with("path", role.path.display());
                self.out.event(event);
            }
        }
    }
}

/// The event for a tick that ended late: no counter is lost, but the resolution of a second is.
pub(crate) fn late(end_unix_ns: u64, source: &str, late_ns: u64) -> Event {
    let late_s = late_ns as f64 / 1e9;
    let text = format!("the {source} reading was {late_s:.3} s late");
    Event::new(end_unix_ns, EventKind::TelemetryLost, text).with("source", source).with("late_s", late_s)
}
