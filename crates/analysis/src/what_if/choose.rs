//! Which change tests which limiter.

use model::experiment::case::{Case, Think, WorkloadKind};
use model::load::Pace;
use model::run::RunRecord;
use model::text::units::size_bytes;

use crate::summary::limiter::{Bottleneck, Limiter};
use crate::summary::proof::Kind;
use crate::summary::{Resources, RunSummary, Study};
use crate::what_if::WhatIf;

/// Most of the memory that a what-if gives to shared buffers, as a share.
const BUFFERS_SHARE_MAX: f64 = 0.4;
/// How much larger a setting becomes that is to be out of the way.
const LARGER: u64 = 8;
const MIB: u64 = 1 << 20;
/// Settings that are not changed on a server that pgdyno does not run, and why.
const OF_OUR_SERVERS: [(&str, &str); 4] = [
    ("shared_buffers", "would need a restart of a server that pgdyno does not run"),
    ("max_wal_size", "would need disk space of which nothing is known"),
    ("full_page_writes", FOR_COPIES),
    ("synchronous_commit", FOR_COPIES),
];
/// The reason for settings without which a crash may lose data.
const FOR_COPIES: &str = "is changed on a copy only, of a server that pgdyno runs";
/// Busy share of the processors from which on none is left.
const ALL_BUSY: f64 = 0.95;

/// A load whose limiter is to be tested.
#[derive(Debug, Clone, Copy)]
pub struct Circumstances<'a> {
    /// The case as it was measured.
    pub case: &'a Case,
    /// What is said to have limited it.
    pub limiter: &'a Limiter,
    /// A run of it that counts.
    pub record: &'a RunRecord,
    /// Resources of that run.
    pub resources: &'a Resources,
    /// Whether settings of a server by URL may be changed.
    pub allow_changes: bool,
}

/// The run of a case whose resources say most about its limiter: of those that count and have one, the first of the best grade.
pub fn telling_run(study: &Study, case: u32) -> Option<&RunSummary> {
    let tells = |run: &&RunSummary| run.case == case && run.counts() && run.limiter.is_some();
    study.runs.iter().filter(tells).min_by_key(|run| run.grade)
}

/// The changes that test what limited a load and what was second, most telling first, and for each of these two that nothing can
/// test here the reason.
pub fn what_ifs(of: Circumstances) -> (Vec<WhatIf>, Vec<(Bottleneck, String)>) {
    let names = std::iter::once(of.limiter.name).chain(of.limiter.runner_up.iter().map(|(name, _)| *name));
    let (mut all, mut untested): (Vec<WhatIf>, Vec<(Bottleneck, String)>) = (Vec::new(), Vec::new());
    for name in names {
        match of.what_if(name) {
            // One change may test both: then the first says it.
            Ok(what_if) if all.iter().any(|known| known.change == what_if.change) => {
                untested
                    .push((name, format!("{} tests {} already", what_if.change, of.limiter.name.as_str())));
            }
            Ok(what_if) => all.push(what_if),
            Err(reason) => untested.push((name, reason)),
        }
    }
    (all, untested)
}

impl Circumstances<'_> {
    fn what_if(&self, name: Bottleneck) -> Result<WhatIf, String> {
        let what_if = match name {
            Bottleneck::WalSync => {
                self.lifted("synchronous_commit", "off", "commits are durable a moment later")
            }
            // What a run begins with is a copy: a crash loses nothing.
            Bottleneck::WalVolume => {
                self.lifted("full_page_writes", "off", "a crash of this copy may tear pages")
            }
            Bottleneck::Checkpoint => self.fewer_checkpoints(),
            Bottleneck::DataRead | Bottleneck::DataWrite => self.more_buffers(),
            Bottleneck::Memory => self.more_work_mem(),
            Bottleneck::Autovacuum => self.lifted("autovacuum", "off", "dead rows are not removed"),
            Bottleneck::RowLock => self.more_rows(),
            Bottleneck::ServerCpu => self.fewer_processors(),
            Bottleneck::Scheduling => self.clients_of(self.n_clients() / 4, Kind::Lift),
            Bottleneck::ClientHeldLock | Bottleneck::Lwlock => {
                self.clients_of(self.n_clients() / 2, Kind::FewerClients)
            }
            Bottleneck::OfferedLoad if self.case.workload.pace.is_open() => self.without_rate(),
            Bottleneck::OfferedLoad | Bottleneck::Network => {
                self.clients_of(2 * self.n_clients(), Kind::Lift)
            }
            Bottleneck::Driver => self.more_threads(),
            Bottleneck::Quota => Err("raise the quota, and measure again".to_string()),
            Bottleneck::Steal => Err("nothing here can give back what the hypervisor took".to_string()),
            Bottleneck::ForeignCpu => Err("stop what else runs there, and measure again".to_string()),
            Bottleneck::Mixed => Err("its parts have limits of their own".to_string()),
            Bottleneck::Unknown => Err("nothing is near a limit".to_string()),
        }?;
        let predicted = what_if.predicted.or_else(|| self.most_gained(name, what_if.kind));
        Ok(WhatIf { limiter: name, predicted, ..what_if })
    }

    /// What lifting a limit gives at most: the rest of the clients' time remains, and processors are not used beyond all of them.
    fn most_gained(&self, name: Bottleneck, kind: Kind) -> Option<f64> {
        let charged = self.limiter.charged.filter(|_| kind == Kind::Lift && name == self.limiter.name)?;
        let of_processors = self.busy().map_or(f64::INFINITY, |busy| 1.0 / busy);
        let most = (1.0 / (1.0 - charged.min(0.99))).min(of_processors);
        (most > 1.0).then_some(most)
    }

    fn n_clients(&self) -> u32 {
        self.case.workload.n_clients
    }

    fn memory_bytes(&self) -> Option<u64> {
        self.record.server_host().map(|host| host.memory_bytes)
    }

    /// Busy share of the server's machine, if it was observed.
    fn busy(&self) -> Option<f64> {
        self.record.server_host()?;
        self.resources.host_busy.filter(|busy| *busy > 0.0)
    }

    fn setting(&self, name: &str) -> Option<&str> {
        Some(self.record.server.as_ref()?.settings.get(name)?.value.as_str())
    }

    /// Bytes of a setting, whose number alone would be pages.
    fn size(&self, name: &str) -> Option<u64> {
        size_bytes(self.setting(name)?, 8 << 10)
    }

    fn changed(&self, kind: Kind, change: String, side_effect: &'static str, case: Case) -> WhatIf {
        // `what_if` sets the limiter that it tests.
        WhatIf { limiter: self.limiter.name, kind, change, predicted: None, side_effect, case }
    }

    fn lifted(&self, name: &str, value: &str, side_effect: &'static str) -> Result<WhatIf, String> {
        let is_own = self.case.server.source.is_embedded();
        let refusal = OF_OUR_SERVERS.iter().find(|(refused, _)| !is_own && *refused == name);
        if let Some((_, reason)) = refusal {
            return Err(format!("{name} {reason}"));
        }
        if !is_own && !self.allow_changes {
            return Err(format!(
                "{name} is a setting of a server that pgdyno does not run; --allow-changes allows it"
            ));
        }
        if self.setting(name) == Some(value) {
            return Err(format!("{name} is {value} already"));
        }
        let mut case = self.case.clone();
        case.server.settings.insert(name.to_string(), value.to_string());
        Ok(self.changed(Kind::Lift, format!("{name}={value}"), side_effect, case))
    }

    fn fewer_checkpoints(&self) -> Result<WhatIf, String> {
        if !self.case.wal.is_as_is() {
            return Err("run.wal says which checkpoints it has".to_string());
        }
        let now = self.size("max_wal_size");
        let now = now.ok_or("max_wal_size is not known")?;
        let larger = format!("{}MB", (now * LARGER).max(1 << 30) / MIB);
        let mut what_if = self.lifted("max_wal_size", &larger, "recovery would take longer")?;
        // The time would request what the amount does not any more.
        what_if.case.server.settings.insert("checkpoint_timeout".to_string(), "1h".to_string());
        what_if.change.push_str(" checkpoint_timeout=1h");
        Ok(what_if)
    }

    fn more_buffers(&self) -> Result<WhatIf, String> {
        let now = self.size("shared_buffers");
        let (now, memory) =
            now.zip(self.memory_bytes()).ok_or("shared_buffers or the memory is not known")?;
        let data = self.record.server.as_ref().map_or(0, |server| server.database_bytes);
        let most = (memory as f64 * BUFFERS_SHARE_MAX) as u64;
        let wanted = (data + data / 4).max(LARGER * now).min(most);
        if wanted < now + now / 2 {
            return Err("shared_buffers have most of the memory that they can get".to_string());
        }
        self.lifted("shared_buffers", &format!("{}MB", wanted / MIB), "the kernel caches less")
    }

    fn more_work_mem(&self) -> Result<WhatIf, String> {
        let now = self.size("work_mem");
        let (now, memory) = now.zip(self.memory_bytes()).ok_or("work_mem or the memory is not known")?;
        let most = memory / 4 / u64::from(self.n_clients().max(1));
        let wanted = (now * LARGER * LARGER).min(most);
        if wanted < 2 * now {
            return Err("work_mem has most of the memory that it can get".to_string());
        }
        self.lifted("work_mem", &format!("{}kB", wanted / 1024), "memory that the kernel does not cache in")
    }

    fn more_rows(&self) -> Result<WhatIf, String> {
        let workload = &self.case.workload;
        if workload.kind == WorkloadKind::Scripts || !self.case.server.source.is_embedded() {
            return self.clients_of(self.n_clients() / 2, Kind::FewerClients);
        }
        let mut case = self.case.clone();
        case.workload.scale =
            (workload.scale * LARGER as u32 / 2).max(2 * self.n_clients()).min(20 * workload.scale);
        let change = format!("scale={}", case.workload.scale);
        Ok(self.changed(Kind::Lift, change, "more data to cache", case))
    }

    fn fewer_processors(&self) -> Result<WhatIf, String> {
        if !self.case.server.source.is_embedded() {
            return Err("the processors of a server that pgdyno does not run are not its to take".to_string());
        }
        let known = self.resources.n_cpus.zip(self.resources.server_cpu);
        let (n_cpus, used) = known.ok_or("the processor time of the server is not known")?;
        let n = n_cpus / 2;
        let is_bound = self.case.os.contains_key("numa") || self.case.os.contains_key("processors");
        // Those that the server leaves to others are not missed.
        if n == 0 || is_bound || used <= 1.05 * f64::from(n) {
            return Err(format!(
                "the server used {used:.1} of {n_cpus} processors, and half of them would do"
            ));
        }
        // Fewer processors than it used cost throughput of any load: they say something only where none is left.
        if self.busy().is_none_or(|busy| busy < ALL_BUSY) {
            return Err("the processors had room".to_string());
        }
        let mut case = self.case.clone();
        case.os.insert("processors".to_string(), n.to_string());
        let what_if =
            self.changed(Kind::Brake, format!("processors={n}"), "the driver has more of the others", case);
        Ok(WhatIf { predicted: Some(f64::from(n) / used), ..what_if })
    }

    fn clients_of(&self, n: u32, kind: Kind) -> Result<WhatIf, String> {
        let is_spec = self.case.workload.tpcc.is_some_and(|tpcc| tpcc.think == Think::Spec);
        if is_spec {
            return Err("the specification says how many terminals a warehouse has".to_string());
        }
        if n == 0 {
            return Err("one client cannot become fewer".to_string());
        }
        let mut case = self.case.clone();
        case.workload.n_clients = n;
        case.workload.n_threads = case.workload.n_threads.min(n);
        let what_if = self.changed(kind, format!("clients={n}"), "", case);
        let predicted = match kind {
            Kind::FewerClients => Some(1.0),
            Kind::Lift if n > self.n_clients() => {
                let of_processors = self.busy().map_or(2.0, |busy| 1.0 / busy);
                Some(of_processors.clamp(1.0, f64::from(n) / f64::from(self.n_clients())))
            }
            Kind::Lift | Kind::Brake => None,
        };
        Ok(WhatIf { predicted, ..what_if })
    }

    fn without_rate(&self) -> Result<WhatIf, String> {
        let mut case = self.case.clone();
        case.workload.pace = Pace::Closed;
        Ok(self.changed(
            Kind::Lift,
            "pace=closed".to_string(),
            "latency excludes the wait for a due time",
            case,
        ))
    }

    fn more_threads(&self) -> Result<WhatIf, String> {
        let workload = &self.case.workload;
        let n_cpus =
            self.record.driver_host.as_ref().or(self.record.host.as_ref()).map_or(1, |host| host.n_cpus);
        let n = (2 * workload.n_threads).min(n_cpus).min(workload.n_clients);
        if n <= workload.n_threads || !workload.drivers.is_empty() {
            return Err(
                "the driver has a thread for each processor or client; add a driver on another machine"
                    .to_string(),
            );
        }
        let mut case = self.case.clone();
        case.workload.n_threads = n;
        Ok(self.changed(
            Kind::Lift,
            format!("threads={n}"),
            "the server has fewer processors to itself",
            case,
        ))
    }
}
