//! Conducts lanes side by side: each is a thread that makes the runs of its targets one after the other.
//!
//! What they share is behind locks: `state.jsonl` in the experiment's directory, the repeats that are left, and what each
//! does at the moment ([`Lanes`]). Each run has a directory of its own, and each lane its own hands on its host.

use std::sync::mpsc::{self, Sender};
use std::thread;

use anyhow::{Context, Error, Result, anyhow};
use model::experiment::plan::Plan;
use model::experiment::target::lane::Lane;

use crate::schedule::agenda::Repeats;
use crate::schedule::conduct::Task;
use crate::schedule::sequence::{OTHERS_END, RunTally, Sequence};
use crate::site::hands::HostAgents;
use crate::site::lanes::{Lanes, Seat};
use crate::site::progress::{ProgressEvent, Watch};
use crate::site::{Environment, Site, SystemChanges};

/// Makes the runs of all lanes. A lane that cannot go on lets the others end the runs that they have begun.
pub(crate) fn conduct(order: &Task, repeats: &Repeats, watch: &mut Watch) -> (RunTally, Result<()>) {
    let (whole, lanes) = (order.plan, Lanes::from_plan(order.plan));
    let plans: Vec<Plan> = whole.lanes.iter().map(|lane| whole.of_lane(lane)).collect();
    let (sender, progress) = mpsc::channel();
    let ended: Vec<(RunTally, Result<()>)> = thread::scope(|scope| {
        let begin = |(n, plan): (usize, &'_ Plan)| {
            let (order, seat, sender) = (*order, lanes.seat(n), sender.clone());
            let (plan, lane) = (plan.clone(), &whole.lanes[n]);
            scope.spawn(move || {
                conduct_lane(&order, &plan, lane, repeats, seat, &LaneReports { lane: n, sender })
            })
        };
        let threads: Vec<_> = plans.iter().enumerate().map(begin).collect();
        drop(sender);
        for (lane, progress) in progress {
            watch(ProgressEvent::OfLane { lane, progress: Box::new(progress) });
        }
        let panicked = || (RunTally::default(), Err(anyhow!("the thread of a lane has panicked")));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| panicked())).collect()
    });
    add_up(ended)
}

/// Where a lane reports what it does.
struct LaneReports {
    /// The number of the lane.
    lane: usize,
    sender: Sender<(usize, ProgressEvent)>,
}

/// One lane, from its first run to what it has set on its host.
fn conduct_lane(
    order: &Task,
    plan: &Plan,
    lane: &Lane,
    repeats: &Repeats,
    seat: Seat,
    reports: &LaneReports,
) -> (RunTally, Result<()>) {
    let Site { environment, permissions, changes, callbacks } = order.site;
    let site = Site {
        environment: Environment { seat: Some(seat), ..environment.clone() },
        permissions: *permissions,
        changes: SystemChanges {
            os: changes.os.filter(|_| lane.is_here()),
            hands: HostAgents::new(order.program.to_path_buf()),
            ..*changes
        },
        callbacks: *callbacks,
    };
    let n_runs = order.plan.runs.len() as u32;
    // The receiver waits until all lanes have ended.
    let mut watch = |progress| drop(reports.sender.send((reports.lane, progress)));
    let (tally, result) =
        Sequence::new(Task { plan, site: &site, ..*order }, n_runs, repeats).conduct(&mut watch);
    // What cannot be put back is tried once more, and reported, when the experiment ends.
    if site.changes.hands.put_back().is_err() {
        order.site.changes.hands.take_over(&site.changes.hands);
    }
    let result = result.with_context(|| format!("target `{}`", lane.name()));
    if result.is_err() {
        seat.close();
        watch(ProgressEvent::Note(OTHERS_END.to_string()));
    }
    (tally, result)
}

/// The runs of all lanes, and what has failed in any of them.
fn add_up(ended: Vec<(RunTally, Result<()>)>) -> (RunTally, Result<()>) {
    let mut sum = RunTally::default();
    let mut failure: Option<Error> = None;
    for (tally, result) in ended {
        sum.completed += tally.completed;
        sum.incomplete += tally.incomplete;
        failure = match (failure, result.err()) {
            (Some(before), Some(error)) => Some(anyhow!("{before:#}; {error:#}")),
            (before, error) => before.or(error),
        };
    }
    (sum, failure.map_or(Ok(()), Err))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::Path;

    use model::experiment::plan::RunState;
    use store::ExperimentDir;

    use super::*;
    use crate::plan::expand::{self, PlanResources};
    use crate::schedule::conduct;
    use crate::site::lanes::server_host::ServerHost;

    /// Two targets of hosts that are distinguished, without servers.
    fn plan() -> Plan {
        let text = "[experiment]\nname = \"x\"\nrepeats = 2\n[[target]]\nname = \"a\"\nurl = \"x\"\n[[target.driver]]\n\
                    via = [\"ssh\", \"a\"]\n[[target]]\nname = \"b\"\nurl = \"x\"\n[workload]\nscale = 1\n\
                    [run]\nparallel_targets = true\n";
        let experiment = crate::plan::file::parse("x.toml", text, &[]).unwrap();
        let resources = |n: u8| {
            let address = format!("192.0.2.{n}");
            let words = [("host", "/nonexistent"), ("port", "1"), ("user", "u"), ("dbname", "d")];
            let keywords = words.map(|(key, value)| (key.to_string(), value.to_string())).into();
            let host = ServerHost { is_here: false, addresses: [address.parse().unwrap()].into() };
            PlanResources { host: Some(host), url_keywords: Some(keywords), ..PlanResources::default() }
        };
        let targets = BTreeMap::from([("a".to_string(), resources(1)), ("b".to_string(), resources(2))]);
        expand::plan(&experiment, &PlanResources { targets, ..PlanResources::default() }).unwrap()
    }

    #[test]
    fn a_lane_that_cannot_begin_is_named_and_nothing_is_left_running() {
        let (plan, place) = (plan(), tempfile::tempdir().unwrap());
        assert!(plan.is_side_by_side());
        let cache = server::Cache::at(place.path().join("cache"));
        let dir = ExperimentDir::create(&place.path().join("out"), &plan, "").unwrap();
        let site = Site::bare(&cache);
        let (program, done) = (Path::new("/nonexistent"), &BTreeSet::new());
        let order = Task { plan: &plan, dir: &dir, site: &site, program, done, tool_version: "0" };
        let mut said = Vec::new();
        let (outcome, result) = conduct::conduct(&order, &mut |progress| said.push(progress));
        let error = format!("{:#}", result.unwrap_err());
        assert!(error.starts_with("target `a`: ") || error.starts_with("target `b`: "), "{error}");
        assert!(error.contains("/nonexistent"), "{error}");
        assert_eq!((outcome.completed, outcome.incomplete, outcome.missing), (0, 0, 4));
        let is_note = |progress: &ProgressEvent| {
            matches!(progress, ProgressEvent::OfLane { progress, .. }
            if **progress == ProgressEvent::Note(OTHERS_END.to_string()))
        };
        assert!(said.iter().any(is_note), "{said:?}");
        assert_eq!(store::read_state(dir.path()).last().unwrap().state, RunState::Failed);
    }

    #[test]
    fn what_failed_in_any_lane_is_reported_and_all_runs_count() {
        let tally = |completed, incomplete| RunTally { completed, incomplete, is_enough: false };
        let (sum, result) = add_up(vec![
            (tally(3, 1), Err(anyhow!("one"))),
            (tally(2, 0), Ok(())),
            (tally(0, 2), Err(anyhow!("other"))),
        ]);
        assert_eq!((sum, format!("{:#}", result.unwrap_err())), (tally(5, 3), "one; other".to_string()));
    }
}
