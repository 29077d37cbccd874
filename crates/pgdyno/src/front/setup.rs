//! From the command line to an experiment: its text, the options as changes of it, the files and the servers that it names.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use experiment::plan::file::{self, Override};
use experiment::plan::scripts::{self, ExperimentSource};
use model::experiment::Experiment;
use model::experiment::driver::inventory::DriverSection;
use model::experiment::keys;
use model::experiment::script::{ScriptEntry, ScriptOrigin};
use model::secret::Revealed;
use model::text::mark::unmarked;
use model::workload::{DirectoryName, WorkloadName};
use toml::{Table, Value};
use wire::Conninfo;
use wire::conninfo::{LoadBalanceHosts, PasswordSource};

use crate::front::cli::agents::{AgentsWanted, NatsArgs};
use crate::front::cli::data::name::as_path;
use crate::front::cli::{ExperimentArgs, ResultLabels, ServerArgs};
use crate::front::secrets;
use crate::{say, signals};

/// The secrets of an experiment that is given again to resume it: those of its file, its options and its scripts.
///
/// # Errors
/// When file, options or scripts cannot be read.
pub(crate) fn secrets_of(args: &ExperimentArgs) -> Result<Revealed> {
    let default = if args.scripts.is_empty() { "quick" } else { experiment::plan::builtin::SCRIPTS };
    let given = source(args.experiment.as_deref().unwrap_or(default), 1)?;
    let changes = overrides(args)?;
    let mut experiment = file::parse(&given.name, &given.text, &changes)?;
    read_scripts(&mut experiment, args, &given, &changes)?;
    Ok(Revealed::of_json(&serde_json::to_string(&experiment)?))
}

/// Reads the files that the experiment names, relative to the experiment file.
pub(crate) fn read_scripts(
    experiment: &mut Experiment,
    args: &ExperimentArgs,
    given: &ExperimentText,
    changes: &[Override],
) -> Result<()> {
    let dir = dir_of(args);
    let is_changed = changes.iter().any(|change| change.key == keys::workload::SCRIPTS.name);
    let origin = ExperimentSource {
        name: &given.name,
        text: if is_changed { "" } else { &given.text },
        dir,
        stop: signals::stop_flag(),
    };
    scripts::read(experiment, &origin).map_err(anyhow::Error::msg)
}

/// The directory to which names of files in the experiment are relative.
pub(crate) fn dir_of(args: &ExperimentArgs) -> &Path {
    let file = args.experiment.as_deref().map(Path::new).filter(|path| path.exists());
    file.and_then(Path::parent).unwrap_or(Path::new(""))
}

pub(crate) fn toml_text(experiment: &Experiment) -> Result<String> {
    toml::to_string_pretty(experiment).context("cannot write the experiment as TOML")
}

/// Resolves a target as libpq does, with the password that was taken out of it.
pub(crate) fn resolve(target: &str) -> Result<Conninfo> {
    let mut conninfo = Conninfo::resolve(target).with_context(|| "cannot parse the server given")?;
    // Sessions that load data must reach the server that is measured, whichever addresses its name has.
    if conninfo.hosts.len() == 1 {
        conninfo.load_balance_hosts = LoadBalanceHosts::Disable;
    }
    if let Some(passwords) = secrets::carried_for(target) {
        conninfo.give_passwords(passwords, PasswordSource::Text { url: false });
    }
    if conninfo.application_name.as_deref().is_none_or(str::is_empty) {
        conninfo.application_name = Some("pgdyno".to_string());
    }
    Ok(conninfo)
}

/// The same for a command that looks at one server, and at no other.
pub(crate) fn resolve_to_look(target: &str) -> Result<Conninfo> {
    let conninfo = resolve(target)?;
    if conninfo.is_spread() {
        say(&format!(
            "note: load_balance_hosts=random is ignored: this is about the first host of `{conninfo}` that answers"
        ));
    }
    Ok(conninfo)
}

/// The same for a command that changes what is on a server.
///
/// # Errors
/// When it would be one of several at random.
pub(crate) fn resolve_to_change(target: &str) -> Result<Conninfo> {
    let conninfo = resolve(target)?;
    ensure!(
        !conninfo.is_spread(),
        "`load_balance_hosts=random` names several servers, and this changes one; name one host of `{conninfo}`"
    );
    Ok(conninfo)
}

/// Longest experiment file; one with all of its scripts in it is far shorter.
const EXPERIMENT_BYTES_MAX: u64 = 64 << 20;

/// The text of an experiment before options change it.
#[derive(Debug)]
pub(crate) struct ExperimentText {
    /// The file, or what built-in experiment it is.
    pub(crate) name: String,
    /// The TOML.
    pub(crate) text: String,
}

/// An experiment file, or a built-in one.
pub(crate) fn source(name: &str, n_cpus: u32) -> Result<ExperimentText> {
    if name.contains("://") || name.contains("password=") || name.contains("host=") {
        bail!("the experiment given looks like a server; name servers with --server");
    }
    let is_path = name.contains('/') || name.ends_with(".toml");
    if !is_path && let Some(text) = experiment::plan::builtin::text(name, n_cpus) {
        return Ok(ExperimentText { name: format!("built-in experiment `{name}`"), text });
    }
    if !is_path && !Path::new(name).exists() {
        let known: Vec<&str> =
            experiment::plan::builtin::BUILTINS.iter().map(|builtin| builtin.name).collect();
        bail!("no experiment `{name}`: it is neither a file nor built in ({})", known.join(", "));
    }
    refuse_directory(name)?;
    let read = files::read_named(Path::new(name), EXPERIMENT_BYTES_MAX, signals::stop_flag());
    let bytes = read.with_context(|| format!("cannot read the experiment file `{name}`"))?;
    let text = String::from_utf8(bytes)
        .with_context(|| format!("the experiment file `{name}` is not UTF-8 text; convert it"))?;
    Ok(ExperimentText { name: name.to_string(), text: unmarked(text) })
}

/// Fails for a directory; results have an experiment file in it.
fn refuse_directory(name: &str) -> Result<()> {
    let dir = Path::new(name);
    let file = dir.join(store::names::EXPERIMENT);
    ensure!(!file.is_file(), "`{name}` is a directory; its experiment file is `{}`", file.display());
    ensure!(!dir.is_dir(), "`{name}` is a directory and no experiment file");
    Ok(())
}

/// The machines of drivers and of the server.
fn elsewhere(args: &ExperimentArgs) -> Result<Vec<Override>> {
    let mut changes = Vec::new();
    if !args.drivers.is_empty() {
        let table = |driver: &DriverSection| {
            // Names of files in options are relative to the working directory.
            let hosts = driver.hosts.as_ref().map(std::path::absolute).transpose().context("--driver")?;
            Ok(Value::try_from(DriverSection { hosts, ..driver.clone() })?)
        };
        let all = args.drivers.iter().map(table).collect::<Result<_>>()?;
        changes.push(Override { key: "driver".into(), value: Value::Array(all), origin: "--driver".into() });
    }
    changes.extend(agent_overrides(args.agents.as_ref(), &args.nats));
    if let Some(host) = &args.host {
        let value = Value::try_from(host)?;
        changes.push(Override { key: keys::server::HOST.name.into(), value, origin: "--host".into() });
    }
    Ok(changes)
}

/// `--agents` and its server as changes to the experiment file.
fn agent_overrides(wanted: Option<&AgentsWanted>, nats: &NatsArgs) -> Vec<Override> {
    let Some(wanted) = wanted else { return Vec::new() };
    let labels = wanted.labels.iter().map(|(key, value)| (key.clone(), Value::String(value.clone())));
    let mut table = Table::from_iter([("labels".to_string(), Value::Table(labels.collect()))]);
    table.extend(wanted.count.map(|count| ("count".to_string(), Value::Integer(count.into()))));
    let path = |file: &Option<PathBuf>| file.as_ref().map(|file| file.display().to_string());
    let server = [("nats", nats.nats.clone()), ("creds", path(&nats.creds)), ("ca", path(&nats.ca))];
    let given = server.into_iter().filter_map(|(key, value)| Some((key.to_string(), Value::String(value?))));
    table.extend(given);
    vec![Override {
        key: "agents".into(),
        value: Value::Table(table),
        origin: format!("--agents {}", wanted.text),
    }]
}

/// The options as changes to the experiment file; `--set` comes late and wins, except over the changes of one side of a
/// comparison.
pub(crate) fn overrides(args: &ExperimentArgs) -> Result<Vec<Override>> {
    let mut changes = server_overrides(&args.server);
    let ResultLabels { name, title, .. } = &args.labels;
    for (key, option, value) in
        [(keys::header::NAME.name, "--name", name), (keys::header::TITLE.name, "--title", title)]
    {
        let value = value.iter().map(|text| Value::String(text.clone()));
        changes.extend(value.map(|value| Override { key: key.into(), value, origin: option.to_string() }));
    }
    let mut problems: Vec<String> = Vec::new();
    let mut add = |found: Result<Vec<Override>>, changes: &mut Vec<Override>| match found {
        Ok(found) => changes.extend(found),
        Err(error) => problems.push(format!("{error:#}")),
    };
    add(elsewhere(args), &mut changes);
    for change in args.keys.overrides() {
        changes.push(of_working_directory(change, dir_of(args))?);
    }
    add(script_overrides(args), &mut changes);
    let set = args.set.iter().map(|text| ("--set", text));
    let of_side = args.side.changes.iter().map(|text| (args.side.option, text));
    for (option, text) in set.chain(of_side) {
        let parse = || Override::parse_of(option, text).map_err(anyhow::Error::msg);
        add(secrets::expect_no_password(option, text).and_then(|()| Ok(vec![parse()?])), &mut changes);
    }
    ensure!(problems.is_empty(), "{}", problems.join("\n"));
    Ok(changes)
}

/// Makes the path of a workload directory that an option names relative to the working directory, where `dir` is another one; fails for a
/// directory that is named without a `/`.
fn of_working_directory(mut change: Override, dir: &Path) -> Result<Override> {
    if change.key != keys::workload::KIND.name {
        return Ok(change);
    }
    let values = change.value.as_array().map_or(std::slice::from_ref(&change.value), Vec::as_slice);
    if let Some(why) = values.iter().filter_map(Value::as_str).find_map(as_path) {
        bail!("{}: {why}", change.origin);
    }
    if dir.as_os_str().is_empty() {
        return Ok(change);
    }
    let absolute = |value: &mut Value| -> Result<()> {
        let name: Option<WorkloadName> = value.as_str().and_then(|text| text.parse().ok());
        if let Some(WorkloadName::Directory(mut name)) = name.filter(|name| !is_word(name)) {
            name.place = std::path::absolute(&name.place)
                .with_context(|| change.origin.clone())?
                .display()
                .to_string();
            *value = Value::String(name.to_string());
        }
        Ok(())
    };
    match &mut change.value {
        Value::Array(values) => values.iter_mut().try_for_each(absolute)?,
        value => absolute(value)?,
    }
    Ok(change)
}

/// Whether a workload is named by a word.
fn is_word(name: &WorkloadName) -> bool {
    name.directory().is_none_or(DirectoryName::is_builtin)
}

fn script_overrides(args: &ExperimentArgs) -> Result<Vec<Override>> {
    let mut changes = Vec::new();
    for text in &args.defines {
        let origin = format!("-D {text}");
        let (name, value) = text.split_once('=').with_context(|| format!("{origin}: expected NAME=VALUE"))?;
        // The value is text as with pgbench, not TOML: `1.0`, `true` and `[1,2]` stay what they are.
        let mut change = Override::parse(&format!("workload.defines.{name}=0"))
            .map_err(|_| anyhow::anyhow!("{origin}: `{name}` is not a valid variable name"))?;
        change.value = Value::String(value.to_string());
        // A number is no password, whatever its variable is called; so it is with --set.
        if value.parse::<f64>().is_err() {
            secrets::expect_no_password_in("-D", &change)?;
        }
        change.origin = origin;
        changes.push(change);
    }
    if args.scripts.is_empty() {
        return Ok(changes);
    }
    let kinds = args.keys.texts(keys::workload::KIND);
    if let Some(other) = kinds.iter().find(|kind| !kind.parse().is_ok_and(|name: WorkloadName| name.is_own()))
    {
        bail!(
            "--workload {other} cannot be used with --script (-f): the scripts are the workload; omit --workload, and \
             use --set workload.data=... to say which tables they run on"
        );
    }
    let entries: Result<Vec<Value>> = args.scripts.iter().map(|text| script_entry(text)).collect();
    let origin = format!("-f {}", args.scripts.join(" -f "));
    let kind = Value::String("scripts".to_string());
    changes.push(Override { key: keys::workload::KIND.name.into(), value: kind, origin: origin.clone() });
    changes.push(Override {
        key: keys::workload::SCRIPTS.name.into(),
        value: Value::Array(entries?),
        origin,
    });
    Ok(changes)
}

/// A script option as an entry of an experiment file; a file is relative to the working directory.
fn script_entry(text: &str) -> Result<Value> {
    let mut entry = ScriptEntry::parse(text).map_err(|message| anyhow::anyhow!("-f {text}: {message}"))?;
    if let ScriptOrigin::File(file) = &mut entry.source {
        entry.name = Some(file.display().to_string());
        *file = std::path::absolute(&file).with_context(|| format!("-f {text}"))?;
    }
    Value::try_from(entry).with_context(|| format!("-f {text}"))
}

fn server_overrides(args: &ServerArgs) -> Vec<Override> {
    let mut changes = Vec::new();
    if let Some(target) = &args.server {
        // The option's text may contain a password; messages name only the option.
        changes.push(Override::levels(
            keys::server::URL.name,
            std::slice::from_ref(target),
            "--server".into(),
        ));
    }
    if !args.versions.is_empty() {
        let origin = format!("--version {}", args.versions.join(","));
        changes.push(Override::levels(keys::server::VERSION.name, &args.versions, origin));
    }
    if !args.bin_dir.is_empty() {
        let dirs: Vec<String> = args.bin_dir.iter().map(|dir| dir.display().to_string()).collect();
        changes.push(Override::levels(keys::server::BIN_DIR.name, &dirs, "--bin-dir".into()));
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_changed_is_one_server_and_not_any_of_several() {
        let check = |text: &str| {
            let text = format!("user=u dbname=d load_balance_hosts={text}");
            resolve_to_change(&text)
                .map(|conninfo| conninfo.load_balance_hosts)
                .map_err(|error| error.to_string())
        };
        assert_eq!(check("random host=a"), Ok(LoadBalanceHosts::Disable), "whichever addresses it has");
        assert_eq!(check("disable host=a,b"), Ok(LoadBalanceHosts::Disable));
        assert_eq!(
            check("random host=a,b port=1,2").unwrap_err(),
            "`load_balance_hosts=random` names several servers, and this changes one; name one host of `u@a:1,b:2/d`"
        );
        assert!(resolve("user=u dbname=d load_balance_hosts=random host=a,b").unwrap().is_spread());
    }

    #[test]
    fn a_directory_is_no_experiment_but_may_have_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let name = dir.path().join("").display().to_string();
        let refusal = || source(&name, 1).unwrap_err().to_string();
        assert_eq!(refusal(), format!("`{name}` is a directory and no experiment file"));
        let file = dir.path().join("experiment.toml");
        std::fs::write(&file, "").unwrap();
        assert_eq!(
            refusal(),
            format!("`{name}` is a directory; its experiment file is `{}`", file.display())
        );
        source(&file.display().to_string(), 1).unwrap();
    }

    #[test]
    fn a_variable_that_is_defined_is_text_as_with_pgbench() {
        let defined = ["a='x y'", "b=true", "c=1.0", "d=[1,2]", "e=", "f= 1"].map(str::to_string);
        let args = ExperimentArgs { defines: defined.into(), ..ExperimentArgs::default() };
        let read = file::parse("x.toml", "[experiment]\nname = \"x\"\n", &overrides(&args).unwrap()).unwrap();
        let levels = read.workload.defines.iter();
        let texts: Vec<String> = levels
            .map(|(name, levels)| {
                let all: Vec<String> = levels.all().iter().map(ToString::to_string).collect();
                format!("{name}={}", all.join("|"))
            })
            .collect();
        assert_eq!(texts, ["a='x y'", "b=true", "c=1.0", "d=[1,2]", "e=", "f= 1"]);
        let args = ExperimentArgs { defines: vec!["a b=1".to_string()], ..ExperimentArgs::default() };
        assert!(overrides(&args).unwrap_err().to_string().contains("`a b` is not a valid variable name"));
    }
}
