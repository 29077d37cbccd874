//! Looks ahead at a plan: its size, what it needs, and what would make its runs fail.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;

use anyhow::{Result, ensure};
use dataset::session::STOPPED;
use experiment::forecast::builds::Builds;
use experiment::forecast::fit::MachineSpeed;
use experiment::forecast::outlook::{Outlook, PlannedMachine};
use experiment::forecast::preflight::{self, Examination, Failed, MissingBinaries, Obstacle};
use experiment::forecast::present::Present;
use experiment::plan::scripts::reads;
use experiment::site::hands::HostAgents;
use experiment::site::lanes::Lanes;
use experiment::site::reach;
use experiment::site::{Callbacks, Environment, Permissions, Site, SystemChanges};
use model::experiment::case::{Case, WorkloadSpec};
use model::experiment::driver::DriverSpec;
use model::experiment::plan::{Plan, RunOrder};
pub(crate) use model::text::prose::duration;
use model::text::prose::plural;
use server::Cache;
use wire::Conninfo;

use crate::front::announce::AgreedSteps;
use crate::job::{self, own_program, screen::Screen};
use crate::restore_report::SETTINGS;
use crate::{say, signals};

/// What would make runs of `plan` on so many servers at once fail, and the disk space they need; results go to
/// `results`. Servers that have failed before are not asked again.
pub(crate) fn look(
    plan: &Plan,
    n_servers: u64,
    servers: &[Conninfo],
    failed: &[Failed],
    consent: AgreedSteps,
    results: &Path,
    missing: MissingBinaries,
) -> Result<Examination> {
    let cache = Cache::default_location()?;
    let mut screen = Screen::of_one();
    let site = Site {
        environment: Environment {
            cache: &cache,
            plan: None,
            n_servers,
            memory_bytes: server::settings::defaults::memory_bytes() / n_servers,
            most_connections: most_connections(plan),
            servers,
            runs_by_data: BTreeMap::new(),
            in_turn: None,
            seat: None,
            stop: signals::stop_flag(),
            now: &String::new,
        },
        permissions: Permissions {
            replace: consent.replace,
            replace_databases: consent.replace_databases,
            risks: consent.risks,
            allowed: consent.allowed,
            outages: consent.outages,
        },
        changes: SystemChanges {
            os: None,
            hands: HostAgents::new(own_program()?),
            settings: &SETTINGS,
            pending_undo: &job::PENDING_UNDO,
        },
        callbacks: Callbacks::default(),
    };
    let mut found =
        preflight::find(plan, &site, results, failed, missing, &mut |progress| screen.show(progress));
    screen.close();
    found.obstacles.extend(open_files(plan));
    go_on()?;
    // Drivers are not sent to servers with problems, which they would only repeat.
    let reached = found.obstacles.is_empty().then_some(servers);
    found.obstacles.extend(unreachable_drivers(plan, reached, Tried::AsTheyAre)?);
    found.obstacles.extend(unreachable_hosts(plan, Tried::AsTheyAre)?);
    // What was given up on request is no obstacle.
    go_on()?;
    Ok(found)
}

/// Fails if the user wants to stop.
fn go_on() -> Result<()> {
    ensure!(!signals::stop_flag().load(Ordering::Relaxed), STOPPED);
    Ok(())
}

/// Fails if settings of servers by URL cannot be changed as the plan of a resumed experiment asks.
///
/// # Errors
/// Lists all known problems.
pub(crate) fn expect_changes(plan: &Plan, servers: &[Conninfo], consent: AgreedSteps) -> Result<()> {
    let problems = preflight::changes(plan, servers, consent.allowed)?;
    ensure!(problems.is_empty(), "{}", problems.join("\npgdyno: error: "));
    Ok(())
}

/// Which drivers and eyes are tried: those that need no copy of this program, or also those to which one is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tried {
    /// A look ahead puts no program on another machine.
    AsTheyAre,
    /// With the consent of the user, who has begun the experiment.
    WithCopies,
}

impl Tried {
    fn takes(self, spec: &DriverSpec) -> bool {
        self == Tried::WithCopies || !spec.upload
    }
}

/// Tries the drivers and eyes that get a copy of this program, before data is loaded for them.
///
/// # Errors
/// Names those that do not answer, and drivers that do not reach their server.
pub(crate) fn expect_copies(plan: &Plan, servers: &[Conninfo]) -> Result<()> {
    let takes_copy = |case: &Case| {
        let all = case.workload.drivers.iter().chain(&case.server.host);
        all.into_iter().any(|spec| spec.upload)
    };
    if !plan.cases.iter().any(takes_copy) {
        return Ok(());
    }
    say("trying drivers and hosts that get a copy of this program, before anything is loaded");
    let mut found = unreachable_drivers(plan, Some(servers), Tried::WithCopies)?;
    found.extend(unreachable_hosts(plan, Tried::WithCopies)?);
    go_on()?;
    let problems: Vec<String> = found.iter().map(|obstacle| with_cases(plan, obstacle)).collect();
    ensure!(problems.is_empty(), "{}", problems.join("\npgdyno: error: "));
    Ok(())
}

/// The first drivers elsewhere that do not answer, are of another build, or do not reach their server, of each server: found
/// out before data is loaded.
fn unreachable_drivers(plan: &Plan, servers: Option<&[Conninfo]>, tried: Tried) -> Result<Vec<Obstacle>> {
    let program = own_program()?;
    // Cases of a server take the first ones of one list.
    let mut most: BTreeMap<(&str, String), &Case> = BTreeMap::new();
    for case in &plan.cases {
        let target = case.server.target.as_ref().map_or("", |target| target.name.as_str());
        let known = most.entry((target, case.server.source.to_string())).or_insert(case);
        if known.workload.drivers.len() < case.workload.drivers.len() {
            *known = case;
        }
    }
    let lanes = Lanes::from_plan(plan);
    let mut found = Vec::new();
    for case in most.into_values() {
        let drivers: Vec<DriverSpec> =
            case.workload.drivers.iter().filter(|driver| tried.takes(driver)).cloned().collect();
        if drivers.is_empty() {
            continue;
        }
        go_on()?;
        let lane =
            if plan.is_side_by_side() { plan.lanes.iter().position(|lane| lane.has(case)) } else { None };
        let seat = lane.map(|lane| lanes.seat(lane));
        let refused = reach::try_drivers(case, &drivers, servers, &program, seat, signals::stop_flag()).err();
        found.extend(refused.map(|error| Obstacle { cases: vec![case.id], reason: format!("{error:#}") }));
    }
    Ok(found)
}

/// The eyes that do not answer, or are of another build: also found out before data is loaded.
fn unreachable_hosts(plan: &Plan, tried: Tried) -> Result<Vec<Obstacle>> {
    let (program, stop) = (own_program()?, signals::stop_flag());
    let mut hosts: Vec<(&DriverSpec, Vec<u32>)> = Vec::new();
    for case in &plan.cases {
        let Some(host) = case.server.host.as_ref().filter(|host| tried.takes(host)) else { continue };
        match hosts.iter_mut().find(|(known, _)| *known == host) {
            Some((_, cases)) => cases.push(case.id),
            None => hosts.push((host, vec![case.id])),
        }
    }
    let mut found = Vec::new();
    for (host, cases) in hosts {
        go_on()?;
        let refused = fleet::HostObserver::try_to_greet(host, &program, stop).err();
        let reason = |error| format!("cannot observe the server's host `{}`: {error:#}", host.name);
        found.extend(refused.map(|error| Obstacle { cases, reason: reason(error) }));
    }
    Ok(found)
}

/// The largest load driven here that exceeds this process's limit of open files, and the one with the most drivers elsewhere
/// that does.
fn open_files(plan: &Plan) -> Vec<Obstacle> {
    let (driven_here, driven_elsewhere): (Vec<&Case>, _) =
        plan.cases.iter().partition(|case| case.workload.drivers.is_empty());
    let largest = driven_here.into_iter().max_by_key(|case| reads::n_connections(case));
    let most_drivers = driven_elsewhere.into_iter().max_by_key(|case| case.workload.drivers.len());
    let lacks_files = |case: &Case| {
        let reason = expect_open_files(&case.workload, reads::n_connections(case)).err()?;
        Some(Obstacle { cases: vec![case.id], reason })
    };
    largest.into_iter().chain(most_drivers).filter_map(lacks_files).collect()
}

/// Drivers elsewhere check the limits of their own machines. Each is behind a command with three pipes here.
fn expect_open_files(workload: &WorkloadSpec, n_connections: u32) -> Result<(), String> {
    match workload.drivers.len() {
        0 => driver::expect_open_files(n_connections, workload.n_threads),
        n => driver::expect_pipes(n as u32),
    }
}

/// Most connections of the clients of any case.
pub(crate) fn most_connections(plan: &Plan) -> u32 {
    plan.cases.iter().map(reads::n_connections).max().unwrap_or(1)
}

/// An obstacle with the cases it affects.
pub(crate) fn with_cases(plan: &Plan, obstacle: &Obstacle) -> String {
    match obstacle.cases.as_slice() {
        cases if cases.len() == plan.cases.len() => obstacle.reason.clone(),
        [case] if plan.is_comparison => {
            format!("{}: {}", if *case == 1 { "A" } else { "B" }, obstacle.reason)
        }
        [case] => format!("case {case}: {}", obstacle.reason),
        cases => {
            let numbers: Vec<String> = cases.iter().map(u32::to_string).collect();
            format!("cases {}: {}", numbers.join(", "), obstacle.reason)
        }
    }
}

/// What the plan will need on this machine.
pub(crate) fn outlook(plan: &Plan) -> Outlook {
    let memory_bytes = server::settings::defaults::memory_bytes();
    // Without a cache, nothing is known of this machine.
    let known =
        Cache::default_location().map(|cache| (MachineSpeed::known(&cache.dir), Present::with(&cache)));
    let (speed, present) = known.unwrap_or_default();
    Outlook::on(plan, PlannedMachine { memory_bytes, speed, present: &present })
}

/// What the plan will need if only the first `n_runs` of its runs are made, and no repeats beyond them.
pub(crate) fn outlook_of_first(plan: &Plan, n_runs: usize) -> Outlook {
    let mut first = plan.clone();
    first.runs.truncate(n_runs);
    Outlook { repeats_s: 0.0, ..outlook(&first) }
}

/// What is built from source before its first run, with the time: `3 servers from source, in about 15 min 00 s`.
pub(crate) fn builds(plan: &Plan) -> Option<String> {
    let cache = Cache::default_location().ok()?;
    let n_cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let builds = Builds::new(plan, &cache, n_cpus)?;
    Some(format!("{}, in about {}", builds.words(), duration(builds.length_s)))
}

/// The size of a plan: `2 cases, 6 runs`; up to so many if a precision or a time ends it.
pub(crate) fn size(plan: &Plan) -> String {
    let plan = plan.without_spare();
    let up_to = if plan.precision.is_some() { "up to " } else { "" };
    format!("{}, {up_to}{}", plural(plan.cases.len(), "case"), plural(plan.runs.len(), "run"))
}

/// The order in words.
pub(crate) fn order(plan: &Plan) -> String {
    let n_blocks = plan.without_spare().repeats;
    let order = match plan.order {
        RunOrder::Randomized => plural(n_blocks, "randomized block"),
        RunOrder::ByServer => format!("{}, server by server", plural(n_blocks, "randomized block")),
        RunOrder::Sequential => "sequence, case by case".to_string(),
    };
    let spare = match plan.spare_blocks {
        0 => String::new(),
        n => format!(" and up to {n} more while there is time"),
    };
    match plan.lanes.len() {
        0 | 1 => format!("{order}{spare}"),
        n => format!("{order}{spare}, {n} lanes side by side"),
    }
}

#[cfg(test)]
mod tests {
    use model::experiment::case::WorkloadKind;

    use super::*;

    #[test]
    fn loads_driven_elsewhere_take_no_files_of_this_machine_but_their_pipes() {
        let tpcb = WorkloadSpec::new(WorkloadKind::Tpcb, 1);
        let mut workload = tpcb;
        assert!(expect_open_files(&workload, u32::MAX).unwrap_err().contains("use fewer clients"));
        workload.drivers = vec![DriverSpec::default(); 2];
        assert_eq!(expect_open_files(&workload, u32::MAX), Ok(()));
        assert!(driver::expect_pipes(u32::MAX).unwrap_err().contains("use fewer drivers"));
    }
}
