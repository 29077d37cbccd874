//! The phases of a real run, with its server, its driver, and its directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use dataset::directory::checks::Outcomes;
use dataset::own::apply::{self, ApplyScope};
use dataset::session;
use dataset::state::{self, WorkloadTables};
use dataset::verify;
use dataset::verify::count::{self, StateAfterLoad};
use fleet::HostObserver;
use model::experiment::case::Case;
use model::experiment::case::directory::WorkloadDirectory;
use model::experiment::hooks::Hook;
use model::experiment::keys;
use model::experiment::plan::{RunSpec, RunState};
use model::experiment::repeat::Repeat;
use model::experiment::script::CaseData;
use model::load::LoadSpec;
use model::load::execution::Execution;
use model::run::RunRecord;
use model::run::hooks::HookRecord;
use model::run::residency::InMemory;
use model::run::touched::Touched;
use server::database::facts::{self, LocalFacts};
use server::database::fingerprint::fingerprint;
use server::database::plans::{self, PlannedStatement};
use server::database::{definitions, prewarm, residency, tend, touched};
use store::RunWriter;
use wire::Conninfo;
use wire::session::Session;
use workload::{Builtins, Bundle, Schema};

use crate::run::duet_barrier::DuetSide;
use crate::run::eyes;
use crate::run::hooks::{self, Occasion};
use crate::run::load::profile::Profiler;
use crate::run::outage::commits::LoadCommits;
use crate::run::phases::{self, Ground, PhaseDetail};
use crate::run::place::{LocalParts, c_load, tables};
use crate::run::run_checks;
use crate::run::run_checks::queries::{self, FirstPass, QueriesAfter};
use crate::run::telemetry::{images, import, replayed};
use crate::site::progress::{ProgressEvent, Watch};
use crate::site::wal::OfTick;
use crate::site::{Site, ceilings, phase_limit};
use crate::stage::connections::HoldingSession;
use crate::stage::directory_data::restored;
use crate::stage::pooler::own;
use crate::stage::{Stage, Standby, connections};
use crate::survey;

/// Limit for the server to become quiet.
const SETTLE_MAX: Duration = Duration::from_secs(10);

/// Blocks whose runs record plans: of two, in case that one is disturbed.
const EXPLAINED_BLOCKS: u32 = 2;

/// The statements of a load, compiled as the driver does; what is recorded of a load has no texts of a `directory`.
fn bundle_of(load: &LoadSpec, directory: Option<&WorkloadDirectory>) -> Result<Bundle> {
    if let Some(profiles) = load.profiles {
        let builtins = Builtins::from_defines(profiles, &load.defines)?;
        return Ok(Bundle::builtin(builtins, &Schema::from_defines(&load.defines)));
    }
    let sources: Vec<(&str, &str, u32)> =
        load.scripts.iter().map(|s| (s.name.as_str(), s.source.as_str(), s.weight)).collect();
    Bundle::from_scripts(&sources, &load.defines, directory).map_err(anyhow::Error::msg)
}

/// The statements of scripts that have plans.
fn planned(bundle: &Bundle) -> Vec<PlannedStatement<'_>> {
    let programs = bundle.programs.iter().zip(0u32..);
    let all = programs.flat_map(|(program, script)| {
        program.statements.iter().zip(0u32..).map(move |(of, statement)| PlannedStatement {
            script,
            statement,
            text: &of.text,
            n_parameters: of.parameters.len(),
        })
    });
    all.filter(|of: &PlannedStatement| queries::is_explainable(of.text)).collect()
}

/// A run and its environment.
pub(crate) struct OneRun<'a> {
    pub(crate) spec: &'a RunSpec,
    /// The planned run that it repeats.
    pub(crate) repeat: Option<Repeat>,
    pub(crate) case: &'a Case,
    pub(crate) site: &'a Site<'a>,
    /// The program whose `drive` command is the driver: pgdyno itself.
    pub(crate) program: &'a Path,
    pub(crate) results_dir: PathBuf,
    pub(crate) tool_version: &'a str,
    /// Set where the run is one side of a duet.
    pub(crate) side: Option<DuetSide<'a>>,
    /// Set where the run is made for a profile of the server.
    pub(crate) profiler: Option<&'a Profiler>,
    /// The user's commands that were called before the case, ahead of this run.
    pub(crate) hooks: Vec<HookRecord>,
}

impl OneRun<'_> {
    /// Takes the run through all phases. What was measured is on disk even if it fails.
    pub(crate) fn conduct(&self, stage: &mut Stage, writer: &RunWriter, watch: &mut Watch) -> RunRecord {
        let mut record = self.begun();
        let occasion = self.occasion();
        record.hooks.extend(occasion.call(Hook::BeforeRun));
        let mut record = if hooks::failure(&record.hooks).is_some() {
            self.refused(record)
        } else {
            let (session, found, eyes, wal_ticks) = (None, None, None, Vec::new());
            let (outcomes, first_pass, executions) = (BTreeMap::new(), FirstPass::default(), Vec::new());
            let mut ground = Live {
                run: self,
                stage,
                writer,
                session,
                found,
                eyes,
                wal_ticks,
                outcomes,
                first_pass,
                executions,
            };
            phases::conduct(&mut ground, self.case, record, self.site.environment.stop, watch)
        };
        if self.case.get(keys::workload::APPLY).is_some()
            && let Err(error) = stage.undo_applied()
        {
            let apply = keys::workload::APPLY;
            watch(ProgressEvent::Note(format!(
                "what {apply} made is still there, until the next restore: {error:#}"
            )));
        }
        record.hooks.extend(occasion.put_back(Hook::AfterRun, watch));
        if record.state == RunState::Failed
            && let Some(reason) = stage.crash(&record.reason)
        {
            record.reason = reason;
        }
        record
    }

    /// The record of a run whose `before_case` has failed: nothing of it was begun.
    pub(crate) fn unset(&self) -> RunRecord {
        self.refused(self.begun())
    }

    fn begun(&self) -> RunRecord {
        let record = RunRecord::new(self.spec.clone(), self.case.clone(), self.tool_version);
        RunRecord { repeat: self.repeat, hooks: self.hooks.clone(), ..record }
    }

    /// `record` with the failure of its commands as the reason.
    fn refused(&self, record: RunRecord) -> RunRecord {
        let reason = hooks::failure(&record.hooks).unwrap_or_default();
        let is_stopped = self.site.environment.stop.load(Ordering::Relaxed);
        let state = if is_stopped { RunState::Partial } else { RunState::Failed };
        RunRecord { state, reason, ..record }
    }

    pub(crate) fn occasion(&self) -> Occasion<'_> {
        let (stop, pending_undo) = (self.site.environment.stop, self.site.changes.pending_undo);
        Occasion { case: self.case, run: self.spec.run, results_dir: &self.results_dir, stop, pending_undo }
    }

    /// Directories whose devices matter, if they are on this machine.
    pub(crate) fn dirs(&self, place: &LocalParts) -> BTreeMap<String, PathBuf> {
        let mut dirs = place.dirs.clone();
        dirs.insert("results".to_string(), self.results_dir.clone());
        dirs
    }
}

/// A run on its stage.
pub(crate) struct Live<'a> {
    run: &'a OneRun<'a>,
    pub(crate) stage: &'a mut Stage,
    pub(crate) writer: &'a RunWriter,
    /// Open from connecting until the load, which has the server to itself.
    session: Option<Session>,
    pub(crate) found: Option<ServerBefore>,
    /// Open from the description of the host until the end of the load.
    pub(crate) eyes: Option<HostObserver>,
    /// The WAL that the load wrote.
    pub(crate) wal_ticks: Vec<OfTick>,
    /// Transactions of the whole load, by the name of their script.
    pub(crate) outcomes: BTreeMap<String, Outcomes>,
    /// The first pass of the first stream of queries.
    pub(crate) first_pass: FirstPass,
    /// Each transaction of a load with an outage.
    pub(crate) executions: Vec<Execution>,
}

/// The server before the load.
pub(crate) struct ServerBefore {
    pub(crate) conninfo: Conninfo,
    pub(crate) place: LocalParts,
}

impl Live<'_> {
    fn session(&mut self) -> Result<&mut Session> {
        self.session.as_mut().context("no session is open before the connect phase")
    }

    fn home(&self) -> Option<&WorkloadTables> {
        self.found.as_ref()?.place.home.as_ref()
    }

    /// The server's data directory, if it is on this machine, and whether the server is ours.
    fn files(&self) -> (Option<PathBuf>, bool) {
        let place = self.found.as_ref().and_then(|found| found.place.dirs.get("data"));
        (place.cloned(), self.stage.cluster().is_some())
    }

    /// What of the tables is in memory after the load, seen over a session of its own.
    fn residency_after(&mut self, tables: &[&str]) -> Result<InMemory> {
        let (data_dir, is_own) = self.files();
        residency::residency(&mut self.another_session()?, tables, data_dir.as_deref(), is_own)
    }

    /// Rows touched so far, with what this run's own session read, and the pages of the tables.
    fn touched_before(&mut self, tables: &[&str]) -> Result<BTreeMap<String, Touched>> {
        let pages = touched::pages(self.session()?, tables)?;
        let mut touched = self.rows_before(tables)?;
        touched
            .iter_mut()
            .for_each(|(table, of_table)| of_table.pages = pages.get(table).copied().unwrap_or(0));
        Ok(touched)
    }

    fn rows_before(&mut self, tables: &[&str]) -> Result<BTreeMap<String, Touched>> {
        let session = self.session()?;
        if touched::reports_on_request(session) {
            return touched::so_far(session, tables);
        }
        // Before 15, a session is sure to have reported all its counts only when it has ended.
        self.session = None;
        touched::settled(&mut self.another_session()?, tables, &[])
    }

    /// Rows touched when the sessions of the load have ended.
    fn touched_after(&self, record: &RunRecord, tables: &[&str]) -> Result<BTreeMap<String, Touched>> {
        let is_answered = record.done.as_ref().is_some_and(|done| done.unanswered == 0);
        let is_stopped = self.run.site.environment.stop.load(Ordering::Relaxed);
        ensure!(is_answered && !is_stopped, "the server does not answer, or the user does not want to wait");
        let pids = record.ready.as_ref().map_or(&[][..], |ready| &ready.backend_pids);
        touched::settled(&mut self.another_session()?, tables, pids)
    }

    fn another_session(&self) -> Result<Session> {
        let ServerBefore { conninfo, .. } = self.found.as_ref().context("the server is not described")?;
        session::open(conninfo, self.run.site.environment.stop)
    }

    /// Takes a step on the other hosts over which the load is spread. Returns its facts, each with the host's name; a host that
    /// does not answer gets none of the load either.
    fn on_other_hosts(&mut self, step: impl Fn(&mut Session) -> Result<PhaseDetail>) -> Result<PhaseDetail> {
        let first = self.session()?.host().clone();
        let hosts = match &self.found {
            Some(found) => found.conninfo.spread_hosts(),
            None => Vec::new(),
        };
        let mut detail = PhaseDetail::new();
        for conninfo in hosts.iter().filter(|conninfo| !conninfo.hosts.contains(&first)) {
            let place: String = conninfo.hosts.iter().map(ToString::to_string).collect();
            match session::open(conninfo, self.run.site.environment.stop) {
                Ok(mut session) => {
                    let facts = step(&mut session).with_context(|| format!("on `{place}`"))?;
                    detail
                        .extend(facts.into_iter().map(|(name, value)| (format!("{name} on {place}"), value)));
                }
                Err(error) => {
                    detail.insert(format!("skipped on {place}"), format!("{error:#}"));
                }
            }
        }
        Ok(detail)
    }

    /// Takes plans and compares answers of an analytical run. That it cannot is recorded, and changes nothing of the measurement.
    fn look_at_queries(&self, record: &mut RunRecord, watch: &mut Watch) -> Result<()> {
        let stop = self.run.site.environment.stop;
        let is_answered = record.done.as_ref().is_some_and(|done| done.unanswered == 0);
        if !queries::are_wanted(&self.run.case.workload) || !is_answered || stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        watch(ProgressEvent::Step("looking at the plans and answers of queries".to_string()));
        match queries::after(self.run.case, self.stage, &self.first_pass, stop) {
            Ok(QueriesAfter { plans, answers }) => {
                record.answers = answers;
                self.writer.plans(&plans)
            }
            Err(error) => {
                record.telemetry_unavailable.insert("plans".to_string(), format!("{error:#}"));
                Ok(())
            }
        }
    }

    /// Records the standbys after the load. After an outage, whoever takes writes now is asked from here on.
    fn look_at_nodes(&mut self, record: &mut RunRecord) -> Result<()> {
        if record.outage.is_some() {
            return self.look_at_commits(record);
        }
        if let Err(error) = self.stage.standbys_after(record, self.run.site) {
            record.telemetry_unavailable.insert("standbys".to_string(), format!("{error:#}"));
        }
        Ok(())
    }

    fn look_at_commits(&mut self, record: &mut RunRecord) -> Result<()> {
        let conninfo = self.stage.conninfo()?;
        self.found.iter_mut().for_each(|found| found.conninfo.clone_from(&conninfo));
        let schema = self.home().map_or_else(Schema::searched, |home| home.schema.clone());
        let executions = std::mem::take(&mut self.executions);
        let go = record.go_unix_ns.unwrap_or(0);
        let commits = LoadCommits { case: self.run.case, schema, executions: &executions, go };
        if let Some(outage) = record.outage.as_mut().filter(|outage| outage.began_unix_ns.is_some()) {
            commits.judge(self.stage, outage);
        }
        Ok(())
    }

    /// Tables that are vacuumed, prewarmed and counted.
    fn tables(&self, record: &RunRecord) -> Vec<String> {
        tables(self.home(), record)
    }
}

impl Ground for Live<'_> {
    fn restore(&mut self, watch: &mut Watch) -> Result<PhaseDetail> {
        self.stage.restore(self.run.case, self.run.site, watch)
    }

    fn connect(&mut self) -> Result<Duration> {
        let mut session = session::open(&self.stage.conninfo()?, self.run.site.environment.stop)?;
        let longest = phase_limit::in_database(self.run.case, &mut session)?;
        self.session = Some(session);
        Ok(longest)
    }

    fn describe(&mut self, record: &mut RunRecord) -> Result<()> {
        let conninfo = self.stage.conninfo()?;
        let session = self.session.as_mut().context("no session is open before the connect phase")?;
        // For all cases, so that a lack is known before the first one.
        let keeper = match (self.stage.cluster(), self.stage.backend_pid()) {
            (Some(_), _) => HoldingSession::Nobody,
            (None, None) => HoldingSession::Later,
            (None, Some(pid)) => HoldingSession::Open(pid),
        };
        connections::check(
            session,
            &conninfo,
            self.run.site.environment.most_connections,
            keeper,
            self.run.site.environment.stop,
        )?;
        let local = self.stage.cluster().map(|cluster| LocalFacts::read(&cluster.binaries));
        record.server = Some(facts::record(session, local.as_ref())?);
        let route = record.server.as_mut().and_then(|server| server.route.as_mut());
        if let Some(pooler) = route.and_then(|route| route.pooler.as_mut())
            && self.stage.pools_transactions()
        {
            *pooler = "transaction".to_string();
        }
        let mut place = LocalParts::find(self.stage, session);
        place.home = WorkloadTables::find(session, &self.run.case.workload)?;
        // Every run reads these tables, however they came to be there.
        place.home.iter().try_for_each(|home| state::expect_safe(session, home))?;
        place.c_load = c_load(session, place.home.as_ref())?;
        self.eyes = self.run.open_eyes(session, record)?;
        if self.eyes.is_some() {
            eyes::without_host(&mut place);
        } else {
            record.server_is_local = place.postmaster_pid.is_some();
            record.host = Some(observe::host::facts::record(&self.run.dirs(&place)));
            record.telemetry_unavailable.extend(place.missing.clone());
        }
        self.run.take_server(record)?;
        record.ceilings = ceilings::known(self.run.case, &self.run.site.environment, &place.dirs, &conninfo);
        if self.run.case.workload.kind.is_own() {
            let workload = &self.run.case.workload;
            record.survey = Some(if workload.data == CaseData::Directory {
                let of_sql = self.stage.conninfo_of_sql(workload)?;
                survey::survey(&mut session::open(&of_sql, self.run.site.environment.stop)?, workload)?
            } else {
                survey::survey(session, workload)?
            });
        }
        let tables = tables(place.home.as_ref(), record);
        record.rows_before = count::count_rows(session, place.home.as_ref(), &tables)?;
        record.violations_before = verify::quick_check(session, place.home.as_ref())?;
        let tables: Vec<&str> = tables.iter().map(String::as_str).collect();
        let checksums = self.run.case.prepare.checksums;
        let mut print = fingerprint(session, &tables, checksums)?;
        match definitions::of_tables(session, &tables) {
            Ok(all) => print.definitions = all,
            Err(error) => {
                record.telemetry_unavailable.insert("definitions".to_string(), format!("{error:#}"));
            }
        }
        if let Some(home) = &place.home {
            print.definitions = home.recorded_keys(print.definitions);
            print.checksums = home.recorded_keys(print.checksums);
        }
        record.fingerprint = Some(print);
        self.found = Some(ServerBefore { conninfo, place });
        Ok(())
    }

    fn apply(&mut self, record: &mut RunRecord) -> Result<PhaseDetail> {
        let Some(sql) = self.run.case.get(keys::workload::APPLY) else { return Ok(PhaseDetail::new()) };
        // As the owner of the data, with the search path of the load.
        let conninfo = self.stage.conninfo_of_sql(&self.run.case.workload)?;
        let mut session = session::open(&conninfo, self.run.site.environment.stop)?;
        session.restore_for_user()?;
        let tables = self.tables(record);
        let scope = match self.stage {
            Stage::Embedded(_) => ApplyScope::OwnServer,
            Stage::Adopted(_) => ApplyScope::Tables(&tables),
        };
        let applied = apply::apply(&mut session, &sql, scope).context(keys::workload::APPLY.name)?;
        let detail =
            [("seconds", format!("{:.3}", applied.seconds)), ("bytes", format!("{:.0}", applied.growth()))];
        record.applied = Some(applied);
        Ok(detail.map(|(name, value)| (name.to_string(), value)).into())
    }

    fn vacuum(&mut self, record: &RunRecord) -> Result<PhaseDetail> {
        let Case { prepare, workload, .. } = self.run.case;
        if workload.data == CaseData::None {
            let reason = "workload.data is none: the user's tables are left as they are";
            return Ok(BTreeMap::from([("skipped".to_string(), reason.to_string())]));
        }
        let tables = self.tables(record);
        let tables: Vec<&str> = tables.iter().map(String::as_str).collect();
        let session = self.session()?;
        let mut detail = BTreeMap::new();
        if prepare.vacuum {
            detail.extend(tend::vacuum(session, &tables)?);
        }
        if prepare.analyze {
            detail.extend(tend::analyze(session, &tables)?);
        }
        Ok(detail)
    }

    fn prewarm(&mut self, record: &mut RunRecord) -> Result<PhaseDetail> {
        let tables = self.tables(record);
        let tables: Vec<&str> = tables.iter().map(String::as_str).collect();
        let mut detail = prewarm::prewarm(self.session()?, &tables)?;
        for standby in self.stage.standbys().iter().filter_map(Standby::server) {
            prewarm::prewarm(
                &mut session::open(&standby.conninfo(), self.run.site.environment.stop)?,
                &tables,
            )?;
        }
        detail.extend(self.on_other_hosts(|session| prewarm::prewarm(session, &tables))?);
        let (data_dir, is_own) = self.files();
        record.residency.before =
            residency::residency(self.session()?, &tables, data_dir.as_deref(), is_own).ok();
        Ok(detail)
    }

    fn checkpoint(&mut self) -> Result<PhaseDetail> {
        let mut detail = tend::checkpoint(self.session()?)?;
        detail.extend(self.on_other_hosts(tend::checkpoint)?);
        Ok(detail)
    }

    fn settle(&mut self) -> Result<PhaseDetail> {
        let mut detail = tend::settle(self.session()?, SETTLE_MAX)?;
        detail.extend(self.on_other_hosts(|session| tend::settle(session, SETTLE_MAX))?);
        Ok(detail)
    }

    fn load(&mut self, record: &mut RunRecord, watch: &mut Watch) -> Result<()> {
        let tables = self.tables(record);
        let names: Vec<&str> = tables.iter().map(String::as_str).collect();
        let cluster = self.stage.cluster().cloned();
        let position = images::position_before(self.session()?, cluster.as_ref());
        let case = self.run.case;
        let counted = replayed::Before::read(case, self.session()?)?;
        let before = self.touched_before(&names);
        self.session = None;
        record.pooler = own::record(self.run.case, self.stage.pooler());
        record.nodes = self.stage.prove_standbys(self.run.case, self.run.site)?;
        self.run.load(self, record, watch)?;
        self.look_at_nodes(record)?;
        if let Some(counted) = counted {
            record.replay = Some(Box::new(counted.since(self.another_session())));
        }
        images::add(
            record,
            position,
            &self.wal_ticks,
            cluster.as_ref(),
            self.writer,
            self.run.site.environment.stop,
        )?;
        self.run.site.changes.hands.expect_there()?;
        if record.residency.before.is_some() {
            record.residency.after = self.residency_after(&names).ok();
        }
        // Without these counts a rule is silent; the measurement stands.
        if record.outage.is_none()
            && let (Ok(before), Ok(after)) = (before, self.touched_after(record, &names))
        {
            let home = self.home();
            let since = after.into_iter().filter_map(|(table, after)| {
                let name = home.map_or(table.as_str(), |home| home.recorded(&table)).to_string();
                Some((name, after.since(*before.get(&table)?)))
            });
            // Of statistics that the server lost in a crash, no table's are known.
            let all: Option<BTreeMap<_, _>> = since.map(|(name, rows)| Some((name, rows?))).collect();
            record.touched = all.unwrap_or_default();
        }
        self.look_at_queries(record, watch)
    }

    fn explain(&mut self, record: &mut RunRecord) {
        if self.run.spec.block > EXPLAINED_BLOCKS {
            return;
        }
        let Some(load) = record.load.as_ref() else { return };
        let plans = bundle_of(load, self.run.case.workload.directory.as_deref()).and_then(|bundle| {
            let conninfo = self.stage.conninfo_of_sql(&self.run.case.workload)?;
            let mut session = session::open(&conninfo, self.run.site.environment.stop)?;
            session.restore_for_user()?;
            plans::generic(&mut session, &planned(&bundle))
        });
        match plans {
            Ok(plans) => record.plans = plans,
            Err(error) => {
                record.telemetry_unavailable.insert("generic plans".to_string(), format!("{error:#}"));
            }
        }
    }

    fn count(&mut self, record: &RunRecord) -> Result<StateAfterLoad> {
        let ServerBefore { conninfo, .. } = self.found.as_ref().context("the server is not described")?;
        let stop = self.run.site.environment.stop;
        let mut after = count::count_rows_after(conninfo, self.home(), &self.tables(record), stop)?;
        let workload = &self.run.case.workload;
        if workload.data == CaseData::Directory || restored::has_checks(workload)? {
            let checked = run_checks::after(self.run.case, self.stage, &self.outcomes, stop)?;
            after.violations.extend(checked.violations());
            after.unfinished = checked.unfinished;
        }
        Ok(after)
    }

    fn import(&mut self, record: &mut RunRecord) -> Result<()> {
        import::take(record, self.writer, self.run.site.environment.stop)
    }

    /// Only for a server of our own: the log of another server is not ours to store.
    fn keep_log(&mut self) -> Result<()> {
        if let Some(cluster) = self.stage.cluster() {
            let log = server::user::untrusted::open(&cluster.log_path()).context("open the server's log")?;
            self.writer.keep_server_log(log)?;
        }
        if let Some(pooler) = self.stage.pooler() {
            let log = server::user::untrusted::open(pooler.log_path()).context("open the pooler's log")?;
            self.writer.keep_pooler_log(log)?;
        }
        Ok(())
    }

    fn write(&mut self, record: &RunRecord) -> Result<()> {
        self.writer.write_record(record)
    }
}
