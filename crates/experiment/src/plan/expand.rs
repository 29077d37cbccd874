//! Expands an experiment to its plan: every combination of levels, in randomized blocks.

mod apply;
mod archive;
mod creation;
mod directory;
pub(crate) mod figures;
mod grid;
pub(crate) mod outage;
mod pooler;
mod setting;
#[cfg(test)]
mod tests;
pub(super) mod topology;
mod workload_spec;

use std::collections::BTreeMap;

use model::experiment::case::{Case, ServerSource, ServerSpec, WorkloadSpec};
use model::experiment::driver::DriverSpec;
use model::experiment::keys;
use model::experiment::plan::condition::Condition;
use model::experiment::plan::{Plan, RunOrder, RunSpec};
use model::experiment::target::TargetSection;
use model::experiment::{Experiment, Prepare, PrepareSection, SpaceSpec};
use model::load::Window;
use model::load::capacity::Probing;
use model::telemetry::import::Import;
use model::text::prose::plural;
use model::text::units::PgVersion;
use model::workload::Dataset;

use self::grid::Grid;
use self::workload_spec::{WorkloadSources, workload_spec};
use crate::plan::design::choice::LevelChoice;
use crate::plan::design::{self, Combination, Combine, Dimension};
use crate::plan::problems::Problems;
use crate::plan::scripts::directories::chosen::ChosenDirectories;
use crate::plan::scripts::ledger;
use crate::plan::targets::labels::TargetLabels;
use crate::plan::targets::lanes;
use crate::plan::{title, windows};
use crate::site::keys::StageKey;
use crate::site::lanes::server_host::ServerHost;
use crate::site::wal;

/// Environment that a plan is made for.
#[derive(Debug, Clone, Default)]
pub struct PlanResources {
    /// The environment of each target by name, if the experiment has targets.
    pub targets: BTreeMap<String, PlanResources>,
    /// Memory of the machine with the data, bytes; `None` if we cannot see that machine.
    pub memory_bytes: Option<u64>,
    /// Scales of complete data that pgdyno loaded earlier on the server by URL.
    pub data_scale: BTreeMap<Dataset, u32>,
    /// Scales of tables there that pgdyno did not load.
    pub foreign_scale: BTreeMap<Dataset, u32>,
    /// Scales of complete data of workload directories there, by name.
    pub directory_scale: BTreeMap<String, u32>,
    /// Scales of the data that pgdyno's own servers have kept from earlier runs, those used last.
    pub kept_scale: BTreeMap<Dataset, u32>,
    /// Processors of the driver's machine.
    pub n_cpus: u32,
    /// The server by URL as libpq keywords without the password, if the experiment names one.
    pub url_keywords: Option<BTreeMap<String, String>>,
    /// The machine of the server by URL, if that matters and was looked up.
    pub host: Option<ServerHost>,
    /// What versions mean on this machine.
    pub versions: Versions,
    /// Current time, nanoseconds since the Unix epoch.
    pub now_unix_ns: u64,
    /// Seed for an experiment that gives none.
    pub fresh_seed: u64,
    /// The plan is of one side of a comparison: what has no effect there may have one on the other side.
    pub is_side: bool,
}

/// What versions mean on a machine; by default, which reads no machine, all are fetched.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Versions {
    /// The version for an experiment that names no server; `None`: [`DEFAULT_VERSION`].
    pub default: Option<PgVersion>,
    /// Where the binaries of a version come from.
    pub sources: BTreeMap<String, ServerSource>,
}

impl Versions {
    /// The version for an experiment that names no server.
    pub fn default_version(&self) -> PgVersion {
        self.default.clone().unwrap_or_else(|| DEFAULT_VERSION.parse().expect("it is a version"))
    }

    /// Where the binaries of a version come from.
    pub fn source(&self, version: PgVersion) -> ServerSource {
        let known = self.sources.get(version.as_str()).cloned();
        known.unwrap_or_else(|| ServerSource::of_version(version))
    }
}

/// Version for an experiment that names no server, where none is installed.
pub const DEFAULT_VERSION: &str = "18";
const THREADS: &str = keys::workload::THREADS.name;

/// Makes the plan.
///
/// # Errors
/// In words, when the experiment contradicts itself or asks for something impossible: all that is wrong, one problem a line.
pub fn plan(experiment: &Experiment, site: &PlanResources) -> Result<Plan, String> {
    let mut problems = Problems::default();
    let plan = plan_unless(experiment, site, &mut problems);
    problems.end(plan)
}

/// The plan, unless there are problems that leave none.
fn plan_unless(experiment: &Experiment, site: &PlanResources, problems: &mut Problems) -> Option<Plan> {
    let header = &experiment.experiment;
    problems.take(Import::check_all(&experiment.import));
    let grid = Grid::new(experiment, site, problems);
    problems.take(figures::check(experiment, &grid.dimensions));
    let combinations = combinations(experiment, &grid, problems);
    let labels = TargetLabels::from_experiment(experiment);
    let baseline = labels.baseline(header.baseline.as_ref(), &grid.dimensions, &combinations);
    let baseline = problems.take(baseline);
    let mut cases = cases(&grid, &combinations, experiment, site, problems)?;
    topology::give_relays(&mut cases);
    if !site.is_side {
        check_effects(&cases, problems);
    }
    for case in &cases {
        topology::check(case, problems);
        archive::check(case, problems);
        pooler::check(case, problems);
        outage::check(case, problems);
        problems.take(ledger::of_case(case));
    }
    let follow = threads_follow_clients(&cases);
    if follow {
        cases.iter_mut().for_each(|case| drop(case.levels.remove(THREADS)));
    }
    let seed = header.seed.unwrap_or(site.fresh_seed);
    let runs = problems.take(ordered_runs(experiment, &cases, seed));
    let lanes = problems.take(lanes::of_experiment(experiment, &cases, site));
    let is_factor = |dimension: &&Dimension| dimension.is_factor() && !(follow && dimension.key == THREADS);
    let factors: Vec<String> = grid.dimensions.iter().filter(is_factor).map(|d| d.key.clone()).collect();
    Some(Plan {
        format: model::FORMAT,
        name: header.name.clone(),
        title: match header.title.trim() {
            "" => title::title(&cases, &factors),
            own => own.to_string(),
        },
        description: header.description.clone(),
        seed,
        repeats: header.repeats,
        spare_blocks: 0,
        tool_version: env!("CARGO_PKG_VERSION").to_string(),
        made_unix_ns: site.now_unix_ns,
        precision: None,
        is_comparison: false,
        origins: Vec::new(),
        repeat_disturbed: if can_repeat(&cases) { experiment.run.repeat_disturbed } else { 0 },
        factors,
        runs: runs?,
        order: header.order,
        servers_at_a_time: servers_at_a_time(experiment, &cases),
        lanes: lanes?,
        baseline: baseline?,
        baseline_factors: labels.baseline_factors(header.baseline.as_ref(), &grid.dimensions),
        cases,
    })
}

/// Whether a disturbed run can be made again: a trace on data that is not restored would meet its own rows.
fn can_repeat(cases: &[Case]) -> bool {
    let is_trace = |case: &Case| case.workload.directory.as_ref().is_some_and(|dir| dir.replay.is_some());
    cases.iter().all(|case| case.prepare.restore || !is_trace(case))
}

/// Says what has no effect in any of the cases that are measured together.
fn check_effects(cases: &[Case], problems: &mut Problems) {
    creation::check(cases, problems);
    setting::check(cases, problems);
    topology::check_use(cases, problems);
}

/// The same for both sides of a comparison.
///
/// # Errors
/// In words, one problem a line.
pub(super) fn expect_effects(sides: &[Case]) -> Result<(), String> {
    let mut problems = Problems::default();
    check_effects(sides, &mut problems);
    problems.end(Some(()))
}

/// The combinations of levels that become cases; after a problem, as many as check every level.
fn combinations(experiment: &Experiment, grid: &Grid, problems: &mut Problems) -> Vec<Combination> {
    let header = &experiment.experiment;
    let combine = Combine { design: header.design, zip: &header.zip, exclude: &header.exclude };
    let combinations = combine.combinations(&grid.dimensions).and_then(|combinations| {
        if combinations.len() * header.repeats as usize <= design::RUNS_MAX {
            return Ok(combinations);
        }
        Err(format!(
            "{} cases, {} times each, are more than {} runs; leave out levels, or use experiment.exclude, zip or \
             design = \"one-factor\"",
            combinations.len(),
            header.repeats,
            design::RUNS_MAX
        ))
    });
    problems.take(combinations).unwrap_or_else(|| design::every_level(&grid.dimensions))
}

/// Whether the number of threads is the same wherever the number of clients is, as with `-j N -c N`: it is then no factor of its own,
/// and cases that differ in clients lie on one line.
fn threads_follow_clients(cases: &[Case]) -> bool {
    let mut threads_by_clients: BTreeMap<&str, &str> = BTreeMap::new();
    cases.iter().all(|case| {
        let levels = case.levels.get(keys::workload::CLIENTS.name).zip(case.levels.get(THREADS));
        levels
            .is_some_and(|(clients, threads)| threads_by_clients.entry(clients).or_insert(threads) == threads)
    })
}

/// The cases, if there are no problems.
fn cases(
    grid: &Grid,
    combinations: &[Combination],
    experiment: &Experiment,
    site: &PlanResources,
    problems: &mut Problems,
) -> Option<Vec<Case>> {
    let is_sound = problems.is_empty();
    let directories = ChosenDirectories::default();
    let mut cases = Vec::new();
    for (n, levels) in combinations.iter().enumerate() {
        cases.extend(case(
            n as u32 + 1,
            CaseLevels { grid, chosen: levels, is_sound, directories: &directories },
            experiment,
            site,
            problems,
        ));
        if problems.are_enough() {
            break;
        }
    }
    problems.is_empty().then_some(cases)
}

/// The runs in their order; grouped by server if only one may have its data on disk.
fn ordered_runs(experiment: &Experiment, cases: &[Case], seed: u64) -> Result<Vec<RunSpec>, String> {
    let header = &experiment.experiment;
    let runs = design::runs(cases.len() as u32, header.repeats, seed, header.order);
    if experiment.run.servers_at_a_time.is_none() && header.order != RunOrder::ByServer {
        return Ok(runs);
    }
    let is_by_url = cases.iter().any(|case| !case.server.source.is_embedded());
    if experiment.run.servers_at_a_time.is_some() && is_by_url {
        return Err("run.servers_at_a_time is for servers that pgdyno runs: data by URL stays where it is"
            .to_string());
    }
    let keys: Vec<StageKey> = cases.iter().map(StageKey::new).collect();
    let stage_of =
        |case: u32| keys.iter().position(|key| *key == keys[case as usize - 1]).unwrap_or_default();
    Ok(design::grouped(runs, stage_of))
}

/// With servers in turn, those that pgdyno runs have their data on disk one at a time.
fn servers_at_a_time(experiment: &Experiment, cases: &[Case]) -> Option<u32> {
    let is_own = || cases.iter().all(|case| case.server.source.is_embedded());
    let in_turn = experiment.experiment.order == RunOrder::ByServer && is_own();
    experiment.run.servers_at_a_time.or(in_turn.then_some(1))
}

/// Checks for all problems that do not depend on the servers, before any of them is contacted.
///
/// # Errors
/// As [`plan`].
pub fn check(experiment: &Experiment) -> Result<(), String> {
    plan_unseen(experiment).map(drop)
}

/// As [`check`], for one side of a comparison: what has no effect there may have one on the other.
///
/// # Errors
/// As [`plan`].
pub fn check_side(experiment: &Experiment) -> Result<(), String> {
    let unseen = PlanResources { is_side: true, ..PlanResources::unseen(experiment) };
    plan(experiment, &unseen).map(drop)
}

/// The plan, with made-up values for what depends on servers and machines: which of them, how much memory, how much data.
///
/// # Errors
/// As [`plan`].
pub fn plan_unseen(experiment: &Experiment) -> Result<Plan, String> {
    plan(experiment, &PlanResources::unseen(experiment))
}

impl PlanResources {
    /// An environment in which only an experiment's own contradictions are problems.
    pub(crate) fn unseen(experiment: &Experiment) -> PlanResources {
        let of_server = |url: Option<&String>| PlanResources {
            memory_bytes: Some(1 << 30),
            n_cpus: 1,
            url_keywords: url.map(|_| BTreeMap::new()),
            ..PlanResources::default()
        };
        let targets = experiment.target.iter();
        PlanResources {
            targets: targets.map(|t| (t.name.clone(), of_server(t.url.as_ref()))).collect(),
            ..of_server(experiment.server.url.as_ref())
        }
    }
}

/// Whether a key other than the number of clients has several levels.
pub fn varies_beyond_clients(experiment: &Experiment) -> bool {
    dimensions(experiment)
        .iter()
        .any(|dimension| dimension.is_factor() && dimension.key != keys::workload::CLIENTS.name)
}

/// Keys of an experiment with their levels; empty if it contradicts itself, which planning will report.
pub(crate) fn dimensions(experiment: &Experiment) -> Vec<Dimension> {
    let mut problems = Problems::default();
    let grid = Grid::new(experiment, &PlanResources::default(), &mut problems);
    if problems.is_empty() { grid.dimensions } else { Vec::new() }
}

/// The levels of one case.
struct CaseLevels<'a> {
    grid: &'a Grid,
    /// The number of the level, for each dimension of the grid.
    chosen: &'a [usize],
    /// Whether the keys are without problems so far, so that what is missing is one.
    is_sound: bool,
    directories: &'a ChosenDirectories,
}

fn case(
    id: u32,
    CaseLevels { grid, chosen, is_sound, directories }: CaseLevels,
    experiment: &Experiment,
    site: &PlanResources,
    problems: &mut Problems,
) -> Option<Case> {
    let choice = LevelChoice::new(experiment, &grid.dimensions, chosen);
    let levels = grid.factors_at(chosen);
    let target = choice.target();
    let site = target.and_then(|target| site.targets.get(&target.name)).unwrap_or(site);
    let source = source(&choice, &grid.default_version, site);
    let source = if is_sound { problems.take(source) } else { source.ok() };
    let settings = choice.get(keys::server::SETTINGS);
    let sources = WorkloadSources { experiment, target, site, directories };
    let workload = workload_spec(&choice, &sources, problems);
    let window = windows::window(&choice, &experiment.run);
    let wal = choice.get(keys::run::WAL);
    if let Some(workload) = &workload {
        check_load(workload, window, levels.contains_key(keys::run::RAMP_UP.name), problems);
        // Unless these levels are combined as asked for, another combination may be meant.
        if is_sound {
            problems.take(check_threads(workload));
        }
    }
    let transactions = workload.as_ref().and_then(|workload| workload.transactions);
    if let Some(reason) =
        wal::contradiction(wal, window, transactions, &settings, site.url_keywords.is_none())
    {
        problems.say(reason);
    }
    let is_unobserved = is_unobserved(&choice, problems);
    let adapt =
        workload.as_ref().map(|workload| windows::adapt(&choice, &experiment.run, workload, problems));
    let space = problems.take(space_spec(&experiment.prepare, site.url_keywords.is_some()));
    let hooks = problems.take(experiment.hooks.spec());
    let is_own = site.url_keywords.is_none();
    for condition in &experiment.experiment.conditions {
        problems.take(check_condition(condition, &settings, is_own));
    }
    if let Some(workload) = &workload {
        problems.take(apply::check(&choice, workload, is_own));
    }
    if let Some(workload) = &workload {
        check_analytical(workload, &choice, problems);
    }
    let n_standbys = choice.get(keys::topology::STANDBYS);
    let outage = choice.outage().map(|level| outage::spec(level, window, n_standbys));
    let server = source.map(|source| server_spec(source, settings, &choice, experiment, target));
    let mut workload = workload?;
    if outage.is_some() {
        outage::prepare(&mut workload);
    }
    Some(Case {
        id,
        levels,
        server: server?,
        // A load that ends by its number of transactions is measured from the first transaction on.
        window: if workload.transactions.is_some() { Window { ramp_up_s: 0, ..window } } else { window },
        workload,
        prepare: prepare(&choice),
        space: space?,
        os: choice.texts(keys::os::ROWS),
        factors: choice.get(keys::FACTORS),
        hooks: hooks?,
        outage,
        wal,
        adapt: adapt?,
        phase_timeout_s: experiment.run.phase_timeout.map(windows::seconds),
        limits: target.map_or(experiment.limits, |target| target.limits.or(experiment.limits)),
        is_unobserved,
        carried: choice.carried(),
        conditions: experiment.experiment.conditions.clone(),
        imports: experiment.import.clone(),
        data_settings: None,
    })
}

/// Refuses to leave out the statistics by which queries are planned.
fn check_analytical(workload: &WorkloadSpec, choice: &LevelChoice, problems: &mut Problems) {
    if workload.analytical().is_none() || choice.get(keys::prepare::ANALYZE) {
        return;
    }
    problems.say(format!(
        "prepare.analyze is off, and `{}` is analytical: its queries are planned by statistics; remove it",
        workload.directory.as_deref().map_or("the workload", |directory| &directory.name)
    ));
}

/// Whether host and server are left unobserved.
fn is_unobserved(choice: &LevelChoice, problems: &mut Problems) -> bool {
    let is_unobserved = !choice.get(keys::run::TELEMETRY);
    let wal = choice.get(keys::run::WAL);
    if is_unobserved && !wal.is_as_is() {
        problems.say(format!("run.wal = \"{wal}\" measures the WAL; leave run.telemetry on"));
    }
    if choice.get(keys::run::COUNTERS) && is_unobserved {
        problems.say("run.counters is part of what is observed; leave run.telemetry on".to_string());
    }
    is_unobserved
}

/// Checks that the settings of a case do not contradict a condition of the study. A condition sets nothing.
fn check_condition(
    condition: &Condition,
    settings: &BTreeMap<String, String>,
    is_own: bool,
) -> Result<(), String> {
    let Some((name, wanted)) = condition.setting() else { return Ok(()) };
    match model::experiment::case::setting::find(settings, name) {
        Some((_, value)) if condition.is_met_by(value) => Ok(()),
        Some((_, value)) => Err(format!(
            "experiment.conditions: `{condition}` is not what runs get: server.settings.{name} is {value}"
        )),
        None if is_own => Err(format!(
            "experiment.conditions: `{condition}` sets nothing; set server.settings.{name} = \"{wanted}\" too"
        )),
        None if wanted.strip_suffix('%').is_some_and(|share| share.trim().parse::<f64>().is_ok()) => {
            Err(format!(
                "experiment.conditions: `{condition}`: no server shows a share of memory; state the size"
            ))
        }
        None => Ok(()),
    }
}

/// Checks what a workload's pace and its number of transactions ask of the window.
fn check_load(workload: &WorkloadSpec, window: Window, ramp_up_varies: bool, problems: &mut Problems) {
    if let Some(target) = workload.pace.target() {
        problems.take(Probing::new(target, window));
        if workload.transactions.is_some() {
            problems.say(format!("workload.transactions is not for workload.pace = \"{}\"", workload.pace));
        }
    }
    if workload.transactions.is_some() && ramp_up_varies {
        problems.say(
            "run.ramp_up cannot vary with workload.transactions: a load that ends by number has none"
                .to_string(),
        );
    }
}

/// Refuses threads without a client: fewer would run than the name of the case says.
fn check_threads(workload: &WorkloadSpec) -> Result<(), String> {
    let n_drivers = (workload.drivers.len() as u32).max(1);
    let n_clients_each = workload.n_clients / n_drivers;
    if workload.n_threads <= n_clients_each {
        return Ok(());
    }
    Err(format!(
        "{THREADS}: {} for {}{}; give at most one per client, pair the levels of both by experiment.zip, or leave the combination \
         out by experiment.exclude",
        plural(workload.n_threads, "thread"),
        plural(n_clients_each, "client"),
        if n_drivers > 1 { " of each driver" } else { "" },
    ))
}

/// Where the server of a case comes from.
fn source(choice: &LevelChoice, default: &PgVersion, site: &PlanResources) -> Result<ServerSource, String> {
    let by_default = || choice.has(keys::server::VERSION).then(|| default.clone());
    let version = choice.get(keys::server::VERSION).or_else(by_default);
    let tree = choice.get(keys::server::SOURCE);
    Ok(match (tree, version, choice.get(keys::server::BIN_DIR), &site.url_keywords) {
        (Some(tree), Some(version), _, _) => {
            let revision = version.source_tag().ok_or_else(|| {
                format!(
                    "server.version: `{version}` with server.source names a series and no commit; name a release, such as `{version}.1`"
                )
            })?;
            ServerSource::Source { tree, revision: Some(revision) }
        }
        (Some(tree), None, _, _) => {
            ServerSource::Source { tree, revision: choice.get(keys::server::REVISION) }
        }
        (_, Some(version), _, _) => site.versions.source(version),
        (_, None, Some(dir), _) => ServerSource::BinDir(dir),
        (_, None, None, Some(keywords)) => ServerSource::Url(keywords.clone()),
        (_, None, None, None) => return Err("server: no version, bin_dir, source or url".to_string()),
    })
}

/// The server, and where it listens.
fn server_spec(
    source: ServerSource,
    settings: BTreeMap<String, String>,
    choice: &LevelChoice,
    experiment: &Experiment,
    target: Option<&TargetSection>,
) -> ServerSpec {
    ServerSpec {
        source,
        settings,
        listen: experiment.server.listen.clone(),
        tls: choice.get(keys::server::TLS).unwrap_or_default(),
        wal_directory: choice.get(keys::server::WAL_DIRECTORY),
        data_checksums: choice.get(keys::server::DATA_CHECKSUMS),
        host: target.map_or(&experiment.server.host, |t| &t.host).clone().map(DriverSpec::named),
        target: target.map(TargetSection::spec),
        restart: target.map_or(&experiment.server.restart, |t| &t.restart).clone(),
    }
}

/// Steps before the run.
fn prepare(choice: &LevelChoice) -> Prepare {
    Prepare {
        restore: choice.get(keys::prepare::RESTORE),
        restore_by: choice.get(keys::prepare::RESTORE_BY),
        checksums: choice.get(keys::prepare::CHECKSUMS),
        vacuum: choice.get(keys::prepare::VACUUM),
        analyze: choice.get(keys::prepare::ANALYZE),
        prewarm: choice.get(keys::prepare::PREWARM),
        checkpoint: choice.get(keys::prepare::CHECKPOINT),
        settle: choice.get(keys::prepare::SETTLE),
    }
}

/// Where the snapshot is stored.
fn space_spec(prepare: &PrepareSection, is_by_url: bool) -> Result<SpaceSpec, String> {
    let wal_headroom_bytes = match &prepare.wal_headroom {
        None => None,
        Some(text) => Some(
            // A bare number is ambiguous: bytes or megabytes.
            model::text::units::size_bytes(text, 0)
                .filter(|bytes| *bytes > 0)
                .ok_or_else(|| format!("prepare.wal_headroom: `{text}` is not a size; example: \"10GB\""))?,
        ),
    };
    let spec = SpaceSpec {
        snapshot: prepare.snapshot,
        snapshot_directory: prepare.snapshot_directory.clone(),
        wal_headroom_bytes,
    };
    if is_by_url && !spec.is_default() {
        return Err("prepare.snapshot, prepare.snapshot_directory and prepare.wal_headroom need a server that pgdyno runs \
                    itself; a server given by URL is restored by prepare.restore_by"
            .to_string());
    }
    if !spec.snapshot && spec.snapshot_directory.is_some() {
        return Err(
            "prepare.snapshot is off, so prepare.snapshot_directory has no effect; remove one of the two"
                .to_string(),
        );
    }
    Ok(spec)
}
