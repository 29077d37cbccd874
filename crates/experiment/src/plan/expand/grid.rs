//! Keys of an experiment that may vary, each with its levels as text.

use std::collections::BTreeMap;

use model::experiment::case::Calls;
use model::experiment::keys;
use model::experiment::keys::key::Key;
use model::experiment::keys::levels::Levels;
use model::experiment::keys::row::KeyRow;
use model::experiment::keys::value::KeyValue;
use model::experiment::{Experiment, ServerSection, WorkloadSection};
use model::text::units::PgVersion;
use model::workload::{Workload, WorkloadKind, WorkloadName};

use super::PlanResources;
use crate::plan::design::Dimension;
use crate::plan::problems::Problems;
use crate::plan::targets;

const ONE_SOURCE: &str = "server: give one of version, bin_dir, source and url, not several; version with source names \
                          releases that are built from it";

/// Keys that name the server: which of them are dimensions depends on each other and on targets.
const NAMES_A_SERVER: [&str; 5] = [
    keys::TARGET,
    keys::server::SOURCE.name,
    keys::server::REVISION.name,
    keys::server::VERSION.name,
    keys::server::BIN_DIR.name,
];

/// Keys of an experiment that may vary, each with its levels as text.
pub(super) struct Grid {
    pub(super) dimensions: Vec<Dimension>,
    /// The version where no server is named.
    pub(super) default_version: PgVersion,
}

impl Grid {
    /// All keys of `experiment`, including those with one level, as far as they are sound.
    pub(super) fn new(experiment: &Experiment, site: &PlanResources, problems: &mut Problems) -> Grid {
        let default_version = site.versions.default_version();
        let mut grid = Grid { dimensions: Vec::new(), default_version };
        let server = &experiment.server;
        let runs_servers = problems.take(targets::check(experiment)).unwrap_or(experiment.target.is_empty());
        for tree in server.source.iter().flat_map(Levels::all) {
            problems.take(server::binaries::build::check_address(tree));
        }
        if !experiment.target.is_empty() {
            let names: Vec<&str> = experiment.target.iter().map(|target| target.name.as_str()).collect();
            grid.add(keys::TARGET, &names);
        }
        problems.take(grid.add_server(experiment, runs_servers));
        problems.take(check_build(experiment));
        problems.take(expect_own_server(experiment, site.url_keywords.is_none() && runs_servers));
        let is_by_url = site.url_keywords.is_some() || !runs_servers;
        for (name, levels) in &server.settings {
            for level in levels.all().iter().filter(|_| is_by_url) {
                let refused = server::alter_system::refusal(name, &level.to_string());
                problems.take(refused.map_or(Ok(()), Err));
            }
        }
        problems.take(check_options(&experiment.workload));
        problems.take(check_directory_keys(&experiment.workload));
        problems.take(check_factors(experiment));
        let is_added = |row: &&KeyRow| NAMES_A_SERVER.contains(&row.name);
        for (key, levels) in
            keys::all().filter(|row| !is_added(row)).flat_map(|row| (row.dimensions)(experiment))
        {
            grid.dimensions.push(Dimension { key, levels });
        }
        grid
    }

    /// The levels of those that vary, in a combination.
    pub(super) fn factors_at(&self, chosen: &[usize]) -> BTreeMap<String, String> {
        let all = self.dimensions.iter().zip(chosen).filter(|(dimension, _)| dimension.is_factor());
        all.map(|(dimension, &n)| (dimension.key.clone(), dimension.levels[n].clone())).collect()
    }

    /// Adds the server's source.
    fn add_server(&mut self, experiment: &Experiment, runs_servers: bool) -> Result<(), String> {
        let server = &experiment.server;
        if server.source.is_none() && server.revision.is_some() {
            return Err("server.revision needs server.source: the repository".to_string());
        }
        if server.version.is_some() && server.revision.is_some() {
            return Err("server: version and revision both name what is built; give one of them".to_string());
        }
        if !runs_servers {
            return expect_no_servers(server);
        }
        let (source, version) = (keys::server::SOURCE, keys::server::VERSION);
        match (&server.version, &server.bin_dir, &server.url) {
            (_, None, None) if server.source.is_some() => {
                self.add_levels(source, experiment);
                self.add_levels(keys::server::REVISION, experiment);
                self.add_levels(version, experiment);
            }
            _ if server.source.is_some() => return Err(ONE_SOURCE.to_string()),
            (Some(_), None, None) => self.add_levels(version, experiment),
            (None, Some(_), None) => self.add_levels(keys::server::BIN_DIR, experiment),
            (None, None, Some(_)) => {}
            (None, None, None) => {
                let default = self.default_version.clone();
                self.add(version.name, std::slice::from_ref(&default));
            }
            _ => return Err(ONE_SOURCE.to_string()),
        }
        Ok(())
    }

    fn add_levels<T: KeyValue>(&mut self, key: Key<T>, experiment: &Experiment) {
        let all = key.of(experiment).dimensions(key.name);
        self.dimensions.extend(all.into_iter().map(|(key, levels)| Dimension { key, levels }));
    }

    fn add(&mut self, key: &str, levels: &[impl ToString]) {
        let levels = levels.iter().map(ToString::to_string).collect();
        self.dimensions.push(Dimension { key: key.to_string(), levels });
    }
}

/// Refuses names that hooks cannot see, and levels that nothing sets.
fn check_factors(experiment: &Experiment) -> Result<(), String> {
    let hooks = experiment.hooks.spec()?;
    let sets = !hooks.before_case.is_empty() || !hooks.before_run.is_empty();
    for (name, levels) in &experiment.factors {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.chars().all(is_plain) {
            return Err(format!(
                "factors.{name}: a name has lower-case letters, digits and `_` only: hooks see it as a variable"
            ));
        }
        if levels.is_factor() && !sets {
            return Err(format!(
                "factors.{name} varies, but no hook sets it; give hooks.before_case or hooks.before_run"
            ));
        }
    }
    Ok(())
}

/// Refuses keys that only some workloads have for the others.
fn check_options(workload: &WorkloadSection) -> Result<(), String> {
    if let Some(levels) = &workload.calls {
        check_calls(&workload.kind, levels)?;
    }
    type Has = fn(&Workload) -> bool;
    let only_of_some: [(&str, bool, Has); 3] = [
        (keys::workload::THINK.name, workload.think.is_some(), |row| row.options.terminals),
        (keys::workload::ISOLATION.name, workload.isolation.is_some(), |row| row.options.terminals),
        (keys::workload::ALL_WAREHOUSES.name, workload.all_warehouses.is_some(), |row| {
            row.options.all_warehouses
        }),
    ];
    for (key, is_given, has) in only_of_some {
        if is_given && !workload.kind.all().iter().all(|name| has(name.kind().row())) {
            return Err(format!("{key} is for workload.kind = {} alone", WorkloadKind::listed(has)));
        }
    }
    Ok(())
}

/// Refuses keys that only workload directories have for other workloads, and those of other workloads for directories.
fn check_directory_keys(workload: &WorkloadSection) -> Result<(), String> {
    let names = workload.kind.all();
    let has_variant =
        |name: &&WorkloadName| name.directory().is_some_and(|directory| directory.variant.is_some());
    if let Some(name) = names.iter().find(has_variant)
        && workload.variant.is_some()
    {
        return Err(format!(
            "{} and workload.kind = \"{name}\" both name a variant; give one",
            keys::workload::VARIANT
        ));
    }
    let of_directories = [
        (keys::workload::VARIANT.name, workload.variant.is_some()),
        (keys::workload::OPTIONS.name, !workload.options.is_empty()),
        (keys::workload::DATA_SEED.name, workload.data_seed.is_some()),
    ];
    let given = of_directories.iter().find(|(_, is_given)| *is_given);
    if let Some((key, _)) = given
        && let Some(other) = names.iter().find(|name| name.directory().is_none())
    {
        return Err(format!(
            "{key} is for workload directories alone, such as workload.kind = \"ycsb\", and not for \"{other}\""
        ));
    }
    let is_partitioned = workload.partitions.all().iter().any(|n| *n > 0);
    match names.iter().find(|name| name.directory().is_some()) {
        Some(name) if is_partitioned => Err(format!(
            "{} is for TPC-B-like tables; what the tables of `{name}` are, its `schema.sql` says",
            keys::workload::PARTITIONS
        )),
        _ => Ok(()),
    }
}

/// Targets by URL have their servers: one version or build may be given, for when there are no targets, but not several to measure.
fn expect_no_servers(server: &ServerSection) -> Result<(), String> {
    let varies = [
        ("version", server.version.as_ref().is_some_and(Levels::is_factor)),
        ("bin_dir", server.bin_dir.as_ref().is_some_and(Levels::is_factor)),
        ("source", server.source.as_ref().is_some_and(Levels::is_factor)),
        ("revision", server.revision.as_ref().is_some_and(Levels::is_factor)),
    ];
    match varies.iter().find(|(_, varies)| *varies) {
        Some((key, _)) => Err(format!(
            "server.{key} varies, but targets with a url have servers of their own; only targets without one, with a directory, vary it"
        )),
        None => Ok(()),
    }
}

/// Refuses a kind of build for a server that is no version.
fn check_build(experiment: &Experiment) -> Result<(), String> {
    let server = &experiment.server;
    let other = [
        ("bin_dir", server.bin_dir.is_some()),
        ("source", server.source.is_some()),
        ("url", server.url.is_some()),
    ];
    match other.iter().find(|(_, is_given)| *is_given) {
        Some((key, _)) if server.build.is_some() => Err(format!(
            "server.build chooses what server.version means, and server.{key} names the server itself; leave one of them out"
        )),
        _ => Ok(()),
    }
}

/// Refuses keys that a server by URL cannot have, and an address at which none of our servers may listen.
fn expect_own_server(experiment: &Experiment, is_own: bool) -> Result<(), String> {
    let server = &experiment.server;
    let is_set = server.listen.is_some()
        || server.tls.is_some()
        || server.wal_directory.is_some()
        || server.data_checksums.is_some();
    if !is_own && is_set {
        return Err("server.listen, server.tls, server.wal_directory and server.data_checksums need a server that pgdyno runs itself; a \
                    server given by URL keeps its own, unless commands change them ([factors] and [hooks])"
            .to_string());
    }
    if server.tls.is_some() && server.listen.is_none() {
        return Err("server.tls needs server.listen: connections on a unix socket are never encrypted. For a driver on this \
                    machine, listen = \"127.0.0.1\" will do"
            .to_string());
    }
    server
        .listen
        .iter()
        .try_for_each(|text| server::running::listen::check(text))
        .map_err(|error| error.to_string())
}

/// Checks that all workloads support these calls.
fn check_calls(names: &Levels<WorkloadName>, calls: &Levels<Calls>) -> Result<(), String> {
    let has_calls = |row: &Workload| !row.options.calls.is_empty();
    let kinds: Vec<WorkloadKind> = names.all().iter().map(WorkloadName::kind).collect();
    if !kinds.iter().all(|kind| has_calls(kind.row())) {
        let known = WorkloadKind::listed(has_calls);
        return Err(format!("workload.calls is for workload.kind = {known} alone"));
    }
    for (kind, call) in kinds.iter().flat_map(|kind| calls.all().iter().map(move |call| (kind, call))) {
        let options = &kind.row().options;
        if !options.calls.contains(call) {
            let known: Vec<&str> = options.calls.iter().map(|call| call.as_str()).collect();
            return Err(format!(
                "workload.calls = \"{call}\" is not for workload.kind = \"{kind}\": {} calls {}",
                options.caller,
                known.join(" or ")
            ));
        }
    }
    Ok(())
}
