//! `pgdyno repeat`: measures again here what somebody else measured, with the same cases, order and seeds, and compares both.

mod lacks;
mod place;
mod servers;

use std::path::{Path, PathBuf};

use analysis::comparison::CaseComparison;
use analysis::explain;
use anyhow::{Context, Error, Result, anyhow, ensure};
use experiment::plan::file;
use experiment::plan::scripts::directories;
use experiment::schedule::{conduct, duet};
use model::experiment::Experiment;
use model::experiment::keys;
use model::experiment::plan::{Plan, RunState};
use model::load::duet::Slicing;
use model::secret;
use serde_json::json;
use store::Sealed;

use self::lacks::Lacks;
pub(crate) use self::place::sweep;
use self::place::{Original, Stored};
use self::servers::Chosen;
use crate::commands::compare::duet::DuetProgress;
use crate::commands::compare::ending::CompareEnding;
use crate::commands::compare::{self, CompareEndTerms};
use crate::commands::report;
use crate::commands::stored::explained::{Explained, KeptTelemetry};
use crate::front::announce::announce;
use crate::front::ask::Ask;
use crate::front::cli::packed::RepeatArgs;
use crate::front::foreign::{Ours, Road};
use crate::front::{foreign, hiding, moved, setup, shell};
use crate::job::metrics::Metrics;
use crate::job::referee::ByBudget;
use crate::job::{self, Companion, Conducted, Job, Terms, preview};
use crate::planning;
use crate::{Exit, print, print_exact, say, signals};

/// Measures the experiment of other results again, and compares. With `--json`, a consent that is missing is printed too: pages ask
/// for it.
pub(crate) fn repeat(args: &RepeatArgs) -> Result<Exit> {
    let ended = measured(args);
    if let Some(asks) = ended.as_ref().err().and_then(|error| error.downcast_ref::<Ask>())
        && args.json
    {
        print_exact(&format!("{}\n", serde_json::to_string(&json!({ "asks": asks }))?))?;
    }
    ended
}

fn measured(args: &RepeatArgs) -> Result<Exit> {
    // From here on a signal asks for an orderly stop.
    signals::stop_flag();
    let metrics = args.metrics.map(Metrics::listen).transpose()?;
    let mut original = Original::find(args)?;
    let Stored { part, experiment_toml, author } = original.stored()?;
    let own = part.plan.cases.iter().map(|case| case.id);
    let cases: Vec<(u32, u32)> = part.cases.iter().copied().zip(own).collect();
    let slicing = store::read_duet(original.dir())?.map(|duet| duet.slicing);
    let stored = Sealed { plan: part.plan, experiment_toml, author };
    let job = begin(args, &original, stored, slicing)?;
    job::end_in_time(format!("the results are in {}", job.dir.path().display()));
    let referee = ByBudget::default();
    let terms = Terms {
        consent: args.leave.consent(&args.changes, args.yes),
        n_servers: n_servers(slicing),
        is_enough: None,
        runs_s_max: None,
        quiet: args.quiet,
        live: &args.live,
        spot: None,
        metrics: metrics.as_ref(),
        referee: if slicing.is_some() { None } else { Some(&referee) },
    };
    let measured = match slicing {
        Some(slicing) => compare::duet::play(job, slicing, terms)?.map(Measured::of_duet),
        None => Measured::of_runs(job, terms)?,
    };
    let Some(Measured { path, page: live, is_restored, ending }) = measured else {
        return Ok(Exit::Partial);
    };
    original.keep_in(&path)?;
    let theirs = original.explained()?;
    let ours = Explained::read(&path, KeptTelemetry::Drawn)?;
    let html = report::write_reports(&path, &ours)?;
    let comparisons = match slicing {
        Some(_) => vec![compare_duets((&theirs, original.dir()), (&ours, &path), args.margin)?],
        None => {
            let sides = cases.iter().map(|(there, here)| (theirs.side(*there), ours.side(*here)));
            explain::compare_repeat(&sides.collect::<Vec<_>>(), args.margin)
        }
    };
    let page = compare::page::write_repeat(&path, [(&theirs, original.dir()), (&ours, &path)], &comparisons)?;
    if !args.json {
        let lines = comparisons.iter().map(|case| ::report::repeat_statement(case) + "\n");
        print(&format!("{}\n", lines.collect::<String>()))?;
    }
    let wanted = CompareEndTerms { json: args.json, force: args.force, fail_on: args.fail_on.clone() };
    let exit = compare::finish(&comparisons, &ours.data, wanted);
    say(&format!("report: {}", html.display()));
    say(&format!("comparison: {}", page.display()));
    drop(live);
    Ok(ending.exit(exit)?.unless_values_are_left(is_restored))
}

/// The repetition as far as it was measured.
struct Measured {
    path: PathBuf,
    /// The server of the page that shows it.
    page: Option<Companion>,
    is_restored: bool,
    ending: CompareEnding,
}

impl Measured {
    fn of_duet(played: DuetProgress) -> Measured {
        let DuetProgress { path, page, ending, .. } = played;
        Measured { path, page, is_restored: true, ending }
    }

    /// Measures run by run; `None` if it was stopped before the first.
    fn of_runs(mut job: Job, terms: Terms) -> Result<Option<Measured>> {
        let Conducted { result: (outcome, result), is_restored, page } =
            job.conduct(terms, conduct::conduct)?;
        let Some(path) = job.results(&outcome) else {
            result?;
            say("stopped before the first run");
            return Ok(None);
        };
        let ending = match result {
            Err(error) => CompareEnding::Failed(error),
            Ok(()) if outcome.stopped => CompareEnding::Stopped,
            Ok(()) if outcome.incomplete > 0 => CompareEnding::Incomplete,
            Ok(()) => CompareEnding::Whole,
        };
        Ok(Some(Measured { path, page, is_restored, ending }))
    }
}

/// Compares the ratios of two duets.
fn compare_duets(
    theirs: (&Explained, &Path),
    ours: (&Explained, &Path),
    margin: f64,
) -> Result<CaseComparison> {
    let duet = |dir: &Path| store::read_duet(dir)?.with_context(|| format!("`{}` is no duet", dir.display()));
    let (duet_there, duet_here) = (duet(theirs.1)?, duet(ours.1)?);
    let sides = |explained| [1, 2].map(|case| Explained::side(explained, case));
    let there = explain::PlayedDuet { sides: sides(theirs.0), duet: &duet_there };
    let here = explain::PlayedDuet { sides: sides(ours.0), duet: &duet_here };
    Ok(explain::compare_duet_repeat(there, here, margin))
}

/// Servers that run at once.
fn n_servers(slicing: Option<Slicing>) -> u64 {
    if slicing.is_some() { 2 } else { 1 }
}

/// Plans the repetition, a duet with this slicing, and creates its results directory.
fn begin(args: &RepeatArgs, original: &Original, stored: Sealed, slicing: Option<Slicing>) -> Result<Job> {
    let Sealed { mut plan, experiment_toml: mut text, author } = stored;
    ensure!(!plan.runs.is_empty(), "`{}` has no runs", original.dir().display());
    let (mut ours, moved) = moved::apply(&mut plan, &mut text, &args.targets)?;
    let mut experiment = file::parse(store::names::EXPERIMENT, &text, &[])?;
    let mut lacks = Lacks::default();
    let chosen = servers::choose(&mut plan, &mut experiment, Chosen { moved: &moved, args, ours: &mut ours });
    let by_url = lacks.servers(chosen)?;
    if lacks.needs_servers() {
        ours_are_theirs(&plan, &experiment, &mut ours);
    }
    hiding::expect_none(&plan)?;
    directories::find_draws(&mut plan, original.dir());
    let road = Road { author, allowed: args.allow_commands.as_ref(), here: Some(args.here), ours: &ours };
    let decided = foreign::decide(&mut plan, &mut experiment, &road);
    lacks.consent(decided)?;
    keep_measured_blocks(&mut plan, original)?;
    lacks.time(preview::outlook(&plan).asks_consent().filter(|_| !args.yes));
    lacks.expect_nothing()?;
    if let Some(slicing) = slicing {
        duet::check(&plan, slicing)?;
    }
    let text =
        setup::toml_text(&secret::hidden(&experiment).context("cannot hide passwords in the experiment")?)?;
    let servers = if by_url.is_empty() { planning::servers_of(&text)? } else { by_url };
    if !plan.lanes.is_empty() {
        plan.lanes = planning::lanes_of(&plan, &text)?;
    }
    describe(&mut plan, original);
    let consent = args.leave.consent(&args.changes, args.yes);
    job::undo_settings(&servers)?;
    job::expect_possible(&plan, n_servers(slicing), &servers, &[], consent, args.output.as_deref())
        .map_err(|error| with_a_way_out(&error, original, &args.results))?;
    announce(&plan, &servers, consent)?;
    say(&format!("repeats {} of `{}`, {}", preview::size(&plan), plan.name, preview::outlook(&plan).words()));
    Job::begin(plan, &(head(original) + &text), author, servers, args.output.as_deref())
}

/// Nothing of a repetition can be changed but its servers: whoever cannot measure it is runs the experiment. What was unpacked for
/// the time being is gone when this is read.
fn with_a_way_out(error: &Error, original: &Original, results: &Path) -> Error {
    let (first, dir) = if original.is_unpacked() {
        (format!("pgdyno unpack {} -o DIR, then ", quoted(results)), "DIR".to_string())
    } else {
        (String::new(), quoted(original.dir()))
    };
    anyhow!(
        "{error:#}\nrepeat measures what was measured there; with other sizes or settings it is another experiment: {first}pgdyno run \
         {dir}/{} --set KEY=VALUE",
        store::names::EXPERIMENT
    )
}

fn quoted(path: &Path) -> String {
    shell::quoted(&path.display().to_string())
}

/// The servers of an experiment that are still to be named are no things to consent to.
fn ours_are_theirs(plan: &Plan, experiment: &Experiment, ours: &mut Ours) {
    let by_url = plan.cases.iter().filter(|case| !case.server.source.is_embedded());
    by_url.for_each(|case| ours.add_source(case.server.source.clone()));
    let targets = experiment.target.iter().filter_map(|target| target.url.clone());
    experiment.server.url.clone().into_iter().chain(targets).for_each(|url| ours.add_url(url));
}

/// What the text of the experiment begins with: of a merged study it is that of its first origin.
fn head(original: &Original) -> String {
    original.origin().map_or_else(String::new, |origin| {
        format!(
            "# Repeats what `{}` measured, a part of a merged study, whose text is that of its first origin: plan.json has what is measured.\n",
            origin.escape_debug()
        )
    })
}

/// Leaves out blocks that a comparison which had seen enough, or an experiment whose time was over, did not measure.
fn keep_measured_blocks(plan: &mut Plan, original: &Original) -> Result<()> {
    let has_spare = std::mem::take(&mut plan.spare_blocks) > 0;
    if plan.precision.take().is_none() && !has_spare {
        return Ok(());
    }
    let records = original.records()?;
    let completed = records.iter().filter(|record| record.state == RunState::Completed);
    if let Some(last) = completed.map(|record| record.spec.block).max() {
        plan.runs.retain(|run| run.block <= last);
        plan.repeats = last;
    }
    Ok(())
}

/// Says in the plan where and when the original was measured. Profiles are not compared, so none is made.
fn describe(plan: &mut Plan, original: &Original) {
    let made = jiff::Timestamp::from_nanosecond(plan.made_unix_ns.into()).unwrap_or_default();
    let records = original.records().unwrap_or_default();
    let host = records.iter().find_map(|record| record.host.as_ref()).map(|host| host.hostname.clone());
    let on = host.map_or_else(String::new, |host| format!(" on {host}"));
    let from =
        format!("Repeats what pgdyno {} measured{on} on {}.", plan.tool_version, made.strftime("%Y-%m-%d"));
    if !plan.description.is_empty() {
        plan.description.push_str("\n\n");
    }
    plan.description.push_str(&from);
    plan.made_unix_ns = jiff::Timestamp::now().as_nanosecond().max(0) as u64;
    plan.tool_version = env!("CARGO_PKG_VERSION").to_string();
    plan.cases.iter_mut().for_each(|case| case.set(keys::run::PERF, false));
}
