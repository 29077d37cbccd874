//! What the experiment of somebody else would do with this machine: commands that it would execute, and places that it would
//! use. Each is kept, left out or refused as the user decides; nothing of it happens without being shown first.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use model::experiment::Experiment;
use model::experiment::case::{Case, REPOSITORY, ServerSource};
use model::experiment::driver::DriverSpec;
use model::experiment::hooks::Hook;
use model::experiment::plan::Plan;
use model::experiment::script::CaseData;

use crate::front::cli::packed::RepeatArgs;
use crate::front::shell;
use crate::say;

/// A kind of thing that belongs to another place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Thing {
    Hooks,
    Restart,
    Scripts,
    Data,
    Source,
    BinDir,
    Settings,
    Drivers,
    Eyes,
    WalDirectory,
    SnapshotDirectory,
    TargetDirectory,
    Listen,
    Exporter,
    Imports,
    Os,
}

const THINGS: [Thing; 16] = [
    Thing::Hooks,
    Thing::Restart,
    Thing::Scripts,
    Thing::Data,
    Thing::Source,
    Thing::BinDir,
    Thing::Settings,
    Thing::Drivers,
    Thing::Eyes,
    Thing::WalDirectory,
    Thing::SnapshotDirectory,
    Thing::TargetDirectory,
    Thing::Listen,
    Thing::Exporter,
    Thing::Imports,
    Thing::Os,
];

/// The decision about a thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Kept,
    LeftOut,
    Refused,
}

impl Thing {
    /// The key of the experiment file, as people look for it.
    fn key(self) -> &'static str {
        match self {
            Thing::Hooks => "hooks",
            Thing::Restart => "server.restart",
            Thing::Scripts => "workload.scripts",
            Thing::Data => "workload.data",
            Thing::Source => "server.source",
            Thing::BinDir => "server.bin_dir",
            Thing::Settings => "server.settings",
            Thing::Drivers => "driver",
            Thing::Eyes => "server.host",
            Thing::WalDirectory => "server.wal_directory",
            Thing::SnapshotDirectory => "prepare.snapshot_directory",
            Thing::TargetDirectory => "target.directory",
            Thing::Listen => "server.listen",
            Thing::Exporter => "target.telemetry",
            Thing::Imports => "import",
            Thing::Os => "os",
        }
    }

    /// Whether it executes something here.
    fn is_command(self) -> bool {
        matches!(
            self,
            Thing::Hooks
                | Thing::Restart
                | Thing::Scripts
                | Thing::Data
                | Thing::Source
                | Thing::BinDir
                | Thing::Settings
        )
    }

    /// Beginnings of the factors whose levels it defines: without it, cases would be equal under names that say otherwise.
    fn factors(self) -> &'static [&'static str] {
        match self {
            Thing::Hooks => &["hooks"],
            Thing::Restart => &["server.restart"],
            Thing::Scripts => &["workload.scripts"],
            Thing::Data => &["workload.data"],
            Thing::Source => &["server.source"],
            Thing::BinDir => &["server.bin_dir"],
            Thing::Settings => &["server.settings"],
            Thing::Drivers => &["driver", "workload.drivers"],
            Thing::Eyes => &["server.host"],
            Thing::WalDirectory => &["server.wal_directory"],
            Thing::SnapshotDirectory => &["prepare.snapshot_directory"],
            // Targets that pgdyno runs differ by the disk that they stand for.
            Thing::TargetDirectory => &["target"],
            // Without an address there is no TLS.
            Thing::Listen => &["server.listen", "server.tls"],
            Thing::Exporter => &["target.telemetry"],
            Thing::Imports => &["import"],
            Thing::Os => &["os."],
        }
    }

    /// Whether the same can be measured without it.
    fn can_be_left_out(self, plan: &Plan) -> bool {
        let is_its_own = |factor: &String| self.factors().iter().any(|start| factor.starts_with(start));
        let is_factor = plan.factors.iter().any(is_its_own);
        let is_part = match self {
            // Only they set these levels.
            Thing::Hooks => plan.cases.iter().any(|case| !case.factors.is_empty()),
            Thing::Scripts | Thing::Data | Thing::Source | Thing::BinDir | Thing::Settings => true,
            _ => false,
        };
        !is_factor && !is_part
    }

    fn fate(self, plan: &Plan, args: &RepeatArgs) -> Fate {
        let leaves_out = args.here && self.can_be_left_out(plan);
        match (self.is_command(), args.allow_commands) {
            (true, true) => Fate::Kept,
            (false, _) if leaves_out => Fate::LeftOut,
            (true, false) if leaves_out => Fate::LeftOut,
            (false, true) => Fate::Kept,
            _ => Fate::Refused,
        }
    }

    /// Each one of a case, in words that show what would be executed or used.
    fn of(self, case: &Case) -> Vec<String> {
        let path =
            |path: &Option<std::path::PathBuf>| path.iter().map(|path| path.display().to_string()).collect();
        let target = case.server.target.as_ref();
        match self {
            Thing::Hooks => hooks(case),
            Thing::Restart if case.server.restart.is_empty() => Vec::new(),
            Thing::Restart => vec![shell::command(&case.server.restart)],
            Thing::Scripts => scripts(case),
            Thing::Data => data(&case.workload.data),
            Thing::Source => match &case.server.source {
                ServerSource::Source { tree, revision } if tree != REPOSITORY => {
                    vec![format!("{tree} {}", revision.as_deref().unwrap_or_default())]
                }
                _ => Vec::new(),
            },
            Thing::BinDir => match &case.server.source {
                ServerSource::BinDir(dir) => vec![dir.display().to_string()],
                _ => Vec::new(),
            },
            Thing::Settings => settings(case),
            Thing::Drivers => case.workload.drivers.iter().map(way).collect(),
            Thing::Eyes => case.server.host.iter().map(way).collect(),
            Thing::WalDirectory => path(&case.server.wal_directory),
            Thing::SnapshotDirectory => path(&case.space.snapshot_directory),
            Thing::TargetDirectory => target.map_or_else(Vec::new, |target| path(&target.directory)),
            Thing::Listen => case.server.listen.iter().cloned().collect(),
            Thing::Exporter => target.and_then(|target| target.telemetry.clone()).into_iter().collect(),
            Thing::Imports => case.imports.iter().map(model::telemetry::import::Import::source).collect(),
            Thing::Os => case.os.iter().map(|(key, value)| format!("os.{key} = {value}")).collect(),
        }
    }

    fn leave_out(self, case: &mut Case) {
        match self {
            Thing::Hooks => case.hooks = Default::default(),
            Thing::Restart => case.server.restart.clear(),
            Thing::Drivers => case.workload.drivers.clear(),
            Thing::Eyes => case.server.host = None,
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
            Thing::Scripts | Thing::Data | Thing::Source | Thing::BinDir | Thing::Settings => {}
        }
    }

    /// The same in the text of the experiment.
    fn leave_out_of(self, experiment: &mut Experiment) {
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
            Thing::Scripts | Thing::Data | Thing::Source | Thing::BinDir | Thing::Settings => {}
        }
    }
}

/// Leaves out of the plan and of its text what is not wanted here, and shows what is executed.
///
/// # Errors
/// Lists all that needs a decision of the user, with the options that decide.
pub(super) fn decide(plan: &mut Plan, experiment: &mut Experiment, args: &RepeatArgs) -> Result<()> {
    let (mut refused, mut kept, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
    for thing in THINGS {
        let found: BTreeSet<String> = plan.cases.iter().flat_map(|case| thing.of(case)).collect();
        let lines = found.into_iter().map(|text| format!("  {}: {text}", thing.key()));
        match thing.fate(plan, args) {
            Fate::Kept => kept.extend(lines),
            Fate::Refused => refused.extend(lines.map(|line| line + &remedy(thing, plan))),
            Fate::LeftOut => {
                left_out.extend(lines);
                plan.cases.iter_mut().for_each(|case| thing.leave_out(case));
                thing.leave_out_of(experiment);
            }
        }
    }
    if !refused.is_empty() {
        bail!(
            "the experiment would use or execute here what belongs to another place:\n{}\nNothing was executed.",
            refused.join("\n")
        );
    }
    // What the plan does not have is not in the text that goes into the new results either.
    if !args.allow_commands {
        [Thing::Hooks, Thing::Restart].iter().for_each(|thing| thing.leave_out_of(experiment));
    }
    for (what, lines) in [("executed or used here, as --allow-commands says", kept), ("left out", left_out)] {
        if !lines.is_empty() {
            say(&format!("{what}:"));
            lines.iter().flat_map(|line| line.lines()).for_each(say);
        }
    }
    Ok(())
}

fn remedy(thing: Thing, plan: &Plan) -> String {
    let leave_out = if thing.can_be_left_out(plan) { ", --here leaves it out" } else { "" };
    let instead = match thing {
        Thing::Source | Thing::BinDir => ", --version or --bin-dir replaces it",
        _ => "",
    };
    format!("\n    (--allow-commands accepts it as it is{leave_out}{instead})")
}

fn hooks(case: &Case) -> Vec<String> {
    let used = Hook::ALL.iter().filter(|hook| !case.hooks.words(**hook).is_empty());
    used.map(|hook| format!("{hook}: {}", shell::command(case.hooks.words(*hook)))).collect()
}

fn way(driver: &DriverSpec) -> String {
    shell::command(&driver.words("drive"))
}

/// A text with its name, each line indented. It is whole, however long: a command may be on its last line.
fn text(name: &str, source: &str) -> String {
    let lines: String = source.lines().map(|line| format!("\n    {line}")).collect();
    format!("{name}{lines}")
}

/// Scripts, and the values of the variables in them, which may be SQL or words of a command.
fn scripts(case: &Case) -> Vec<String> {
    let load = &case.workload;
    let scripts = load.scripts.iter().map(|script| text(&script.name, &script.source));
    let defines = load.defines.iter().map(|(name, value)| format!("variable {name} = {value}"));
    scripts.chain(defines).collect()
}

fn data(data: &CaseData) -> Vec<String> {
    match data {
        CaseData::Files(files) => files
            .iter()
            .map(|file| match (&file.text, &file.file) {
                (Some(source), _) => text(&file.name, source),
                (None, path) => format!("{}: the file `{}`", file.name, path.clone().unwrap_or_default().display()),
            })
            .collect(),
        CaseData::Archive(archive) => vec![archive.file.display().to_string()],
        CaseData::Tpcb | CaseData::Tpcc | CaseData::TprocC | CaseData::None => Vec::new(),
    }
}

/// Words in names of settings whose values are programs, libraries or files.
const NAMING: [&str; 7] = ["command", "librar", "_path", "file", "director", "provider", "preload"];

/// Settings that make the server execute, load, read or write what they name.
fn settings(case: &Case) -> Vec<String> {
    let all = case.server.settings.iter().chain(&case.workload.session_settings);
    let names_something = |name: &str, value: &str| {
        let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
        let name = name.to_ascii_lowercase();
        let is_odd = |c: char| c.is_control() || ['/', '\\', '\''].contains(&c);
        !is_plain || value.contains(is_odd) || NAMING.iter().any(|word| name.contains(word))
    };
    all.filter(|(name, value)| names_something(name, value))
        .map(|(name, value)| format!("{name} = {value}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use model::experiment::case::{ServerSpec, WorkloadKind, WorkloadSpec};
    use model::experiment::script::CaseScript;
    use model::load::Window;

    use super::*;

    fn a_case() -> Case {
        Case::of(
            ServerSpec::of(ServerSource::Version("18".parse().unwrap())),
            WorkloadSpec::of(WorkloadKind::Tpcb, 1),
            Window { ramp_up_s: 1, measure_s: 2, grace_s: 1 },
        )
    }

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

    #[test]
    fn scripts_and_their_variables_are_shown_to_the_end() {
        let mut case = a_case();
        let source = "select 1;\n".repeat(1000) + "\\shell evil";
        let (name, sha256) = ("long".to_string(), String::new());
        case.workload.scripts = vec![CaseScript { name, weight: 1, sha256, source }];
        case.workload.defines = [("what".to_string(), "pg_read_file('x')".to_string())].into();
        let shown = Thing::Scripts.of(&case);
        assert!(shown[0].starts_with("long\n    select 1;") && shown[0].ends_with("\n    \\shell evil"));
        assert_eq!(shown[1..], ["variable what = pg_read_file('x')"]);
    }

    #[test]
    fn settings_that_make_a_server_execute_read_or_write_are_shown() {
        let check = |name: &str, value: &str, is_shown: bool| {
            let mut case = a_case();
            case.server.settings.insert(name.to_string(), value.to_string());
            assert_eq!(!settings(&case).is_empty(), is_shown, "{name} = {value}");
        };
        for (name, value) in [
            ("shared_preload_libraries", "evil"),
            ("Archive_Command", "rm x"),
            ("jit_provider", "evil"),
            ("log_filename", "x"),
            ("work_mem", "1MB'\narchive_mode = 'on"),
            ("work_mem = 1\nx", "1"),
            ("stats_temp", "/etc"),
            ("hba_file", "x"),
        ] {
            check(name, value, true);
        }
        for (name, value) in
            [("work_mem", "64MB"), ("shared_buffers", "1GB"), ("plpgsql.check_asserts", "on")]
        {
            check(name, value, false);
        }
    }
}
