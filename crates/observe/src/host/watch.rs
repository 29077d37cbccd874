//! The thread that observes the machine and the server's processes on it: one tick of source `Host` per second.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use model::telemetry::event::{Event, EventKind};
use model::telemetry::reading::{Tick, TickSource};
use model::text::prose::bytes;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

use crate::gather::{Backwards, Gather};
use crate::host::backends::BackendTimes;
use crate::host::cgroup::PartyGroups;
use crate::host::counters::ProcessCounters;
use crate::host::device::{self, Space};
use crate::host::network::Network;
use crate::host::process::affinity;
use crate::host::process::standbys::StandbyProcesses;
use crate::host::process::strangers::Strangers;
use crate::host::process::{self, IoBytes, Process, ProcessTree, RunDelays};
use crate::host::provisioned::Provisioned;
use crate::host::system::Frequencies;
use crate::host::{disk, resctrl, system};
use crate::schedule::{LATE_NS, ObserverControl, unix_ns};
use crate::sink::Out;

pub(crate) struct HostWatch {
    gather: Gather,
    out: Out,
    roles: Vec<Role>,
    devices: Vec<String>,
    /// Device numbers of the file systems that were reported as nearly full.
    nearly_full: BTreeSet<u64>,
    tree: Option<ProcessTree>,
    /// The pooler or proxy that the load goes through, by its processes.
    pooler: Vec<ProcessTree>,
    standbys: StandbyProcesses,
    strangers: Strangers,
    times: BackendTimes,
    run_delays: RunDelays,
    io_bytes: IoBytes,
    counters: Option<ProcessCounters>,
    /// Whether memory bandwidth is read: only with counters, and until it turns out not to be there.
    has_bandwidth: bool,
    network: Network,
    provisioned: Provisioned,
    /// `None` once they turn out not to be there, or to take too long.
    frequencies: Option<Frequencies>,
    server_groups: PartyGroups,
    driver_groups: PartyGroups,
    /// Both clocks at the beginning.
    began: Option<BothClocks>,
    /// The pid that the caller set last, whether that process runs or not.
    server_pid: Option<i32>,
    may_read_io: bool,
    driver_pid: Option<i32>,
}

/// The end of a tick.
#[derive(Debug, Clone, Copy)]
struct Moment {
    at: Instant,
    unix_ns: u64,
}

struct Role {
    name: String,
    path: PathBuf,
    dev: u64,
}

impl HostWatch {
    /// Will observe the devices below `dirs` (by role), or all disks if there are none and it `may_observe_all`, and the
    /// processes that `control` will name.
    pub(crate) fn new(dirs: &BTreeMap<String, PathBuf>, may_observe_all: bool, out: Out) -> HostWatch {
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
        if devices.is_empty() && may_observe_all {
            devices = device::disks(Path::new("/sys"));
        }
        devices.sort();
        devices.dedup();
        let provisioned = Provisioned::find(&devices, |what, reason| out.unavailable(what, reason));
        HostWatch {
            gather: Gather::new(Backwards::Jitter),
            out,
            roles,
            devices,
            nearly_full: BTreeSet::new(),
            tree: None,
            pooler: Vec::new(),
            standbys: StandbyProcesses::default(),
            strangers: Strangers::default(),
            times: BackendTimes::default(),
            run_delays: RunDelays::default(),
            io_bytes: IoBytes::default(),
            counters: None,
            has_bandwidth: false,
            network: Network::new(Path::new("/sys")),
            provisioned,
            frequencies: Some(Frequencies::new(Path::new("/sys"))),
            server_groups: PartyGroups::new("server"),
            driver_groups: PartyGroups::new("driver"),
            began: None,
            server_pid: None,
            may_read_io: true,
            driver_pid: None,
        }
    }

    /// Reads these counters, too.
    pub(crate) fn with_counters(mut self, counters: Option<ProcessCounters>) -> HostWatch {
        for (what, reason) in counters.iter().flat_map(ProcessCounters::missing) {
            self.out.unavailable(what, reason.clone());
        }
        self.has_bandwidth = counters.is_some();
        HostWatch { counters, ..self }
    }

    /// Reads the processor time of these processes, too, which are between the driver and the server.
    pub(crate) fn with_pooler(self, pids: &[i32]) -> HostWatch {
        HostWatch { pooler: pids.iter().filter_map(|pid| ProcessTree::new(*pid).ok()).collect(), ..self }
    }

    /// Reads the processor time of the processes of standbys, too, which belong to the server.
    pub(crate) fn with_standbys(self, standbys: StandbyProcesses) -> HostWatch {
        HostWatch { standbys, ..self }
    }

    /// Observes until it is stopped, and then once more.
    pub(crate) fn run(mut self, control: &ObserverControl, tick_ns: u64) {
        let mut last = self.read(control).at;
        self.gather.take();
        loop {
            let (meant_ns, stop) = control.sleep_tick(tick_ns);
            let Moment { at, unix_ns: end_unix_ns } = self.read(control);
            let (values, _) = self.gather.take();
            let length_ns = u64::try_from((at - last).as_nanos()).unwrap_or(u64::MAX);
            last = at;
            self.out.tick(Tick { source: TickSource::Host, end_unix_ns, length_ns, values: values.into() });
            if stop {
                return;
            }
            let late_ns = end_unix_ns.saturating_sub(meant_ns);
            if late_ns > LATE_NS {
                self.out.event(late(end_unix_ns, "host", late_ns));
            }
        }
    }

    /// Reads everything, and returns when the tick ended: when it was read who had used the processors, machine, server and pgdyno
    /// one right after the other, because what is foreign is what remains. What may take long comes last.
    fn read(&mut self, control: &ObserverControl) -> Moment {
        self.follow_wishes(control);
        let out = self.out.clone();
        system::read(&mut self.gather, |what, reason| out.unavailable(what, reason));
        let processes = self.read_server();
        let of_pooler = self.read_pooler();
        let of_standbys = self.standbys.read(&mut self.gather);
        if let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) {
            let us = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
            self.gather.put("pgdyno.cpu", "", us as f64 / 1e6);
        }
        let end = Moment { at: Instant::now(), unix_ns: unix_ns() };
        if let Err(error) = disk::read(&mut self.gather, &self.devices) {
            self.out.unavailable("disk", format!("{error:#}"));
        }
        if let Err(error) = self.network.read(&mut self.gather) {
            self.out.unavailable("net", format!("{error:#}"));
        }
        self.read_counters();
        if let Some(processes) = &processes {
            self.read_processes(control, processes);
        }
        let known = processes.iter().flatten().chain(&of_pooler).chain(&of_standbys);
        self.read_strangers(known.map(|process| process.pid));
        if let Some(delay_s) = self.driver_pid.and_then(process::run_delay_s) {
            self.gather.put("driver.run_delay", "", delay_s);
        }
        self.driver_groups.read(&mut self.gather, self.driver_pid.into_iter());
        self.read_affinities(control, processes.as_deref(), &of_pooler);
        let now = BothClocks::read();
        let began = *self.began.get_or_insert(now);
        self.gather.put("host.clock_offset", "", now.wall_gained_s(began));
        self.read_space();
        self.provisioned.read(&mut self.gather, |what, reason| out.unavailable(what, reason));
        if let Some(frequencies) = &mut self.frequencies
            && let Err(error) = frequencies.read(&mut self.gather)
        {
            self.frequencies = None;
            self.out.unavailable("host.cpu.frequency", format!("{error:#}"));
        }
        end
    }

    fn follow_wishes(&mut self, control: &ObserverControl) {
        let wishes = control.get();
        if self.server_pid != wishes.server_pid {
            self.server_pid = wishes.server_pid;
            self.follow_server();
        }
        if self.driver_pid != wishes.driver_pid {
            self.driver_pid = wishes.driver_pid;
            self.gather.forget("driver.run_delay");
        }
    }

    fn follow_server(&mut self) {
        const METRICS: [&str; 7] = [
            "server.cpu.user",
            "server.cpu.system",
            "server.cpu.load",
            "server.cpu.foreign",
            "server.run_delay",
            "server.read_bytes",
            "server.write_bytes",
        ];
        METRICS.iter().for_each(|metric| self.gather.forget(metric));
        self.times = BackendTimes::default();
        self.run_delays = RunDelays::default();
        self.io_bytes = IoBytes::default();
        self.may_read_io = true;
        self.tree = None;
        match self.server_pid.map(ProcessTree::new) {
            Some(Ok(tree)) => self.tree = Some(tree),
            Some(Err(error)) => self.out.unavailable("server.cpu", format!("{error:#}")),
            None => {}
        }
    }

    /// The processor time of the server; returns its processes.
    fn read_server(&mut self) -> Option<Vec<Process>> {
        let tree = self.tree.as_mut()?;
        match tree.used() {
            Ok((used, processes)) => {
                self.gather.put("server.cpu.user", "", used.user_s);
                self.gather.put("server.cpu.system", "", used.system_s);
                self.gather.put("server.processes", "", f64::from(used.n_processes));
                Some(processes)
            }
            Err(error) => {
                let event = Event::new(unix_ns(), EventKind::TelemetryLost, format!("server: {error:#}"));
                self.out.event(event.with("source", "host").with("pid", tree.pid()));
                self.tree = None;
                None
            }
        }
    }

    /// The processor time of a pooler; returns its processes. Of one that ends, nothing more is read.
    fn read_pooler(&mut self) -> Vec<Process> {
        let (mut user_s, mut system_s, mut all) = (0.0, 0.0, Vec::new());
        for tree in &mut self.pooler {
            let Ok((used, processes)) = tree.used() else {
                self.pooler.clear();
                return Vec::new();
            };
            (user_s, system_s) = (user_s + used.user_s, system_s + used.system_s);
            all.extend(processes);
        }
        if !self.pooler.is_empty() {
            self.gather.put("pooler.cpu.user", "", user_s);
            self.gather.put("pooler.cpu.system", "", system_s);
        }
        all
    }

    /// Names who else uses the processors.
    fn read_strangers(&mut self, of_servers: impl Iterator<Item = i32>) {
        let own = i32::try_from(std::process::id()).ok();
        let ours: HashSet<i32> = of_servers.chain(own).chain(self.driver_pid).collect();
        for (name, s) in self.strangers.read(&ours) {
            self.gather.put_increase("host.process_cpu", &name, s);
        }
    }

    /// Which processors each party may use: of the server, the load's backends, if they are known.
    fn read_affinities(
        &mut self,
        control: &ObserverControl,
        of_server: Option<&[Process]>,
        of_pooler: &[Process],
    ) {
        if let Some(processes) = of_server {
            let backends = control.backends();
            let load = &backends.load;
            let all = || processes.iter().map(|process| process.pid);
            if all().any(|pid| load.contains(&pid)) {
                affinity::read(&mut self.gather, "server", all().filter(|pid| load.contains(pid)), None);
            } else {
                affinity::read(&mut self.gather, "server", all(), None);
            }
        }
        if let Some(pid) = self.driver_pid {
            affinity::read(&mut self.gather, "driver", affinity::threads(pid), None);
        }
        let threads: Vec<i32> = of_pooler.iter().flat_map(|process| affinity::threads(process.pid)).collect();
        affinity::read(&mut self.gather, "pooler", threads.iter().copied(), Some(threads.len()));
    }

    /// What is known of the server's processes besides.
    fn read_processes(&mut self, control: &ObserverControl, processes: &[Process]) {
        self.read_backends(control, processes);
        self.server_groups.read(&mut self.gather, processes.iter().map(|process| process.pid));
        match self.run_delays.read(processes) {
            Some(delay_s) => self.gather.put("server.run_delay", "", delay_s),
            None => self.out.unavailable("server.run_delay", "the kernel has no schedstat".to_string()),
        }
        let mut states: BTreeMap<char, u32> = BTreeMap::new();
        processes.iter().for_each(|process| *states.entry(process.state).or_default() += 1);
        states
            .iter()
            .for_each(|(state, n)| self.gather.put("server.states", &state.to_string(), f64::from(*n)));
        if !self.may_read_io {
            return;
        }
        match self.io_bytes.read(processes) {
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

    /// Counters of the server that is observed; those of an earlier one count nothing any more.
    fn read_counters(&mut self) {
        if let Some(counters) = &mut self.counters
            && self.server_pid == Some(counters.postmaster_pid())
        {
            counters.read(&mut self.gather);
        }
        if self.has_bandwidth
            && let Err(reason) = resctrl::read(&mut self.gather, Path::new(resctrl::ROOT))
        {
            self.has_bandwidth = false;
            self.out.unavailable("counters.memory_bytes", reason);
        }
    }

    fn read_backends(&mut self, control: &ObserverControl, processes: &[Process]) {
        let backends = control.backends();
        if backends.load.is_empty() {
            return;
        }
        self.times.read(processes, &backends);
        drop(backends);
        self.gather.put("server.cpu.load", "", self.times.load_s);
        self.gather.put("server.cpu.foreign", "", self.times.foreign_s);
    }

    fn read_space(&mut self) {
        for role in &self.roles {
            let Ok(space) = Space::read(&role.path) else { continue };
            self.gather.put("disk.free_bytes", &role.name, space.free_bytes as f64);
            // Reported again only after the space had been well above the limit, so that it does not repeat around the
            // limit.
            let is_well = space.free_bytes / 10 * 9 > space.limit_bytes();
            if is_well {
                self.nearly_full.remove(&role.dev);
            } else if space.is_nearly_full() && self.nearly_full.insert(role.dev) {
                let text = format!(
                    "only {} of disk space are free for `{}`",
                    bytes(space.free_bytes as f64),
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

/// The same moment on the monotonic and on the wall clock. Both follow corrections of the rate, but only the wall clock
/// can be set.
#[derive(Debug, Clone, Copy)]
struct BothClocks {
    at: Instant,
    since_epoch: Duration,
}

impl BothClocks {
    /// Reads both clocks three times and keeps the closest readings: a thread may be interrupted between two of them.
    fn read() -> BothClocks {
        let readings = [(); 3].map(|()| {
            let at = Instant::now();
            let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            (at.elapsed(), BothClocks { at, since_epoch })
        });
        readings.into_iter().min_by_key(|(took, _)| *took).expect("there are three").1
    }

    /// How much further the wall clock has moved than the monotonic one since `began`, seconds.
    fn wall_gained_s(self, began: BothClocks) -> f64 {
        let wall_s = self.since_epoch.as_secs_f64() - began.since_epoch.as_secs_f64();
        wall_s - (self.at - began.at).as_secs_f64()
    }
}

/// The event for a tick that ended late: no counter is lost, but the resolution of a second is.
pub(crate) fn late(end_unix_ns: u64, source: &str, late_ns: u64) -> Event {
    let late_s = late_ns as f64 / 1e9;
    let text = format!("the {source} reading was {late_s:.3} s late");
    Event::new(end_unix_ns, EventKind::TelemetryLost, text).with("source", source).with("late_s", late_s)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    use std::process::Command;
    use std::thread;

    use nix::fcntl::OFlag;

    use super::*;
    use crate::schedule::Wishes;

    #[test]
    fn a_tick_ends_before_what_takes_long_is_read() {
        let sys = tempfile::tempdir().unwrap();
        let cpus = sys.path().join("devices/system/cpu");
        fs::create_dir_all(cpus.join("cpu0/cpufreq")).unwrap();
        fs::write(cpus.join("online"), "0\n").unwrap();
        let slow = cpus.join("cpu0/cpufreq/scaling_cur_freq");
        assert!(Command::new("mkfifo").arg(&slow).status().unwrap().success());
        let mut watch = HostWatch::new(&BTreeMap::new(), false, Out::new(Box::new(|_| {})));
        watch.frequencies = Some(Frequencies::new(sys.path()));
        let writer = thread::spawn(move || {
            // This fails until somebody reads.
            let open = || OpenOptions::new().write(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(&slow);
            let mut file = loop {
                match open() {
                    Ok(file) => break file,
                    Err(_) => thread::sleep(Duration::from_millis(1)),
                }
            };
            let asked = Instant::now();
            file.write_all(b"2000000\n").unwrap();
            asked
        });
        let control = ObserverControl::new(Wishes::default(), model::telemetry::watch::Backends::default());
        let end = watch.read(&control);
        assert!(end.at < writer.join().unwrap(), "the tick ends before");
        assert_eq!(watch.gather.take().0.get("host.cpu.frequency[cpu0]"), Some(&2e9));
    }
}
