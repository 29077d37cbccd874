//! From an experiment to its plan: every combination of levels, in randomized blocks.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use model::case::{
    Calls, Case, Layout, ServerSource, ServerSpec, Think, TpccSpec, WorkloadKind, WorkloadSpec,
};
use model::experiment::{Experiment, WorkloadSection};
use model::levels::Levels;
use model::load::{Pace, Window};
use model::os::WalPolicy;
use model::plan::Plan;
use model::script::CaseData;
use model::target::TargetSection;
use model::units::Scale;

use crate::dataset::Dataset;
use crate::design::{self, Combine, Dimension};
use crate::{lengths, scripts, targets, wal};

/// What the plan is made for.
#[derive(Debug, Clone, Default)]
pub struct Site {
    /// The same for each target, by name, where the experiment has targets.
    pub targets: BTreeMap<String, Site>,
    /// Memory of the machine that has the data, bytes; `None` if that machine is out of sight.
    pub memory_bytes: Option<u64>,
    /// Scales of the whole data that pgdyno loaded before on the server by URL.
    pub data_scale: BTreeMap<Dataset, u32>,
    /// Scale of TPC-B-like tables there that pgdyno did not load.
    pub foreign_scale: Option<u32>,
    /// Processors of the machine that has the driver.
    pub n_cpus: u32,
    /// The server by URL as libpq keywords without the password, when the experiment names one.
    pub url_keywords: Option<BTreeMap<String, String>>,
    /// Now, nanoseconds since the Unix epoch.
    pub now_unix_ns: u64,
    /// Used when the experiment gives no seed.
    pub fresh_seed: u64,
}

/// The version run when an experiment names no server.
pub const DEFAULT_VERSION: &str = "18";

/// Makes the plan.
///
/// # Errors
/// In words, when the experiment contradicts itself or asks what cannot be.
pub fn plan(experiment: &Experiment, site: &Site) -> Result<Plan, String> {
    let header = &experiment.experiment;
    if !(1..=1000).contains(&header.repeats) {
        return Err(format!("experiment.repeats: {} is not in 1..1000", header.repeats));
    }
    check_name(&header.name)?;
    let window = lengths::window(&experiment.run)?;
    let grid = Grid::of(experiment, site)?;
    let combine = Combine { design: header.design, zip: &header.zip, exclude: &header.exclude };
    let combinations = combine.combinations(&grid.dimensions)?;
    if combinations.len() * header.repeats as usize > RUNS_MAX {
        return Err(format!(
            "{} cases, {} times each, are more than {RUNS_MAX} runs; leave out levels, or use experiment.exclude, zip or \
             design = \"one-factor\"",
            combinations.len(),
            header.repeats
        ));
    }
    let baseline = design::baseline(header.baseline.as_ref(), &grid.dimensions, &combinations)?;
    let mut cases = Vec::new();
    for (n, levels) in combinations.iter().enumerate() {
        cases.push(case(n as u32 + 1, &grid, levels, experiment, window, site)?);
    }
    let seed = header.seed.unwrap_or(site.fresh_seed);
    Ok(Plan {
        format: model::FORMAT,
        name: header.name.clone(),
        title: if header.title.is_empty() { header.name.clone() } else { header.title.clone() },
        description: header.description.clone(),
        seed,
        repeats: header.repeats,
        tool_version: env!("CARGO_PKG_VERSION").to_string(),
        made_unix_ns: site.now_unix_ns,
        precision: None,
        is_comparison: false,
        repeat_disturbed: lengths::repeat_disturbed(&experiment.run)?,
        factors: grid.dimensions.iter().filter(|d| d.is_factor()).map(|d| d.key.clone()).collect(),
        runs: design::runs(cases.len() as u32, header.repeats, seed, header.order),
        order: header.order,
        baseline,
        baseline_factors: design::factors_of(header.baseline.as_ref(), &grid.dimensions),
        cases,
    })
}

/// More runs than this are a mistake: at two seconds each they would take a month.
const RUNS_MAX: usize = 1_000_000;

fn check_name(name: &str) -> Result<(), String> {
    let fits = (1..=64).contains(&name.len());
    if fits && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c)) && !name.starts_with('.')
    {
        return Ok(());
    }
    Err(format!(
        "experiment.name: `{name}` must be 1 to 64 letters, digits, `-`, `_` or `.`: it names a directory"
    ))
}

/// What the keys of the operating system begin with.
const OS: &str = "os.";
/// What the keys of the scripts' variables begin with.
const DEFINES: &str = "workload.defines.";

/// The keys of an experiment that may vary, each with its levels as text.
struct Grid {
    dimensions: Vec<Dimension>,
}

impl Grid {
    fn of(experiment: &Experiment, site: &Site) -> Result<Grid, String> {
        let mut grid = Grid { dimensions: Vec::new() };
        let server = &experiment.server;
        let runs_servers = targets::check(experiment)?;
        server.source.iter().flat_map(Levels::all).try_for_each(|tree| server::build::check_address(tree))?;
        if !experiment.target.is_empty() {
            let names: Vec<&str> = experiment.target.iter().map(|target| target.name.as_str()).collect();
            grid.add("target", &names);
        }
        if server.source.is_none() && server.revision.is_some() {
            return Err("server.revision needs server.source: the repository".to_string());
        }
        match (&server.version, &server.bin_dir, &server.url) {
            _ if !runs_servers => {}
            (None, None, None) if server.source.is_some() => {
                server.source.iter().for_each(|trees| grid.add("server.source", trees.all()));
                server.revision.iter().for_each(|all| grid.add("server.revision", all.all()));
            }
            _ if server.source.is_some() => {
                return Err("server: give one of version, bin_dir, source and url, not several".to_string());
            }
            (Some(versions), None, None) => grid.add("server.version", versions.all()),
            (None, Some(dirs), None) => {
                let dirs: Vec<String> = dirs.all().iter().map(|dir| dir.display().to_string()).collect();
                grid.add("server.bin_dir", &dirs);
            }
            (None, None, Some(_)) => {}
            (None, None, None) => grid.add("server.version", &[DEFAULT_VERSION]),
            _ => return Err("server: give one of version, bin_dir, source and url, not several".to_string()),
        }
        let is_set = !(server.settings.is_empty() && server.wal_directory.is_none());
        if (site.url_keywords.is_some() || !runs_servers) && is_set {
            return Err("server.settings and server.wal_directory need a server that pgdyno runs itself; \
                        a server given by URL keeps its own"
                .to_string());
        }
        for (name, levels) in &server.settings {
            grid.add(&format!("server.settings.{name}"), levels.all());
        }
        if let Some(levels) = &server.wal_directory {
            let dirs: Vec<String> = levels.all().iter().map(|dir| dir.display().to_string()).collect();
            grid.add("server.wal_directory", &dirs);
        }
        let workload = &experiment.workload;
        grid.add("workload.kind", workload.kind.all());
        grid.add("workload.scale", workload.scale.all());
        let protocols: Vec<&str> = workload.protocol.all().iter().map(|p| p.as_str()).collect();
        grid.add("workload.protocol", &protocols);
        grid.add("workload.clients", workload.clients.all());
        if let Some(levels) = &workload.threads {
            grid.add("workload.threads", levels.all());
        }
        grid.add("workload.poller", workload.poller.all());
        grid.add("workload.busy_poll_us", workload.busy_poll_us.all());
        if let Some(levels) = &workload.transactions {
            grid.add("workload.transactions", levels.all());
        }
        grid.add("workload.pace", workload.pace.all());
        grid.add("workload.partitions", workload.partitions.all());
        let methods: Vec<&str> = workload.partition_method.all().iter().map(|m| m.as_str()).collect();
        grid.add("workload.partition_method", &methods);
        for (name, levels) in &workload.defines {
            grid.add(&format!("{DEFINES}{name}"), levels.all());
        }
        grid.add_tpcc(workload)?;
        grid.add("run.wal", experiment.run.wal.all());
        for (key, levels) in experiment.os.levels() {
            grid.add(&format!("{OS}{key}"), &levels);
        }
        Ok(grid)
    }

    /// The keys that only TPC-C and TPROC-C have.
    fn add_tpcc(&mut self, workload: &WorkloadSection) -> Result<(), String> {
        let texts =
            |levels: &[&dyn ToString]| levels.iter().map(|level| level.to_string()).collect::<Vec<_>>();
        fn all<T: ToString>(levels: &Option<Levels<T>>) -> Vec<&dyn ToString> {
            levels.iter().flat_map(Levels::all).map(|level| level as &dyn ToString).collect()
        }
        if let Some(levels) = &workload.calls {
            check_calls(&workload.kind, levels)?;
            self.add("workload.calls", &texts(&all(&workload.calls)));
        }
        let given =
            [("workload.think", all(&workload.think)), ("workload.isolation", all(&workload.isolation))];
        let is_tpcc = |kind: &WorkloadKind| *kind == WorkloadKind::Tpcc;
        for (key, levels) in given.into_iter().filter(|(_, levels)| !levels.is_empty()) {
            if !workload.kind.all().iter().all(is_tpcc) {
                return Err(format!("{key} is for workload.kind = \"tpcc\" alone"));
            }
            self.add(key, &texts(&levels));
        }
        if let Some(levels) = &workload.all_warehouses {
            if !workload.kind.all().iter().all(|kind| *kind == WorkloadKind::TprocC) {
                return Err("workload.all_warehouses is for workload.kind = \"tproc-c\" alone".to_string());
            }
            self.add("workload.all_warehouses", levels.all());
        }
        Ok(())
    }

    fn add(&mut self, key: &str, levels: &[impl ToString]) {
        let levels = levels.iter().map(ToString::to_string).collect();
        self.dimensions.push(Dimension { key: key.to_string(), levels });
    }
}

fn case(
    id: u32,
    grid: &Grid,
    chosen: &[usize],
    experiment: &Experiment,
    window: Window,
    site: &Site,
) -> Result<Case, String> {
    let mut levels = BTreeMap::new();
    let mut values: BTreeMap<&str, &str> = BTreeMap::new();
    for (dimension, &level) in grid.dimensions.iter().zip(chosen) {
        let text = &dimension.levels[level];
        values.insert(&dimension.key, text);
        if dimension.levels.len() > 1 {
            levels.insert(dimension.key.clone(), text.clone());
        }
    }
    let target = values.get("target").and_then(|name| experiment.target.iter().find(|t| t.name == **name));
    let site = target.and_then(|target| site.targets.get(&target.name)).unwrap_or(site);
    let tree = values.get("server.source").map(|tree| ServerSource::Source {
        tree: tree.to_string(),
        revision: values.get("server.revision").map(|revision| revision.to_string()),
    });
    let source = match (tree, values.get("server.version"), values.get("server.bin_dir"), &site.url_keywords)
    {
        (Some(tree), _, _, _) => tree,
        (_, Some(version), _, _) => ServerSource::Version(version.parse()?),
        (_, None, Some(dir), _) => ServerSource::BinDir(PathBuf::from(dir)),
        (_, None, None, Some(keywords)) => ServerSource::Url(keywords.clone()),
        (_, None, None, None) => return Err("server: no version, bin_dir, source or url".to_string()),
    };
    let settings: BTreeMap<String, String> = values
        .iter()
        .filter_map(|(key, value)| {
            Some((key.strip_prefix("server.settings.")?.to_string(), value.to_string()))
        })
        .collect();
    let workload = workload_spec(&values, experiment, site)?;
    let wal: WalPolicy = values["run.wal"].parse()?;
    if let Some(reason) = wal::contradiction(wal, window, &settings, site.url_keywords.is_none()) {
        return Err(reason);
    }
    let adapt = lengths::adapt(&experiment.run, window, &workload, wal)?;
    let os =
        values.iter().filter_map(|(key, value)| Some((key.strip_prefix(OS)?.to_string(), value.to_string())));
    Ok(Case {
        id,
        levels,
        server: ServerSpec {
            source,
            settings,
            wal_directory: values.get("server.wal_directory").map(PathBuf::from),
            target: target.map(TargetSection::spec),
        },
        // A load that ends by its number of transactions is measured from the first of them.
        window: if workload.transactions.is_some() { Window { ramp_up_s: 0, ..window } } else { window },
        workload,
        prepare: experiment.prepare,
        os: os.collect(),
        wal,
        adapt,
    })
}

fn workload_spec(
    values: &BTreeMap<&str, &str>,
    experiment: &Experiment,
    site: &Site,
) -> Result<WorkloadSpec, String> {
    let kind: WorkloadKind = values["workload.kind"].parse()?;
    let n_clients: u32 = values["workload.clients"].parse().map_err(|e| format!("workload.clients: {e}"))?;
    if !(1..=100_000).contains(&n_clients) {
        return Err(format!("workload.clients: {n_clients} is not in 1..100000"));
    }
    let most_clients = experiment.workload.clients.all().iter().copied().max().unwrap_or(n_clients);
    let default_threads = n_clients.div_ceil(64).min((site.n_cpus / 2).max(1));
    let n_threads = number(values, "workload.threads")?.unwrap_or(default_threads);
    if n_threads == 0 {
        return Err("workload.threads: 0 is not in 1..clients".to_string());
    }
    let busy_poll_us = number(values, "workload.busy_poll_us")?.unwrap_or(0);
    if busy_poll_us > BUSY_POLL_US_MAX {
        return Err(format!("workload.busy_poll_us: not in 0..={BUSY_POLL_US_MAX} microseconds"));
    }
    if experiment.workload.transactions.as_ref().is_some_and(|levels| levels.all().contains(&0)) {
        return Err("workload.transactions: 0 is not in 1..".to_string());
    }
    if experiment.workload.load_streams.is_some_and(|n| !(1..=LOAD_STREAMS_MAX).contains(&n)) {
        return Err(format!("workload.load_streams: not in 1..{LOAD_STREAMS_MAX}"));
    }
    let is_own = kind == WorkloadKind::Scripts;
    let section = &experiment.workload;
    let data = match kind {
        WorkloadKind::Scripts => scripts::data_of(section, site.url_keywords.is_some()),
        WorkloadKind::Tpcc => CaseData::Tpcc,
        WorkloadKind::TprocC => CaseData::TprocC,
        WorkloadKind::Tpcb | WorkloadKind::TpcbSimple | WorkloadKind::TpcbSelect => CaseData::Tpcb,
    };
    let pace: Pace = values["workload.pace"].parse()?;
    let tpcc = (kind == WorkloadKind::Tpcc).then(|| tpcc_spec(values, pace)).transpose()?;
    let scale = values["workload.scale"].parse()?;
    let defines = values.iter().filter_map(|(key, value)| {
        Some((key.strip_prefix(DEFINES).filter(|_| is_own)?.to_string(), value.to_string()))
    });
    Ok(WorkloadSpec {
        kind,
        scale: match Dataset::of(&data) {
            Some(dataset) => resolve_scale(scale, dataset, most_clients, site)?,
            None => own_scale(scale, &data, site)?,
        },
        protocol: values["workload.protocol"].parse()?,
        n_clients,
        n_threads: n_threads.min(n_clients),
        pace,
        transactions: number(values, "workload.transactions")?,
        poller: values["workload.poller"].parse()?,
        busy_poll_us,
        layout: layout(values)?,
        load_streams: experiment.workload.load_streams,
        data,
        scripts: if is_own { scripts::of_case(section) } else { Vec::new() },
        defines: defines.collect(),
        tpcc,
        procedures: kind == WorkloadKind::TprocC
            && values.get("workload.calls") == Some(&Calls::Procedures.as_str()),
        all_warehouses: values.get("workload.all_warehouses") == Some(&"true"),
    })
}

/// The number that a key has, if it was given.
fn number<T: FromStr<Err = std::num::ParseIntError>>(
    values: &BTreeMap<&str, &str>,
    key: &str,
) -> Result<Option<T>, String> {
    values.get(key).map(|text| text.parse().map_err(|error| format!("{key}: {error}"))).transpose()
}

/// What `:scale` is in scripts whose data is their own. `fit`: the scale of TPC-B-like tables that are there, else 1,
/// as in pgbench.
fn own_scale(scale: Scale, data: &CaseData, site: &Site) -> Result<u32, String> {
    match scale {
        Scale::Units(units) => Ok(units),
        Scale::Fit if *data == CaseData::None => {
            Ok(site.data_scale.get(&Dataset::Tpcb).copied().or(site.foreign_scale).unwrap_or(1))
        }
        Scale::Fit => Ok(1),
        Scale::TimesRam(_) => Err(format!(
            "workload.scale: `{scale}` needs tables whose size is known; give a number: it is what scripts see as :scale"
        )),
    }
}

/// Most sessions that may load side by side: a load is limited by the server's processors, not by sessions.
pub const LOAD_STREAMS_MAX: u32 = 256;
/// A second: the driver tells each second what it did.
const BUSY_POLL_US_MAX: u32 = 1_000_000;
/// Most partitions: more are beyond what PostgreSQL's documentation advises (a few thousand at most).
pub const PARTITIONS_MAX: u32 = 10_000;

fn layout(values: &BTreeMap<&str, &str>) -> Result<Layout, String> {
    let partitions: u32 =
        values["workload.partitions"].parse().map_err(|e| format!("workload.partitions: {e}"))?;
    if partitions > PARTITIONS_MAX {
        return Err(format!("workload.partitions: {partitions} is not in 0..{PARTITIONS_MAX}"));
    }
    Ok(Layout { partitions, partition_method: values["workload.partition_method"].parse()? })
}

/// Whether all workloads can be called so.
fn check_calls(kinds: &Levels<WorkloadKind>, calls: &Levels<Calls>) -> Result<(), String> {
    if !kinds.all().iter().all(|kind| matches!(kind, WorkloadKind::Tpcc | WorkloadKind::TprocC)) {
        return Err("workload.calls is for workload.kind = \"tpcc\" or \"tproc-c\" alone".to_string());
    }
    if kinds.all().contains(&WorkloadKind::TprocC) && calls.all().contains(&Calls::Statements) {
        return Err("workload.calls = \"statements\" is not for workload.kind = \"tproc-c\": HammerDB calls functions \
                    or procedures"
            .to_string());
    }
    Ok(())
}

/// The words of the keys that only TPC-C has.
fn tpcc_spec(values: &BTreeMap<&str, &str>, pace: Pace) -> Result<TpccSpec, String> {
    fn read<T: FromStr<Err = String> + Default>(
        values: &BTreeMap<&str, &str>,
        key: &str,
    ) -> Result<T, String> {
        values.get(key).map_or_else(|| Ok(T::default()), |text| text.parse())
    }
    let spec = TpccSpec {
        calls: read(values, "workload.calls")?,
        think: read(values, "workload.think")?,
        isolation: read(values, "workload.isolation")?,
    };
    if spec.think == Think::Spec && pace.is_open() {
        return Err(
            "workload.think = \"spec\" needs workload.pace = \"closed\": terminals have their own pace"
                .to_string(),
        );
    }
    Ok(spec)
}

/// Scale units for a rule. `fit`: the data that is there already, if pgdyno loaded it; else two branches for each
/// client, so that row locks on branches do not decide (pgbench's documentation asks for at least one), at least 20,
/// at most an eighth of memory.
fn resolve_scale(scale: Scale, dataset: Dataset, most_clients: u32, site: &Site) -> Result<u32, String> {
    let unit_bytes = dataset.estimated_bytes(1).max(1);
    // Each client of TPC-C has a warehouse to itself.
    let (per_client, least) = match dataset {
        Dataset::Tpcb => (2, 20),
        Dataset::Tpcc | Dataset::TprocC => (1, 10),
    };
    match (scale, site.memory_bytes) {
        (Scale::Units(0), _) => Err("workload.scale: 0 is not in 1..".to_string()),
        (Scale::Units(units), _) => Ok(units),
        (Scale::Fit, memory_bytes) => Ok(site.data_scale.get(&dataset).copied().unwrap_or_else(|| {
            let most = memory_bytes.map_or(u64::MAX, |bytes| (bytes / 8 / unit_bytes).max(1));
            u64::from(most_clients).saturating_mul(per_client).max(least).min(most) as u32
        })),
        (Scale::TimesRam(times), Some(bytes)) => {
            Ok(((bytes as f64 * times / unit_bytes as f64).ceil() as u32).max(1))
        }
        (Scale::TimesRam(_), None) => Err(format!(
            "workload.scale: `{scale}` needs the memory of the server's machine, which is not this one; give a \
             number: one scale unit is about {} MB",
            unit_bytes / 1_000_000
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site() -> Site {
        Site {
            memory_bytes: Some(24 << 30),
            data_scale: BTreeMap::new(),
            foreign_scale: None,
            n_cpus: 2,
            url_keywords: None,
            now_unix_ns: 1,
            fresh_seed: 42,
            ..Site::default()
        }
    }

    fn plan_of(text: &str) -> Result<Plan, String> {
        plan_at(text, &site())
    }

    fn plan_at(text: &str, site: &Site) -> Result<Plan, String> {
        let text = format!("[experiment]\nname = \"x\"\n{text}");
        plan(&crate::file::parse("x.toml", &text, &[]).unwrap(), site)
    }

    #[test]
    fn lists_make_a_grid_in_randomized_blocks() {
        let text = "repeats = 4\n[server]\nversion = [\"12\", \"18\"]\n[workload]\nclients = [1, 8, 32]\n";
        let plan = plan_of(text).unwrap();
        assert_eq!(plan.cases.len(), 6);
        assert_eq!(plan.factors, ["server.version", "workload.clients"]);
        assert_eq!(plan.cases[1].label(), "version 12, 8 clients");
        assert_eq!(plan.runs.len(), 24);
        let orders: Vec<Vec<u32>> =
            plan.runs.chunks(6).map(|b| b.iter().map(|run| run.case).collect()).collect();
        for (n, (order, runs)) in orders.iter().zip(plan.runs.chunks(6)).enumerate() {
            assert!(runs.iter().all(|run| run.block == n as u32 + 1));
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [1, 2, 3, 4, 5, 6], "each case once per block");
        }
        assert!(orders.windows(2).any(|pair| pair[0] != pair[1]), "blocks have orders of their own");
        assert_eq!(plan_of(text).unwrap().runs, plan.runs, "the same seed gives the same order");
    }

    #[test]
    fn scales_are_resolved_against_the_machine() {
        let check = |text: &str, expected: u32| {
            assert_eq!(plan_of(text).unwrap().cases[0].workload.scale, expected, "{text}");
        };
        check("[workload]\nclients = [1, 16]", 32);
        check("[workload]\nscale = 7", 7);
        check("[workload]\nclients = 1", 20);
        assert!(plan_of("[workload]\nscale = \"3x RAM\"").unwrap().cases[0].workload.scale > 3000);
    }

    #[test]
    fn a_machine_out_of_sight_has_no_memory_to_scale_by() {
        let scale = |text: &str, data_scale: Option<u32>| {
            let data_scale = data_scale.map(|scale| (Dataset::Tpcb, scale)).into_iter().collect();
            let away = Site { memory_bytes: None, data_scale, ..site() };
            plan_at(text, &away).map(|plan| plan.cases[0].workload.scale)
        };
        assert_eq!(scale("[workload]\nclients = 5000", None), Ok(10_000));
        assert_eq!(scale("[workload]\nclients = 5000", Some(3)), Ok(3), "the data that is there fits");
        assert_eq!(scale("[workload]\nscale = 7", Some(3)), Ok(7));
        let message = scale("[workload]\nscale = \"3x RAM\"", Some(3)).unwrap_err();
        assert!(message.contains("`3x RAM` needs the memory of the server's machine"), "{message}");
    }

    #[test]
    fn values_of_the_system_and_of_the_wal_are_factors_like_others() {
        let text = "[server]\nsource = \"/pg\"\nrevision = [\"REL_12_1\", \"abc123\"]\n[run]\nwal = [\"as-is\", \
                    \"no-checkpoint\"]\n[os]\nhuge_pages = [\"off\", \"on\"]\nswappiness = 10\n";
        let plan = plan_of(text).unwrap();
        assert_eq!(plan.factors, ["server.revision", "run.wal", "os.huge_pages"]);
        assert_eq!(plan.cases.len(), 8);
        let last = &plan.cases[7];
        assert_eq!((last.os["huge_pages"].as_str(), last.os["swappiness"].as_str()), ("on", "10"));
        assert_eq!(last.wal, WalPolicy::NoCheckpoint);
        let revision = Some("abc123".to_string());
        assert_eq!(last.server.source, ServerSource::Source { tree: "/pg".to_string(), revision });
    }

    #[test]
    fn contradictions_are_refused() {
        let check = |text: &str, expected: &str| {
            let message = plan_of(text).unwrap_err();
            assert!(message.contains(expected), "{message}\nexpected: {expected}");
        };
        check("repeats = 0", "repeats");
        check("[server]\nversion = \"12\"\nbin_dir = \"/x\"", "one of version, bin_dir, source and url");
        check("[server]\nversion = \"12\"\nsource = \"/x\"", "one of version, bin_dir, source and url");
        check("[server]\nrevision = \"REL_12_1\"", "server.revision needs server.source");
        check("[server]\nsource = [\"/x\", \"https://token@h/x\"]", "use a git credential helper or ssh");
        check("[run]\nramp_up = \"0s\"\nwal = \"no-checkpoint\"", "give run.ramp_up at least 5s");
        check("[workload]\nclients = 0", "clients: 0");
        check("[run]\nmeasure = \"1500ms\"", "whole number of seconds");
        check("[run]\nmeasure = \"1s\"", "too short");
        check("[workload]\nthreads = 0", "threads: 0");
        check("[workload]\npartitions = 100000", "partitions: 100000 is not in 0..10000");
        check("[workload]\nload_streams = 0", "load_streams: not in 1..256");
        check("[workload]\nclients = [1, 2, 1]", "workload.clients: level 1 is given twice");
        check("[server]\nversion = [\"18\", \"18\"]", "server.version: level 18 is given twice");
        check("[server]\nsettings.work_mem = [\"4MB\", \"4MB\"]", "work_mem: level 4MB is given twice");
    }
}
