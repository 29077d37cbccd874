//! `pgdyno repeat`: measures again here what somebody else measured, with the same cases, order and seeds, and compares both.

mod foreign;
mod place;
mod servers;

use anyhow::{Context, Result, bail, ensure};
use experiment::plan::file;
use experiment::schedule::conduct;
use model::experiment::plan::{Plan, RunState};
use model::secret;

use self::place::Original;
use crate::commands::compare::{self, Outcome};
use crate::commands::report;
use crate::commands::stored::explained::{Explained, Series};
use crate::front::announce::{Consent, announce};
use crate::front::cli::packed::RepeatArgs;
use crate::front::{hiding, setup, shell};
use crate::job::metrics::Metrics;
use crate::job::referee::ByFindings;
use crate::job::{self, Conducted, Job, Terms, preview};
use crate::{Exit, print, say, signals};

/// Measures the experiment of other results again, and compares.
pub(crate) fn repeat(args: &RepeatArgs) -> Result<Exit> {
    // From here on a signal asks for an orderly stop.
    signals::stop_flag();
    let mut original = Original::of(args)?;
    let mut job = begin(args, &original)?;
    job::end_in_time(format!("the results are in {}", job.dir.path().display()));
    let metrics = args.metrics.map(Metrics::listen).transpose()?;
    let terms = Terms {
        replace: args.replace,
        replace_databases: &args.replace_databases,
        allow_changes: args.allow_changes,
        n_servers: 1,
        is_enough: None,
        quiet: args.quiet,
        live: &args.live,
        spot: None,
        metrics: metrics.as_ref(),
        referee: Some(&ByFindings),
    };
    let Conducted { result: (outcome, result), is_restored, page: live } =
        job.conduct(terms, conduct::conduct)?;
    let plan = job.plan.clone();
    let Some(path) = job.results(&outcome) else {
        result?;
        say("stopped before the first run");
        return Ok(Exit::Partial);
    };
    original.keep_in(&path)?;
    let theirs = Explained::read(original.dir(), Series::Drawn)?;
    let ours = Explained::read(&path, Series::Drawn)?;
    let html = report::write_reports(&path, &ours)?;
    let sides: Vec<_> = plan.cases.iter().map(|case| (theirs.side(case.id), ours.side(case.id))).collect();
    let comparisons = analysis::explain::compare_repeat(&sides, args.margin);
    let page = compare::page::write_repeat(&path, [(&theirs, original.dir()), (&ours, &path)], &comparisons)?;
    if !args.json {
        let lines = comparisons.iter().map(|case| ::report::repeat_statement(case) + "\n");
        print(&format!("{}\n", lines.collect::<String>()))?;
    }
    let wanted = Outcome { json: args.json, force: args.force, fail_on: args.fail_on };
    let exit = compare::finish(&comparisons, &ours.data, wanted);
    say(&format!("report: {}", html.display()));
    say(&format!("comparison: {}", page.display()));
    drop(live);
    if let Err(error) = result {
        say(&format!("pgdyno: error: {error:#}"));
        return Ok(Exit::Partial);
    }
    let exit = if outcome.stopped || outcome.incomplete > 0 { Exit::Partial } else { exit? };
    Ok(exit.unless_values_are_left(is_restored))
}

/// Plans the repetition, and creates its results directory.
fn begin(args: &RepeatArgs, original: &Original) -> Result<Job> {
    let dir = original.dir();
    let mut plan = store::read_plan(dir)?;
    expect_repeatable(&plan, original)?;
    let text = store::read_experiment(dir)?;
    let (text, moved) = crate::front::moved::apply(&mut plan, text, &args.targets)?;
    let mut experiment = file::parse(store::names::EXPERIMENT, &text, &[])?;
    let url = servers::choose(&mut plan, &mut experiment, &moved, args)?;
    hiding::expect_none(&plan)?;
    foreign::decide(&mut plan, &mut experiment, args)?;
    keep_measured_blocks(&mut plan, original)?;
    let text =
        setup::toml_text(&secret::hidden(&experiment).context("cannot hide passwords in the experiment")?)?;
    let servers = match url {
        Some(server) => vec![server],
        None => setup::servers_of(&text)?,
    };
    if !plan.lanes.is_empty() {
        plan.lanes = setup::lanes_of(&plan, &text)?;
    }
    describe(&mut plan, original);
    let consent = Consent {
        yes: args.yes,
        replace: args.replace,
        replace_databases: &args.replace_databases,
        allow_changes: args.allow_changes,
    };
    job::undo_settings(&servers)?;
    job::expect_possible((&plan, 1), &servers, consent, args.output.as_deref())?;
    if let Some(why) = preview::outlook(&plan).asks_consent(plan.runs.len()).filter(|_| !args.yes) {
        bail!("{why}; confirm with --yes");
    }
    announce(&plan, &servers, consent)?;
    say(&format!(
        "repeats {} of `{}`, about {}",
        preview::size(&plan),
        plan.name,
        preview::duration(preview::outlook(&plan).runs_s + preview::outlook(&plan).loading_s)
    ));
    Job::begin(plan, &text, servers, args.output.as_deref())
}

/// Refuses duets and merged studies, and experiments without runs.
fn expect_repeatable(plan: &Plan, original: &Original) -> Result<()> {
    let names: Vec<&str> = plan.origins.iter().map(|origin| origin.name.as_str()).collect();
    ensure!(
        names.is_empty(),
        "`{}` was merged from {}; repeat those",
        original.dir().display(),
        names.join(", ")
    );
    if store::read_duet(original.dir())?.is_some() {
        let request = store::read_comparison(original.dir())?;
        let command = request.map_or_else(String::new, |request| {
            format!("; the command that measured it: {}", shell::command(&request.command))
        });
        bail!("a duet takes turns in slices that have no seeds, and cannot be repeated run by run{command}");
    }
    ensure!(!plan.runs.is_empty(), "`{}` has no runs", original.dir().display());
    expect_possible_numbers(plan)
}

/// Longest part of a run that is believed: a year.
const PART_S_MAX: u32 = 366 * 86_400;

/// A plan that somebody else wrote may hold numbers that no experiment file accepts.
fn expect_possible_numbers(plan: &Plan) -> Result<()> {
    for case in &plan.cases {
        let (load, window) = (&case.workload, case.window);
        let is_possible = (1..=100_000).contains(&load.n_clients)
            && (1..=load.n_clients).contains(&load.n_threads)
            && (1..=1_000_000).contains(&load.scale)
            && (1..=PART_S_MAX).contains(&window.measure_s)
            && window.ramp_up_s.max(window.grace_s).max(case.adapt.extend_s) <= PART_S_MAX;
        ensure!(
            is_possible,
            "case {} has numbers of clients, data or seconds that no experiment has",
            case.id
        );
    }
    for run in &plan.runs {
        ensure!(
            plan.case(run.case).is_some(),
            "run {} is of case {}, which the plan does not have",
            run.run,
            run.case
        );
    }
    Ok(())
}

/// Leaves out blocks that a comparison which had seen enough did not measure.
fn keep_measured_blocks(plan: &mut Plan, original: &Original) -> Result<()> {
    if plan.precision.take().is_none() {
        return Ok(());
    }
    let records = store::read_records(original.dir())?;
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
    let records = store::read_records(original.dir()).unwrap_or_default();
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
    plan.cases.iter_mut().for_each(|case| case.perf = false);
}
