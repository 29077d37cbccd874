//! The kinds of things in an experiment that belong to another place: one table, with what each shows and how it is left out.

use std::path::PathBuf;

use model::experiment::Experiment;
use model::experiment::case::{Case, ServerSource};
use model::experiment::keys;
use model::experiment::plan::Plan;
use wire::conninfo;

use super::{Ours, found, named};

/// A kind of thing that belongs to another place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Thing {
    Servers,
    Hooks,
    Outages,
    Restart,
    Scripts,
    Data,
    Apply,
    Archive,
    Source,
    BinDir,
    Settings,
    Drivers,
    Eyes,
    Tablespace,
    Pooler,
    WalDirectory,
    SnapshotDirectory,
    TargetDirectory,
    Listen,
    Exporter,
    Imports,
    Os,
}

/// All of them, in the order in which they are shown.
pub(super) const THINGS: [Thing; 22] = [
    Thing::Servers,
    Thing::Hooks,
    Thing::Outages,
    Thing::Restart,
    Thing::Scripts,
    Thing::Data,
    Thing::Apply,
    Thing::Archive,
    Thing::Source,
    Thing::BinDir,
    Thing::Settings,
    Thing::Drivers,
    Thing::Eyes,
    Thing::Tablespace,
    Thing::Pooler,
    Thing::WalDirectory,
    Thing::SnapshotDirectory,
    Thing::TargetDirectory,
    Thing::Listen,
    Thing::Exporter,
    Thing::Imports,
    Thing::Os,
];

impl Thing {
    /// The key of the experiment file, as people look for it.
    pub(super) fn key(self) -> &'static str {
        match self {
            Thing::Servers => keys::server::URL.name,
            Thing::Hooks => "hooks",
            Thing::Outages => keys::OUTAGE,
            Thing::Restart => keys::server::RESTART.name,
            Thing::Scripts => keys::workload::SCRIPTS.name,
            Thing::Data => keys::workload::DATA.name,
            Thing::Apply => keys::workload::APPLY.name,
            Thing::Archive => keys::topology::archive::COMMAND.name,
            Thing::Source => keys::server::SOURCE.name,
            Thing::BinDir => keys::server::BIN_DIR.name,
            Thing::Settings => keys::server::SETTINGS.name,
            Thing::Drivers => "driver",
            Thing::Eyes => keys::server::HOST.name,
            Thing::Tablespace => keys::workload::TABLESPACE.name,
            Thing::Pooler => keys::pooler::PROGRAM.name,
            Thing::WalDirectory => keys::server::WAL_DIRECTORY.name,
            Thing::SnapshotDirectory => keys::prepare::SNAPSHOT_DIRECTORY.name,
            Thing::TargetDirectory => "target.directory",
            Thing::Listen => keys::server::LISTEN.name,
            Thing::Exporter => "target.telemetry",
            Thing::Imports => "import",
            Thing::Os => "os",
        }
    }

    /// The keys, and whole sections, whose values it shows.
    #[cfg(test)]
    fn keys(self) -> &'static [&'static str] {
        match self {
            Thing::Servers => &[keys::server::URL.name, "target.url"],
            Thing::Hooks => &["hooks"],
            Thing::Outages => &[keys::OUTAGE],
            Thing::Restart => &[keys::server::RESTART.name, "target.restart"],
            Thing::Scripts => {
                &[keys::workload::SCRIPTS.name, keys::workload::DEFINES.name, keys::workload::OPTIONS.name]
            }
            Thing::Data => &[
                keys::workload::DATA.name,
                keys::workload::RESTORE_FROM.name,
                keys::workload::DIRECTORIES.name,
            ],
            Thing::Apply => &[keys::workload::APPLY.name],
            Thing::Archive => &[keys::topology::archive::COMMAND.name],
            Thing::Source => &[keys::server::SOURCE.name, keys::server::REVISION.name],
            Thing::BinDir => &[keys::server::BIN_DIR.name],
            Thing::Settings => &[keys::server::SETTINGS.name, keys::topology::STANDBY_SETTINGS.name],
            Thing::Drivers => &["driver", "agents", keys::workload::DRIVERS.name, "target.driver"],
            Thing::Eyes => &[keys::server::HOST.name, "target.host"],
            Thing::Tablespace => &[keys::workload::TABLESPACE.name],
            Thing::Pooler => &[
                keys::pooler::PROGRAM.name,
                keys::pooler::SETTINGS.name,
                keys::pooler::CONFIG.name,
                keys::pooler::COMMAND.name,
            ],
            Thing::WalDirectory => &[keys::server::WAL_DIRECTORY.name],
            Thing::SnapshotDirectory => &[keys::prepare::SNAPSHOT_DIRECTORY.name],
            Thing::TargetDirectory => &["target.directory"],
            Thing::Listen => &[keys::server::LISTEN.name],
            Thing::Exporter => &["target.telemetry", "target.exporter"],
            Thing::Imports => &["import"],
            Thing::Os => &["os"],
        }
    }

    /// Whether it executes something here.
    pub(super) fn is_command(self) -> bool {
        matches!(
            self,
            Thing::Servers
                | Thing::Hooks
                | Thing::Outages
                | Thing::Restart
                | Thing::Scripts
                | Thing::Data
                | Thing::Apply
                | Thing::Archive
                | Thing::Source
                | Thing::BinDir
                | Thing::Settings
                | Thing::Pooler
        )
    }

    /// Beginnings of the factors whose levels it defines: without it, cases would be equal under names that say otherwise.
    fn factors(self) -> &'static [&'static str] {
        match self {
            Thing::Servers => &[keys::server::URL.name],
            Thing::Hooks => &["hooks"],
            Thing::Outages => &[keys::OUTAGE],
            Thing::Restart => &[keys::server::RESTART.name],
            Thing::Scripts => &[keys::workload::SCRIPTS.name],
            Thing::Data => &[keys::workload::DATA.name],
            Thing::Apply => &[keys::workload::APPLY.name],
            Thing::Archive => &[keys::topology::archive::COMMAND.name],
            Thing::Source => &[keys::server::SOURCE.name],
            Thing::BinDir => &[keys::server::BIN_DIR.name],
            Thing::Settings => &[keys::server::SETTINGS.name, keys::topology::STANDBY_SETTINGS.name],
            Thing::Drivers => &["driver", keys::workload::DRIVERS.name],
            Thing::Eyes => &[keys::server::HOST.name],
            Thing::Tablespace => &[keys::workload::TABLESPACE.name],
            Thing::Pooler => &["pooler."],
            Thing::WalDirectory => &[keys::server::WAL_DIRECTORY.name],
            Thing::SnapshotDirectory => &[keys::prepare::SNAPSHOT_DIRECTORY.name],
            // Targets that pgdyno runs differ by the disk that they stand for.
            Thing::TargetDirectory => &["target"],
            // Without an address there is no TLS.
            Thing::Listen => &[keys::server::LISTEN.name, keys::server::TLS.name],
            Thing::Exporter => &["target.telemetry"],
            Thing::Imports => &["import"],
            Thing::Os => &["os."],
        }
    }

    /// Whether the same can be measured without it.
    pub(super) fn can_be_left_out(self, plan: &Plan) -> bool {
        let is_its_own = |factor: &String| self.factors().iter().any(|start| factor.starts_with(start));
        let is_factor = plan.factors.iter().any(is_its_own);
        let is_part = match self {
            // Only they set these levels.
            Thing::Hooks => plan.cases.iter().any(|case| !case.factors.is_empty()),
            Thing::Servers
            | Thing::Scripts
            | Thing::Data
            | Thing::Apply
            | Thing::Archive
            | Thing::Source
            | Thing::BinDir
            | Thing::Outages
            | Thing::Settings
            | Thing::Pooler => true,
            _ => false,
        };
        !is_factor && !is_part
    }

    /// Each one of a case, in words that show what would be executed or used, without what is ours.
    pub(super) fn of(self, case: &Case, ours: &Ours) -> Vec<String> {
        let path = |path: &Option<PathBuf>| path.iter().map(|path| path.display().to_string()).collect();
        let target = case.server.target.as_ref();
        match self {
            Thing::Servers | Thing::Source | Thing::BinDir if ours.has_source(&case.server.source) => {
                Vec::new()
            }
            Thing::Servers => match &case.server.source {
                // A case of a text has none: the text is asked.
                ServerSource::Url(keywords) if !keywords.is_empty() => vec![conninfo::keyword_text(keywords)],
                _ => Vec::new(),
            },
            Thing::Hooks => found::hooks(case),
            Thing::Outages => found::outage(case),
            Thing::Restart if case.server.restart.is_empty() => Vec::new(),
            Thing::Restart => vec![named::command(&case.server.restart)],
            Thing::Scripts => found::scripts(case),
            Thing::Data => found::data(&case.workload),
            Thing::Apply => found::applied(case),
            Thing::Archive => case.get(keys::topology::archive::COMMAND).into_iter().collect(),
            Thing::Source => found::source(case).into_iter().collect(),
            Thing::BinDir => match &case.server.source {
                ServerSource::BinDir(dir) => vec![dir.display().to_string()],
                _ => Vec::new(),
            },
            Thing::Settings => found::settings(case),
            Thing::Drivers => case.workload.drivers.iter().map(found::way).collect(),
            Thing::Eyes => case.server.host.iter().map(found::way).collect(),
            Thing::Tablespace => case.workload.tablespace.iter().cloned().collect(),
            Thing::Pooler => found::pooler(case),
            Thing::WalDirectory => path(&case.server.wal_directory),
            Thing::SnapshotDirectory => path(&case.space.snapshot_directory),
            Thing::TargetDirectory => target.map_or_else(Vec::new, |target| path(&target.directory)),
            Thing::Listen => case.server.listen.iter().cloned().collect(),
            Thing::Exporter => target.and_then(found::exporter).into_iter().collect(),
            Thing::Imports => case.imports.iter().map(found::import).collect(),
            Thing::Os => case.os.iter().map(|(key, value)| format!("os.{key} = {value}")).collect(),
        }
    }

    /// Those of the text that its cases do not show, without what is ours.
    pub(super) fn of_text(self, experiment: &Experiment, ours: &Ours) -> Vec<String> {
        match self {
            Thing::Servers => {
                let foreign = found::urls(experiment).into_iter().filter(|url| !ours.has_url(url));
                foreign
                    .map(|url| {
                        if url.is_empty() {
                            "the one that PG* variables name".to_string()
                        } else {
                            url.clone()
                        }
                    })
                    .collect()
            }
            Thing::Scripts => found::unread_scripts(experiment),
            Thing::Data => found::unread_archive(experiment)
                .into_iter()
                .chain(found::unread_directories(experiment))
                .collect(),
            Thing::Drivers => found::driver_lists(experiment),
            // Also levels that no case has: an option may bring them back.
            Thing::Settings => found::settings_of_text(experiment),
            Thing::Outages => found::outages_of_text(experiment),
            _ => Vec::new(),
        }
    }

    pub(super) fn leave_out(self, case: &mut Case) {
        match self {
            Thing::Hooks => case.hooks = Default::default(),
            Thing::Restart => case.server.restart.clear(),
            Thing::Drivers => case.workload.drivers.clear(),
            Thing::Eyes => case.server.host = None,
            Thing::Tablespace => case.workload.tablespace = None,
            Thing::WalDirectory => case.server.wal_directory = None,
            Thing::SnapshotDirectory => case.space.snapshot_directory = None,
            Thing::Listen => (case.server.listen, case.server.tls) = (None, Default::default()),
            Thing::Imports => case.imports.clear(),
            Thing::Os => case.os.clear(),
            Thing::TargetDirectory => {
                case.server.target.iter_mut().for_each(|target| target.directory = None)
            }
            Thing::Exporter => case.server.target.iter_mut().for_each(|target| {
                target.telemetry = None;
                target.exporter = Default::default();
            }),
            Thing::Servers
            | Thing::Scripts
            | Thing::Data
            | Thing::Apply
            | Thing::Archive
            | Thing::Source
            | Thing::BinDir
            | Thing::Outages
            | Thing::Settings
            | Thing::Pooler => {}
        }
    }

    /// The same in the text of the experiment.
    pub(super) fn leave_out_of(self, experiment: &mut Experiment) {
        let targets = &mut experiment.target;
        match self {
            Thing::Hooks => experiment.hooks = Default::default(),
            Thing::Restart => {
                experiment.server.restart.clear();
                targets.iter_mut().for_each(|target| target.restart.clear());
            }
            Thing::Drivers => {
                experiment.driver.clear();
                (experiment.agents, experiment.workload.drivers) = (None, None);
                targets.iter_mut().for_each(|target| target.driver.clear());
            }
            Thing::Eyes => {
                experiment.server.host = None;
                targets.iter_mut().for_each(|target| target.host = None);
            }
            Thing::Tablespace => experiment.workload.tablespace = None,
            Thing::WalDirectory => experiment.server.wal_directory = None,
            Thing::SnapshotDirectory => experiment.prepare.snapshot_directory = None,
            Thing::TargetDirectory => targets.iter_mut().for_each(|target| target.directory = None),
            Thing::Listen => (experiment.server.listen, experiment.server.tls) = (None, None),
            Thing::Exporter => targets.iter_mut().for_each(|target| {
                target.telemetry = None;
                target.exporter = Default::default();
            }),
            Thing::Imports => experiment.import.clear(),
            Thing::Os => experiment.os = Default::default(),
            // Without effect in other workloads, but an option may give it one.
            Thing::Scripts | Thing::Data
                if experiment.workload.kind.all().iter().any(|name| name.kind().is_own()) => {}
            Thing::Scripts => {
                experiment.workload.scripts.clear();
                experiment.workload.defines.clear();
                experiment.workload.options.clear();
            }
            Thing::Data => {
                experiment.workload.data = None;
                experiment.workload.directories.clear();
            }
            Thing::Servers
            | Thing::Apply
            | Thing::Archive
            | Thing::Source
            | Thing::BinDir
            | Thing::Outages
            | Thing::Settings
            | Thing::Pooler => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::a_case;
    use model::experiment::keys;
    use model::experiment::keys::row::KeyRow;

    use super::*;

    #[test]
    fn what_defines_the_levels_of_a_factor_cannot_be_left_out() {
        for (factor, thing, can_be) in [
            ("server.tls", Thing::Listen, false),
            ("server.listen", Thing::Listen, false),
            ("target", Thing::TargetDirectory, false),
            ("target", Thing::Exporter, true),
            ("target", Thing::Eyes, true),
            ("target", Thing::Drivers, true),
            ("workload.drivers", Thing::Drivers, false),
            ("server.wal_directory", Thing::WalDirectory, false),
            ("workload.tablespace", Thing::Tablespace, false),
            ("prepare.snapshot_directory", Thing::SnapshotDirectory, false),
            ("os.vm.swappiness", Thing::Os, false),
            ("workload.clients", Thing::Listen, true),
            ("workload.clients", Thing::TargetDirectory, true),
            ("workload.clients", Thing::Scripts, false),
        ] {
            let plan = Plan { factors: vec![factor.to_string()], ..Plan::default() };
            assert_eq!(thing.can_be_left_out(&plan), can_be, "{factor}: {thing:?}");
        }
        let mut by_hooks = a_case();
        by_hooks.factors.insert("colour".to_string(), "red".to_string());
        let plan = Plan { cases: vec![by_hooks], ..Plan::default() };
        assert!(!Thing::Hooks.can_be_left_out(&plan) && Thing::Hooks.can_be_left_out(&Plan::default()));
    }

    /// Keys of a target that are numbers, or names in reports.
    const HARMLESS: &str = "\
        target.bid_per_hour target.currency target.disk target.instance target.labels target.limits target.memory target.name \
        target.price_per_hour target.price_per_month target.provider target.region target.size target.spot_price_per_hour";

    #[test]
    fn each_key_of_one_place_is_shown_and_no_other() {
        let shown: Vec<&str> = THINGS.iter().flat_map(|thing| thing.keys()).copied().collect();
        for row in keys::all() {
            let Some((section, name)) = row.parts() else { continue };
            let name = name.trim_end_matches(".NAME");
            let is_shown = shown.contains(&section) || shown.contains(&format!("{section}.{name}").as_str());
            assert_eq!(is_shown, row.is_of_place, "{}", row.name);
        }
    }

    #[test]
    fn each_key_of_a_table_is_shown_by_a_row_or_harmless() {
        let schema = crate::front::schema::schema();
        let shown: Vec<&str> = THINGS.iter().flat_map(|thing| thing.keys()).copied().collect();
        let harmless: Vec<&str> = HARMLESS.split_whitespace().collect();
        let is_row = |section: &str| keys::all().filter_map(KeyRow::parts).any(|(of, _)| of == section);
        let mut unknown = Vec::new();
        for (section, of) in schema["properties"].as_object().unwrap() {
            // The conditions of figures are the study's own.
            if is_row(section) || section == "figure" {
                continue;
            }
            let properties =
                if of["items"].is_object() { &of["items"]["properties"] } else { &of["properties"] };
            let names =
                properties.as_object().into_iter().flatten().map(|(name, _)| format!("{section}.{name}"));
            let is_known = |key: &String| {
                shown.contains(&section.as_str())
                    || shown.contains(&key.as_str())
                    || harmless.contains(&key.as_str())
            };
            unknown.extend(names.filter(|key| !is_known(key)));
        }
        assert_eq!(unknown, Vec::<String>::new());
    }
}
