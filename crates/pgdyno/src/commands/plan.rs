//! `pgdyno plan`: what `run` would do.

#[cfg(test)]
mod factors;
mod scripts;
mod sum;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use anyhow::Result;
use experiment::forecast::outlook::Outlook;
use experiment::forecast::preflight::{self, MissingBinaries};
use experiment::stage::disk::Peak;
use model::experiment::case::{Case, Tls, carried, setting};
use model::experiment::driver::DriverSpec;
use model::experiment::hooks::Hook;
use model::experiment::keys;
use model::experiment::plan::{Plan, RunOrder};
use model::experiment::topology::{RoundTrip, has_relay};
use model::load::Window;
use model::load::capacity::Probing;
use model::secret;
use model::text::prose::{bytes, plural};
use server::ListenAddress;
use server::alter_system::AllowedChange;
use server::cluster::DATABASE;
use server::running::listen::LOAD_ROLE;

use self::sum::Sum;
use crate::commands::report::for_terminal;
use crate::commands::run;
use crate::front::announce::{AgreedSteps, expect_named, intents};
use crate::front::cli::RunArgs;
use crate::front::cli::changes::ChangeArgs;
use crate::front::cli::stored::RESULTS;
use crate::front::shell;
use crate::job::preview::{builds, duration, look, order, outlook, size, with_cases};
use crate::planning::{self, ReadyExperiment};
use crate::{Exit, print, print_exact, say};

/// Prints the ordered runs, what they need, and what would make them fail. Takes the options of `run`; those for what is shown while
/// measuring and afterwards have no effect.
pub(crate) fn plan(args: &RunArgs) -> Result<Exit> {
    if args.list {
        return run::list();
    }
    if let Some(dir) = &args.resume {
        return stored(dir, args.form.json);
    }
    run::expect_new(args.output.as_deref())?;
    let asked = planning::ask(&args.experiment)?;
    let consent = args.leave.consent(&args.changes, args.yes);
    let offered =
        PlanOffer { consent, changes: &args.changes, output: args.output.as_deref(), outlook: None };
    show(&asked, 1, offered, args.form.json)
}

/// What the user offers for an experiment that is only planned.
#[derive(Clone, Copy)]
pub(crate) struct PlanOffer<'a> {
    pub(crate) consent: AgreedSteps<'a>,
    pub(crate) changes: &'a ChangeArgs,
    /// The directory for the results.
    pub(crate) output: Option<&'a Path>,
    /// What it will need, if that is not what the whole plan does.
    pub(crate) outlook: Option<&'a Outlook>,
}

/// Prints what is asked for on so many servers at once.
pub(crate) fn show(
    asked: &ReadyExperiment,
    n_servers: u64,
    offered: PlanOffer,
    as_json: bool,
) -> Result<Exit> {
    let PlanOffer { consent: given, changes, output, .. } = offered;
    let outlook = offered.outlook.cloned().unwrap_or_else(|| outlook(&asked.plan));
    let consent = match given.allowed {
        // What it would change is shown with the options that allow it.
        AllowedChange::Nothing => AgreedSteps { allowed: AllowedChange::Everything, ..given },
        _ => given,
    };
    expect_named(&asked.plan, consent.allowed)?;
    let results = output.unwrap_or(Path::new(RESULTS));
    let look = look(
        &asked.plan,
        n_servers,
        &asked.servers,
        &asked.failed,
        consent,
        results,
        MissingBinaries::AreNamed,
    )?;
    let unfetched = unfetched(&look.unfetched, &asked.plan.cases);
    let obstacles = look.obstacles;
    if as_json {
        print_exact(&format!("{}\n", sum::json(&asked.plan, &outlook, look.peak.as_ref())?))?;
        unfetched.iter().for_each(|words| say(words));
        obstacles.iter().for_each(|obstacle| say(&format!("problem: {}", with_cases(&asked.plan, obstacle))));
    } else {
        print(&for_terminal(&text(&asked.plan, &outlook, look.peak.as_ref())?))?;
        if let Some(why) = outlook.asks_consent()
            && !given.yes
        {
            print(&format!("note    {why}: to run it, add --yes\n"))?;
        }
        for note in &asked.notes {
            print(&format!("note    {note}\n"))?;
        }
        if let Some(words) = &unfetched {
            print(&format!("note    {words}\n"))?;
        }
        // Only where nothing else has to be said first: a server that fails has been reported as a problem.
        if obstacles.is_empty() {
            for intent in intents(&asked.plan, &asked.servers, consent)? {
                print(&format!("does    {}\n", intent.line))?;
                if let Some(line) = intent.changes {
                    print(&format!("does    {line}\n"))?;
                    let missing = missing(&intent.consents, changes);
                    if !missing.is_empty() {
                        print(&format!("note    to run it, add {}\n", missing.join(" ")))?;
                    }
                }
            }
        }
        for obstacle in &obstacles {
            print(&format!("problem {}\n", with_cases(&asked.plan, obstacle)))?;
        }
    }
    Ok(if obstacles.is_empty() { Exit::Done } else { Exit::Failed })
}

/// That servers would be fetched, and what is not known before.
fn unfetched(versions: &[String], cases: &[Case]) -> Option<String> {
    let methods = if preflight::asks_for_method(cases) {
        "; fetched builds have neither lz4 nor zstd: install a packaged server for these"
    } else {
        ""
    };
    (!versions.is_empty()).then(|| {
        format!(
            "PostgreSQL {}: not here; a run fetches 10 to 20 MB for each, and checks its settings then{methods}",
            versions.join(", ")
        )
    })
}

/// The options, each with its reason if it has one, that were not given.
fn missing<'a>(consents: &'a [String], given: &ChangeArgs) -> Vec<&'a str> {
    let words = |consent: &str| consent.split(" (").next().unwrap_or_default().to_string();
    let is_given = |consent: &str| match words(consent).strip_prefix("--allow-setting ") {
        Some(name) => given.allow_settings.iter().any(|allowed| allowed.eq_ignore_ascii_case(name)),
        None => given.allow_changes,
    };
    consents.iter().map(String::as_str).filter(|consent| !is_given(consent)).collect()
}

/// Prints the plan of results that would be resumed. Nothing is done for it: whoever made it may have named any server.
fn stored(dir: &Path, as_json: bool) -> Result<Exit> {
    let plan = store::read_sealed(dir)?.plan;
    if as_json {
        print_exact(&format!("{}\n", sum::json(&plan, &outlook(&plan), None)?))?
    } else {
        print(&for_terminal(&text(&plan, &outlook(&plan), None)?))?
    }
    say(&format!(
        "this is the stored plan; `pgdyno run --resume {}` makes those of its runs that are missing",
        shell::quoted(&dir.display().to_string())
    ));
    Ok(Exit::Done)
}

fn text(plan: &Plan, outlook: &Outlook, peak: Option<&Peak>) -> Result<String> {
    let mut out = String::new();
    writeln!(out, "{}: {}", plan.name, plan.title)?;
    writeln!(out, "seed {}, {} in {}", plan.seed, size(plan), order(plan))?;
    scripts::describe(&mut out, plan)?;
    writeln!(out)?;
    for case in &plan.cases {
        let workload = &case.workload;
        writeln!(
            out,
            "case {:>3}  {}{}  {} {}, {}, {}, {}, pace {}, {}",
            case.id,
            levels(case),
            server(case),
            workload.name(),
            dataset::layout::describe(workload),
            plural(workload.n_clients, "client"),
            plural(workload.n_threads, "thread"),
            workload.protocol.as_str(),
            workload.pace,
            length(case),
        )?;
        if !workload.drivers.is_empty() {
            let name = |driver: &DriverSpec| {
                if driver.upload {
                    format!("{} (which gets a copy of this program if it needs one)", driver.name)
                } else {
                    driver.name.clone()
                }
            };
            let names: Vec<String> = workload.drivers.iter().map(name).collect();
            writeln!(out, "          driven from {}", names.join(", "))?;
        }
        if let Some(host) = &case.server.host {
            writeln!(out, "          its host is observed on {}", host.name)?;
        }
        hooks(&mut out, case)?;
        if let Some(words) = search(case) {
            writeln!(out, "          {words}")?;
        }
        for (name, value) in &workload.defines {
            writeln!(out, "          :{name} = {value}")?;
        }
        for (name, value) in &case.server.settings {
            writeln!(out, "          {name} = {value}")?;
        }
        for (name, value) in &case.os {
            let there = case.server.host.iter().map(|host| format!(" on `{}`", host.name)).next();
            writeln!(out, "          os.{name} = {value}{}", there.unwrap_or_default())?;
        }
        if let Some(seconds) = case.phase_timeout_s {
            writeln!(out, "          run.phase_timeout = {seconds}s")?;
        }
        observation(&mut out, case)?;
    }
    writeln!(out)?;
    for run in &plan.runs {
        let label = plan.case(run.case).map(Case::label).unwrap_or_default();
        writeln!(out, "run {:>4}  block {:>3}  case {:>3}  {label}", run.run, run.block, run.case)?;
    }
    writeln!(out)?;
    lanes(&mut out, plan)?;
    needs(&mut out, plan, outlook, peak)?;
    Ok(out)
}

/// What is seen of the runs of a case, and what they ask of checkpoints.
fn observation(out: &mut String, case: &Case) -> Result<()> {
    if !case.wal.is_as_is() {
        writeln!(out, "          run.wal = {}", case.wal)?;
    }
    if case.is_unobserved {
        writeln!(out, "          run.telemetry = false")?;
    }
    for (row, ..) in carried::rows() {
        if let Some(value) = case.carried.text(row) {
            writeln!(out, "          {} = {value}", row.name)?;
        }
    }
    Ok(())
}

/// Prints what only the user's commands set, and those commands.
fn hooks(out: &mut String, case: &Case) -> Result<()> {
    for (name, level) in &case.factors {
        writeln!(out, "          factors.{name} = {level}")?;
    }
    for hook in Hook::ALL.iter().filter(|hook| !case.hooks.words(**hook).is_empty()) {
        writeln!(out, "          {hook}: {}", secret::hide_command(case.hooks.words(*hook)))?;
    }
    Ok(())
}

/// Prints which targets are measured side by side, and how long each lane takes.
fn lanes(out: &mut String, plan: &Plan) -> Result<()> {
    for (n, lane) in plan.lanes.iter().enumerate() {
        let addresses: Vec<String> = lane.addresses.iter().map(ToString::to_string).collect();
        let host = if lane.is_here() { "this machine".to_string() } else { addresses.join(", ") };
        let own = plan.of_lane(lane);
        let (runs, time) = (plural(own.runs.len(), "run"), duration(outlook(&own).runs_s));
        writeln!(out, "lane {:>3}  {} on {host}: {runs}, about {time}", n + 1, lane.targets.join(", "))?;
    }
    match plan.lanes.len() {
        0 => {}
        1 => writeln!(
            out,
            "note    run.parallel_targets: all targets are on one host, where they are measured one after the other"
        )?,
        _ => writeln!(
            out,
            "note    lanes are measured side by side: they share the network and the machine of pgdyno, which reports say \
             (side-by-side)"
        )?,
    }
    Ok(())
}

/// Prints time, disk space and memory.
fn needs(out: &mut String, plan: &Plan, outlook: &Outlook, peak: Option<&Peak>) -> Result<()> {
    time(out, plan, outlook)?;
    creation(out, plan)?;
    disk(out, peak, outlook)?;
    network(out, plan)?;
    relays(out, plan)?;
    if plan.servers_at_a_time.is_some() {
        let asked = match plan.order {
            RunOrder::ByServer => "experiment.order = by-server",
            _ => "run.servers_at_a_time = 1",
        };
        writeln!(
            out,
            "note    {asked}: runs of each server lie together in time, so that what drifts meanwhile looks like \
             a difference between servers"
        )?;
    }
    if let Some(needed) = outlook.memory_bytes {
        let here = size_text(server::settings::defaults::memory_bytes());
        writeln!(
            out,
            "memory  about {}, where {here} are here: shared buffers and connections of the largest case",
            size_text(needed)
        )?;
    }
    writeln!(out, "sum     {}", Sum::new(plan, outlook, peak).words())?;
    Ok(())
}

fn time(out: &mut String, plan: &Plan, outlook: &Outlook) -> Result<()> {
    writeln!(out, "time    {}", outlook.words())?;
    if let Some(builds) = builds(plan) {
        writeln!(out, "builds  {builds}, not included in the time above; each is built once and kept")?;
    }
    if outlook.profiles_s > 0.0 {
        let n = plural(plan.profiled().count(), "extra run");
        let length = duration(outlook.profiles_s);
        writeln!(out, "perf    {n} for profiles, about {length}, after all others (run.perf)")?;
    }
    if outlook.repeats_s > 0.0 {
        let (what, n) = (if plan.is_comparison { "pairs" } else { "runs" }, plan.repeats_max());
        writeln!(
            out,
            "repeats up to {n} more {what}, at most about {}, if something disturbs them (run.repeat_disturbed)",
            duration(outlook.repeats_s)
        )?;
    }
    let longest = plan
        .cases
        .iter()
        .map(|case| experiment::site::phase_limit::for_case(case).as_secs())
        .max()
        .unwrap_or_default();
    writeln!(
        out,
        "limit   {} for each phase before and after a load (run.phase_timeout){}",
        duration(longest as f64),
        if plan.cases.iter().any(by_size) { ", more where the database is larger" } else { "" }
    )?;
    if outlook.n_starts > 0 {
        let for_data = match outlook.n_starts_for_data {
            0 => String::new(),
            n => format!(", {n} of them only because data is restored (prepare.restore)"),
        };
        writeln!(
            out,
            "starts  {} of {} runs restart the server{for_data}: about {} of the time",
            outlook.n_starts,
            outlook.n_runs,
            duration(outlook.starts_s)
        )?;
    }
    Ok(())
}

/// Says what becomes reachable while servers run, from where, and for how long.
fn network(out: &mut String, plan: &Plan) -> Result<()> {
    let listening: Vec<&Case> = plan.cases.iter().filter(|case| case.server.listen.is_some()).collect();
    let Some(listen) = listening.first().and_then(|case| case.server.listen.as_deref()) else {
        return Ok(());
    };
    let place = match ListenAddress::resolve(listen, false) {
        Ok(ListenAddress { address, .. }) if address.to_string() != listen => format!("{address} ({listen})"),
        Ok(_) | Err(_) => listen.to_string(),
    };
    let mut drivers: Vec<&str> =
        listening.iter().flat_map(|case| &case.workload.drivers).map(|driver| driver.name.as_str()).collect();
    drivers.sort_unstable();
    drivers.dedup();
    let from = match drivers.as_slice() {
        [] => "this machine".to_string(),
        drivers => format!("the addresses of {}", drivers.join(", ")),
    };
    let encrypted = match listening.iter().filter(|case| case.server.tls == Tls::On).count() {
        0 => "without TLS".to_string(),
        n if n == listening.len() => "with TLS".to_string(),
        n => format!("with TLS in {n} of {}", plural(listening.len(), "case")),
    };
    writeln!(
        out,
        "listens a free port of {place}, from the start to the stop of each server: role {LOAD_ROLE} of database {DATABASE} \
         may connect from {from} with a new password at each start (SCRAM; MD5 before PostgreSQL 10), {encrypted}; \
         nobody else may"
    )?;
    Ok(())
}

/// Says that standbys are reached through relays, and why those without a delay are, too.
fn relays(out: &mut String, plan: &Plan) -> Result<()> {
    if plan.cases.iter().any(has_relay) {
        writeln!(
            out,
            "note    standbys reach their primary through a relay of pgdyno, which costs a copy and two wake-ups: all cases with standbys \
             have one, if need be with {} = {}",
            keys::topology::DELAY,
            RoundTrip::ZERO
        )?;
    }
    Ok(())
}

/// Says that data is made more than once because of settings that act where it is made.
fn creation(out: &mut String, plan: &Plan) -> Result<()> {
    let is_made = |case: &&Case| case.server.source.is_embedded() || case.prepare.restore;
    let made: BTreeSet<String> = plan.cases.iter().filter(is_made).map(setting::made_under_words).collect();
    if made.len() > 1 {
        let words = |words: &String| if words.is_empty() { "none" } else { words }.to_string();
        let all: Vec<String> = made.iter().map(words).collect();
        writeln!(out, "data    made {} times, under {}", made.len(), all.join("; "))?;
    }
    Ok(())
}

fn disk(out: &mut String, peak: Option<&Peak>, outlook: &Outlook) -> Result<()> {
    for demand in peak.iter().flat_map(|peak| &peak.demands) {
        writeln!(out, "disk    {}", demand.words())?;
    }
    if outlook.url_bytes > 0 {
        writeln!(
            out,
            "disk    about {} on servers by URL: data, and the copy that it is restored from",
            size_text(outlook.url_bytes)
        )?;
    }
    if outlook.wal_bytes > 0 {
        writeln!(out, "wal     up to {} for each server, where there is room", size_text(outlook.wal_bytes))?;
    }
    Ok(())
}

fn size_text(n: u64) -> String {
    bytes(n as f64)
}

/// Whether its limit depends on what the database holds, which only its server knows.
fn by_size(case: &Case) -> bool {
    case.phase_timeout_s.is_none() && !case.server.source.is_embedded()
}

/// How a search for the highest rate divides its measurement window.
fn search(case: &Case) -> Option<String> {
    let probing = Probing::new(case.workload.pace.target()?, case.window).ok()?;
    Some(format!(
        "searches in {} probes of {} s below the closed loop of its ramp-up, and confirms for {} s",
        probing.n_probes,
        probing.probe_s,
        probing.end_t - probing.search_end_t
    ))
}

/// The duration of a run's load.
fn length(case: &Case) -> String {
    if let Some(replay) = case.workload.directory.as_ref().and_then(|directory| directory.replay.as_ref()) {
        let (n, sessions, s) = (replay.n_transactions, replay.n_sessions, replay.length_s());
        return format!(
            "a trace of {n} transactions of {sessions} sessions in {s:.1} s, {} times as fast",
            replay.speed
        );
    }
    match case.workload.transactions {
        Some(n) => format!("{n} transactions per client, {} s at most", case.window.measure_s),
        None => {
            let at_most = if case.adapt.ramp_up { " at most" } else { "" };
            let extension = match case.adapt.extend_s {
                0 => String::new(),
                s => format!(", {s} s more while unsteady"),
            };
            let Window { ramp_up_s, measure_s, .. } = case.window;
            format!("ramp-up {ramp_up_s} s{at_most}, measure {measure_s} s{extension}")
        }
    }
}

/// The levels of the plan's factors, as the runs are called; nothing where nothing varies.
fn levels(case: &Case) -> String {
    if case.levels.is_empty() { String::new() } else { format!("{}: ", case.label()) }
}

fn server(case: &Case) -> String {
    let place = &case.server.source;
    match &case.server.target {
        Some(target) => format!("{}: {place}", target.name),
        None => place.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::data::check::embedded_case;
    use crate::front::cli::ServerArgs;
    use model::experiment::case::WorkloadKind;

    #[test]
    fn of_the_consents_that_a_run_asks_for_those_are_named_that_were_not_given() {
        let consents = ["--allow-changes", "--allow-setting log_statement (logs)", "--allow-setting x.y"];
        let consents = consents.map(String::from);
        let check = |allow_changes: bool, names: &[&str], expected: &[&str]| {
            let allow_settings = names.iter().map(ToString::to_string).collect();
            let given = ChangeArgs { allow_changes, allow_settings, allow_outages: Vec::new() };
            assert_eq!(missing(&consents, &given), expected);
        };
        check(false, &[], &consents.each_ref().map(String::as_str));
        check(true, &["Log_statement"], &["--allow-setting x.y"]);
        check(true, &["log_statement", "x.y"], &[]);
    }

    #[test]
    fn the_space_of_the_wal_is_reported_with_its_quarter() {
        let check = |versions: &[&str], max_wal_size: Option<&str>, expected: &str| {
            let versions = versions.iter().map(ToString::to_string).collect();
            let server = ServerArgs { server: None, versions, bin_dir: Vec::new() };
            let mut case = embedded_case(&server, WorkloadKind::Tpcb, 10, Default::default(), None).unwrap();
            let value = max_wal_size.map(|value| ("max_wal_size".to_string(), value.to_string()));
            case.server.settings.extend(value);
            let plan = Plan {
                format: model::FORMAT,
                name: String::new(),
                title: String::new(),
                description: String::new(),
                seed: 1,
                repeats: 1,
                tool_version: String::new(),
                made_unix_ns: 0,
                precision: None,
                is_comparison: false,
                factors: Vec::new(),
                cases: vec![case],
                runs: Vec::new(),
                ..Plan::default()
            };
            let text = text(&plan, &outlook(&plan), None).unwrap();
            assert!(text.contains(expected), "{text}");
            assert!(text.contains("scale 10, 1 client, 1 thread, prepared"), "{text}");
            assert!(text.contains("\nsum     about ") && text.contains(" of memory\n"), "{text}");
        };
        check(&[], None, "wal     up to 10.0 GiB");
        check(&[], Some("1GB"), "wal     up to 1.25 GiB");
        check(&["12"], Some("1024"), "wal     up to 1.25 GiB");
        check(&["9.6"], Some("64"), "wal     up to 1.25 GiB");
    }
}
