//! Keys of an experiment that may vary, each with its levels as text.

use std::collections::BTreeMap;

use model::experiment::case::{Calls, WorkloadKind};
use model::experiment::levels::Levels;
use model::experiment::{Experiment, RunSection, ServerSection, WorkloadSection};

use super::{Resources, Versions};
use crate::plan::design::Dimension;
use crate::plan::problems::Problems;
use crate::plan::targets;

/// Prefix of operating system keys.
pub(super) const OS: &str = "os.";
/// Prefix of what only hooks know.
pub(super) const FACTORS: &str = "factors.";
/// Prefix of script variables.
pub(super) const DEFINES: &str = "workload.defines.";

/// Prefix of steps before a run.
pub(super) const PREPARE: &str = "prepare.";
/// The one step that is not boolean.
pub(super) const RESTORE_BY: &str = "prepare.restore_by";

const ONE_SOURCE: &str = "server: give one of version, bin_dir, source and url, not several; version with source names \
                          releases that are built from it";

/// Keys of an experiment that may vary, each with its levels as text.
pub(super) struct Grid {
    pub(super) dimensions: Vec<Dimension>,
}

impl Grid {
    /// All keys of `experiment`, including those with one level, as far as they are sound.
    pub(super) fn of(experiment: &Experiment, site: &Resources, problems: &mut Problems) -> Grid {
        let mut grid = Grid { dimensions: Vec::new() };
        let server = &experiment.server;
        let runs_servers = problems.take(targets::check(experiment)).unwrap_or(experiment.target.is_empty());
        for tree in server.source.iter().flat_map(Levels::all) {
            problems.take(server::binaries::build::check_address(tree));
        }
        if !experiment.target.is_empty() {
            let names: Vec<&str> = experiment.target.iter().map(|target| target.name.as_str()).collect();
            grid.add("target", &names);
        }
        problems.take(grid.add_server(experiment, runs_servers, &site.versions));
        problems.take(check_build(experiment));
        problems.take(expect_own_server(experiment, site.url_keywords.is_none() && runs_servers));
        let is_by_url = site.url_keywords.is_some() || !runs_servers;
        for (name, levels) in &server.settings {
            for level in levels.all().iter().filter(|_| is_by_url) {
                let refused = server::alter_system::refusal(name, &level.to_string());
                problems.take(refused.map_or(Ok(()), Err));
            }
            grid.add(&format!("server.settings.{name}"), levels.all());
        }
        if let Some(levels) = &server.tls {
            grid.add("server.tls", levels.all());
        }
        if let Some(levels) = &server.wal_directory {
            let dirs: Vec<String> = levels.all().iter().map(|dir| dir.display().to_string()).collect();
            grid.add("server.wal_directory", &dirs);
        }
        if let Some(levels) = &server.data_checksums {
            grid.add("server.data_checksums", levels.all());
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
        if let Some(levels) = &workload.drivers {
            grid.add("workload.drivers", levels.all());
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
        problems.take(grid.add_tpcc(workload));
        grid.add_run(&experiment.run);
        for (key, levels) in experiment.prepare.steps() {
            grid.add(&format!("{PREPARE}{key}"), levels.all());
        }
        grid.add(RESTORE_BY, experiment.prepare.restore_by.all());
        for (key, levels) in experiment.os.levels() {
            grid.add(&format!("{OS}{key}"), &levels);
        }
        problems.take(grid.add_factors(experiment));
        grid
    }

    /// The values of all keys in a combination, and the levels of those that vary.
    pub(super) fn at(&self, chosen: &[usize]) -> (BTreeMap<&str, &str>, BTreeMap<String, String>) {
        let (mut values, mut levels) = (BTreeMap::new(), BTreeMap::new());
        for (dimension, &level) in self.dimensions.iter().zip(chosen) {
            let text = &dimension.levels[level];
            values.insert(dimension.key.as_str(), text.as_str());
            if dimension.is_factor() {
                levels.insert(dimension.key.clone(), text.clone());
            }
        }
        (values, levels)
    }

    /// Adds the course of a run and what is seen of it.
    fn add_run(&mut self, run: &RunSection) {
        let RunSection { ramp_up, measure, grace, wal, telemetry, counters, .. } = run;
        self.add("run.ramp_up", ramp_up.all());
        self.add("run.measure", measure.all());
        self.add("run.grace", grace.all());
        self.add("run.wal", wal.all());
        self.add("run.telemetry", telemetry.all());
        self.add("run.counters", counters.all());
    }

    /// Adds what only hooks know.
    fn add_factors(&mut self, experiment: &Experiment) -> Result<(), String> {
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
            self.add(&format!("{FACTORS}{name}"), levels.all());
        }
        Ok(())
    }

    /// Adds the server's source.
    fn add_server(
        &mut self,
        experiment: &Experiment,
        runs_servers: bool,
        versions: &Versions,
    ) -> Result<(), String> {
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
        match (&server.version, &server.bin_dir, &server.url) {
            (_, None, None) if server.source.is_some() => {
                server.source.iter().for_each(|trees| self.add("server.source", trees.all()));
                server.revision.iter().for_each(|all| self.add("server.revision", all.all()));
                server.version.iter().for_each(|all| self.add("server.version", all.all()));
            }
            _ if server.source.is_some() => return Err(ONE_SOURCE.to_string()),
            (Some(versions), None, None) => self.add("server.version", versions.all()),
            (None, Some(dirs), None) => {
                let dirs: Vec<String> = dirs.all().iter().map(|dir| dir.display().to_string()).collect();
                self.add("server.bin_dir", &dirs);
            }
            (None, None, Some(_)) => {}
            (None, None, None) => self.add("server.version", &[versions.default_version()]),
            _ => return Err(ONE_SOURCE.to_string()),
        }
        Ok(())
    }

    /// Adds the keys that only TPC-C and TPROC-C have.
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
