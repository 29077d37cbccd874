//! From an experiment that was asked for to its plan: agents and machines are looked up, the experiment is made to fit, and what the user
//! has left open is decided. It asks the user nothing.

mod agents;
pub(crate) mod fitting;
mod place;

use std::borrow::Cow;
use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use experiment::forecast::preflight::Failed;
use experiment::forecast::protocol::{self, FellBack};
use experiment::plan::builtin;
use experiment::plan::expand::{self, PlanResources};
use experiment::plan::file::{self, Override};
use experiment::plan::scripts::directories;
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
use model::experiment::keys::levels::Levels;
use model::experiment::plan::Plan;
use model::experiment::target::lane::Lane;
use model::load::Pace;
use model::load::capacity::Probing;
use model::secret;
use model::text::units::Span;
use store::Author;
use toml::Table;
use wire::Conninfo;

use crate::front::cli::ExperimentArgs;
use crate::front::setup::{ExperimentText, dir_of, overrides, read_scripts, resolve, source, toml_text};
use crate::front::{foreign, hiding, secrets};
use crate::planning::place::{expect_machines, memory_of, place, refuse_os};
use crate::signals;

/// The time limit of a load that ends by its number of transactions, where nobody gives one: half a day.
const LONGEST: Span = Span::from_s(43_200);

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
    let n_cpus = n_cpus();
    let default = if args.scripts.is_empty() { "quick" } else { experiment::plan::builtin::SCRIPTS };
    let given = source(args.experiment.as_deref().unwrap_or(default), n_cpus)?;
    let name = given.name.as_str();
    let changes = overrides(args)?;
    let mut experiment = file::parse(name, &given.text, &changes)?;
    let allowed = args.allow_commands.as_ref();
    let author = foreign::expect_file_allowed(&given, &experiment, &changes, allowed)?;
    hiding::expect_all_given(name, &experiment)?;
    if args.upload {
        upload(&mut experiment)?;
    }
    agents::choose(&mut experiment)?;
    let of_question = complete(&mut experiment, args, &given, &changes)?;
    let spare_blocks =
        args.fit.as_ref().map(|budget| fitting::fit(&mut experiment, budget, n_cpus)).transpose()?;
    expect_machines(name, &experiment)?;
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
        versions: origin::versions(&experiment).with_context(|| name.to_string())?,
        is_side: !args.side.option.is_empty(),
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
    let mut plan =
        expand::plan(&experiment, &site).map_err(|message| anyhow::anyhow!(each_with(name, &message)))?;
    plan.spare_blocks = spare_blocks.unwrap_or(0);
    let has_name =
        args.experiment.is_some() || changes.iter().any(|change| change.key == keys::header::NAME.name);
    if let Some(made) = question::name(&plan, args.keys.has(keys::workload::CLIENTS))
        && !has_name
    {
        experiment.experiment.name.clone_from(&made);
        plan.name = made;
    }
    refuse_os(&plan, server_place(&servers, all_here))?;
    let is_asked = AskedFor::from_options(args, &changes, &experiment);
    let is_build_asked = is_asked.build;
    let of_pooler = protocol::of_own_poolers(&mut plan, is_asked.protocol)?;
    of_pooler.iter().for_each(|note| say_more(&mut plan.description, note));
    let (notes, failed) = decided(&mut plan, &servers, is_asked);
    let notes = of_question.into_iter().chain(of_pooler).chain(notes).collect();
    experiment.experiment.seed = Some(plan.seed);
    take_passwords_out(&mut experiment, &servers);
    let experiment_toml =
        toml_text(&secret::hidden(&experiment).context("cannot hide passwords in the experiment")?)?;
    Ok(ReadyExperiment { plan, experiment_toml, servers, is_build_asked, author, notes, failed })
}

/// Processors that this program may use.
pub(crate) fn n_cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u32)
}

/// Of a question about something else, the numbers of clients of the built-in experiments are no part: where nobody gives any, it is asked
/// with the one that keeps the processors busy. Returns what to say about that.
fn at_one_number(experiment: &mut Experiment) -> Option<String> {
    if experiment.workload.clients.all().len() == 1 || !expand::varies_beyond_clients(experiment) {
        return None;
    }
    let n_clients = builtin::busy_clients(n_cpus());
    experiment.workload.clients = Levels::one(n_clients);
    Some(format!(
        "with {n_clients} clients, as no number is given; -c 1,{n_clients},{} measures with several",
        4 * n_clients
    ))
}

/// What the default number of blocks can say of levels that are compared. A curve of client counts needs no verdict for each of them.
fn few_blocks(plan: &Plan) -> Option<String> {
    let is_compared = plan.factors.iter().any(|key| key != keys::workload::CLIENTS.name);
    let n_blocks = plan.without_spare().repeats;
    (is_compared && (n_blocks as usize) < stats::PAIRS_MIN).then(|| {
        let said = match n_blocks {
            1 => "one run of each level ranks nothing".to_string(),
            n => format!("{n} blocks suggest which level is better"),
        };
        format!("{said}; a verdict takes {} (--repeats {})", stats::PAIRS_MIN, stats::PAIRS_MIN)
    })
}

/// Where the servers are, of which those by URL are all on this machine or not.
fn server_place(servers: &[Conninfo], all_here: bool) -> ServerPlace {
    match (servers.is_empty(), all_here) {
        (true, _) => ServerPlace::Own,
        (false, true) => ServerPlace::Here,
        (false, false) => ServerPlace::Away,
    }
}

/// Names the servers by keywords without passwords.
fn take_passwords_out(experiment: &mut Experiment, servers: &[Conninfo]) {
    let mut texts = servers.iter().map(secrets::keyword_text);
    let urls = experiment.target.iter_mut().map(|target| &mut target.url);
    for url in std::iter::once(&mut experiment.server.url).chain(urls).filter(|url| url.is_some()) {
        *url = texts.next();
    }
}

/// What the user has decided, so that nothing else is.
#[derive(Debug, Clone, Copy)]
struct AskedFor {
    protocol: bool,
    repeats: bool,
    build: bool,
}

impl AskedFor {
    fn from_options(args: &ExperimentArgs, changes: &[Override], experiment: &Experiment) -> AskedFor {
        let key = keys::header::REPEATS;
        let has_repeats = args.keys.has(key) || changes.iter().any(|change| change.key == key.name);
        AskedFor {
            protocol: experiment.workload.protocol.is_some(),
            // A file says how many blocks it has.
            repeats: args.experiment.is_some() || has_repeats,
            build: experiment.server.build.is_some(),
        }
    }
}

/// Decides in the plan what the user has left open; the experiment stays as it was written. Returns what to say about that, and the
/// servers that could not be asked.
fn decided(plan: &mut Plan, servers: &[Conninfo], is_asked: AskedFor) -> (Vec<String>, Vec<Failed>) {
    let FellBack { note, failed } = if is_asked.protocol {
        FellBack::default()
    } else {
        protocol::fall_back(plan, servers, signals::stop_flag())
    };
    let notices = directories::notices(plan);
    // So that the results say it, too.
    note.iter().chain(&notices).for_each(|note| say_more(&mut plan.description, note));
    let of_build = if is_asked.build { None } else { origin::fetched_though_installed(&plan.cases) };
    let of_blocks = if is_asked.repeats { None } else { few_blocks(plan) };
    let warnings = directories::warnings(plan);
    (notices.into_iter().chain(warnings).chain(note).chain(of_build).chain(of_blocks).collect(), failed)
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
    given: &ExperimentText,
    changes: &[Override],
) -> Result<Option<String>> {
    let mut problems: Vec<String> = Vec::new();
    let read = read_scripts(experiment, args, given, changes);
    let found = inventory::look_up(experiment, dir_of(args), signals::stop_flag());
    if read.is_ok() {
        let is_given = |key: &str| is_given(key, args, given, changes);
        let load = directories::asked_load(&experiment.workload);
        if !is_given(keys::workload::CLIENTS.name)
            && let Some(n_clients) = load.n_clients
        {
            experiment.workload.clients = Levels::one(n_clients);
        }
        if load.is_captured && !is_given(keys::workload::PACE.name) {
            experiment.workload.pace = Levels::one(Pace::TimesCaptured { times: 1.0 });
        }
        let targets = experiment.workload.pace.all().iter().filter_map(|pace| pace.target());
        let of_search = targets.map(|target| Span::from_s((2 * Probing::shortest(target).1).into())).max();
        if load.is_counted && !is_given(keys::run::MEASURE.name) {
            experiment.run.measure = Levels::one(load.replay_s.map_or(LONGEST, |s| Span::from_s(s.into())));
        } else if let Some(of_search) = of_search
            && !is_given(keys::run::MEASURE.name)
        {
            // Twice the least with which a search finds anything.
            experiment.run.measure = Levels::one(of_search);
        }
    }
    let mut checked = Cow::Borrowed(&*experiment);
    if found.is_err() {
        // Lists that were not looked up say nothing of their number.
        leave_out_drivers(checked.to_mut());
    }
    if read.is_err() {
        // What is wrong with them has been found.
        leave_out_directories(checked.to_mut());
    }
    let check = if args.side.option.is_empty() { expand::check } else { expand::check_side };
    let checked = check(&checked);
    problems.extend(read.err().map(|error| format!("{error:#}")));
    problems
        .extend([found, checked].into_iter().filter_map(Result::err).map(|all| each_with(&given.name, &all)));
    ensure!(problems.is_empty(), "{}", problems.join("\n"));
    let has_clients = is_given(keys::workload::CLIENTS.name, args, given, changes);
    Ok(if has_clients { None } else { at_one_number(experiment) })
}

/// Whether the user has given a key: in an option, or in a file of their own.
fn is_given(key: &str, args: &ExperimentArgs, given: &ExperimentText, changes: &[Override]) -> bool {
    let (section, name) = key.split_once('.').unwrap_or_default();
    let is_in_text = || {
        let table: Option<Table> = given.text.parse().ok();
        table.and_then(|table| Some(table.get(section)?.as_table()?.contains_key(name))).unwrap_or(false)
    };
    changes.iter().any(|change| change.key == key) || args.experiment.is_some() && is_in_text()
}

fn leave_out_drivers(experiment: &mut Experiment) {
    experiment.workload.drivers = None;
    experiment.driver.clear();
    experiment.target.iter_mut().for_each(|target| target.driver.clear());
}

/// Puts scripts in the place of workload directories.
fn leave_out_directories(experiment: &mut Experiment) {
    let workload = &mut experiment.workload;
    if workload.kind.all().iter().any(|name| name.directory().is_some()) {
        workload.kind = Levels::one(WorkloadKind::OWN.into());
        (workload.variant, workload.data_seed, workload.only_reads) = (None, None, None);
        if workload.pace.all().iter().any(|pace| matches!(pace, Pace::TimesCaptured { .. })) {
            workload.pace = Levels::one(Pace::Closed);
        }
        workload.options.clear();
        workload.directories.clear();
    }
}

/// Each line of `problems` with the name of the file in which they are.
fn each_with(name: &str, problems: &str) -> String {
    problems.lines().map(|problem| format!("{name}: {problem}")).collect::<Vec<_>>().join("\n")
}

/// Adds a paragraph; reports show the first one as the question.
pub(crate) fn say_more(description: &mut String, paragraph: &str) {
    if !description.is_empty() {
        description.push_str("\n\n");
    }
    description.push_str(paragraph);
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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::front::cli::Cli;

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
