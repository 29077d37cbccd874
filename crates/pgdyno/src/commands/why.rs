//! `pgdyno why`: proves what limited a case by changing one thing at a time.

mod go_on;
pub(crate) mod proofs;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use analysis::summary::CaseSummary;
use analysis::summary::limiter::{Bottleneck, Limiter};
use analysis::summary::proof::{PAIRS_MIN, Proof, conclusion, no_verdict};
use analysis::what_if::{self, Circumstances, GroupAbilities, WhatIf};
use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use experiment::plan::pairs::what_ifs::{self, WhatIfExtent};
use experiment::schedule::conduct;
use host::KernelFiles;
use host::group::{self, Resource};
use model::experiment::case::{Case, ServerSource};
use model::experiment::plan::Plan;
use model::load::Window;
use model::run::ExperimentData;
use model::text::prose::plural;
use store::Author;
use wire::{Conninfo, Session};

use self::proofs::Proofs;
use crate::commands::compare::StoredCase;
use crate::commands::stored::explained::{Explained, KeptTelemetry};
use crate::commands::{report, run};
use crate::front::announce::{AgreedSteps, announce};
use crate::front::ask::AllowedCommands;
use crate::front::cli::why::WhyArgs;
use crate::front::cli::{Cli, Command, ExperimentArgs};
use crate::front::foreign::Ours;
use crate::front::{foreign, hiding};
use crate::job::{self, Conducted, Job, Terms, preview};
use crate::planning;
use crate::{Exit, print_exact, say, signals};

/// Ramp-up of a what-if: data is in memory when it begins, and a pair has the same one.
const RAMP_UP_S: u32 = 2;
/// Fewest and most blocks: below four, an interval of 95 % is wider than most effects.
const BLOCKS: (u32, u32) = (PAIRS_MIN as u32, 12);

/// What-ifs that were measured.
struct Measured {
    dir: PathBuf,
    explained: Explained,
    /// Whether all values of operating systems are back.
    is_restored: bool,
    /// Whether an error ended them.
    is_failed: bool,
}

/// Proves what limited the case that `args` name.
pub(crate) fn why(args: &WhyArgs) -> Result<Exit> {
    match StoredCase::parse(&args.of) {
        Ok(of) => prove(&of, args),
        Err(_) if is_lost(&args.of) => bail!(
            "`{}` is neither the directory of an experiment nor an experiment file; `pgdyno list` shows the results in a \
             directory",
            args.of
        ),
        // Not a directory: an experiment, which has to be measured first.
        Err(_) => match measure(args)? {
            (Exit::Done, Some(dir)) => prove(&StoredCase { dir, case: None }, args),
            (exit, _) => Ok(exit),
        },
    }
}

/// Whether this is the path of something that is not there.
fn is_lost(of: &str) -> bool {
    of.contains('/') && !of.ends_with(".toml") && !Path::new(of).exists()
}

/// Measures each case of an experiment once.
fn measure(args: &WhyArgs) -> Result<(Exit, Option<PathBuf>)> {
    let mut words = vec!["pgdyno", "run", "--repeats", "1"];
    words.extend(args.yes.then_some("--yes"));
    words.extend(args.quiet.then_some("--quiet"));
    let allowed = args.allow_commands.as_ref().map(AllowedCommands::option);
    words.extend(allowed.as_deref());
    words.extend(["--", &args.of]);
    match Cli::try_parse_from(words)?.command {
        Command::Run(run) => run::measured(&run),
        _ => bail!("`{}` is no experiment", args.of),
    }
}

/// Measures the what-ifs of a stored case, and keeps what they prove with its results.
pub(crate) fn prove(of: &StoredCase, args: &WhyArgs) -> Result<Exit> {
    signals::stop_flag();
    store::expect_ours(&of.dir)?;
    let (explained, author) = accepted(of, args)?;
    let summary = chosen(&explained, of)?;
    let servers = planning::servers_of(&explained.data.experiment_toml)?;
    job::expect_same_servers(
        &explained.data.plan,
        &store::read_records(&of.dir)?,
        &servers,
        &BTreeSet::new(),
        args.risks,
    )?;
    let settable = settable(&explained, summary, &servers);
    let what_ifs = choose(&explained, summary, args.changes.allow_changes, &settable)?;
    let base = explained.data.plan.case(summary.case.id).context("the case is not in the plan")?;
    if what_ifs.is_empty() {
        say(&format!(
            "the limiter was measured, and is not proven: no change of one thing can test it here{}",
            elsewhere(base)
        ));
        return Ok(Exit::Partial);
    }
    let planned = planned(&explained.data.plan, base, &what_ifs, args);
    let begun = go_on::find(&of.dir, summary.case.id, &planned, args.output.as_deref())?;
    let (place, planned) = begun.map_or((None, planned), |(place, plan)| (Some(place), plan));
    let wanted = Wanted { plan: planned, author, place, servers };
    let Some(measured) = conducted(wanted, &explained, args)? else { return Ok(Exit::Partial) };
    let study = &measured.explained.study;
    let data = &measured.explained.data;
    let judged = what_ifs.iter().zip(2..).map(|(what_if, id)| what_if::judge(data, study, 1, id, what_if));
    let proofs = Proofs {
        case: summary.case.id,
        measured_in: measured.dir.display().to_string(),
        proofs: judged.collect(),
    };
    let (kept, that_stay) = proofs::keep(&of.dir, &proofs)?;
    for earlier in that_stay {
        say(&stays(&earlier));
    }
    let proven = Explained::read(&of.dir, KeptTelemetry::Drawn)?;
    let of_case = proven.study.cases.iter().find(|case| case.case.id == kept.case);
    show(&kept, of_case.and_then(|case| case.limiter.as_ref()), args)?;
    let html = report::write_reports(&of.dir, &proven)?;
    say(&format!("report: {}", html.display()));
    let exit = if measured.is_failed || study.partial.is_some() { Exit::Partial } else { Exit::Done };
    Ok(exit.unless_values_are_left(measured.is_restored))
}

/// The stored results, whose plan and text may be executed, and whose they are.
fn accepted(of: &StoredCase, args: &WhyArgs) -> Result<(Explained, Author)> {
    let sealed = store::read_sealed(&of.dir)?;
    let text = foreign::expect_allowed(&of.dir, &sealed, args.allow_commands.as_ref(), &Ours::default())?;
    let plan = hiding::put_back(&of.dir, &sealed.plan, &ExperimentArgs::default())?;
    let Explained { data, study } = Explained::read(&of.dir, KeptTelemetry::Drawn)?;
    Ok((Explained { data: ExperimentData { plan, experiment_toml: text, ..data }, study }, sealed.author))
}

/// That an earlier result of a what-if stays, because what was measured now says less.
fn stays(earlier: &Proof) -> String {
    format!(
        "note: the earlier result of {} stays ({}, measured in {}): it says more than these runs",
        earlier.change,
        plural(earlier.n_pairs, "pair"),
        earlier.measured_in.as_deref().unwrap_or("another directory")
    )
}

/// The named case, or the one with the highest throughput.
fn chosen<'a>(explained: &'a Explained, of: &StoredCase) -> Result<&'a CaseSummary> {
    let limited = explained.study.cases.iter().filter(|case| case.limiter.is_some());
    let found = match of.case {
        Some(id) => {
            let is_there = explained.data.plan.case(id).is_some();
            ensure!(is_there, "`{}` has no case {id}; pgdyno report shows its cases", of.dir.display());
            limited.into_iter().find(|case| case.case.id == id)
        }
        None => limited.max_by(|a, b| a.tps_median.unwrap_or(0.0).total_cmp(&b.tps_median.unwrap_or(0.0))),
    };
    found.with_context(|| {
        format!(
            "no limiter is known for {}: a run that counts, of 8 s or more, whose waits were sampled (as a role with \
             pg_read_all_stats) says what limited it",
            if of.case.is_some() { "this case" } else { "any of its cases" }
        )
    })
}

/// The settings that the load's sessions may have of their own, of a server by URL. None if it cannot be asked: then the reason is
/// said, and other changes remain.
fn settable(explained: &Explained, summary: &CaseSummary, servers: &[Conninfo]) -> BTreeSet<String> {
    let case = explained.data.plan.case(summary.case.id);
    let Some(ServerSource::Url(keywords)) = case.map(|case| &case.server.source) else {
        return BTreeSet::new();
    };
    let look = || -> Result<BTreeSet<String>> {
        let conninfo = experiment::site::conninfo(servers, keywords)?;
        let mut session =
            Session::connect_unless(&conninfo, signals::stop_flag())?.context("stopped on request")?;
        session.empty_search_path()?;
        server::database::rights::settable(&mut session, &what_if::OF_SESSIONS)
    };
    look().unwrap_or_else(|error| {
        say(&format!("cannot look up which settings a session may have: {error:#}"));
        BTreeSet::new()
    })
}

/// The command that can prove more than what a server by URL lets pgdyno change: the same load on a server of its own.
fn elsewhere(case: &Case) -> String {
    if case.server.source.is_embedded() {
        return String::new();
    }
    let workload = &case.workload;
    let load = match &workload.directory {
        Some(directory) if !workload::directories::is_builtin(directory) => {
            format!("-w ./DIRECTORY -s {}", workload.scale)
        }
        None if workload.kind.is_own() => "-f FILE".to_string(),
        _ => format!("-w {} -s {}", workload.name(), workload.scale),
    };
    format!("; to prove it on a server that pgdyno runs: pgdyno run {load} -c {} --why", workload.n_clients)
}

/// How the queue for rows of somebody else's server is lifted, whose data a what-if leaves alone.
fn larger_scale(case: &Case) -> Option<String> {
    let workload = &case.workload;
    let scale = (2 * workload.n_clients).max(2 * workload.scale);
    (!case.server.source.is_embedded() && !workload.kind.is_own()).then(|| {
        format!(
            "note: a queue for shared rows is lifted by a larger scale, which replaces the data: pgdyno run --server URL \
             -w {} -s {scale} -c {} --replace",
            workload.kind, workload.n_clients
        )
    })
}

/// What control groups can do on this machine.
fn groups() -> GroupAbilities {
    let machine = KernelFiles::this();
    GroupAbilities {
        no_quota: group::obstacle(&machine, Resource::Processors),
        no_throttle: group::obstacle(&machine, Resource::Devices),
        is_writeback_free: group::is_writeback_free(&machine),
    }
}

/// The what-ifs of a case; says what they test, and what nothing can test.
fn choose(
    explained: &Explained,
    summary: &CaseSummary,
    allow_changes: bool,
    settable: &BTreeSet<String>,
) -> Result<Vec<WhatIf>> {
    let limiter = summary.limiter.as_ref().context("the case has no limiter")?;
    let run = what_if::telling_run(&explained.study, summary.case.id);
    let run = run.context("no run of the case that counts has a limiter")?;
    let record = explained.data.runs.iter().map(|run| &run.record).find(|record| record.spec.run == run.run);
    let case = explained.data.plan.case(summary.case.id).context("the case is not in the plan")?;
    let record = record.context("the run has no record")?;
    let groups = groups();
    let of = Circumstances { case, limiter, record, run, allow_changes, settable, groups: &groups };
    let (what_ifs, untested) = what_if::what_ifs(of);
    // Before whatever limits, as in the report.
    let shared = limiter.shared.as_ref().map_or(String::new(), |shared| format!("first, {shared}; then "));
    say(&format!(
        "{}: {shared}{} ({} confidence): {}",
        summary.label,
        limiter.name.as_str(),
        limiter.confidence.as_str(),
        limiter.evidence
    ));
    for (name, reason) in untested {
        say(&format!("not tested: {}: {reason}", name.as_str()));
    }
    for what_if in &what_ifs {
        let side_effect = match what_if.side_effect {
            "" => String::new(),
            side_effect => format!(" (also: {side_effect})"),
        };
        say(&format!("what if {}? tests {}{side_effect}", what_if.change, what_if.limiter.as_str()));
    }
    if limiter.name == Bottleneck::RowLock || limiter.shared.is_some() {
        larger_scale(case).iter().for_each(|note| say(note));
    }
    Ok(what_ifs)
}

fn planned(measured: &Plan, base: &Case, what_ifs: &[WhatIf], args: &WhyArgs) -> Plan {
    let measure_s = (args.measure.ms / 1000).clamp(1, 3600) as u32;
    let window = Window { ramp_up_s: RAMP_UP_S.min(base.window.ramp_up_s.max(1)), measure_s, ..base.window };
    let changed: Vec<(String, Case)> =
        what_ifs.iter().map(|what_if| (what_if.change.clone(), what_if.case.clone())).collect();
    let now = jiff::Timestamp::now().as_nanosecond().max(0) as u64;
    let of = |n_blocks| what_ifs::plan(measured, base, &changed, WhatIfExtent { n_blocks, window }, now);
    let (time_s, least) = (args.time.ms as f64 / 1000.0, preview::outlook(&of(BLOCKS.0)));
    let loading_s = more_data_s(&of(1));
    let around_s = least.profiles_s + loading_s;
    let least_s = least.runs_s + around_s;
    if loading_s > 0.0 {
        say(&format!(
            "note: a what-if needs data of its own, which takes about {} to load; it is part of the time",
            preview::duration(loading_s)
        ));
    }
    if least_s > time_s {
        say(&format!(
            "note: {} pairs of each what-if, the fewest, take about {}, longer than `why --time {}`; measuring them all the same",
            BLOCKS.0,
            preview::duration(least_s),
            args.time
        ));
    }
    of(n_blocks(time_s - around_s, least.runs_s))
}

/// Seconds for loading what the unchanged case does not have: data of another scale.
fn more_data_s(plan: &Plan) -> f64 {
    let mut unchanged = plan.clone();
    unchanged.cases.truncate(1);
    unchanged.runs.retain(|run| run.case == unchanged.cases[0].id);
    (preview::outlook(plan).all_loading_s() - preview::outlook(&unchanged).all_loading_s()).max(0.0)
}

/// How many blocks fit into `time_s`, within [`BLOCKS`], if the fewest take `least_s`.
fn n_blocks(time_s: f64, least_s: f64) -> u32 {
    ((time_s / least_s * f64::from(BLOCKS.0)) as u32).clamp(BLOCKS.0, BLOCKS.1)
}

/// What-ifs to measure.
struct Wanted {
    plan: Plan,
    /// The author of the results.
    author: Author,
    /// The directory in which they were begun and stopped.
    place: Option<PathBuf>,
    servers: Vec<Conninfo>,
}

/// Conducts the plan; `None` if it was stopped before the first run.
fn conducted(wanted: Wanted, of: &Explained, args: &WhyArgs) -> Result<Option<Measured>> {
    let Wanted { plan, author, place, servers } = wanted;
    let (risks, allowed) = (args.risks.risks(), args.changes.allowed());
    let consent =
        AgreedSteps { yes: args.yes, replace: false, replace_databases: &[], risks, allowed, outages: &[] };
    job::undo_settings(&servers)?;
    job::expect_possible(&plan, 1, &servers, &[], consent, args.output.as_deref())?;
    announce(&plan, &servers, consent)?;
    let mut job = match place {
        Some(place) => go_on::take_up(&place, plan, servers)?,
        None => Job::begin(plan, &of.data.experiment_toml, author, servers, args.output.as_deref())?,
    };
    job::end_in_time(format!("the results are in {}", job.dir.path().display()));
    let terms = Terms {
        consent,
        n_servers: 1,
        is_enough: None,
        runs_s_max: None,
        quiet: args.quiet,
        live: &args.live,
        spot: None,
        metrics: None,
        referee: None,
    };
    let Conducted { result: (outcome, result), is_restored, page } = job.conduct(terms, conduct::conduct)?;
    let Some(path) = job.results(&outcome) else {
        result?;
        say("stopped before the first run");
        return Ok(None);
    };
    let is_failed = result.is_err();
    if let Err(error) = result {
        say(&format!("pgdyno: error: {error:#}"));
    }
    let explained = Explained::read(&path, KeptTelemetry::Drawn)?;
    report::write_reports(&path, &explained)?;
    drop(page);
    Ok(Some(Measured { dir: path, explained, is_restored, is_failed }))
}

/// Shows what was proven, and what limits the case then.
fn show(proofs: &Proofs, limiter: Option<&Limiter>, args: &WhyArgs) -> Result<()> {
    if args.json {
        let mut all = serde_json::to_value(proofs)?;
        all["limiter"] = serde_json::to_value(limiter)?;
        // Too few pairs have no confidence.
        if let (Some(words), Some(limiter)) = (no_verdict(&proofs.proofs), all["limiter"].as_object_mut()) {
            limiter.remove("confidence");
            limiter.insert("no_verdict".to_string(), words.into());
        }
        return print_exact(&format!("{}\n", serde_json::to_string_pretty(&all)?));
    }
    let sentence = |proof: &Proof| format!("{} ({})\n", proof.in_full(), plural(proof.n_pairs, "pair"));
    let mut text: String = proofs.proofs.iter().map(sentence).collect();
    text.extend(conclusion(&proofs.proofs).map(|words| format!("{words}\n")));
    if let Some(limiter) = limiter {
        text.push_str(&format!("limiter: {}\n", ::report::limiter_standing(limiter)));
    }
    text.push_str(&format!("measured in {}\n", proofs.measured_in));
    print_exact(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_blocks_as_fit_into_the_time_are_measured_within_bounds() {
        for (time_s, expected) in [(20.0, 4), (-5.0, 4), (112.0, 4), (139.0, 4), (140.0, 5), (1e6, 12)] {
            assert_eq!(n_blocks(time_s, 112.0), expected, "{time_s} s");
        }
    }

    #[test]
    fn only_a_path_that_leads_nowhere_is_lost() {
        let dir = tempfile::tempdir().expect("a directory");
        let is_lost = |name: &str| is_lost(&dir.path().join(name).display().to_string());
        assert!(is_lost("nothere") && is_lost("nothere:2"));
        assert!(!is_lost("") && !is_lost("nothere.toml"), "a missing file is reported as such");
        assert!(!super::is_lost("quick"), "a built-in experiment");
    }
}
