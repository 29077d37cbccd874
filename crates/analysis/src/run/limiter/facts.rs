//! The measurement in the figures that attribution judges.

use std::collections::BTreeMap;

use model::telemetry::reading::{key, split_key};
use model::telemetry::wait::{self, WaitStage};

use crate::run::limiter::candidates::{AT_LIMIT, UNSEEN_MIN};
use crate::run::limiter::holders;
use crate::run::limiter::room::{self, Limited, Room};
use crate::run::limiter::standby::StandbyStages;
use crate::run::limiter::utilisation::ResourceUse;
use crate::run::resources::{busiest_thread, busy_threads};
use crate::run::timeline::Placed;
use crate::run::usage::Usage;
use crate::summary::ResourceUsage;
use crate::summary::limiter::Bottleneck;

/// Samples that a judgement needs: the standard error of an occupancy of 0.8 is 0.10 with 15, and 0.07 with 30. A machine
/// with far more sessions than processors gives the observer few.
pub(super) const SAMPLES_MIN: f64 = 15.0;
/// Part of the time that the seconds with samples must cover.
pub(super) const COVERED_MIN: f64 = 0.5;
/// Samples that a judgement needs to be sure.
const SAMPLES_SURE: f64 = 30.0;
/// Part of the load's clients whose sessions a judgement needs to see.
const SEEN_MIN: f64 = 0.8;
/// Part of the time from which on a driver at work may be what sessions queue for: our convention.
const AT_WORK_MIN: f64 = 0.5;
/// Bytes of a page; an image in WAL leaves out the hole of a page, and may be compressed.
const PAGE_BYTES: f64 = 8192.0;

/// The measurement in figures, or a part of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct MeasurementFacts {
    /// Whether there are samples enough to be sure.
    pub(crate) is_sure: bool,
    /// Client sessions, by what they do: mean number over the samples.
    pub(crate) sessions: Vec<(String, f64)>,
    /// Client sessions of which this role sees only that they are there.
    pub(crate) hidden: f64,
    /// Autovacuum workers, likewise.
    pub(crate) vacuums: Vec<(String, f64)>,
    /// Share of instants with anyone in each stage. It lacks stages that nobody could be seen in.
    pub(crate) occupancy: Vec<(WaitStage, f64)>,
    /// Shares of what roots of lock queues do.
    pub(crate) roots: Vec<(String, f64)>,
    /// Part of the waits for locks in which sessions wait for each other, so that there is no root.
    pub(crate) circles: f64,
    /// Shares of the locks and of the owners of roots: `transactionid/load`.
    pub(crate) holders: Vec<(String, f64)>,
    /// Deadlocks that the server ended, and after which time it looks for one.
    pub(crate) deadlocks_per_s: f64,
    pub(crate) deadlock_timeout_s: f64,
    /// Busy share of the processors that the server may use, if its machine was observed.
    pub(crate) cpu: Option<f64>,
    /// The number of those processors.
    pub(crate) n_cpus: Option<f64>,
    /// Whether they are fewer than all of its machine.
    pub(crate) is_bound: bool,
    /// Whether the driver may use none of them.
    pub(crate) is_apart: bool,
    /// What server and, if it is in the same group, driver used of the server's quota.
    pub(crate) quota: Option<Limited>,
    /// Whether the driver is in the group of that quota.
    pub(crate) is_quota_shared: bool,
    /// What the driver used of what it may use, if that is less than its machine.
    pub(crate) driver_room: Option<Limited>,
    /// What a pooler used of what it can use.
    pub(crate) pooler: Option<Limited>,
    /// The queue of the pooler that pgdyno ran, as its console shows it.
    pub(crate) queue: Option<PoolerQueue>,
    /// Processors that the server used.
    pub(crate) server_cpu: Option<f64>,
    /// Processors that the server's processes waited for, on average.
    pub(crate) server_delay: Option<f64>,
    /// Share of the processors that the server may use which neither server nor driver used, though they were busy.
    pub(crate) foreign: Option<f64>,
    /// Busy share of the driver's busiest thread.
    pub(crate) driver: Option<f64>,
    /// Share of its time that a thread of the driver waited for a processor, on average.
    pub(crate) driver_delay: Option<f64>,
    /// Threads of the driver that worked or waited for a processor, on average.
    pub(crate) driver_threads: f64,
    /// Transactions per second.
    pub(crate) tps: Option<f64>,
    /// Mean time that one is under way, seconds.
    pub(crate) service_s: Option<f64>,
    /// Of a load whose transactions each connect: how long they take to do so.
    pub(crate) connecting: Option<ConnectTime>,
    /// Whether clients pause on purpose: `\sleep`, think time.
    pub(crate) has_pauses: bool,
    /// Checkpoints that the amount of WAL requested, per minute of the whole measurement.
    pub(crate) checkpoints_per_min: f64,
    /// Part of WAL that is full pages, at most.
    pub(crate) full_pages: Option<f64>,
    /// Share of processor time taken by the hypervisor.
    pub(crate) steal: Option<f64>,
    /// Whether a quota stopped the server's processes.
    pub(crate) is_throttled: bool,
    /// Share of a quota's periods in which it stopped the server's processes.
    pub(crate) throttled: Option<f64>,
    /// Whether transactions were due at times of their own, and nearly all of them were sent.
    pub(crate) met_its_rate: bool,
    /// Whether driver and server are on one machine.
    pub(crate) is_local: bool,
    /// Sessions of the load.
    pub(crate) n_clients: f64,
    /// The stages of the standby that commits wait for.
    pub(crate) standby: Option<StandbyStages>,
    /// Devices and the network against their ceilings.
    pub(crate) used: Vec<ResourceUse>,
}

/// Clients and connections of a pooler, on average.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PoolerQueue {
    /// Clients that wait for a connection.
    pub(crate) waiting: f64,
    /// Connections to the server that a client has.
    pub(crate) active: f64,
    /// Connections to the server.
    pub(crate) n_connections: f64,
}

/// Properties of the load that a judgement needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Conditions {
    pub(crate) n_clients: u32,
    /// Whether transactions were due at times of their own, and ended as fast as they were due.
    pub(crate) met_its_rate: bool,
    /// Whether driver and server are on one machine.
    pub(crate) is_local: bool,
    /// Whether clients pause on purpose.
    pub(crate) has_pauses: bool,
    /// Transactions per second that the driver saw committed. Sessions report theirs up to a second late, and those that touch no table
    /// later still.
    pub(crate) tps: Option<f64>,
    /// Mean time that one was under way, seconds.
    pub(crate) service_s: Option<f64>,
    /// Of a load whose transactions each connect: how long they take to do so.
    pub(crate) connecting: Option<ConnectTime>,
}

/// How long transactions take to connect first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ConnectTime {
    /// Mean, seconds.
    pub(crate) connect_s: f64,
    /// Of the whole, seconds.
    pub(crate) latency_s: f64,
}

impl ConnectTime {
    /// Whether it is most of a transaction.
    pub(super) fn is_most(self) -> bool {
        self.connect_s > 0.5 * self.latency_s
    }
}

impl MeasurementFacts {
    /// The facts of a span; `None` with too few samples.
    pub(crate) fn from_usage(usage: &Usage, from_s: f64, to_s: f64) -> Option<MeasurementFacts> {
        let within = |placed: &&Placed| placed.share_within(from_s, to_s) > 0.5;
        let (mut n, mut n_roots, mut n_circles, mut n_holders, mut covered_s) = (0.0, 0.0, 0.0, 0.0, 0.0);
        let mut sums: BTreeMap<(&str, &str), f64> = BTreeMap::new();
        for placed in usage.with_metric("waits.samples").filter(within) {
            n += placed.tick.values.get("waits.samples").unwrap_or(0.0);
            covered_s += placed.length_s();
            for (key, value) in placed.tick.values.starting_with("waits.") {
                let (metric, Some(instance)) = split_key(key) else { continue };
                // A root that had gone when it was looked up says nothing.
                if metric == "waits.roots" && holders::is_no_root(instance) {
                    n_circles += if instance == wait::CYCLE { *value } else { 0.0 };
                    continue;
                }
                *sums.entry((metric, instance)).or_default() += value;
                n_roots += if metric == "waits.roots" { *value } else { 0.0 };
                n_holders += if metric == "waits.holders" { *value } else { 0.0 };
            }
        }
        if n < SAMPLES_MIN || covered_s < COVERED_MIN * (to_s - from_s) {
            return None;
        }
        let of = |metric: &'static str| sums.iter().filter(move |((m, _), _)| *m == metric);
        let processes = |class: &'static str| -> Vec<(String, f64)> {
            of("waits.processes")
                .filter_map(move |((_, instance), sum)| {
                    Some((instance.strip_prefix(class)?.strip_prefix('/')?.to_string(), sum / n))
                })
                .collect()
        };
        let (hidden, sessions): (Vec<_>, Vec<_>) =
            processes("client").into_iter().partition(|(what, _)| what == wait::HIDDEN);
        let occupied = |stage: WaitStage| Some((stage, sums.get(&("waits.stages", stage.as_str()))? / n));
        let occupancy: Vec<(WaitStage, f64)> = WaitStage::ALL.into_iter().filter_map(occupied).collect();
        Some(MeasurementFacts {
            is_sure: n >= SAMPLES_SURE,
            sessions,
            hidden: hidden.first().map_or(0.0, |(_, n)| *n),
            vacuums: processes("autovacuum worker"),
            occupancy,
            roots: of("waits.roots").map(|((_, what), sum)| (what.to_string(), sum / n_roots)).collect(),
            circles: if n_circles > 0.0 { n_circles / (n_circles + n_roots) } else { 0.0 },
            holders: of("waits.holders")
                .map(|((_, what), sum)| (what.to_string(), sum / n_holders))
                .collect(),
            ..MeasurementFacts::default()
        })
    }

    /// Adds what is known of machines and of the load; of processors and the driver's threads, over the same span.
    pub(super) fn with(
        self,
        usage: &Usage,
        from_s: f64,
        to_s: f64,
        resources: &ResourceUsage,
        conditions: &Conditions,
    ) -> MeasurementFacts {
        let span = (from_s, to_s);
        let remote = resources.remote.as_ref().and_then(|remote| remote.busy);
        let split = usage.cpu(from_s, to_s).filter(|split| split.server.is_some());
        let n_machine = resources.n_cpus.filter(|n| *n > 0).map(f64::from);
        let [server, driver, pooler] =
            ["server", "driver", "pooler"].map(|party| Room::from_usage(usage, party, span));
        let (server_cpu, driver_cpu) = (split.and_then(|split| split.server), resources.driver_cpu);
        // What a bound server cannot use is nothing to it.
        let in_use = if split.is_some() { room::use_of(usage, &server.cpus, span) } else { None };
        let bound = server.n_bound().zip(in_use);
        let n_of_driver = if conditions.is_local { n_machine } else { None };
        let n_cpus = bound.map(|(n, _)| n).or(n_machine);
        let is_apart = bound.is_some() && !server.overlaps(&driver);
        let share = |processors: Option<f64>| Some((processors? / n_cpus?).clamp(0.0, 1.0));
        let throttled = throttled(usage, from_s, to_s);
        let apart = Room::default();
        // Groups of two machines are never one, whatever their paths.
        let [near_server, near_driver] =
            if conditions.is_local { [&driver, &server] } else { [&apart, &apart] };
        let quota = server.of_quota(server_cpu, near_server, driver_cpu);
        let foreign = split.and_then(|split| match bound {
            // Of what is not bound to these processors, all may have been there.
            Some((_, (busy, _))) => {
                let by_driver = if is_apart { 0.0 } else { split.driver.unwrap_or(0.0) };
                let others =
                    by_driver + split.pgdyno + split.pooler.unwrap_or(0.0) + split.standbys.unwrap_or(0.0);
                split.foreign.map(|_| (busy - split.server.unwrap_or(0.0) - others).max(0.0))
            }
            None => split.foreign,
        });
        MeasurementFacts {
            n_cpus,
            is_bound: bound.is_some(),
            is_apart,
            cpu: share(bound.map(|(_, (busy, _))| busy).or(split.map(|split| split.busy))).or(remote),
            quota: quota.map(|(limited, _)| limited),
            is_quota_shared: quota.is_some_and(|(_, is_shared)| is_shared),
            driver_room: driver.own(driver_cpu, near_driver, n_of_driver),
            queue: queue(usage, span),
            pooler: pooler.own(split.and_then(|split| split.pooler), &server, None),
            deadlocks_per_s: usage.rate("database.deadlocks", from_s, to_s).unwrap_or(0.0),
            server_cpu,
            server_delay: server_delay(usage, from_s, to_s),
            foreign: share(foreign),
            driver: busiest_thread(usage, from_s, to_s),
            driver_delay: driver_delay(usage, from_s, to_s),
            driver_threads: driver_threads(usage, from_s, to_s),
            tps: conditions.tps,
            service_s: conditions.service_s,
            connecting: conditions.connecting,
            has_pauses: conditions.has_pauses,
            steal: share(bound.map(|(_, (_, steal))| steal).or(split.map(|split| split.steal))),
            is_throttled: throttled.is_some_and(|share| share > 0.5),
            throttled,
            met_its_rate: conditions.met_its_rate,
            is_local: conditions.is_local,
            n_clients: f64::from(conditions.n_clients),
            ..self
        }
    }

    /// Counts the commits that pause before they flush as what they are, which few versions show. One at a time pauses, and holds
    /// WAL's lock meanwhile. Where the kernel was not looked at, it seems to run, beyond what the processors did.
    pub(super) fn with_commit_delay(mut self) -> MeasurementFacts {
        let seen = self.sessions_where(|what| what == wait::CPU);
        let hidden = self.ran_or_could().map_or(0.0, |ran| (seen - ran).clamp(0.0, 1.0));
        let known = self.sessions_where(|what| what == wait::KERNEL_SLEEP);
        let (from, n) = if known > 0.0 { (wait::KERNEL_SLEEP, known) } else { (wait::CPU, hidden) };
        let part = if known > 0.0 { 1.0 } else { hidden / seen.max(f64::MIN_POSITIVE) };
        move_part(&mut self.sessions, from, part);
        move_part(&mut self.roots, from, part);
        match self.occupancy.iter_mut().find(|(stage, _)| *stage == WaitStage::WalFlush) {
            Some((_, share)) => *share = share.max(n.min(1.0)),
            None => self.occupancy.push((WaitStage::WalFlush, n.min(1.0))),
        }
        self
    }

    /// Whether too few of the load's own sessions show what they do: where there are hidden sessions, fewer than four
    /// fifths of its clients are among those that are seen. Sessions that begin show nothing yet.
    pub(super) fn is_load_hidden(&self) -> bool {
        self.connecting.is_none()
            && self.hidden > 0.0
            && self.sessions_where(|_| true) < SEEN_MIN * self.n_clients
    }

    /// Autovacuum workers at what is meant.
    pub(super) fn vacuums_where(&self, is_meant: impl Fn(&str) -> bool) -> f64 {
        self.vacuums.iter().filter(|(what, _)| is_meant(what)).fold(0.0, |sum, (_, n)| sum + n)
    }

    /// Sessions whose statement, or whose answer, is between the server and the driver: neither is at work on it. A thread works on
    /// one session at a time.
    pub(super) fn on_the_way(&self) -> f64 {
        (self.waiting() - self.driver_threads).max(0.0)
    }

    /// Sessions of the load that wait for their client. Others at the server may be idle as well.
    pub(super) fn waiting(&self) -> f64 {
        let idle = self.sessions_where(is_left_to_client);
        ((self.n_clients - self.working()).min(idle) - self.not_yet_awake()).max(0.0)
    }

    /// Sessions that have a statement to begin and no processor yet: until they get one, pg_stat_activity shows them as waiting for their
    /// client. As many as the kernel counted of the server beyond those that are seen at work, if not more than are idle.
    pub(super) fn not_yet_awake(&self) -> f64 {
        let seen = self.sessions_where(|what| what == wait::CPU);
        let idle = self.sessions_where(is_left_to_client).min(self.n_clients);
        let beyond = self.ran_or_could().map_or(0.0, |counted| counted - seen);
        beyond.min(idle).max(0.0)
    }

    /// The part of the clients that processors could serve: their sessions run or wait to run, or they wait for a driver on the same
    /// machine.
    pub(super) fn wants_cpu(&self) -> f64 {
        let at_driver = if self.is_local && !self.is_apart { self.waiting().min(self.served()) } else { 0.0 };
        let n = self.runnable() + at_driver;
        if self.n_clients > 0.0 { n / self.n_clients } else { 0.0 }
    }

    /// How many of the sessions that wait for their client its threads may be behind: all, where a thread is at work or could be at half of the
    /// time. Otherwise the clients pause, or are on the way, except for those that it works for.
    fn served(&self) -> f64 {
        let busiest = self.driver.map(|busy| busy + self.driver_delay.unwrap_or(0.0));
        let at_work = busiest.unwrap_or(0.0).max(self.driver_threads);
        let is_behind = busiest.is_none() || at_work >= AT_WORK_MIN;
        if is_behind && !self.has_pauses { f64::INFINITY } else { at_work }
    }

    pub(super) fn sessions_where(&self, is_meant: impl Fn(&str) -> bool) -> f64 {
        self.sessions.iter().filter(|(what, _)| is_meant(what)).fold(0.0, |sum, (_, n)| sum + n)
    }

    /// Sessions that are in a statement, and do not only wait until their answer has left.
    pub(super) fn working(&self) -> f64 {
        self.sessions_where(|what| !is_left_to_client(what))
    }

    /// Those, and the sessions that have a statement to begin and no processor yet.
    pub(super) fn working_or_ready(&self) -> f64 {
        self.working() + self.not_yet_awake()
    }

    /// The use of the WAL's bandwidth, if it is at its ceiling, and nearer to it than the number of flushes is to its own.
    pub(super) fn volume_of_wal(&self) -> Option<&ResourceUse> {
        let share = |used: &&ResourceUse| used.share().unwrap_or(0.0);
        let most = |name| {
            let of_name = self.used.iter().filter(move |used| used.name == name);
            of_name.max_by(|a, b| share(a).total_cmp(&share(b)))
        };
        let flushes = most(Bottleneck::WalSync).map_or(0.0, |used| share(&used));
        most(Bottleneck::WalVolume).filter(|used| share(used) >= UNSEEN_MIN.max(flushes))
    }

    /// What most clients' sessions wait for, if it is nothing that is known to be a stage, a lock or a pause: whatever it is, it is
    /// somewhere else.
    pub(super) fn elsewhere(&self) -> Option<(&str, f64)> {
        let is_known = |what: &str| {
            let kind = what.split_once(':').map(|(kind, _)| kind);
            WaitStage::from_event(what, true).is_some()
                || is_left_to_client(what)
                || what == wait::KERNEL_SLEEP
                || kind.is_none_or(|kind| matches!(kind, "LWLock" | "Timeout" | "Client"))
        };
        let most =
            self.sessions.iter().filter(|(what, _)| !is_known(what)).max_by(|a, b| a.1.total_cmp(&b.1));
        most.filter(|(_, n)| *n >= 0.5 * self.n_clients).map(|(what, n)| (what.as_str(), *n))
    }

    /// Sessions that seem to run, beyond those for which there were processors at work or a queue for them.
    pub(super) fn hidden_waits(&self) -> Option<f64> {
        let of_machine =
            || self.cpu.filter(|busy| *busy < AT_LIMIT).zip(self.n_cpus).map(|(busy, n)| busy * n);
        let ran = self.ran_or_could().or_else(of_machine)?;
        let seen = self.sessions_where(|what| what == wait::CPU);
        (seen >= 2.0 * ran + 1.0 && seen >= 0.5 * self.n_clients).then_some(seen)
    }

    /// Sessions that run or wait to run: those that wait for nothing that PostgreSQL knows of, but no more than the kernel counted.
    pub(super) fn runnable(&self) -> f64 {
        let seen = self.sessions_where(|what| what == wait::CPU);
        self.ran_or_could().map_or(seen, |counted| seen.min(counted) + self.not_yet_awake())
    }

    /// Processes of the server that ran or waited for a processor, on average, as the kernel counted them.
    fn ran_or_could(&self) -> Option<f64> {
        Some(self.server_cpu? + self.server_delay?)
    }

    /// Whether a wait is one for a lightweight lock with nothing behind it. Who inserts WAL waits for the flush where its
    /// buffers are full: then somebody is writing at nearly every instant.
    pub(super) fn is_lwlock(&self, what: &str) -> bool {
        let is_for_buffers = matches!(what, "LWLock:WALInsert" | "LWLock:WALBufMapping");
        let is_flush = is_for_buffers && self.occupied(WaitStage::WalFlush) >= AT_LIMIT;
        what.starts_with("LWLock:") && WaitStage::from_event(what, true).is_none() && !is_flush
    }

    /// Whether anyone in a stage would have been seen.
    pub(super) fn sees(&self, stage: WaitStage) -> bool {
        self.occupancy.iter().any(|(of, _)| *of == stage)
    }

    pub(super) fn occupied(&self, stage: WaitStage) -> f64 {
        self.occupancy.iter().find(|(of, _)| *of == stage).map_or(0.0, |(_, share)| *share)
    }

    /// The part of the sessions in a statement that are in a stage.
    pub(super) fn share_in(&self, stage: WaitStage) -> f64 {
        let n = self.sessions_where(|what| WaitStage::from_event(what, true) == Some(stage));
        if self.working() > 0.0 { n / self.working() } else { 0.0 }
    }

    /// The part of the waits for locks whose holder waits for its client. Roots are looked up a moment after the states of sessions, and
    /// who holds a lock that long has just begun: so it is bounded by what samples show, which are of one instant.
    pub(super) fn roots_at_client(&self) -> f64 {
        let n = self.sessions_where(|what| what == wait::IDLE_IN_TRANSACTION);
        let within = self.roots_where(|what| what == wait::IDLE_IN_TRANSACTION).min(n);
        within + self.roots_where(|what| matches!(what, wait::IDLE | wait::PREPARED))
    }

    /// The part of the waits for locks whose holder is in a stage, bounded likewise.
    pub(super) fn roots_in(&self, stage: WaitStage) -> f64 {
        self.roots_where(|what| WaitStage::from_event(what, true) == Some(stage)).min(self.occupied(stage))
    }

    /// The part of the waits for locks whose holder is at work, or waits for what is no stage.
    pub(super) fn roots_at_work(&self) -> f64 {
        let stages = WaitStage::ALL.into_iter().filter(|stage| *stage != WaitStage::Lock);
        let elsewhere = stages.fold(self.roots_at_client(), |sum, stage| sum + self.roots_in(stage));
        if self.roots.is_empty() { 0.0 } else { (1.0 - elsewhere).max(0.0) }
    }

    fn roots_where(&self, is_meant: impl Fn(&str) -> bool) -> f64 {
        self.roots.iter().filter(|(what, _)| is_meant(what)).fold(0.0, |sum, (_, share)| sum + share)
    }
}

/// The queue of our own pooler over a span.
fn queue(usage: &Usage, span: (f64, f64)) -> Option<PoolerQueue> {
    let level = |metric: &str, state: &str| room::level(usage, &key(metric, state), span);
    let active = level("pooler.servers", "active")?;
    let n_connections = active + level("pooler.servers", "idle")?;
    Some(PoolerQueue { waiting: level("pooler.clients", "waiting")?, active, n_connections })
}

/// Takes a part of one kind as pauses before a flush.
fn move_part(kinds: &mut Vec<(String, f64)>, from: &str, part: f64) {
    let Some((_, n)) = kinds.iter_mut().find(|(what, _)| what == from) else { return };
    let moved = *n * part;
    *n -= moved;
    if moved > 0.0 {
        kinds.push((wait::COMMIT_DELAY.to_string(), moved));
    }
}

/// Whether a session waits for its client: for a statement, or until the client has taken the answer.
fn is_left_to_client(what: &str) -> bool {
    matches!(what, wait::IDLE | wait::IDLE_IN_TRANSACTION | wait::CLIENT_WRITE)
}

/// The largest share of periods in which a quota stopped a control group of the server.
fn throttled(usage: &Usage, from_s: f64, to_s: f64) -> Option<f64> {
    let share = |group: &String| {
        let rate = |metric: &str| usage.rate_of_key(&key(metric, group), from_s, to_s);
        let all = rate("cgroup.periods").filter(|all| *all > 0.0)?;
        Some(rate("cgroup.throttled_periods")? / all)
    };
    let groups = usage.instances("cgroup.periods");
    groups.iter().filter(|group| group.starts_with("server")).filter_map(share).max_by(f64::total_cmp)
}

/// Processors that the server's processes waited for, without what a quota kept from them: the kernel counts both as one.
/// Groups contain each other, so that the one that was stopped most counts, and not their sum. Where several processes wait for
/// one stopped processor, each of them waits and the stop counts once: what remains is an upper bound.
pub(super) fn server_delay(usage: &Usage, from_s: f64, to_s: f64) -> Option<f64> {
    let delay = usage.rate("server.run_delay", from_s, to_s)?;
    let groups = usage.instances("cgroup.throttled_time");
    let of_server = groups.iter().filter(|group| group.starts_with("server"));
    let stopped =
        of_server.filter_map(|group| usage.rate_of_key(&key("cgroup.throttled_time", group), from_s, to_s));
    Some((delay - stopped.fold(0.0, f64::max)).max(0.0))
}

/// Time that a thread of the driver waited for a processor, as a share of the time.
fn driver_delay(usage: &Usage, from_s: f64, to_s: f64) -> Option<f64> {
    let n_threads = usage.instances("driver.thread_cpu").len().max(1);
    Some((usage.rate("driver.run_delay", from_s, to_s)? / n_threads as f64).clamp(0.0, 1.0))
}

/// Threads of the driver that worked or waited for a processor, on average.
fn driver_threads(usage: &Usage, from_s: f64, to_s: f64) -> f64 {
    let busy: f64 = busy_threads(usage, from_s, to_s).iter().sum();
    busy + usage.rate("driver.run_delay", from_s, to_s).unwrap_or(0.0)
}

/// The part of WAL that is full pages, at most.
pub(super) fn full_pages(usage: &Usage, from_s: f64, to_s: f64) -> Option<f64> {
    let images = usage.rate("server.wal_full_page_images", from_s, to_s)?;
    let bytes = usage.rate("server.wal_bytes", from_s, to_s).filter(|bytes| *bytes > 0.0)?;
    Some((images * PAGE_BYTES / bytes).min(1.0))
}

/// Checkpoints per minute that the amount of WAL requested.
pub(super) fn checkpoints_per_min(usage: &Usage, from_s: f64, to_s: f64) -> f64 {
    60.0 * usage.rate_of_key(&key("server.checkpoints", "requested"), from_s, to_s).unwrap_or(0.0)
}
