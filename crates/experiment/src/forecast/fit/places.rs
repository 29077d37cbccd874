//! Brings an experiment to this machine: hosts that are placeholders, directories that are not here, and releases that cannot be
//! built here.

use std::path::{Path, PathBuf};

use model::experiment::Experiment;
use model::experiment::driver::inventory::DriverSection;
use model::experiment::keys;
use model::experiment::keys::levels::Levels;
use model::experiment::os::limits::Limits;
use model::experiment::target::{ExporterSection, TargetSection};
use model::text::prose::plural;
use model::text::units::{PgVersion, SettingValue};
use server::binaries::build::{self, SourceTree};

use super::{FitChange, keep};

/// What this machine lacks for an experiment.
#[derive(Debug, Clone, Default)]
pub(super) struct Lacks {
    /// Why the source cannot be built here.
    source: Option<String>,
    directories: Vec<PathBuf>,
    /// Whether its devices may be those of which the experiment declares what they give: it names no place that is not here.
    has_declared_devices: bool,
}

impl Lacks {
    /// Looks, without changing anything.
    pub(super) fn look(experiment: &Experiment) -> Lacks {
        let server = &experiment.server;
        let trees = server.source.iter().flat_map(Levels::all);
        let releases: Vec<&PgVersion> = server.version.iter().flat_map(Levels::all).collect();
        let of_tree = |tree: &String| {
            let cache = server::Cache::default_location().ok()?;
            releases.iter().find_map(|release| {
                let tag = release.source_tag()?;
                build::lacks(&cache, &SourceTree { tree, revision: Some(&tag) })
            })
        };
        let old = releases.iter().any(|release| release.last_before_binaries().is_some());
        let theirs = model::experiment::case::REPOSITORY.to_string();
        let source = trees.map(of_tree).next().unwrap_or_else(|| if old { of_tree(&theirs) } else { None });
        let directories = server.wal_directory.iter().flat_map(Levels::all);
        // pgdyno creates the last part.
        let is_missing = |dir: &&PathBuf| !dir.exists() && !dir.parent().is_some_and(Path::exists);
        let directories: Vec<PathBuf> = directories.filter(is_missing).cloned().collect();
        let has_declared_devices = directories.is_empty() && placeholders(experiment).is_empty();
        Lacks { source, directories, has_declared_devices }
    }
}

/// Changes `experiment` so that it names nothing that is not here.
pub(super) fn bring_here(experiment: &mut Experiment, lacks: &Lacks) -> Vec<FitChange> {
    let mut changes = Vec::new();
    drivers(experiment, &mut changes);
    targets(experiment, &mut changes);
    if let Some(why) = &lacks.source {
        source(experiment, why, &mut changes);
    }
    directories(experiment, &lacks.directories, &mut changes);
    if !lacks.has_declared_devices {
        limits(experiment, &mut changes);
    }
    changes
}

/// Hosts that a built-in study names for the user to replace: no machine has a name in this domain (RFC 2606).
pub fn placeholders(experiment: &Experiment) -> Vec<String> {
    let of_targets = experiment
        .target
        .iter()
        .flat_map(|target| target.url.iter().map(String::as_str).chain(target.driver.iter().flat_map(words)));
    let all =
        experiment.server.url.iter().map(String::as_str).chain(experiment.driver.iter().flat_map(words));
    let mut found: Vec<String> = all.chain(of_targets).filter_map(placeholder).collect();
    found.sort();
    found.dedup();
    found
}

fn words(driver: &DriverSection) -> impl Iterator<Item = &str> {
    driver.via.iter().map(String::as_str)
}

fn placeholder(text: &str) -> Option<String> {
    let is_apart = |c: char| !(c.is_ascii_alphanumeric() || ".-_".contains(c));
    text.split(is_apart).find(|part| part.ends_with(".example")).map(str::to_string)
}

/// Drivers on placeholders: one process here instead.
fn drivers(experiment: &mut Experiment, changes: &mut Vec<FitChange>) {
    let Some(host) = experiment.driver.iter().flat_map(words).find_map(placeholder) else { return };
    experiment.driver.clear();
    changes.push(FitChange {
        key: "driver".to_string(),
        from: host.clone(),
        to: "this machine".to_string(),
        why: format!("`{host}` is a placeholder"),
    });
    if let Some(listen) = experiment.server.listen.take() {
        changes.push(FitChange {
            key: keys::server::LISTEN.name.to_string(),
            from: listen,
            to: "a unix socket".to_string(),
            why: "the driver is on this machine".to_string(),
        });
    }
}

/// Servers on placeholders: servers that pgdyno runs here instead, all with the same data.
fn targets(experiment: &mut Experiment, changes: &mut Vec<FitChange>) {
    let host_of = |target: &TargetSection| target.url.as_deref().and_then(placeholder);
    let hosts: Vec<String> = experiment.target.iter().filter_map(host_of).collect();
    if hosts.is_empty() || hosts.len() < experiment.target.len() {
        return;
    }
    for target in &mut experiment.target {
        target.url = None;
        target.host = None;
        target.telemetry = None;
        target.exporter = ExporterSection::default();
        target.memory = None;
        target.price_per_hour = None;
        target.price_per_month = None;
        target.spot_price_per_hour = None;
        target.bid_per_hour = None;
        target.limits = Limits::default();
        target.currency = None;
        target.restart.clear();
        target.driver.clear();
    }
    changes.push(FitChange {
        key: "target".to_string(),
        from: format!("{} by URL", plural(hosts.len(), "server")),
        to: "one server that pgdyno runs here, under each name".to_string(),
        why: format!("no machine has a name such as `{}`; what the labels say is not so here", hosts[0]),
    });
    if let Some(names) = experiment.workload.tablespace.take() {
        changes.push(FitChange {
            key: keys::workload::TABLESPACE.name.to_string(),
            from: names.all().join(", "),
            to: "left out".to_string(),
            why: "a server that pgdyno runs has no tablespaces".to_string(),
        });
    }
    conditions(experiment, changes);
}

/// Conditions of servers by URL become settings of our server, or are left out if they are no settings.
fn conditions(experiment: &mut Experiment, changes: &mut Vec<FitChange>) {
    let mut set = |experiment: &mut Experiment, name: &str, value: &str, why: &str| {
        experiment.server.settings.insert(name.to_string(), Levels::one(SettingValue(value.to_string())));
        changes.push(FitChange {
            key: format!("server.settings.{name}"),
            from: "the server's own".to_string(),
            to: value.to_string(),
            why: why.to_string(),
        });
    };
    let mut left_out = Vec::new();
    let mut kept = Vec::new();
    for condition in std::mem::take(&mut experiment.experiment.conditions) {
        let setting = condition.setting().map(|(name, value)| (name.to_string(), value.to_string()));
        let is_ours = |name: &str, value: &str| {
            server::settings::check_settings(&[(name.to_string(), value.to_string())].into()).is_ok()
        };
        match setting {
            Some((name, _)) if experiment.server.settings.contains_key(&name) => kept.push(condition),
            Some((name, value)) if is_ours(&name, &value) => {
                set(experiment, &name, &value, "a condition of the study");
                kept.push(condition);
            }
            _ => left_out.push(condition.to_string()),
        }
    }
    let archives =
        experiment.server.settings.get("archive_mode").is_some_and(|levels| levels.all()[0].0 == "on");
    if archives && !experiment.server.settings.contains_key("archive_command") {
        set(
            experiment,
            "archive_command",
            "/bin/true",
            "there is no archive here; without a command, WAL would be kept for ever",
        );
    }
    experiment.experiment.conditions = kept;
    if !left_out.is_empty() {
        changes.push(FitChange {
            key: keys::header::CONDITIONS.name.to_string(),
            from: left_out.join(", "),
            to: "left out".to_string(),
            why: "not so on this machine".to_string(),
        });
    }
}

/// Versions as they are fetched, each the last release of its series, and without those that only a build could give.
fn source(experiment: &mut Experiment, why: &str, changes: &mut Vec<FitChange>) {
    let server = &mut experiment.server;
    let Some(versions) = &mut server.version else { return };
    let has_binaries = |version: &PgVersion| version.last_before_binaries().is_none();
    let as_texts = |levels: &Levels<PgVersion>| {
        levels.all().iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    };
    let before = as_texts(versions);
    let left = versions.all().iter().filter(|version| has_binaries(version));
    let tree = server.source.take();
    let named: Vec<PgVersion> = match tree {
        None => left.cloned().collect(),
        Some(_) => left.filter_map(|version| version.series().parse().ok()).collect(),
    };
    // Two releases of a series are one then.
    let mut fetched: Vec<PgVersion> = Vec::new();
    for version in named {
        if !fetched.contains(&version) {
            fetched.push(version);
        }
    }
    let Some(fetched) = Levels::many(fetched) else {
        // Nothing would be left: the plan is refused with the reason.
        server.source = tree;
        return;
    };
    *versions = fetched;
    if let Some(tree) = tree {
        changes.push(FitChange {
            key: keys::server::SOURCE.name.to_string(),
            from: tree.all().join(", "),
            to: "binaries that are fetched".to_string(),
            why: why.to_string(),
        });
    }
    changes.push(FitChange {
        key: keys::server::VERSION.name.to_string(),
        from: before,
        to: as_texts(versions),
        why: "binaries are fetched from 9.6 on, each the last release of its series".to_string(),
    });
}

/// What a provider declares of the study's devices is not so of others.
fn limits(experiment: &mut Experiment, changes: &mut Vec<FitChange>) {
    let declared: Vec<String> =
        experiment.limits.all().iter().map(|(key, value)| format!("{key} {value}")).collect();
    experiment.limits = Limits::default();
    if !declared.is_empty() {
        changes.push(FitChange {
            key: "limits".to_string(),
            from: declared.join(", "),
            to: "left out".to_string(),
            why: "these are the devices of the study's machine".to_string(),
        });
    }
}

fn directories(experiment: &mut Experiment, missing: &[PathBuf], changes: &mut Vec<FitChange>) {
    let Some(levels) = &mut experiment.server.wal_directory else { return };
    if !levels.all().iter().any(|dir| missing.contains(dir)) {
        return;
    }
    let from = levels.all().iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>().join(", ");
    let mut to = "with the data".to_string();
    if levels.all().iter().all(|dir| missing.contains(dir)) {
        experiment.server.wal_directory = None;
    } else {
        keep(levels, |dir| !missing.contains(dir), PathBuf::new());
        to = levels.all().iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>().join(", ");
    }
    let why = "the directory above is not here".to_string();
    changes.push(FitChange { key: keys::server::WAL_DIRECTORY.name.to_string(), from, to, why });
}

#[cfg(test)]
mod tests {
    use super::super::tests::study;
    use super::*;

    fn told(name: &str, lacks: &Lacks) -> (Experiment, Vec<String>) {
        let mut experiment = study(name);
        let changes = bring_here(&mut experiment, lacks);
        let told = changes.iter().map(|c| format!("{}: {} -> {}", c.key, c.from, c.to)).collect();
        assert_eq!(placeholders(&experiment), Vec::<String>::new(), "{name}");
        (experiment, told)
    }

    #[test]
    fn placeholders_become_servers_and_drivers_of_this_machine() {
        let (piops, changes) = told("piops", &Lacks::default());
        assert_eq!(
            changes,
            [
                "driver: m1-large.example -> this machine",
                "target: 2 servers by URL -> one server that pgdyno runs here, under each name",
                "experiment.conditions: ssl=on -> left out"
            ]
        );
        assert!(piops.target.iter().all(|target| target.url.is_none() && target.disk.is_some()));
        let mut monthly = study("piops");
        for target in &mut monthly.target {
            (target.price_per_hour, target.price_per_month) = (None, Some(1_200.0));
        }
        bring_here(&mut monthly, &Lacks::default());
        assert!(monthly.target.iter().all(|target| target.price_per_month.is_none()));
        let (clouds, changes) = told("five-clouds", &Lacks::default());
        assert_eq!(clouds.server.settings["archive_command"].all()[0].0, "/bin/true");
        assert_eq!(clouds.experiment.conditions.len(), 1);
        assert_eq!(changes.last().unwrap().split(':').next(), Some("experiment.conditions"));
        let own = study("versions");
        let mut same = own.clone();
        assert_eq!((bring_here(&mut same, &Lacks::default()), same), (Vec::new(), own));
    }

    #[test]
    fn releases_that_cannot_be_built_are_fetched_or_left_out() {
        let dir = PathBuf::from("/srv/pgdyno-wal/m5-metal");
        let lacks =
            Lacks { source: Some("no git here".to_string()), directories: vec![dir], ..Lacks::default() };
        let (m5, changes) = told("m5-metal", &lacks);
        assert_eq!(
            changes,
            [
                "server.source: https://git.postgresql.org/git/postgresql.git -> binaries that are fetched",
                "server.version: 9.5.21, 9.6.17, 10.12, 11.7, 12.1 -> 9.6, 10, 11, 12",
                "server.wal_directory: /srv/pgdyno-wal/m5-metal -> with the data",
                "limits: data_iops 2000, wal_iops 2000 -> left out"
            ]
        );
        assert_eq!((m5.server.source, m5.server.wal_directory), (None, None));
        let mut minors = study("m5-metal");
        let versions = ["11.7", "12.1", "12.2"].map(|version| version.parse().unwrap());
        minors.server.version = Levels::many(versions.to_vec());
        bring_here(&mut minors, &lacks);
        let left: Vec<String> =
            minors.server.version.unwrap().all().iter().map(ToString::to_string).collect();
        assert_eq!(left, ["11", "12"], "a level that is given twice would be refused");
    }
}
