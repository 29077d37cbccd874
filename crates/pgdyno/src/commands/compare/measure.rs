//! The measuring form of `pgdyno compare`: two cases in pairs of runs, until the interval is narrow or the time is up.

use anyhow::{Result, bail, ensure};
use experiment::forecast::outlook::{AROUND_LOAD_S, Outlook};
use experiment::plan::builtin;
use experiment::plan::file::{self, Override};
use experiment::plan::pairs::{self, Pairs, SideValues};
use experiment::schedule::{conduct, duet};
use experiment::stage::origin;
use model::experiment::case::Case;
use model::experiment::keys;
use model::experiment::plan::Plan;
use model::run::RunRecord;
use model::text::prose::plural;
use server::Cache;

use super::ending::CompareEnding;
use super::gauge::{self, Gauge};
use super::next::Ways;
use super::{finish, floor, next, page, resumed};
use crate::commands::plan::{self, PlanOffer};
use crate::commands::stored::explained::{Explained, KeptTelemetry};
use crate::commands::{report, run};
use crate::front::announce::{announce, ask};
use crate::front::cli::{CompareArgs, ExperimentArgs, SideChanges};
use crate::job::metrics::Metrics;
use crate::job::{self, Conducted, Job, Terms, preview};
use crate::planning::{self, ReadyExperiment};
use crate::{Exit, say};

/// Default measurement window of each round of a duet: dozens of pairs of slices.
const DUET_MEASURE: &str = "12s";
/// Default ramp-up of each round: the data is in memory, and a pair of slices is short.
const DUET_RAMP_UP: &str = "3s";
/// Most pairs of a comparison without --pairs.
const PAIRS_MAX: u32 = 500;

/// Measures A and B and compares them.
pub(super) fn compare(args: &CompareArgs) -> Result<Exit> {
    expect_sides(args)?;
    let metrics = args.metrics.map(Metrics::listen).transpose()?;
    let (mut job, earlier) = match &args.resume {
        Some(dir) => resumed::take_up(dir, args)?,
        None => (prepare(args)?, Vec::new()),
    };
    let gauge = Gauge::new(args, &job.plan);
    earlier.iter().for_each(|record| gauge.know(record));
    let is_enough = |record: &RunRecord| gauge.is_enough(record);
    let left = job.plan.runs.iter().filter(|spec| !job.done.contains(&spec.run)).cloned().collect();
    let reached = Reached::new(&Plan { runs: left, ..job.plan.clone() }, args);
    let terms = Terms {
        consent: args.consent(),
        n_servers: 1,
        is_enough: Some(&is_enough),
        runs_s_max: job.plan.precision.map(|_| reached.outlook.runs_s),
        quiet: args.quiet,
        live: &args.live,
        spot: None,
        metrics: metrics.as_ref(),
        referee: Some(&gauge),
    };
    let may_be_duet = duet::check(&job.plan, args.slicing()).is_ok();
    let Conducted { result: (outcome, result), is_restored, page } = job.conduct(terms, conduct::conduct)?;
    let has_pairs_left = gauge.n_blocks() < job.plan.repeats as usize;
    if let Some(words) = gauge.of_disturbed() {
        say(&words);
    }
    let Some(path) = job.results(&outcome) else {
        result?;
        say("stopped before the first run");
        return Ok(Exit::Partial);
    };
    let explained = Explained::read(&path, KeptTelemetry::Drawn)?;
    let comparisons = analysis::explain::compare(&[(explained.side(1), explained.side(2))], args.margin);
    if args.aa
        && let Some(found) = comparisons.first().and_then(|case| floor::noise_floor(case, &explained.data))
    {
        floor::keep(&Cache::default_location()?, &found)?;
    }
    let exit = finish(&comparisons, &explained.data, args.into());
    // After the noise floor, which the page shows.
    let html = report::write_reports(&path, &explained)?;
    say(&format!("report: {}", html.display()));
    drop(page);
    let has_verdict = comparisons.iter().all(|case| case.verdict().is_some());
    let ways = Ways { has_pairs_left, may_be_duet };
    for words in comparisons.iter().filter_map(|case| next::words(case, &path, ways)) {
        say(&words);
    }
    let ending = match result {
        Err(error) => CompareEnding::Failed(error),
        Ok(()) if outcome.stopped => CompareEnding::Stopped,
        // Pairs without a failed run may be enough for a verdict.
        Ok(()) if outcome.incomplete > 0 && !has_verdict => CompareEnding::Incomplete,
        Ok(()) => CompareEnding::Whole,
    };
    Ok(ending.exit(exit)?.unless_values_are_left(is_restored))
}

/// Fails where nothing says what is compared.
fn expect_sides(args: &CompareArgs) -> Result<()> {
    if args.resume.is_none() && !args.aa && args.a.is_empty() && args.b.is_empty() {
        bail!(
            "nothing to compare: name two results directories, or what differs with --a and --b, or use --aa"
        );
    }
    Ok(())
}

/// Both sides in one plan.
struct Planned {
    asked: ReadyExperiment,
    /// Servers that run at once.
    n_servers: u64,
}

/// Prints what would be measured, as `pgdyno plan` does, and measures nothing.
pub(super) fn show(args: &CompareArgs) -> Result<Exit> {
    expect_sides(args)?;
    let Planned { asked, n_servers } = planned(args)?;
    let reached = Reached::new(&asked.plan, args);
    let what = what_is_compared(&asked.plan, &reached, args);
    let offered = PlanOffer {
        consent: args.consent(),
        changes: &args.changes,
        output: args.output.as_deref(),
        outlook: Some(&reached.outlook),
    };
    let exit = plan::show(&asked, n_servers, offered, args.json)?;
    say_too_short(&asked.plan, &reached);
    say(&what);
    Ok(exit)
}

/// Plans both sides, and creates the results directory.
pub(super) fn prepare(args: &CompareArgs) -> Result<Job> {
    let Planned { asked, n_servers } = planned(args)?;
    let ReadyExperiment { plan, experiment_toml, servers, author, notes, failed, .. } = asked;
    let consent = args.consent();
    job::undo_settings(&servers)?;
    job::expect_possible(&plan, n_servers, &servers, &failed, consent, args.output.as_deref())?;
    announce(&plan, &servers, consent)?;
    notes.iter().for_each(|note| say(note));
    say_what_is_compared(&plan, args)?;
    let request = page::request(args, plan.seed);
    let job = Job::begin(plan, &experiment_toml, author, servers, args.output.as_deref())?;
    job.dir.write_comparison(&request)?;
    job::end_in_time(format!("the results are in {}", job.dir.path().display()));
    Ok(job)
}

/// Plans both sides, in pairs of runs or in rounds of a duet.
fn planned(args: &CompareArgs) -> Result<Planned> {
    run::expect_new(args.output.as_deref())?;
    let mut a = planning::ask(&experiment_args(args, "--a", &args.a))?;
    // B's server is usually the same, and would be waited for again.
    let failed: Vec<&str> = a.failed.iter().map(|failed| failed.reason.as_str()).collect();
    ensure!(failed.is_empty(), "A: {}", failed.join("\npgdyno: error: A: "));
    let mut b = planning::ask(&experiment_args(args, "--b", &args.b))?;
    if !(a.is_build_asked || b.is_build_asked) {
        origin::make_alike([&mut a.plan, &mut b.plan]);
    }
    let b_changes = changes(&args.b)?;
    let mut a_changes = changes(&args.a)?;
    a_changes.extend(levels_of_a(&a_changes, &b_changes, &a));
    let mut notes: Vec<String> = Vec::new();
    if !(a.is_build_asked || b.is_build_asked) {
        let cases = [a.plan.cases.as_slice(), b.plan.cases.as_slice()].concat();
        notes.extend(origin::fetched_though_installed(&cases));
    }
    for note in a.notes.iter().chain(&b.notes) {
        if !notes.contains(note) {
            notes.push(note.clone());
        }
    }
    let experiment_toml = both_tomls(&a, &b);
    let author = if a.author.is_us() { b.author } else { a.author };
    let servers = [a.servers, b.servers].concat();
    let load_s = a.plan.cases.first().map_or(0, |case| case.adapt.longest(case.window).load_s());
    let pairs = if args.duet { Pairs { n_max: args.rounds, precision: None } } else { wanted(args, load_s) };
    let plan = pairs::plan((a.plan, a_changes), (b.plan, b_changes), pairs);
    let mut plan = plan.map_err(anyhow::Error::msg)?;
    plan.name = args.labels.name.clone().unwrap_or(plan.name);
    plan.title = args.labels.title.clone().unwrap_or(plan.title);
    if args.duet {
        duet::check(&plan, args.slicing())?;
    }
    let is_build_asked = a.is_build_asked || b.is_build_asked;
    let asked =
        ReadyExperiment { plan, experiment_toml, servers, is_build_asked, author, notes, failed: b.failed };
    Ok(Planned { asked, n_servers: if args.duet { 2 } else { 1 } })
}

/// Comparisons that take longer ask on a terminal, seconds.
const ASK_S: f64 = 300.0;

/// Says what is compared, and asks if it is long.
fn say_what_is_compared(plan: &Plan, args: &CompareArgs) -> Result<()> {
    let reached = Reached::new(plan, args);
    say_too_short(plan, &reached);
    say(&what_is_compared(plan, &reached, args));
    if reached.outlook.planned_s() > ASK_S && !args.yes {
        ask("go on?")?;
    }
    Ok(())
}

/// The pairs that the time of a comparison reaches, and what they take: the one estimate of all that is announced.
struct Reached {
    n_pairs: usize,
    /// Of one pair, seconds.
    of_pair_s: f64,
    outlook: Outlook,
}

impl Reached {
    /// All runs of `plan`, or those that fit into the time if that ends it.
    fn new(plan: &Plan, args: &CompareArgs) -> Reached {
        let all = preview::outlook(plan);
        let n_planned = plan.runs.len() / 2;
        let of_pair_s = all.runs_s / n_planned.max(1) as f64;
        if plan.precision.is_none() {
            return Reached { n_pairs: n_planned, of_pair_s, outlook: all };
        }
        let n_pairs = gauge::n_reached(of_pair_s, args.time.ms as f64 / 1000.0, n_planned);
        Reached { n_pairs, of_pair_s, outlook: preview::outlook_of_first(plan, 2 * n_pairs) }
    }
}

/// Says that the time does not reach the pairs of a verdict, and how much would.
fn say_too_short(plan: &Plan, reached: &Reached) {
    if plan.precision.is_none() || reached.n_pairs >= stats::PAIRS_MIN {
        return;
    }
    let least_s = stats::PAIRS_MIN as f64 * reached.of_pair_s;
    let time = match least_s {
        ..120.0 => format!("{:.0}s", least_s.ceil()),
        _ => format!("{:.0}min", (least_s / 60.0).ceil()),
    };
    say(&format!(
        "note: {} pairs, the minimum for a verdict, take about {}, and --time ends the comparison after about {}: use --time {time} \
         or a shorter --measure",
        stats::PAIRS_MIN,
        preview::duration(least_s),
        plural(reached.n_pairs, "pair"),
    ));
}

/// What is compared, in how many pairs and how long that takes, in words.
fn what_is_compared(plan: &Plan, reached: &Reached, args: &CompareArgs) -> String {
    let is_timed = plan.precision.is_some();
    let again = match (plan.repeats_max(), is_timed) {
        (0, _) => String::new(),
        (_, true) => "; disturbed pairs are measured again if the time permits".to_string(),
        (n, false) => format!("; up to {} more if some are disturbed", plural(n, "pair")),
    };
    let what = if args.aa {
        "compares the server with itself".to_string()
    } else {
        let labels: Vec<String> = plan.cases.iter().map(Case::label).collect();
        format!("compares {} (B)", labels.join(" (A) with "))
    };
    let up_to = if is_timed { "up to " } else { "" };
    let (pairs, length) = (plural(reached.n_pairs, "pair"), preview::duration(reached.outlook.planned_s()));
    format!("{what} in {up_to}{pairs}, about {length}{again}")
}

/// The options of one side's experiment.
fn experiment_args(args: &CompareArgs, option: &'static str, changes: &[String]) -> ExperimentArgs {
    // Built-in experiments vary the number of clients: take the one that keeps the processors busy.
    let usual = args.experiment.is_none().then(|| builtin::busy_clients(planning::n_cpus()));
    let of_duet = |time: &str| args.duet.then(|| time.to_string());
    let keys = (args.keys.0.clone())
        .or(keys::workload::CLIENTS, usual.map(|n| n.to_string()))
        .or(keys::run::MEASURE, of_duet(DUET_MEASURE))
        .or(keys::run::RAMP_UP, of_duet(DUET_RAMP_UP));
    ExperimentArgs {
        experiment: args.experiment.clone(),
        allow_commands: args.allow_commands.clone(),
        labels: args.labels.clone(),
        drivers: args.drivers.clone(),
        upload: args.upload,
        agents: args.agents.clone(),
        nats: args.nats.clone(),
        host: args.host.clone(),
        server: args.server.clone(),
        defines: args.defines.clone(),
        scripts: args.scripts.clone(),
        set: args.set.clone(),
        keys,
        side: SideChanges { option, changes: changes.to_vec() },
        ..ExperimentArgs::default()
    }
}

/// A side's changes, for its name.
fn changes(texts: &[String]) -> Result<SideValues> {
    let change = |text: &String| {
        // Errors were reported when the sides were read.
        let change = Override::parse(text).map_err(anyhow::Error::msg)?;
        let value = match change.value {
            toml::Value::String(text) => text,
            other => files(&other).unwrap_or_else(|| other.to_string()),
        };
        Ok((change.key, value))
    };
    texts.iter().map(change).collect()
}

/// Data that are files, by their names.
fn files(value: &toml::Value) -> Option<String> {
    let list = value.get("files")?.as_array()?;
    let names = list.iter().map(|file| file.as_str()).collect::<Option<Vec<&str>>>()?;
    Some(match names.as_slice() {
        [first, .., last] => format!("{} files, {first} to {last}", names.len()),
        _ => names.concat(),
    })
}

/// A's own levels for keys that B alone changes, as far as a single level says it: they name A.
fn levels_of_a(a_changes: &SideValues, b_changes: &SideValues, a: &ReadyExperiment) -> SideValues {
    let experiment: toml::Table = a.experiment_toml.parse().unwrap_or_default();
    let level_of = |key: &str| {
        let path = file::path(key);
        let (first, below) = path.split_first()?;
        match below.iter().try_fold(experiment.get(first)?, |place, part| place.get(part))? {
            toml::Value::String(text) => Some(text.clone()),
            toml::Value::Array(_) | toml::Value::Table(_) => None,
            other => Some(other.to_string()),
        }
    };
    let case = a.plan.cases.first();
    let source = case.map(|case| &case.server.source);
    let level_or_default = |key: &str| match (level_of(key), source) {
        (Some(level), _) => Some(level),
        (None, _) if key.starts_with("server.settings.") => Some("not set".to_string()),
        (None, Some(source)) if key == keys::server::VERSION.name => {
            source.version().map(ToString::to_string)
        }
        (None, _) if key == keys::workload::APPLY.name => Some("nothing".to_string()),
        (None, _) if key == keys::workload::PROTOCOL.name => {
            case.map(|case| case.workload.protocol.to_string())
        }
        (None, _) => None,
    };
    let only_b =
        b_changes.iter().map(|(key, _)| key).filter(|key| a_changes.iter().all(|(of_a, _)| of_a != *key));
    only_b.filter_map(|key| Some((key.clone(), level_or_default(key)?))).collect()
}

/// A's experiment, with B's as a comment.
fn both_tomls(a: &ReadyExperiment, b: &ReadyExperiment) -> String {
    let b: Vec<String> =
        b.experiment_toml.lines().map(|line| format!("# {line}").trim_end().to_string()).collect();
    format!(
        "# A of a comparison by pairs; B follows as a comment.\n{}{}{}\n",
        a.experiment_toml,
        page::SIDE_B,
        b.join("\n")
    )
}

/// The number of pairs asked for, or as many as fit into the time.
fn wanted(args: &CompareArgs, load_s: u32) -> Pairs {
    match args.pairs {
        Some(n) => Pairs { n_max: n, precision: None },
        None => {
            // More than are expected: runs may be quicker than the estimate.
            let of_pair_s = 2.0 * (f64::from(load_s) + 0.5 * AROUND_LOAD_S);
            let n = (args.time.ms as f64 / 1000.0 / of_pair_s).ceil() as u32;
            Pairs { n_max: n.clamp(stats::PAIRS_MIN as u32, PAIRS_MAX), precision: Some(args.precision) }
        }
    }
}
