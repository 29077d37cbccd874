//! Ramp-up, measurement and drain of a run, with telemetry from before to after.

pub(crate) mod load_spec;
pub(crate) mod profile;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use dataset::acid::tokens;
use fleet::{Fleet, StderrTo};
use model::experiment::case::Case;
use model::experiment::keys;
use model::experiment::plan::RunState;
use model::experiment::topology::Reads;
use model::load::LoadSpec;
use model::load::drive::{Done, DriverLine, Ready};
use model::load::sessions::SessionSettings;
use model::run::RunRecord;
use model::run::driver::DriverRecord;
use model::run::phase::{Phase, PhaseRecord};
use model::run::server::{Route, ServerRecord};
use observe::host::counters::ProcessCounters;
use observe::{ObserveSpec, ObservedStandby, Observer, OurBackends};
use wire::session::Session;
use wire::{Conninfo, Host};

use crate::plan::scripts::ledger::{self, LedgerPlace};
use crate::run::adapt::Judge;
use crate::run::admission;
use crate::run::eyes;
use crate::run::follow::{Follow, KeepWal};
use crate::run::live::{Live, OneRun, ServerBefore};
use crate::run::outage::{self, Injection};
use crate::run::outcome;
use crate::run::place::LocalParts;
use crate::run::search::Search;
use crate::run::telemetry::{Telemetry, lock};
use crate::site::clock::{GO_DELAY, unix_now};
use crate::site::exporter;
use crate::site::lanes::target_of;
use crate::site::progress::{ProgressEvent, Watch};
use crate::site::reach;
use crate::site::wal::{Meter, Sizing};
use crate::stage::Stage;
use crate::stage::nodes::Standby;

/// Limit for clients to connect and have their statements parsed.
const READY_TIMEOUT: Duration = Duration::from_secs(120);
/// Limit for the statements that create the table of tokens, which may wait for a standby.
const LEDGER_TIMEOUT: Duration = Duration::from_secs(60);

/// Drivers whose clients are connected.
struct ReadyFleet {
    fleet: Fleet,
    /// When they begin, nanoseconds since the Unix epoch.
    go: u64,
    backends: OurBackends,
}

impl OneRun<'_> {
    /// Ramp-up, measurement and drain, with telemetry from before to after.
    pub(crate) fn load(&self, ground: &mut Live, record: &mut RunRecord, watch: &mut Watch) -> Result<()> {
        let Live { stage, writer, eyes, .. } = ground;
        let eyes = eyes.take();
        let ServerBefore { conninfo, place, .. } =
            ground.found.as_ref().context("the server is not described")?;
        let counters = self.counters(place, eyes.is_some(), record);
        watch(ProgressEvent::PhaseBegins(Phase::Connect));
        let ReadyFleet { mut fleet, go, backends } = self.begin(stage, place, record)?;
        writer.write_record(record)?;

        let telemetry = Telemetry::default();
        let connects_each = record.load.as_ref().is_some_and(|load| load.connect_each);
        let spec = ObserveSpec {
            driver_pid: fleet.pids_here().first().map(|&pid| pid as i32),
            // Connections of a pool, or of single transactions, come and go, under process ids that nobody knows here.
            backends: if stage.pooler().is_none() && !connects_each { Some(backends) } else { None },
            align_unix_ns: go,
            counters,
            is_log_followed: eyes.as_ref().is_some_and(|eyes| eyes.watching.follows_log),
            standbys: observed(stage, self.case),
            pooler_pids: pooler_pids(stage, record, conninfo, place),
            consoles: consoles(stage),
            ..self.observe(place, conninfo)?
        };
        let observer = Observer::start(spec, telemetry.sink((*writer).clone(), record.eyes.as_ref()))?;
        let sink = || telemetry.eyes_sink((*writer).clone());
        eyes.iter().for_each(|eyes| eyes::go(eyes, go, self.site.callbacks.spot, sink(), &observer));
        let sizing = record.server.as_ref().and_then(Sizing::from_record);
        let is_over = AtomicBool::new(false);
        let backend_pids = record.ready.as_ref().map_or(Vec::new(), |ready| ready.backend_pids.clone());
        let (stage, injection) = self.injection(stage, go, backend_pids, &is_over);
        let mut keep = KeepWal::new(self.case, stage, &telemetry.wal, go, sizing);
        let Case { adapt, window, .. } = self.case;
        let judge = Judge::new(*adapt, *window, self.case.workload.pace.is_open());
        let mut follow = Follow::new(writer, watch, judge, fleet.orders());
        follow.begin();
        let (mut search, orders, end) = (Search::new(self.case, go)?, fleet.orders(), AtomicBool::new(false));
        let mut on_line = |line: &DriverLine| {
            self.site.callbacks.spot.iter().for_each(|spot| spot.hear_driver(line));
            if let Some(search) = &mut search
                && let Some(rate_per_s) = search.line(line, unix_now())?
            {
                orders.rate(rate_per_s)?;
            }
            if let Some(t) = follow.line(line)? {
                keep.second(t, follow.judge.window())?;
            }
            let is_over =
                self.site.environment.stop.load(Ordering::Relaxed) || lock(&telemetry.wal).full.is_some();
            end.store(is_over, Ordering::Relaxed);
            Ok(())
        };
        let conduct = || fleet::conduct(&mut fleet, go, adapt.longest(*window), &mut on_line, &end);
        let conduct = || profile::during(self.profiler, place, go, *window, writer.dir(), conduct);
        let (done, outage) = outage::during(injection, &is_over, conduct)?;
        record.outage = outage;
        observer.stop();
        eyes.into_iter().for_each(|eyes| eyes::close(eyes, record));
        record.drivers = fleet.records();
        let ended = follow.ended(&self.case.workload.scripts);
        record.course = ended.course;
        (ground.outcomes, ground.first_pass) = (ended.outcomes, ended.first_pass);
        ground.executions = ended.executions;
        let detail = keep.detail;
        let Meter { ticks, full } = std::mem::take(&mut *lock(&telemetry.wal));
        ground.wal_ticks = ticks;
        record.search = search.map(Search::into_record);
        telemetry.into_record(record)?;
        self.conclude(record, done?, go, detail);
        if record.state == RunState::Partial {
            record.reason = full.map_or_else(|| record.reason.clone(), |full| self.with_slots(ground, full));
        }
        Ok(())
    }

    /// Why a load ended before the device of the WAL was full, with the slots that keep WAL.
    fn with_slots(&self, ground: &Live, full: String) -> String {
        let kept = ground.stage.wal_kept_by_slots(&self.site.environment);
        kept.map_or_else(|| full.clone(), |slots| format!("{full}; {slots}"))
    }

    /// Connects the clients, and agrees on when they begin.
    fn begin(&self, stage: &Stage, place: &LocalParts, record: &mut RunRecord) -> Result<ReadyFleet> {
        let connect_began = unix_now();
        let (mut fleet, ready) = self.connect_clients(stage, place, record)?;
        let load: BTreeSet<i32> = ready.backend_pids.iter().copied().collect();
        record.ready = Some(ready);
        let others = stage.backend_pid().into_iter().collect();
        let (go, others) = self.agree_on_go(&mut fleet, &load, others)?;
        record.go_unix_ns = Some(go);
        push_phase(record, Phase::Connect, connect_began, go);
        let backends = OurBackends { load, others, word: word()?.to_string() };
        Ok(ReadyFleet { fleet, go, backends })
    }

    /// The outage of the load that begins at `go`, which has the servers meanwhile, or else the servers.
    fn injection<'b>(
        &'b self,
        stage: &'b mut Stage,
        go: u64,
        backend_pids: Vec<i32>,
        is_over: &'b AtomicBool,
    ) -> (Option<&'b mut Stage>, Option<Injection<'b>>) {
        let Some(outage) = &self.case.outage else { return (Some(stage), None) };
        let (block, program) = (self.spec.block, self.program);
        let occasion = self.occasion();
        (None, Some(Injection { stage, outage, occasion, backend_pids, block, go, is_over, program }))
    }

    /// The moment at which the load begins, nanoseconds since the Unix epoch, and the server processes that are ours besides the
    /// load's: `others`, and in a duet those of both sides.
    fn agree_on_go(
        &self,
        fleet: &mut Fleet,
        load_backends: &BTreeSet<i32>,
        others: BTreeSet<i32>,
    ) -> Result<(u64, BTreeSet<i32>)> {
        match &self.side {
            Some(side) => {
                let own = &others | load_backends;
                side.barrier.meet(&own, &mut || fleet.keep_waiting(), self.site.environment.stop)
            }
            None => Ok((unix_now() + GO_DELAY.as_nanos() as u64, others)),
        }
    }

    /// Attaches counters to the server, before the load's backends are there; eyes on its host do so themselves.
    fn counters(
        &self,
        place: &LocalParts,
        has_eyes: bool,
        record: &mut RunRecord,
    ) -> Option<ProcessCounters> {
        if !self.case.get(keys::run::COUNTERS) || has_eyes {
            return None;
        }
        if place.postmaster_pid.is_none() {
            let reason = "the server is on another host, or its processes are not seen here; `--host` observes it there";
            record.telemetry_unavailable.insert("counters.".to_string(), reason.to_string());
        }
        place.postmaster_pid.map(ProcessCounters::attach)
    }

    /// Starts the drivers and waits until their clients are connected. Records the load, and how it came to the server.
    fn connect_clients(
        &self,
        stage: &Stage,
        place: &LocalParts,
        record: &mut RunRecord,
    ) -> Result<(Fleet, Ready)> {
        let conninfo = stage.load_conninfo(self.case)?;
        let reads = self.read_target(stage)?;
        let load = LoadSpec { reads, ..self.load_spec(&conninfo, place, record) };
        record.load = Some(load.recorded());
        self.make_ledger(&conninfo, &load)?;
        let mut fleet = self.start_drivers(load, &conninfo, stage)?;
        let ready = fleet.wait_ready(READY_TIMEOUT, self.site.environment.stop);
        let ready = ready.map_err(|error| admission::explained(error, self.case))?;
        record.drivers = fleet.records();
        if self.case.server.listen.is_some() {
            record.connections = stage.load_connections(self.site.environment.stop)?;
            admission::record_route(&conninfo, record);
        }
        Ok((fleet, ready))
    }

    /// Creates the table of tokens where the load's sessions find it, if the load needs one.
    fn make_ledger(&self, conninfo: &Conninfo, load: &LoadSpec) -> Result<()> {
        if ledger::of_case(self.case) != Ok(LedgerPlace::Table { is_made: true }) {
            return Ok(());
        }
        let conninfo = Conninfo { options: load.target.get("options").cloned(), ..conninfo.clone() };
        let mut session = Session::connect(&conninfo)?;
        session.set_timeout(Some(LEDGER_TIMEOUT));
        tokens::create_table(&mut session)
    }

    /// Starts the drivers of the case, here or elsewhere.
    fn start_drivers(&self, load: LoadSpec, conninfo: &Conninfo, stage: &Stage) -> Result<Fleet> {
        let mut order = fleet::drive_order(load, conninfo);
        let specs = self.case.workload.drivers.as_slice();
        let listens = self.case.server.listen.is_some();
        let accept = |drivers: &[&DriverRecord]| {
            reach::expect_reachable(reach::is_socket(conninfo), drivers)?;
            self.site.environment.seat.map_or(Ok(()), |seat| seat.take_drivers(self.case, drivers))?;
            if listens { stage.admit(&reach::addresses(specs, drivers, conninfo)?) } else { Ok(()) }
        };
        match specs {
            [] => {
                if let Some(seat) = self.site.environment.seat {
                    seat.take_this_machine(format!("the driver of target `{}`", target_of(self.case)))?;
                }
                if listens {
                    stage.admit(&[admission::own_address(conninfo)?])?;
                }
                Fleet::local(self.program, ["drive"], &order, StderrTo::Messages)
            }
            drivers => {
                order.spot_notice = self.site.callbacks.spot.map(|spot| spot.url.clone());
                order.root_certificates = reach::roots_for_elsewhere(conninfo)?;
                Fleet::greeted(drivers, &order, self.program, &accept, self.site.environment.stop)
            }
        }
    }

    fn conclude(&self, record: &mut RunRecord, mut done: Done, go: u64, wal: BTreeMap<String, String>) {
        let window = record.window();
        let second = |s: u32| go + u64::from(s) * 1_000_000_000;
        let load_end = second(window.load_s()).min(done.end_unix_ns);
        push_phase(record, Phase::RampUp, go, second(window.ramp_up_s).min(load_end));
        record.phases.last_mut().into_iter().for_each(|phase| phase.detail = wal.clone());
        if load_end > second(window.ramp_up_s) {
            push_phase(record, Phase::Measure, second(window.ramp_up_s), load_end);
        }
        push_phase(record, Phase::Drain, load_end, done.end_unix_ns.max(load_end));
        if self.case.is_unobserved {
            record
                .telemetry_unavailable
                .insert("telemetry".to_string(), "run.telemetry is false".to_string());
        }
        if record.load.as_ref().is_some_and(|load| load.connect_each) {
            let reason =
                "each transaction has a session of its own, which cannot be distinguished from foreign ones";
            record.telemetry_unavailable.insert("server.foreign_sessions".to_string(), reason.to_string());
        }
        (record.state, record.reason) = outcome::state_and_reason(&done, self.case);
        done.sessions.iter_mut().for_each(SessionSettings::hide_secrets);
        record.done = Some(done);
    }

    fn observe(&self, place: &LocalParts, conninfo: &Conninfo) -> Result<ObserveSpec> {
        let target = self.case.server.target.as_ref();
        let telemetry = target
            .map(|target| exporter::for_target(target, self.site.environment.stop))
            .transpose()?
            .flatten();
        let log_offset =
            place.log_path.as_ref().and_then(|path| path.metadata().ok()).map_or(0, |meta| meta.len());
        Ok(ObserveSpec {
            server: Some(conninfo.clone()),
            database: conninfo.dbname.clone(),
            server_pid: place.postmaster_pid,
            dirs: self.dirs(place),
            telemetry,
            log_path: place.log_path.clone(),
            log_offset,
            is_off: self.case.is_unobserved,
            ..ObserveSpec::of_host()
        })
    }
}

/// The standbys of our own server that run, and whether the load reads from them.
fn observed(stage: &Stage, case: &Case) -> Vec<ObservedStandby> {
    let is_read = case.get(keys::workload::READS) != Reads::Primary;
    let of = |standby: &Standby| {
        let (name, server) = (standby.name().to_string(), standby.server()?);
        let pid = server.pid() as i32;
        Some(ObservedStandby { name, conninfo: server.conninfo(), pid, is_read })
    };
    stage.standbys().iter().filter_map(of).collect()
}

/// The processes of this machine that answer before the server: those of our own pooler, or one that is found.
fn pooler_pids(stage: &Stage, record: &RunRecord, conninfo: &Conninfo, place: &LocalParts) -> Vec<i32> {
    match stage.pooler() {
        Some(pooler) => pooler.pids(),
        None => record.server.iter().flat_map(|server| poolers(server, conninfo, place)).collect(),
    }
}

/// The consoles of our own pooler, if the case asks for what they say.
fn consoles(stage: &Stage) -> Vec<Conninfo> {
    stage.pooler().map_or(Vec::new(), |pooler| pooler.consoles().to_vec())
}

/// The processes of this machine that answer before the server, if some do.
fn poolers(server: &ServerRecord, conninfo: &Conninfo, place: &LocalParts) -> Vec<i32> {
    let is_between = |route: &&Route| route.pooler.is_some() || route.is_forwarded();
    let Some(route) = server.route.as_ref().filter(is_between) else { return Vec::new() };
    // The host that was reached, of several.
    let is_reached = |host: &&Host| route.reached.ends_with(&format!(":{}", host.port));
    let host = conninfo.hosts.iter().find(is_reached);
    host.map_or(Vec::new(), |host| observe::peer::between(host, place.postmaster_pid))
}

/// A word by which the observers of this process recognize each other.
fn word() -> Result<&'static str> {
    static WORD: OnceLock<String> = OnceLock::new();
    let word = match WORD.get() {
        Some(word) => word,
        None => {
            let fresh = files::random_hex(8)?;
            WORD.get_or_init(|| fresh)
        }
    };
    Ok(word)
}

fn push_phase(record: &mut RunRecord, phase: Phase, start_unix_ns: u64, end_unix_ns: u64) {
    record.phases.push(PhaseRecord { phase, start_unix_ns, end_unix_ns, detail: BTreeMap::new() });
}
