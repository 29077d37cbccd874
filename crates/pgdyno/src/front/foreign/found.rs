//! What a case of an experiment would execute or use, in words that show all of it.

use std::path::{Path, PathBuf};

use experiment::run::hooks::levels_for_hooks;
use fleet::run_there;
use model::experiment::Experiment;
use model::experiment::case::{Case, REPOSITORY, ServerSource, WorkloadSpec};
use model::experiment::driver::DriverSpec;
use model::experiment::driver::inventory::DriverSection;
use model::experiment::hooks::Hook;
use model::experiment::keys;
use model::experiment::script::archive::RestoreFrom;
use model::experiment::script::{CaseData, ScriptOrigin};
use model::experiment::target::{ExporterSection, TargetSpec};
use model::experiment::topology::outage::{Fault, OutageSection, OutageSpec};
use model::telemetry::import::Import;
use model::text::visible::on_one_line;
use model::workload::WorkloadName;

use super::named;

pub(super) fn hooks(case: &Case) -> Vec<String> {
    let used = Hook::ALL.iter().filter(|hook| !case.hooks.words(**hook).is_empty());
    let mut found: Vec<String> =
        used.map(|hook| format!("{hook}: {}", named::command(case.hooks.words(*hook)))).collect();
    // A command may execute what it finds there, or give it to another one.
    if !found.is_empty() {
        let levels = levels_for_hooks(case).into_iter();
        found.extend(levels.map(|(name, level)| format!("with {name} = {}", on_one_line(&level))));
    }
    found
}

/// The commands of an outage; one that pgdyno does to its own servers needs no consent.
pub(super) fn outage(case: &Case) -> Vec<String> {
    let of_outage = |outage: &OutageSpec| {
        let mut found = commands([&outage.run, &outage.undo, &outage.check]);
        found.extend(outage.script.iter().map(|source| text(&format!("outage {}:", outage.fault), source)));
        found
    };
    case.outage.iter().flat_map(of_outage).collect()
}

/// The same of each outage in the text of an experiment.
pub(super) fn outages_of_text(experiment: &Experiment) -> Vec<String> {
    let of_table = |table: &OutageSection| {
        let mut found = commands([&table.run, &table.undo, &table.check]);
        found
            .extend(table.scripts.iter().map(|(file, source)| text(&format!("outage load {file}:"), source)));
        // SQL that would be read when it is run, and is shown to nobody.
        let files = table.faults.0.iter().filter_map(Fault::script);
        let unread = files.filter(|file| !table.scripts.contains_key(*file));
        found.extend(unread.map(|file| format!("outage load: {}", named(Path::new(file)))));
        found
    };
    experiment.outage.0.iter().flat_map(of_table).collect()
}

fn commands(of_outage: [&Vec<String>; 3]) -> Vec<String> {
    let named = ["run", "undo", "check"].into_iter().zip(of_outage);
    let given = named.filter(|(_, words)| !words.is_empty());
    given.map(|(name, words)| format!("outage {name}: {}", named::command(words))).collect()
}

pub(super) fn way(driver: &DriverSpec) -> String {
    let upload = if driver.upload { " (after a copy of pgdyno was put there)" } else { "" };
    named::command(&run_there(driver, "drive")) + upload
}

/// A text with its name, each line indented. It is whole, however long: a command may be on its last line.
fn text(name: &str, source: &str) -> String {
    let lines: String = source.lines().map(|line| format!("\n    {line}")).collect();
    format!("{name}{lines}")
}

/// Scripts, and the values of the variables in them, which may be SQL or words of a command.
pub(super) fn scripts(case: &Case) -> Vec<String> {
    let load = &case.workload;
    let scripts = load
        .scripts
        .iter()
        .map(|script| text(&script.name, &script.source) + &named::of_script(&script.source));
    let defines =
        load.defines.iter().map(|(name, value)| format!("variable {name} = {}", on_one_line(value)));
    scripts.chain(defines).collect()
}

pub(super) fn data(workload: &WorkloadSpec) -> Vec<String> {
    match &workload.data {
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
        // Also of one by the name of a built-in one: whoever wrote the results may have written another text.
        CaseData::Directory => workload
            .directory
            .iter()
            .flat_map(|directory| &directory.texts)
            .filter(|(name, _)| !name.starts_with("transactions/"))
            .map(|(name, source)| text(name, source))
            .collect(),
        CaseData::Loaded(_) | CaseData::None => Vec::new(),
    }
}

/// SQL that is applied to the data.
pub(super) fn applied(case: &Case) -> Vec<String> {
    case.get(keys::workload::APPLY).iter().map(|sql| text("SQL", sql)).collect()
}

/// Words in names of settings whose values are programs, libraries or files.
const NAMING: [&str; 7] = ["command", "librar", "_path", "file", "director", "provider", "preload"];

/// Settings that make the server execute, load, read or write what they name. With one of them, all others: what a library does is for
/// them to say.
pub(super) fn settings(case: &Case) -> Vec<String> {
    let of_standbys = case.get(keys::topology::STANDBY_SETTINGS);
    let all = case.server.settings.iter().chain(&case.workload.session_settings).chain(&of_standbys);
    shown_settings(all.map(|(name, value)| (name.as_str(), value.as_str())).collect())
}

/// What a pooler of the case executes and reads.
pub(super) fn pooler(case: &Case) -> Vec<String> {
    let path = |path: PathBuf| named::command(&[path.display().to_string()]);
    let (program, config) = (case.get(keys::pooler::PROGRAM), case.get(keys::pooler::CONFIG));
    let command = case.get(keys::pooler::COMMAND);
    let command = if command.is_empty() { None } else { Some(named::command(&command)) };
    let settings =
        case.get(keys::pooler::SETTINGS).into_iter().map(|(name, value)| format!("{name} = {value}"));
    program.into_iter().chain(config).map(path).chain(command).chain(settings).collect()
}

/// The same of each level in the text of an experiment.
pub(super) fn settings_of_text(experiment: &Experiment) -> Vec<String> {
    let settings = experiment.server.settings.iter().chain(&experiment.topology.standby_settings);
    let all = settings
        .flat_map(|(name, levels)| levels.all().iter().map(move |level| (name.as_str(), level.0.as_str())));
    shown_settings(all.collect())
}

fn shown_settings(all: Vec<(&str, &str)>) -> Vec<String> {
    if !all.iter().any(|(name, value)| names_something(name, value)) {
        return Vec::new();
    }
    all.iter().map(|(name, value)| format!("{name} = {value}")).collect()
}

/// What has a dot in its name is read by a library, which may execute it.
fn names_something(name: &str, value: &str) -> bool {
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let name = name.to_ascii_lowercase();
    let is_odd = |c: char| c.is_control() || ['/', '\\', '\''].contains(&c);
    !is_plain || value.contains(is_odd) || NAMING.iter().any(|word| name.contains(word))
}

/// A repository or a tree that is built. Of PostgreSQL's own, its tags need no consent.
pub(super) fn source(case: &Case) -> Option<String> {
    match &case.server.source {
        ServerSource::Source { tree, revision } if tree != REPOSITORY || !is_tag(revision.as_deref()) => {
            Some(format!("{tree} {}", revision.as_deref().unwrap_or_default()))
        }
        _ => None,
    }
}

fn is_tag(revision: Option<&str>) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    revision.is_some_and(|revision| revision.starts_with("REL") && revision.chars().all(is_plain))
}

/// An exporter, with the files and variables whose secrets it is sent.
pub(super) fn exporter(target: &TargetSpec) -> Option<String> {
    let ExporterSection { ca, user, password_env, password_file, token_env, token_file, metrics: _ } =
        &target.exporter;
    let files = [("ca", ca), ("password_file", password_file), ("token_file", token_file)];
    let words = [("user", user), ("password_env", password_env), ("token_env", token_env)];
    let address = target.telemetry.clone()?;
    Some(
        address
            + &credentials(
                &files.map(|(name, path)| with_path(name, path)),
                &words.map(|(name, word)| with_word(name, word)),
            ),
    )
}

/// A series, with the files and variables whose secrets its server is sent.
pub(super) fn import(import: &Import) -> String {
    let Import { ca, user, password_env, password_file, token_env, token_file, .. } = import;
    let files = [("ca", ca), ("password_file", password_file), ("token_file", token_file)];
    let words = [("user", user), ("password_env", password_env), ("token_env", token_env)];
    import.source()
        + &credentials(
            &files.map(|(name, path)| with_path(name, path)),
            &words.map(|(name, word)| with_word(name, word)),
        )
}

fn with_path(name: &str, path: &Option<std::path::PathBuf>) -> Option<String> {
    path.as_ref().map(|path| format!("{name} {}", path.display()))
}

fn with_word(name: &str, word: &Option<String>) -> Option<String> {
    word.as_ref().map(|word| format!("{name} {word}"))
}

fn credentials(files: &[Option<String>], words: &[Option<String>]) -> String {
    let all: Vec<&str> = words.iter().chain(files).flatten().map(String::as_str).collect();
    if all.is_empty() { String::new() } else { format!(" ({})", all.join(", ")) }
}

/// The servers by URL of the text of an experiment, as it has them.
pub(super) fn urls(experiment: &Experiment) -> Vec<&String> {
    let targets = experiment.target.iter().filter_map(|target| target.url.as_ref());
    experiment.server.url.iter().chain(targets).collect()
}

/// Scripts that the text names and has not in it: pgdyno reads all files before it keeps a text, so this one was changed.
pub(super) fn unread_scripts(experiment: &Experiment) -> Vec<String> {
    let files = experiment.workload.scripts.iter().filter_map(|entry| match &entry.source {
        ScriptOrigin::File(path) => Some(named(path)),
        ScriptOrigin::Builtin(_) | ScriptOrigin::Text(_) => None,
    });
    files.collect()
}

/// As [`unread_scripts`], of archives.
pub(super) fn unread_archive(experiment: &Experiment) -> Vec<String> {
    match &experiment.workload.restore_from {
        Some(RestoreFrom::Named(path)) => vec![named(path)],
        Some(RestoreFrom::Known(_)) | None => Vec::new(),
    }
}

/// As [`unread_scripts`], of workload directories.
pub(super) fn unread_directories(experiment: &Experiment) -> Vec<String> {
    let workload = &experiment.workload;
    let places = workload.kind.all().iter().filter_map(WorkloadName::directory);
    let unread = places.filter(|name| !name.is_builtin() && !workload.directories.contains_key(&name.place));
    unread.map(|name| format!("the directory `{}`", name.place)).collect()
}

fn named(path: &Path) -> String {
    format!("the file `{}`", path.display())
}

/// Lists of drivers in the text that would be looked up when it is run.
pub(super) fn driver_lists(experiment: &Experiment) -> Vec<String> {
    let of_targets = experiment.target.iter().flat_map(|target| &target.driver);
    let sections = experiment.driver.iter().chain(of_targets);
    let lists = sections.flat_map(|DriverSection { hosts, kubernetes, .. }| {
        let hosts = hosts.iter().map(|file| format!("ssh to each host in `{}`", file.display()));
        let pods = kubernetes.iter().map(|pods| format!("kubectl exec in each pod of `{}`", pods.selector));
        hosts.chain(pods)
    });
    let agents = experiment.agents.iter().map(|agents| {
        let files = [("creds", &agents.creds), ("ca", &agents.ca)].map(|(name, path)| with_path(name, path));
        format!("agents at {}{}", agents.nats, credentials(&files, &[]))
    });
    lists.chain(agents).collect()
}

#[cfg(test)]
mod tests {
    use model::experiment::script::CaseScript;

    use super::super::sample::a_case;
    use super::*;

    #[test]
    fn scripts_and_their_variables_are_shown_to_the_end() {
        let mut case = a_case();
        let source = "select 1;\n".repeat(1000) + "\\shell evil";
        let (name, sha256) = ("long".to_string(), String::new());
        case.workload.scripts = vec![CaseScript { name, weight: 1, sha256, source, to: None }];
        case.workload.defines = [("what".to_string(), "pg_read_file('x')".to_string())].into();
        let shown = scripts(&case);
        assert!(shown[0].starts_with("long\n    select 1;") && shown[0].ends_with("\n    \\shell evil"));
        assert_eq!(shown[1..], ["variable what = pg_read_file('x')"]);
        case.workload.defines = [("what".to_string(), "1\n  Nothing was executed".to_string())].into();
        assert_eq!(scripts(&case)[1], "variable what = 1\\n  Nothing was executed");
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
            ("plperl.on_init", "system(chr(108))"),
            ("pltcl.start_proc", "evil"),
        ] {
            check(name, value, true);
        }
        for (name, value) in [("work_mem", "64MB"), ("shared_buffers", "1GB")] {
            check(name, value, false);
        }
        let mut case = a_case();
        case.server.settings.insert("shared_preload_libraries".to_string(), "plperl".to_string());
        case.workload.session_settings.insert("work_mem".to_string(), "1MB".to_string());
        assert!(settings(&case).contains(&"work_mem = 1MB".to_string()), "a library may read any of them");
    }

    #[test]
    fn files_and_variables_whose_secrets_would_be_sent_are_shown() {
        let exporter = ExporterSection {
            token_file: Some("/root/.token".into()),
            password_env: Some("PASSWORD".to_string()),
            ..ExporterSection::default()
        };
        let telemetry = Some("https://evil.example/metrics".to_string());
        let target = TargetSpec { telemetry, exporter, ..TargetSpec::default() };
        let shown = "https://evil.example/metrics (password_env PASSWORD, token_file /root/.token)";
        assert_eq!(super::exporter(&target).as_deref(), Some(shown));
    }

    #[test]
    fn of_postgresqls_own_repository_only_tags_need_no_consent() {
        for (revision, is_shown) in [
            (Some("REL9_4_26"), false),
            (Some("--upload-pack=evil"), true),
            (Some("master"), true),
            (None, true),
        ] {
            let mut case = a_case();
            let (tree, revision) = (REPOSITORY.to_string(), revision.map(str::to_string));
            case.server.source = ServerSource::Source { tree, revision: revision.clone() };
            assert_eq!(source(&case).is_some(), is_shown, "{revision:?}");
        }
    }
}
