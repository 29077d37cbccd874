//! Servers by URL that are no longer the ones that an interrupted experiment began with: which of its runs are made again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use dataset::session;
use model::experiment::case::{Case, ServerSource};
use model::experiment::plan::{Plan, RunState, StateLine};
use model::run::RunRecord;
use server::database::facts;
use store::ExperimentDir;
use wire::Conninfo;

use crate::schedule::resume::{self, ResumeState};
use crate::site;
use crate::site::clock::unix_now;

/// Reason for a run that no longer counts.
const OF_ANOTHER_SERVER: &str = "its server was replaced before its block was complete";

/// Reason for a run of a pair that was not complete when it was stopped.
const WITHOUT_PARTNER: &str = "the other run of its pair was missing";

/// What a server says of itself that another one says differently.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Identity {
    /// Of its cluster: a copy of the disk has the same.
    system_identifier: Option<String>,
    /// When it was started.
    postmaster_start: String,
}

impl Identity {
    /// Whether a server that moved is certainly the same process on the same machine.
    fn is_same_process(&self, other: &Identity) -> bool {
        self.system_identifier.is_some() && self == other
    }

    /// Whether it is certainly another cluster.
    fn is_other_cluster(&self, other: &Identity) -> bool {
        let both = self.system_identifier.as_ref().zip(other.system_identifier.as_ref());
        both.is_some_and(|(one, other)| one != other)
    }
}

/// Names of the targets, or `""` without targets, whose servers are no longer those of their latest completed runs. A
/// target in `moved`, which got another address, counts unless its server proves to be the same process; others count if the system
/// identifier differs.
///
/// # Errors
/// When a server that moved cannot be reached. Others are reported when their next run begins.
pub fn find(
    plan: &Plan,
    records: &[RunRecord],
    servers: &[Conninfo],
    moved: &BTreeSet<String>,
    stop: &'static AtomicBool,
) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for (target, keywords) in servers_by_target(plan) {
        let Some(before) = latest(records, target) else { continue };
        let is_moved = moved.contains(target);
        let asked = site::conninfo(servers, keywords).and_then(|conninfo| ask(&conninfo, stop));
        let now = match asked {
            Ok(now) => now,
            Err(_) if !is_moved => continue,
            Err(error) => return Err(error).with_context(|| format!("target `{target}`")),
        };
        let is_other = if is_moved { !now.is_same_process(&before) } else { now.is_other_cluster(&before) };
        if is_other {
            found.insert(target.to_string());
        }
    }
    Ok(found)
}

/// Addresses of the plan at which another cluster answers than at the latest run of the same address, completed or not: whatever is left
/// would be loaded and executed in somebody else's database. Those of targets in `moved`, whose servers the user has just named, and what
/// does not answer, or hides its identity, are not among them.
pub fn elsewhere(
    plan: &Plan,
    records: &[RunRecord],
    servers: &[Conninfo],
    moved: &BTreeSet<String>,
    stop: &'static AtomicBool,
) -> Vec<String> {
    let unmoved = plan.cases.iter().filter(|case| !moved.contains(target_of(case)));
    let addresses: BTreeSet<&BTreeMap<String, String>> = unmoved
        .filter_map(|case| match &case.server.source {
            ServerSource::Url(keywords) => Some(keywords),
            _ => None,
        })
        .collect();
    let is_other = |keywords: &&BTreeMap<String, String>| {
        let at_it = |record: &&RunRecord| {
            record.server.as_ref().is_some_and(|server| server.system_identifier.is_some())
                && matches!(&record.case.server.source, ServerSource::Url(other) if other == *keywords)
        };
        let latest = records.iter().filter(at_it).max_by_key(|record| record.go_unix_ns);
        let Some(before) = latest.and_then(identity) else { return false };
        let asked = site::conninfo(servers, keywords).and_then(|conninfo| ask(&conninfo, stop));
        asked.is_ok_and(|now| now.is_other_cluster(&before))
    };
    let shown = |keywords: &BTreeMap<String, String>| {
        let of = |key: &str| keywords.get(key).cloned().unwrap_or_default();
        format!("host={} port={}", of("host"), of("port"))
    };
    addresses.into_iter().filter(is_other).map(shown).collect()
}

fn servers_by_target(plan: &Plan) -> BTreeMap<&str, &BTreeMap<String, String>> {
    let by_url = plan.cases.iter().filter_map(|case| match &case.server.source {
        ServerSource::Url(keywords) => Some((target_of(case), keywords)),
        _ => None,
    });
    by_url.collect()
}

/// The name of a case's target; empty without targets.
fn target_of(case: &Case) -> &str {
    case.server.target.as_ref().map_or("", |target| target.name.as_str())
}

/// The server of the latest completed run.
fn latest(records: &[RunRecord], target: &str) -> Option<Identity> {
    let completed = records
        .iter()
        .filter(|record| record.state == RunState::Completed && target_of(&record.case) == target);
    identity(completed.max_by_key(|record| record.go_unix_ns)?)
}

fn identity(record: &RunRecord) -> Option<Identity> {
    let server = record.server.as_ref()?;
    Some(Identity {
        system_identifier: server.system_identifier.clone(),
        postmaster_start: server.postmaster_start.clone(),
    })
}

fn ask(conninfo: &Conninfo, stop: &'static AtomicBool) -> Result<Identity> {
    let server = facts::record(&mut session::open(conninfo, stop)?, None)?;
    Ok(Identity { system_identifier: server.system_identifier, postmaster_start: server.postmaster_start })
}

/// Begins again the blocks in which these targets have runs left: their completed runs of such a block are made again on
/// the new server, so that a block compares cases of one server. Their records and those of their repeats become partial,
/// so that none counts if the experiment is interrupted again before it is made again: call this before the plan gets the
/// new address.
///
/// # Errors
/// When a record cannot be written.
pub fn begin_again(
    dir: &ExperimentDir,
    plan: &Plan,
    records: &[RunRecord],
    targets: &BTreeSet<String>,
    standing: &mut ResumeState,
) -> Result<BTreeSet<u32>> {
    let runs = of_begun_blocks(plan, targets, &standing.done);
    again(dir, records, &runs, OF_ANOTHER_SERVER, standing)?;
    Ok(runs)
}

/// Begins again completed runs whose partner of a comparison is missing: both belong together in time.
///
/// # Errors
/// When a record cannot be written.
pub fn make_again(
    dir: &ExperimentDir,
    records: &[RunRecord],
    runs: &BTreeSet<u32>,
    standing: &mut ResumeState,
) -> Result<()> {
    again(dir, records, runs, WITHOUT_PARTNER, standing)
}

fn again(
    dir: &ExperimentDir,
    records: &[RunRecord],
    runs: &BTreeSet<u32>,
    why: &str,
    standing: &mut ResumeState,
) -> Result<()> {
    standing.done.retain(|run| !runs.contains(run));
    standing.again.extend(runs);
    // Repeats, which have the higher numbers, come first: they are found by a planned run that is done.
    for record in records.iter().rev() {
        let is_again = runs.contains(&resume::planned(record).run);
        if is_again && record.state == RunState::Completed {
            let (state, reason) = (RunState::Partial, why.to_string());
            dir.amend_record(&RunRecord { state, reason: reason.clone(), ..record.clone() })?;
            dir.append_state(&StateLine { t_unix_ns: unix_now(), run: record.spec.run, state, reason })?;
        }
    }
    Ok(())
}

/// The completed runs of these targets in blocks that they have not completed.
fn of_begun_blocks(plan: &Plan, targets: &BTreeSet<String>, done: &BTreeSet<u32>) -> BTreeSet<u32> {
    let mut blocks: BTreeMap<(&str, u32), Vec<u32>> = BTreeMap::new();
    for spec in &plan.runs {
        let target = plan.case(spec.case).map_or("", target_of);
        if targets.contains(target) {
            blocks.entry((target, spec.block)).or_default().push(spec.run);
        }
    }
    let begun = blocks.into_values().filter(|runs| runs.iter().any(|run| !done.contains(run)));
    begun.flatten().filter(|run| done.contains(run)).collect()
}

#[cfg(test)]
mod tests {
    use model::experiment::plan::RunSpec;
    use model::experiment::repeat::Repeat;

    use super::*;

    #[test]
    fn what_a_block_lacks_decides_which_of_its_runs_are_made_again() {
        let case = |id: u32, target: &str| {
            let mut case = crate::plan::sample::plan("").cases[0].clone();
            case.id = id;
            case.server.target =
                Some(model::experiment::target::TargetSpec { name: target.into(), ..Default::default() });
            case
        };
        let cases = vec![case(1, "a"), case(2, "a"), case(3, "b")];
        let spec = |run: u32, block: u32, case: u32| RunSpec { run, block, case, seed: 1 };
        // Blocks of three: a, b, a.
        let runs = (0..9).map(|n| spec(n + 1, n / 3 + 1, [1, 3, 2][n as usize % 3])).collect();
        let plan = Plan { cases, runs, ..Plan::default() };
        let check = |targets: &[&str], done: &[u32], expected: &[u32]| {
            let targets = targets.iter().map(|name| name.to_string()).collect();
            let found = of_begun_blocks(&plan, &targets, &done.iter().copied().collect());
            assert_eq!(found, expected.iter().copied().collect(), "{targets:?} {done:?}");
        };
        check(&["a"], &[1, 2, 3, 4], &[4]);
        check(&["b"], &[1, 2, 3, 4], &[]);
        check(&["a"], &[1, 2, 3], &[]);
        check(&["a"], &[1, 2, 3, 4, 6], &[]);
        check(&["a", "b"], &[1, 5], &[1]);
        check(&[], &[1, 4], &[]);
    }

    #[test]
    fn after_a_second_interruption_no_run_of_the_old_server_counts() {
        let text = "repeats = 1\n[workload]\nscale = 1\nclients = [1, 2, 3]\n[run]\nmeasure = \"2s\"";
        let (place, plan) = (tempfile::tempdir().unwrap(), crate::plan::sample::plan(text));
        let dir = ExperimentDir::create(&place.path().join("out"), &plan, "").unwrap();
        let complete = |run: u32, of: u32| {
            let spec = plan.runs[of as usize - 1].clone();
            let case = plan.case(spec.case).unwrap().clone();
            let repeat = (run != of).then_some(Repeat { of, attempt: 1 });
            let record = RunRecord::new(RunSpec { run, ..spec }, case, "0");
            let writer = dir.begin_run(run).unwrap();
            writer.write_record(&RunRecord { state: RunState::Completed, repeat, ..record }).unwrap();
            let of_run = dir.path().join(store::names::RUNS).join(store::names::run_dir(run));
            std::fs::write(of_run.join(store::names::INTERVALS), "{}\n").unwrap();
        };
        for (run, of) in [(1, 1), (2, 2), (4, 2)] {
            complete(run, of);
        }
        let mut standing = resume::take_up(&dir, &plan).unwrap();
        assert_eq!(standing.done, BTreeSet::from([1, 2]));
        let records = store::read_records(dir.path()).unwrap();
        begin_again(&dir, &plan, &records, &BTreeSet::from([String::new()]), &mut standing).unwrap();
        assert_eq!((&standing.done, &standing.again), (&BTreeSet::new(), &BTreeSet::from([1, 2])));
        complete(1, 1);
        assert_eq!(resume::take_up(&dir, &plan).unwrap().done, BTreeSet::from([1]));
        let records = store::read_records(dir.path()).unwrap();
        let states: Vec<_> = records.iter().map(|record| (record.spec.run, record.state)).collect();
        assert_eq!(states, [(1, RunState::Completed), (2, RunState::Partial), (4, RunState::Partial)]);
    }

    #[test]
    fn a_server_that_moved_must_prove_that_it_is_the_same() {
        let of = |system: Option<&str>, start: &str| Identity {
            system_identifier: system.map(str::to_string),
            postmaster_start: start.to_string(),
        };
        let before = of(Some("7"), "noon");
        for (now, is_same_process, is_other_cluster) in [
            (of(Some("7"), "noon"), true, false),
            // Restarted, or a copy of the disk on another machine.
            (of(Some("7"), "two"), false, false),
            (of(Some("8"), "two"), false, true),
            (of(None, "noon"), false, false),
        ] {
            assert_eq!(now.is_same_process(&before), is_same_process, "{now:?}");
            assert_eq!(now.is_other_cluster(&before), is_other_cluster, "{now:?}");
        }
    }
}
