//! What the experiment of somebody else would do with this machine: commands that it would execute, and places that it would
//! use. Each is kept, left out or refused as the user decides; nothing of it happens without being shown first. The text of the
//! experiment goes into the new results, whose report says how to run it, so it is searched as the plan is.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use experiment::plan::expand;
use model::experiment::Experiment;
use model::experiment::case::{Case, REPOSITORY, ServerSource};
use model::experiment::driver::DriverSpec;
use model::experiment::hooks::Hook;
use model::experiment::plan::Plan;
use model::experiment::script::archive::RestoreFrom;
use model::experiment::script::{CaseData, ScriptOrigin};

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

    /// What the text names and has not in it: pgdyno reads all files before it keeps a text, so this one was changed.
    fn unread(self, experiment: &Experiment) -> Vec<String> {
        let workload = &experiment.workload;
        let named = |path: &std::path::Path| format!("the file `{}`", path.display());
        match self {
            Thing::Scripts => {
                let files = workload.scripts.iter().filter_map(|entry| match &entry.source {
                    ScriptOrigin::File(path) => Some(named(path)),
                    ScriptOrigin::Builtin(_) | ScriptOrigin::Text(_) => None,
                });
                files.collect()
            }
            Thing::Data => match &workload.restore_from {
                Some(RestoreFrom::Named(path)) => vec![named(path)],
                Some(RestoreFrom::Known(_)) | None => Vec::new(),
            },
            _ => Vec::new(),
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
    let of_text = cases_of_text(plan, experiment, args)?;
    let (mut refused, mut kept, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
    for thing in THINGS {
        let cases = plan.cases.iter().chain(&of_text).flat_map(|case| thing.of(case));
        let found: BTreeSet<String> = cases.chain(thing.unread(experiment)).collect();
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
    for (what, lines) in [("executed or used here, as --allow-commands says", kept), ("left out", left_out)] {
        if !lines.is_empty() {
            say(&format!("{what}:"));
            lines.iter().flat_map(|line| line.lines()).for_each(say);
        }
    }
    Ok(())
}

/// What the text of the experiment would measure, without that of which the plan has nothing.
///
/// # Errors
/// When this pgdyno would not measure what the text says.
fn cases_of_text(plan: &Plan, experiment: &mut Experiment, args: &RepeatArgs) -> Result<Vec<Case>> {
    for thing in THINGS {
        if plan.cases.iter().all(|case| thing.of(case).is_empty()) {
            thing.leave_out_of(experiment);
        }
    }
    match expand::plan_unseen(experiment) {
        Ok(of_text) => Ok(of_text.cases),
        Err(_) if args.allow_commands => Ok(Vec::new()),
        Err(problems) => bail!(
            "what the experiment's text would use or execute is not known, because this pgdyno does not accept it:\n{problems}\n\
             Nothing was executed (--allow-commands accepts it as it is)."
        ),
    }
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
                (None, path) => {
                    format!("{}: the file `{}`", file.name, path.clone().unwrap_or_default().display())
                }
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
    use clap::Parser;
    use experiment::plan::file;
    use model::experiment::case::{ServerSpec, WorkloadKind, WorkloadSpec};
    use model::experiment::script::CaseScript;
    use model::load::Window;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: RepeatArgs,
    }

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

    /// Decides about the plan of one text with another one.
    fn decided(of_plan: &str, of_text: &str, options: &[&str]) -> Result<Experiment> {
        let read = |text: &str| {
            let text = format!("[experiment]\nname = \"x\"\n{text}");
            file::parse("x", &text, &[]).unwrap()
        };
        let (mut plan, mut experiment) = (expand::plan_unseen(&read(of_plan)).unwrap(), read(of_text));
        let words = ["repeat", "out"].into_iter().chain(options.iter().copied());
        decide(&mut plan, &mut experiment, &Line::parse_from(words).args).map(|()| experiment)
    }

    #[test]
    fn a_text_that_has_more_than_its_plan_is_refused_or_loses_it() {
        for (more, expected) in [
            ("[server.settings]\narchive_command = \"evil\"", "server.settings: archive_command = evil"),
            ("[server]\nbin_dir = \"/tmp/evil\"", "server.bin_dir: /tmp/evil"),
            (
                "[workload]\nkind = \"scripts\"\nscripts = [{name = \"x\", text = \"\\\\shell evil\"}]",
                "\n    \\shell evil",
            ),
            ("[workload]\nkind = \"scripts\"\nscripts = [{file = \"/tmp/evil\"}]", "the file `/tmp/evil`"),
            ("[workload]\nrestore_from = \"/tmp/evil\"", "workload.data: the file `/tmp/evil`"),
            ("[workload]\nclients = 0", "this pgdyno does not accept it"),
        ] {
            let refused = format!("{:#}", decided("", more, &[]).unwrap_err());
            assert!(refused.contains(expected), "{more}: {refused}");
        }
        let more = "[hooks]\nbefore_run = [\"evil\"]\n[os]\nswappiness = 1\n[[driver]]\nvia = [\"evil\"]";
        assert_eq!(decided("", more, &[]).unwrap(), decided("", "", &[]).unwrap());
        let hooks = "[hooks]\nbefore_run = [\"theirs\"]";
        assert!(decided(hooks, more, &[]).unwrap_err().to_string().contains("hooks: before_run: evil"));
        assert!(decided(hooks, more, &["--here"]).unwrap().hooks.is_empty());
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
