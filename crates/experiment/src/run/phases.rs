//! One run through its phases, every finding of a fact written to its directory at once.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use fleet::{LocalDriver, StderrTo};
use model::experiment::case::{Case, WorkloadKind, WorkloadSpec};
use model::experiment::plan::{RunSpec, RunState};
use model::experiment::repeat::Repeat;
use model::experiment::script::CaseData;
use model::load::drive::{Done, DriveOrder, DriverLine};
use model::load::{LoadSpec, MESSAGE_BYTES_MAX, Profiles, ScriptSpec};
use model::run::RunRecord;
use model::run::phase::{Phase, PhaseRecord};
use observe::http::Address;
use observe::{ObserveSpec, Observer};
use server::database::facts::LocalFacts;
use store::RunWriter;
use wire::Conninfo;
use wire::session::Session;
use workload::{Builtins, Schema};

use crate::plan::scripts;
use crate::run::adapt::Judge;
use crate::run::follow::{Follow, KeepWal};
use crate::run::meeting::Side;
use crate::run::outcome;
use crate::run::search::Search;
use crate::run::survey;
use crate::run::telemetry::{Telemetry, lock};
use crate::site::Site;
use crate::site::clock::{GO_DELAY, unix_now};
use crate::site::progress::{Progress, Watch};
use crate::site::wal::Sizing;
use crate::stage::Stage;
use crate::stage::connections;
use dataset::kind::Dataset;
use dataset::session;
use dataset::session::STOPPED;
use dataset::session::limit;
use dataset::state::{self, DataState, Home};
use dataset::tpcc::load::C_LOAD;
use dataset::verify;
use dataset::verify::count;

/// How long clients may take to connect and have their statements parsed.
const READY_TIMEOUT: Duration = Duration::from_secs(120);
/// How long the server may take to become quiet.
const SETTLE_MAX: Duration = Duration::from_secs(10);

/// What a run is made of.
pub(crate) struct OneRun<'a> {
    pub(crate) spec: &'a RunSpec,
    /// Which planned run it repeats.
    pub(crate) repeat: Option<Repeat>,
    pub(crate) case: &'a Case,
    pub(crate) site: &'a Site<'a>,
    /// The program that `drive` is given to: pgdyno itself.
    pub(crate) program: &'a std::path::Path,
    pub(crate) results_dir: PathBuf,
    pub(crate) tool_version: &'a str,
    /// What it has of a duet.
    pub(crate) side: Option<Side<'a>>,
}

impl OneRun<'_> {
    /// Takes the run through all phases. What there is, is on disk also when it fails.
    pub(crate) fn conduct(&self, stage: &mut Stage, writer: &RunWriter, watch: &mut Watch) -> RunRecord {
        let mut record = RunRecord::new(self.spec.clone(), self.case.clone(), self.tool_version);
        record.repeat = self.repeat;
        let result = self.phases(stage, writer, &mut record, watch);
        match result {
            Ok(()) => {}
            Err(_) if self.site.stop.load(Ordering::Relaxed) => {
                record.state = RunState::Partial;
                record.reason = STOPPED.to_string();
            }
            Err(error) => {
                record.state = RunState::Failed;
                record.reason = format!("{error:#}");
            }
        }
        if let Err(error) = self.keep_log(stage, writer) {
            record.telemetry_unavailable.insert("server.log".to_string(), format!("{error:#}"));
        }
        record
    }

    fn phases(
        &self,
        stage: &mut Stage,
        writer: &RunWriter,
        record: &mut RunRecord,
        watch: &mut Watch,
    ) -> Result<()> {
        writer.write_record(record)?;
        let mut phases = Phases { record, watch, longest: crate::site::phase_limit::of(self.case) };
        phases.take(Phase::Restore, |watch| stage.restore(self.case, self.site, watch))?;
        self.site.go_on()?;
        let conninfo = stage.conninfo()?;
        let mut session =
            limit::within("connect", phases.longest, || session::open(&conninfo, self.site.stop))?;
        phases.longest = crate::site::phase_limit::in_database(self.case, &mut session)?;
        let longest = phases.longest;
        let place = limit::within("describe the server", longest, || {
            // Of all cases, so that this is known before the first one.
            connections::check(&mut session, self.site.most_clients)?;
            // Before the server is tended: what is read here must not undo the prewarming, nor the quiet.
            self.describe(stage, &mut session, phases.record)
        })?;
        let tables = tables(place.home.as_ref(), phases.record);
        self.tend(&mut session, &tables, &mut phases)?;
        let Phases { record, watch, .. } = phases;
        writer.write_record(record)?;
        drop(session);
        self.load(&place, &conninfo, stage, writer, record, watch)?;
        self.count_after(&conninfo, place.home.as_ref(), record);
        Ok(())
    }

    /// Counts rows again. That this fails takes nothing from what was measured, but is told.
    fn count_after(&self, conninfo: &Conninfo, home: Option<&Home>, record: &mut RunRecord) {
        if record.done.as_ref().is_some_and(|done| done.unanswered > 0) {
            let reason = "the server did not answer at the end of the load".to_string();
            record.telemetry_unavailable.insert("rows_after".to_string(), reason);
            return;
        }
        match count::count_rows_after(conninfo, home, &tables(home, record), self.site.stop) {
            Ok(after) => {
                record.rows_after = after.rows;
                record.violations_after = after.violations;
            }
            Err(error) => {
                let reason = format!("rows could not be counted after the load: {error:#}");
                record.telemetry_unavailable.insert("rows_after".to_string(), reason.clone());
                if record.state == RunState::Completed {
                    (record.state, record.reason) = (RunState::Partial, reason);
                }
            }
        }
    }

    /// The steps between restore and load, each only if the case asks for it.
    fn tend(&self, session: &mut Session, tables: &[String], phases: &mut Phases) -> Result<()> {
        let prepare = self.case.prepare;
        let tables: Vec<&str> = tables.iter().map(String::as_str).collect();
        if prepare.vacuum || prepare.analyze {
            phases.take(Phase::Vacuum, |_| {
                let mut detail = BTreeMap::new();
                if self.case.workload.data == CaseData::None {
                    let reason = "workload.data is none: the user's tables are left as they are";
                    return Ok(BTreeMap::from([("skipped".to_string(), reason.to_string())]));
                }
                if prepare.vacuum {
                    detail.extend(server::database::tend::vacuum(session, &tables)?);
                }
                if prepare.analyze {
                    detail.extend(server::database::tend::analyze(session, &tables)?);
                }
                Ok(detail)
            })?;
        }
        self.site.go_on()?;
        if prepare.prewarm {
            phases.take(Phase::Prewarm, |_| server::database::prewarm::prewarm(session, &tables))?;
        }
        self.site.go_on()?;
        if prepare.checkpoint {
            phases.take(Phase::Checkpoint, |_| server::database::tend::checkpoint(session))?;
        }
        self.site.go_on()?;
        if prepare.settle {
            phases.take(Phase::Settle, |_| server::database::tend::settle(session, SETTLE_MAX))?;
        }
        self.site.go_on()
    }

    /// Records server, host and data as they are before the load.
    fn describe(&self, stage: &Stage, session: &mut Session, record: &mut RunRecord) -> Result<Place> {
        let local = stage.cluster().map(|cluster| LocalFacts::of(&cluster.binaries));
        record.server = Some(server::database::facts::record(session, local.as_ref())?);
        let mut place = Place::of(stage, session);
        place.home = Home::of(session, &self.case.workload)?;
        place.c_load = c_load(session, place.home.as_ref())?;
        record.server_is_local = place.postmaster_pid.is_some();
        record.host = Some(observe::host::facts::record(&self.dirs(&place)));
        if self.case.workload.kind == WorkloadKind::Scripts {
            record.survey = Some(survey::survey(session, &self.case.workload)?);
        }
        let tables = tables(place.home.as_ref(), record);
        record.rows_before = count::count_rows(session, place.home.as_ref(), &tables)?;
        record.violations_before = verify::quick_check(session, place.home.as_ref())?;
        let tables: Vec<&str> = tables.iter().map(String::as_str).collect();
        let checksums = self.case.prepare.checksums;
        let mut print = server::database::fingerprint::fingerprint(session, &tables, checksums)?;
        if let Some(home) = &place.home {
            let sums = print.checksums.into_iter();
            print.checksums = sums.map(|(table, sum)| (home.recorded(&table).to_string(), sum)).collect();
        }
        record.fingerprint = Some(print);
        Ok(place)
    }

    /// Directories whose devices matter, as far as they are on this machine.
    fn dirs(&self, place: &Place) -> BTreeMap<String, PathBuf> {
        let mut dirs = place.dirs.clone();
        dirs.insert("results".to_string(), self.results_dir.clone());
        dirs
    }

    /// Ramp-up, measure and drain, with telemetry from before to after.
    fn load(
        &self,
        place: &Place,
        conninfo: &Conninfo,
        stage: &mut Stage,
        writer: &RunWriter,
        record: &mut RunRecord,
        watch: &mut Watch,
    ) -> Result<()> {
        watch(Progress::PhaseBegins(Phase::Connect));
        let connect_began = unix_now();
        let load = self.load_spec(conninfo, place, record);
        record.load = Some(load.clone());
        let password = conninfo.password.as_ref().map(|secret| secret.expose().to_string());
        let order = DriveOrder { load, password };
        let mut driver = LocalDriver::spawn(self.program, ["drive"], &order, StderrTo::Messages)?;
        let ready = driver.wait_ready(READY_TIMEOUT, self.site.stop)?;
        record.ready = Some(ready);
        let go = match &self.side {
            Some(side) => side.meeting.meet(self.site.stop)?,
            None => unix_now() + GO_DELAY.as_nanos() as u64,
        };
        record.go_unix_ns = Some(go);
        push_phase(record, Phase::Connect, connect_began, go);
        writer.write_record(record)?;

        let telemetry = Telemetry::default();
        let spec = ObserveSpec {
            driver_pid: Some(driver.pid() as i32),
            align_unix_ns: go,
            ..self.observe(place, conninfo)
        };
        let observer = Observer::start(spec, telemetry.sink(writer.clone()))?;
        watch(Progress::PhaseBegins(Phase::RampUp));
        let end = AtomicBool::new(false);
        let sizing = record.server.as_ref().and_then(Sizing::of);
        let mut keep = KeepWal::new(self.case, stage, &telemetry.wal, go, sizing);
        let Case { adapt, window, .. } = self.case;
        let judge = Judge::new(*adapt, *window, self.case.workload.pace.is_open());
        let mut follow = Follow::new(writer, watch, judge, driver.orders());
        let (mut search, orders) = (Search::of(self.case, go)?, driver.orders());
        let mut on_line = |line: &DriverLine| {
            if let Some(search) = &mut search
                && let Some(rate_per_s) = search.line(line, unix_now())?
            {
                orders.rate(rate_per_s)?;
            }
            if let Some(t) = follow.line(line)? {
                keep.second(t, follow.judge.window())?;
            }
            let is_over = self.site.stop.load(Ordering::Relaxed) || lock(&telemetry.wal).full.is_some();
            end.store(is_over, Ordering::Relaxed);
            Ok(())
        };
        let done = fleet::conduct(&mut driver, go, adapt.longest(*window), &mut on_line, &end);
        observer.stop();
        record.course = follow.judge.course();
        let detail = keep.detail;
        let full = lock(&telemetry.wal).full.take();
        record.search = search.map(Search::into_record);
        telemetry.into_record(record)?;
        self.conclude(record, done?, go, detail);
        if let Some(reason) = full.filter(|_| record.state == RunState::Partial) {
            record.reason = reason;
        }
        Ok(())
    }

    fn conclude(&self, record: &mut RunRecord, done: Done, go: u64, wal: BTreeMap<String, String>) {
        let window = record.window();
        let second = |s: u32| go + u64::from(s) * 1_000_000_000;
        let load_end = second(window.load_s()).min(done.end_unix_ns);
        push_phase(record, Phase::RampUp, go, second(window.ramp_up_s).min(load_end));
        record.phases.last_mut().into_iter().for_each(|phase| phase.detail = wal.clone());
        if load_end > second(window.ramp_up_s) {
            push_phase(record, Phase::Measure, second(window.ramp_up_s), load_end);
        }
        push_phase(record, Phase::Drain, load_end, done.end_unix_ns.max(load_end));
        (record.state, record.reason) = outcome::of(&done, self.case);
        record.done = Some(done);
    }

    fn load_spec(&self, conninfo: &Conninfo, place: &Place, record: &RunRecord) -> LoadSpec {
        let workload = &self.case.workload;
        let common = self.common_load(conninfo, record);
        let schema = place.home.as_ref().map_or_else(Schema::searched, |home| home.schema.clone());
        match workload.kind {
            WorkloadKind::Tpcc => tpcc_load(common, workload, &schema, place.c_load, self.spec.seed),
            WorkloadKind::TprocC => tproc_c_load(common, workload, &schema),
            _ => LoadSpec {
                scripts: scripts::for_driver(workload, &schema),
                defines: scripts::variables(workload),
                ..common
            },
        }
    }

    /// What the loads of all workloads have.
    fn common_load(&self, conninfo: &Conninfo, record: &RunRecord) -> LoadSpec {
        let workload = &self.case.workload;
        LoadSpec {
            target: conninfo.keywords(),
            protocol: workload.protocol,
            n_clients: workload.n_clients,
            n_threads: workload.n_threads,
            pace: workload.pace,
            transactions_per_client: workload.transactions,
            poller: workload.poller,
            busy_poll_us: workload.busy_poll_us,
            turns: self.side.as_ref().map(|side| side.turns.clone()),
            copy: true,
            message_bytes_max: workload.max_message_mib.map_or(MESSAGE_BYTES_MAX, |n| n << 20),
            window: self.case.window,
            seed: self.spec.seed,
            // What the server could not parse before the load may be made by what runs first.
            lazy_parse: record.survey.as_ref().is_some_and(|survey| !survey.unchecked.is_empty()),
            ..LoadSpec::default()
        }
    }

    fn observe(&self, place: &Place, conninfo: &Conninfo) -> ObserveSpec {
        let log_offset =
            place.log_path.as_ref().and_then(|path| path.metadata().ok()).map_or(0, |meta| meta.len());
        ObserveSpec {
            server: Some(conninfo.clone()),
            database: conninfo.dbname.clone(),
            server_pid: place.postmaster_pid,
            dirs: self.dirs(place),
            telemetry: self.exporter(),
            log_path: place.log_path.clone(),
            log_offset,
            ..ObserveSpec::of_host()
        }
    }

    /// The exporter on the target's machine; the plan was refused if its address makes no sense.
    fn exporter(&self) -> Option<Address> {
        let address = self.case.server.target.as_ref()?.telemetry.as_ref()?;
        Address::parse(address).ok()
    }

    /// Keeps the embedded server's log with the run.
    fn keep_log(&self, stage: &Stage, writer: &RunWriter) -> Result<()> {
        if let Some(cluster) = stage.cluster() {
            let log = server::user::untrusted::open(&cluster.log_path()).context("open the server's log")?;
            writer.keep_server_log(log)?;
        }
        Ok(())
    }
}

/// The workload's tables (`table` or `schema.table`): those of the built-in ones, or those that the user's scripts name.
fn tables(home: Option<&Home>, record: &RunRecord) -> Vec<String> {
    match (&record.survey, home) {
        (Some(survey), _) => survey.tables.iter().cloned().collect(),
        (None, Some(home)) => home.tables(),
        (None, None) => Vec::new(),
    }
}

/// What of the server is on this machine, and where in it the tables are.
struct Place {
    postmaster_pid: Option<i32>,
    dirs: BTreeMap<String, PathBuf>,
    log_path: Option<PathBuf>,
    /// The tables that pgdyno loads, if the workload runs on these.
    home: Option<Home>,
    /// C-Load of TPC-C's tables, if it is known.
    c_load: Option<u32>,
}

impl Place {
    fn of(stage: &Stage, session: &mut Session) -> Place {
        if let (Some(cluster), Some(server)) = (stage.cluster(), stage.server()) {
            let dirs = [("data", cluster.data_dir()), ("wal", cluster.wal_dir())];
            return Place {
                postmaster_pid: Some(server.pid() as i32),
                dirs: dirs.map(|(role, dir)| (role.to_string(), dir)).into(),
                log_path: Some(server.log_path().to_path_buf()),
                home: None,
                c_load: None,
            };
        }
        let local = server::database::target::locate(session);
        let data = local.as_ref().and_then(|local| local.data_directory.clone());
        Place {
            postmaster_pid: local.map(|local| local.postmaster_pid as i32),
            dirs: data.map(|dir| ("data".to_string(), dir)).into_iter().collect(),
            log_path: None,
            home: None,
            c_load: None,
        }
    }
}

/// C-Load as the load marker has it; tables that pgdyno did not load do not tell.
fn c_load(session: &mut Session, home: Option<&Home>) -> Result<Option<u32>> {
    let Some(Home { dataset: Dataset::Tpcc, schema }) = home else { return Ok(None) };
    Ok(match state::inspect(session, Dataset::Tpcc, schema)? {
        DataState::Whole(marker) => marker.extra.get(C_LOAD).and_then(|text| text.parse().ok()),
        _ => None,
    })
}

/// Built-in transactions as the load names them, with their SQL for people.
fn scripts_of(builtins: &Builtins, schema: &Schema) -> Vec<ScriptSpec> {
    let script = |(program, weight): (workload::Program, u32)| ScriptSpec {
        tag: program.name.clone(),
        weight,
        source: program.statements.iter().map(|s| format!("{};\n", s.text)).collect(),
        name: program.name,
    };
    builtins.programs(schema).into_iter().map(script).collect()
}

/// The load of TPROC-C. Errors are not tried again: HammerDB goes on with the next transaction.
fn tproc_c_load(common: LoadSpec, workload: &WorkloadSpec, schema: &Schema) -> LoadSpec {
    let builtins = Builtins::TprocC(workload::tprocc::Config {
        warehouses: workload.scale,
        clients: workload.n_clients,
        procedures: workload.procedures,
        all_warehouses: workload.all_warehouses,
    });
    let mut defines = builtins.defines();
    schema.define(&mut defines);
    LoadSpec { scripts: scripts_of(&builtins, schema), profiles: Some(Profiles::TprocC), defines, ..common }
}

/// The load of TPC-C: its transactions, and the words and numbers that they need.
fn tpcc_load(
    common: LoadSpec,
    workload: &WorkloadSpec,
    schema: &Schema,
    c_load: Option<u32>,
    seed: u64,
) -> LoadSpec {
    use model::experiment::case;
    use workload::tpcc::{Calls, Config, Constants, Think};

    let spec = workload.tpcc.unwrap_or_default();
    let constants =
        c_load.map_or_else(|| Constants::for_load(seed), |c_load| Constants::for_run(seed, c_load));
    let config = Config {
        warehouses: workload.scale,
        calls: match spec.calls {
            case::Calls::Statements => Calls::Statements,
            case::Calls::Functions => Calls::Functions,
            case::Calls::Procedures => Calls::Procedures,
        },
        think: match spec.think {
            case::Think::None => Think::None,
            case::Think::Spec => Think::Spec,
        },
        constants,
    };
    let mut target = common.target;
    let options = target.remove("options").map_or(String::new(), |options| format!("{options} "));
    let isolation = spec.isolation.as_str().replace(' ', "\\ ");
    target.insert("options".to_string(), format!("{options}-c default_transaction_isolation={isolation}"));
    let mut defines = config.defines();
    schema.define(&mut defines);
    LoadSpec {
        target,
        scripts: scripts_of(&Builtins::Tpcc(config), schema),
        profiles: Some(Profiles::Tpcc),
        defines,
        // 40001 and 40P01 are for the application to try again.
        max_tries: 0,
        ..common
    }
}

fn push_phase(record: &mut RunRecord, phase: Phase, start_unix_ns: u64, end_unix_ns: u64) {
    record.phases.push(PhaseRecord { phase, start_unix_ns, end_unix_ns, detail: BTreeMap::new() });
}

/// Takes steps as phases, each recorded with its time and facts.
struct Phases<'a, 'w> {
    record: &'a mut RunRecord,
    watch: &'a mut Watch<'w>,
    /// How long each may take.
    longest: Duration,
}

impl Phases<'_, '_> {
    fn take(
        &mut self,
        phase: Phase,
        step: impl FnOnce(&mut Watch) -> Result<BTreeMap<String, String>>,
    ) -> Result<()> {
        (self.watch)(Progress::PhaseBegins(phase));
        let start_unix_ns = unix_now();
        let detail = limit::within(phase.as_str(), self.longest, || step(self.watch))
            .with_context(|| format!("phase `{}`", phase.as_str()))?;
        self.record.phases.push(PhaseRecord { phase, start_unix_ns, end_unix_ns: unix_now(), detail });
        Ok(())
    }
}
