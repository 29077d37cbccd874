//! From the command line to an experiment, its plan, and the site where it runs.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use experiment::forecast::preflight::Failed;
use experiment::forecast::protocol::{self, FellBack};
use experiment::plan::expand::{self, PlanResources};
use experiment::plan::file::{self, Override};
use experiment::plan::scripts::{self, ExperimentSource};
use experiment::plan::targets::lanes;
use experiment::plan::{inventory, question};
use experiment::site::lanes::server_host::ServerHost;
use experiment::stage::origin;
use experiment::stage::os::ServerPlace;
use model::experiment::Experiment;
use model::experiment::case::WorkloadKind;
use model::experiment::driver::DriverSpec;
use model::experiment::driver::inventory::DriverSection;
use model::experiment::keys;
use model::experiment::plan::Plan;
use model::experiment::script::{ScriptEntry, ScriptOrigin};
use model::experiment::target::lane::Lane;
use model::secret::{self, Revealed};
use model::text::mark::unmarked;
use store::Author;
use toml::Value;
use wire::Conninfo;
use wire::conninfo::{LoadBalanceHosts, PasswordSource};

use crate::front::cli::{ExperimentArgs, ResultLabels, ServerArgs};
use crate::front::place::{expect_machines, memory_of, place, refuse_os};
use crate::front::{agents, fitting, foreign, hiding, secrets};
use crate::{say, signals};

/// What stands before the user's note in a description.
pub(crate) const NOTE: &str = "Note: ";

/// An experiment ready to run.
pub(crate) struct ReadyExperiment {
    pub(crate) plan: Plan,
    /// The experiment after all options, as TOML without secrets.
    pub(crate) experiment_toml: String,
    /// The servers by URL, with their passwords.
    pub(crate) servers: Vec<Conninfo>,
    /// Whether the kind of build was asked for.
    pub(crate) is_build_asked: bool,
    /// The author of the text.
    pub(crate) author: Author,
    /// What was decided for the user, to be said before anything is done.
    pub(crate) notes: Vec<String>,
    /// Servers that could not be examined.
    pub(crate) failed: Vec<Failed>,
}

/// Reads the experiment, applies the options, and makes the plan.
pub(crate) fn ask(args: &ExperimentArgs) -> Result<ReadyExperiment> {
    let n_cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    let default = if args.scripts.is_empty() { "quick" } else { experiment::plan::builtin::SCRIPTS };
    let (name, text) = source(args.experiment.as_deref().unwrap_or(default), n_cpus)?;
    let changes = overrides(args)?;
    let mut experiment = file::parse(&name, &text, &changes)?;
    let allowed = args.allow_commands.as_ref();
    let author = foreign::expect_file_allowed((&name, &text), (&experiment, &changes), allowed)?;
    hiding::expect_all_given(&name, &experiment)?;
    if args.upload {
        upload(&mut experiment)?;
    }
    agents::choose(&mut experiment)?;
    complete(&mut experiment, args, (&name, &text), &changes)?;
    if let Some(budget) = &args.fit {
        fitting::fit(&mut experiment, budget, n_cpus)?;
    }
    expect_machines(&name, &experiment)?;
    if let Some(note) = &args.labels.note {
        say_more(&mut experiment.experiment.description, &format!("{NOTE}{note}"));
    }
    let now = jiff::Timestamp::now();
    let now_unix_ns = now.as_nanosecond().max(0) as u64;
    let conninfo = experiment.server.url.as_deref().map(resolve).transpose()?;
    let mut servers: Vec<Conninfo> = conninfo.iter().cloned().collect();
    let mut site = PlanResources {
        n_cpus,
        now_unix_ns,
        // People type seeds to repeat an experiment: they are short and no secret.
        fresh_seed: now_unix_ns / 1000 % 1_000_000_000,
        versions: origin::versions(&experiment).with_context(|| name.clone())?,
        ..place(&experiment, None, conninfo.as_ref())?
    };
    let mut all_here = site.memory_bytes.is_some();
    for target in &experiment.target {
        let within = || format!("{name}: target `{}`", target.name);
        let conninfo = target.url.as_deref().map(resolve).transpose().with_context(within)?;
        let versions = site.versions.clone();
        let place = place(&experiment, Some(&target.name), conninfo.as_ref()).with_context(within)?;
        let here = PlanResources { versions, ..place };
        all_here &= here.memory_bytes.is_some();
        let labelled = target.memory.as_deref().map(memory_of).transpose().with_context(within)?;
        let memory_bytes = labelled.or(here.memory_bytes);
        let host = if experiment.run.parallel_targets { conninfo.as_ref() } else { None };
        let host = host.map(ServerHost::find).transpose().with_context(within)?;
        site.targets.insert(target.name.clone(), PlanResources { n_cpus, memory_bytes, host, ..here });
        servers.extend(conninfo);
    }
    let server_place = match (servers.is_empty(), all_here) {
        (true, _) => ServerPlace::Own,
        (false, true) => ServerPlace::Here,
        (false, false) => ServerPlace::Away,
    };
    let mut plan =
        expand::plan(&experiment, &site).map_err(|message| anyhow::anyhow!(each_with(&name, &message)))?;
    let has_name =
        args.experiment.is_some() || changes.iter().any(|change| change.key == keys::header::NAME.name);
    if let Some(made) = question::name(&plan, args.keys.has(keys::workload::CLIENTS))
        && !has_name
    {
        experiment.experiment.name.clone_from(&made);
        plan.name = made;
    }
    refuse_os(&plan, server_place)?;
    let is_build_asked = experiment.server.build.is_some();
    let is_protocol_asked = experiment.workload.protocol.is_some();
    let (notes, failed) = decided(&mut plan, &servers, (is_protocol_asked, is_build_asked));
    experiment.experiment.seed = Some(plan.seed);
    take_passwords_out(&mut experiment, &servers);
    let experiment_toml =
        toml_text(&secret::hidden(&experiment).context("cannot hide passwords in the experiment")?)?;
    Ok(ReadyExperiment { plan, experiment_toml, servers, is_build_asked, author, notes, failed })
}

/// Names the servers by keywords without passwords.
fn take_passwords_out(experiment: &mut Experiment, servers: &[Conninfo]) {
    let mut texts = servers.iter().map(secrets::keyword_text);
    let urls = experiment.target.iter_mut().map(|target| &mut target.url);
    for url in std::iter::once(&mut experiment.server.url).chain(urls).filter(|url| url.is_some()) {
        *url = texts.next();
    }
}

/// Decides in the plan what the user has left open; the experiment stays as it was written. Returns what to say about that, and the
/// servers that could not be asked.
fn decided(
    plan: &mut Plan,
    servers: &[Conninfo],
    (is_protocol_asked, is_build_asked): (bool, bool),
) -> (Vec<String>, Vec<Failed>) {
    let FellBack { note, failed } = if is_protocol_asked {
        FellBack::default()
    } else {
        protocol::fall_back(plan, servers, signals::stop_flag())
    };
    // So that the results say it, too.
    note.iter().for_each(|note| say_more(&mut plan.description, note));
    let of_build = if is_build_asked { None } else { origin::fetched_though_installed(&plan.cases) };
    (note.into_iter().chain(of_build).collect(), failed)
}

/// Has a copy of this program put on all other machines of the experiment.
///
/// # Errors
/// When it has none.
fn upload(experiment: &mut Experiment) -> Result<()> {
    let mut drivers: Vec<&mut DriverSection> = experiment.driver.iter_mut().collect();
    let mut hosts: Vec<&mut DriverSpec> = experiment.server.host.iter_mut().collect();
    for target in &mut experiment.target {
        drivers.extend(&mut target.driver);
        hosts.extend(&mut target.host);
    }
    ensure!(
        !drivers.is_empty() || !hosts.is_empty(),
        "--upload is for the machines of drivers (--driver) and of observed servers (server.host); the experiment has none"
    );
    drivers.into_iter().for_each(|driver| driver.upload = true);
    hosts.into_iter().for_each(|host| host.upload = true);
    Ok(())
}

/// Reads the files that the experiment names, and checks all that depends on no server.
///
/// # Errors
/// With all problems, one a line.
fn complete(
    experiment: &mut Experiment,
    args: &ExperimentArgs,
    (name, text): (&str, &str),
    changes: &[Override],
) -> Result<()> {
    let mut problems: Vec<String> = Vec::new();
    let read = read_scripts(experiment, args, (name, text), changes);
    problems.extend(read.err().map(|error| format!("{error:#}")));
    let found = inventory::look_up(experiment, dir_of(args), signals::stop_flag());
    let checked = match &found {
        Ok(()) => expand::check(experiment),
        // Without its drivers: lists that were not looked up say nothing of their number.
        Err(_) => expand::check(&without_drivers(experiment)),
    };
    problems.extend([found, checked].into_iter().filter_map(Result::err).map(|all| each_with(name, &all)));
    ensure!(problems.is_empty(), "{}", problems.join("\n"));
    Ok(())
}

fn without_drivers(experiment: &Experiment) -> Experiment {
    let mut without = experiment.clone();
    without.workload.drivers = None;
    without.driver.clear();
    without.target.iter_mut().for_each(|target| target.driver.clear());
    without
}

/// Each line of `problems` with the name of the file in which they are.
fn each_with(name: &str, problems: &str) -> String {
    problems.lines().map(|problem| format!("{name}: {problem}")).collect::<Vec<_>>().join("\n")
}

/// The secrets of an experiment that is given again to resume it: those of its file, its options and its scripts.
///
/// # Errors
/// When file, options or scripts cannot be read.
pub(crate) fn secrets_of(args: &ExperimentArgs) -> Result<Revealed> {
    let default = if args.scripts.is_empty() { "quick" } else { experiment::plan::builtin::SCRIPTS };
    let (name, text) = source(args.experiment.as_deref().unwrap_or(default), 1)?;
    let changes = overrides(args)?;
    let mut experiment = file::parse(&name, &text, &changes)?;
    read_scripts(&mut experiment, args, (&name, &text), &changes)?;
    Ok(Revealed::of_json(&serde_json::to_string(&experiment)?))
}

/// Adds a paragraph; reports show the first one as the question.
pub(crate) fn say_more(description: &mut String, paragraph: &str) {
    if !description.is_empty() {
        description.push_str("\n\n");
    }
    description.push_str(paragraph);
}

/// Reads the files that the experiment names, relative to the experiment file.
fn read_scripts(
    experiment: &mut Experiment,
    args: &ExperimentArgs,
    (name, text): (&str, &str),
    changes: &[Override],
) -> Result<()> {
    let dir = dir_of(args);
    let is_changed = changes.iter().any(|change| change.key == keys::workload::SCRIPTS.name);
    let origin =
        ExperimentSource { name, text: if is_changed { "" } else { text }, dir, stop: signals::stop_flag() };
    scripts::read(experiment, &origin).map_err(anyhow::Error::msg)
}

/// The directory to which names of files in the experiment are relative.
fn dir_of(args: &ExperimentArgs) -> &Path {
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

/// The servers by URL that a stored experiment names, with passwords from where libpq takes them.
pub(crate) fn servers_of(experiment_toml: &str) -> Result<Vec<Conninfo>> {
    let experiment = file::parse(store::names::EXPERIMENT, experiment_toml, &[])?;
    let targets = experiment.target.iter().filter_map(|target| target.url.as_deref());
    experiment.server.url.as_deref().into_iter().chain(targets).map(resolve).collect()
}

/// The lanes of a stored plan, with the addresses that its servers have now.
///
/// # Errors
/// When an address cannot be looked up, or targets share a machine now.
pub(crate) fn lanes_of(plan: &Plan, experiment_toml: &str) -> Result<Vec<Lane>> {
    let experiment = file::parse(store::names::EXPERIMENT, experiment_toml, &[])?;
    let mut hosts = BTreeMap::new();
    for target in &experiment.target {
        let host = match &target.url {
            Some(url) => resolve(url).and_then(|conninfo| ServerHost::find(&conninfo)),
            None => Ok(ServerHost::here()),
        };
        let host = host.with_context(|| format!("target `{}`", target.name))?;
        hosts.insert(target.name.clone(), host);
    }
    lanes::of_cases(&plan.cases, &hosts).map_err(anyhow::Error::msg)
}

/// Longest experiment file; one with all of its scripts in it is far shorter.
const EXPERIMENT_BYTES_MAX: u64 = 64 << 20;

/// An experiment file, or a built-in one.
fn source(name: &str, n_cpus: u32) -> Result<(String, String)> {
    if name.contains("://") || name.contains("password=") || name.contains("host=") {
        bail!("the experiment given looks like a server; name servers with --server");
    }
    let is_path = name.contains('/') || name.ends_with(".toml");
    if !is_path && let Some(text) = experiment::plan::builtin::text(name, n_cpus) {
        return Ok((format!("built-in experiment `{name}`"), text));
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
    Ok((name.to_string(), unmarked(text)))
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
    changes.extend(agents::overrides(args.agents.as_ref(), &args.nats));
    if let Some(host) = &args.host {
        let value = Value::try_from(host)?;
        changes.push(Override { key: keys::server::HOST.name.into(), value, origin: "--host".into() });
    }
    Ok(changes)
}

/// The options as changes to the experiment file; `--set` comes late and wins, except over the changes of one side of a
/// comparison.
fn overrides(args: &ExperimentArgs) -> Result<Vec<Override>> {
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
    changes.extend(args.keys.overrides());
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
    if let Some(other) = kinds.iter().find(|kind| !kind.parse().is_ok_and(WorkloadKind::is_own)) {
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
    use clap::Parser;

    use super::*;
    use crate::front::cli::Cli;

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

    #[test]
    fn upload_is_meant_for_all_other_machines_of_the_experiment() {
        let of_file =
            "[experiment]\nname = \"x\"\n[server]\nurl = \"host=h\"\nhost = {via = [\"ssh\", \"h\"]}\n";
        let options = ["ssh:a", "ssh:b=/opt/pgdyno"].map(|text| text.parse().unwrap()).into();
        let args = ExperimentArgs { drivers: options, ..ExperimentArgs::default() };
        let mut experiment = file::parse("x.toml", of_file, &overrides(&args).unwrap()).unwrap();
        upload(&mut experiment).unwrap();
        assert_eq!(experiment.driver.iter().map(|driver| driver.upload).collect::<Vec<_>>(), [true; 2]);
        assert!(experiment.server.host.unwrap().upload);
        let mut alone = file::parse("x.toml", "[experiment]\nname = \"x\"\n", &[]).unwrap();
        assert!(upload(&mut alone).unwrap_err().to_string().contains("the experiment has none"));
        let compare =
            ["pgdyno", "compare", "--aa", "--upload", "--set", "server.host={via=[\"ssh\", \"h\"]}"];
        Cli::try_parse_from(compare).unwrap();
    }
}
