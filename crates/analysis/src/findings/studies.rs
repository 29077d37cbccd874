//! Findings about an experiment as a whole.

use std::collections::{BTreeMap, BTreeSet};

use model::experiment::origin::{self, MergedFrom};
use model::experiment::plan::{Plan, RunOrder, RunState};
use model::load::Pace;
use model::run::RunRecord;
use model::run::host::HostRecord;

use super::format::{list, plural};
use super::{ON_RECORDS, Rule, RuleCheck, StudyContext};
use crate::finding::{Finding, Severity};

pub(super) const INCOMPLETE: Rule = Rule {
    id: "incomplete",
    title: "The experiment is incomplete",
    severity: "Doubt when planned runs are missing",
    source: "our rule",
    advice: "Resume the experiment where it was measured, or read its numbers as provisional.",
    evidence: "Planned runs without a completed record, and the last reason in state.jsonl.",
    why: "Cases of a block should share disturbances; a missing block separates them.",
    tested: ON_RECORDS,
    check: RuleCheck::Study(incomplete),
};

fn incomplete(context: &StudyContext) -> Option<Finding> {
    context.partial.map(|sentence| INCOMPLETE.finds(Severity::Doubt, sentence))
}

pub(super) const RESUMED: Rule = Rule {
    id: "resumed",
    title: "The experiment was cut off and resumed",
    severity: "Note when `state.jsonl` says that it was resumed",
    source: "our rule",
    advice: "Trust the difference between two cases less if a gap separates their runs of one block.",
    evidence: "Runs that start twice in state.jsonl, and starts of the experiment after the first.",
    why: "The machine may have changed between the runs of one block, and a table does not show the gap.",
    tested: "An experiment by URL that was killed in its second run.",
    check: RuleCheck::Study(resumed),
};

fn resumed(context: &StudyContext) -> Option<Finding> {
    let data = context.data;
    let begun = |run: u32| {
        data.state.iter().filter(|line| line.run == run && line.state == RunState::Started).count() as u64
    };
    let times = begun(0);
    let again: Vec<String> = data
        .plan
        .runs
        .iter()
        .map(|spec| spec.run)
        .filter(|run| begun(*run) > 1)
        .map(|n| n.to_string())
        .collect();
    let evidence = || {
        let made_again = match again.as_slice() {
            [] => "no run was repeated".to_string(),
            [run] => format!("run {run} was made again; its first attempt is kept"),
            runs => {
                format!("runs {} were made again; the first attempts are kept", list(runs, 8))
            }
        };
        format!("resumed {}; {made_again}", plural(times, "time"))
    };
    (times > 0).then(|| RESUMED.finds(Severity::Note, evidence()))
}

pub(super) const MERGED: Rule = Rule {
    id: "merged",
    title: "The study was merged from several results",
    severity: "Note when its runs were measured in several experiments",
    source: "design: blocks and seeds are those of each experiment",
    advice: "Compare cases within one origin first: merge with --by-origin makes the origin a factor.",
    evidence: "The origins in plan.json: names, runs, seeds and versions of pgdyno.",
    why: "Runs of different origins share neither hour nor, perhaps, machine; their spread contains that.",
    tested: ON_RECORDS,
    check: RuleCheck::Study(merged),
};

fn merged(context: &StudyContext) -> Option<Finding> {
    let origins = &context.data.plan.origins;
    let one = |origin: &MergedFrom| {
        let n = context.data.runs.iter().filter(|run| origin.has(run.record.spec.run)).count();
        format!(
            "{} of {} (pgdyno {}, seed {})",
            plural(n, "run"),
            origin.name,
            origin.tool_version,
            origin.seed
        )
    };
    let each: Vec<String> = origins.iter().map(one).collect();
    let mut found = (!origins.is_empty()).then(|| MERGED.finds(Severity::Note, list(&each, 8)))?;
    if context.data.plan.factors.iter().any(|factor| factor == origin::FACTOR) {
        found.advice =
            "Compare cases of one origin: between origins, everything else may differ too.".to_string();
    }
    Some(found)
}

pub(super) const MACHINE_CHANGED: Rule = Rule {
    id: "machine-changed",
    title: "Runs differ in their machine, or in their server's binaries",
    severity: "Doubt when pgdyno or its machine (processors, memory, kernel) differ between completed runs, \
               or, between runs of one case, the server's machine or the binaries of the server that pgdyno \
               runs",
    source: "design: what is not a factor must not vary",
    advice: "Compare only runs of one machine and one build, or repeat the experiment; name a commit or a tag, not a branch or a directory \
             that changes.",
    evidence: "Processors, memory, kernel, machine and version of pgdyno of each completed run against the \
               first; the server's machine, if another one and observed, and the SHA-256 of the server that \
               pgdyno ran, against the first run of the case.",
    why: "A difference between machines would look like a difference between cases.",
    tested: ON_RECORDS,
    check: RuleCheck::Study(machine_changed),
};

fn machine_changed(context: &StudyContext) -> Option<Finding> {
    let data = context.data;
    let completed: Vec<&RunRecord> = data
        .runs
        .iter()
        .map(|run| &run.record)
        .filter(|record| record.state == RunState::Completed && record.our_host().is_some())
        .collect();
    // Where the place is a factor, its machine may differ from that of another place, and that of a target from another's.
    let is_apart = data.plan.factors.iter().any(|factor| factor == origin::FACTOR);
    let place = |record: &RunRecord| {
        let target = record.case.server.target.as_ref().map(|target| target.name.clone());
        (data.plan.origin_of(record.spec.run).filter(|_| is_apart), target)
    };
    let of_place = |of: &RunRecord| completed.iter().find(|record| place(record) == place(of));
    let of_case = |case: u32| completed.iter().find(|record| record.spec.case == case);
    // Against which run, which run, and in what.
    let differing: Vec<(u32, u32, String)> = completed
        .iter()
        .filter_map(|record| {
            let first = of_place(record)?;
            let machine = machine_difference(first, record).map(|what| (first.spec.run, what));
            // Cases may have different servers.
            let server = || {
                let first = of_case(record.spec.case)?;
                let what =
                    server_host_difference(first, record).or_else(|| binaries_difference(first, record));
                Some((first.spec.run, what?))
            };
            let (from, what) = machine.or_else(server)?;
            Some((from, record.spec.run, what))
        })
        .collect();
    let (from, run, what) = differing.first()?;
    let differences: BTreeSet<&String> = differing.iter().map(|(_, _, what)| what).collect();
    let more = if differences.len() > 1 { ", and others differ in other ways" } else { "" };
    let n_completed = plural(completed.len(), "completed run");
    let differ = if differing.len() == 1 { "differs" } else { "differ" };
    let evidence =
        format!("{} of {n_completed} {differ} from run {from} (run {run}: {what}{more})", differing.len());
    Some(MACHINE_CHANGED.finds(Severity::Doubt, evidence))
}

/// Describes other binaries in the second record of a case: a branch that moved, a directory that was edited, an
/// installation that was replaced. Cases may have different servers, and nothing is known of servers by URL.
fn binaries_difference(first: &RunRecord, second: &RunRecord) -> Option<String> {
    let hash = |record: &RunRecord| {
        let is_own = record.case.server.source.is_embedded();
        record.server.as_ref().filter(|_| is_own)?.executable_sha256.clone()
    };
    let (before, after) = hash(first).zip(hash(second))?;
    let brief = |hash: &str| hash.chars().take(8).collect::<String>();
    (before != after).then(|| format!("server binaries `{}`, then `{}`", brief(&before), brief(&after)))
}

/// Describes how the machine of pgdyno, or its version, differs in the second record.
fn machine_difference(first: &RunRecord, second: &RunRecord) -> Option<String> {
    let facts = |record: &RunRecord| {
        let mut facts = facts_of(record.our_host());
        facts.push(("pgdyno", record.tool_version.clone()));
        facts
    };
    difference(facts(first), facts(second))
}

/// Describes how the server's machine differs in the second record of a case, where it is not pgdyno's.
fn server_host_difference(first: &RunRecord, second: &RunRecord) -> Option<String> {
    let hosts = first.server_host().zip(second.server_host());
    let (before, after) = hosts.filter(|_| !first.driver_is_on_host() || !second.driver_is_on_host())?;
    let what = difference(facts_of(Some(before)), facts_of(Some(after)))?;
    Some(format!("the server's {what}"))
}

fn facts_of(host: Option<&HostRecord>) -> Vec<(&'static str, String)> {
    let host = host.cloned().unwrap_or_default();
    vec![
        ("host name", host.hostname),
        ("processor", host.cpu_model),
        ("processors", host.n_cpus.to_string()),
        ("NUMA nodes", host.n_numa_nodes.to_string()),
        ("memory", super::format::bytes(host.memory_bytes)),
        ("kernel", host.kernel),
    ]
}

fn difference(first: Vec<(&str, String)>, second: Vec<(&str, String)>) -> Option<String> {
    let differing: Vec<String> = first
        .into_iter()
        .zip(second)
        .filter(|((_, before), (_, after))| before != after)
        .map(|((name, before), (_, after))| format!("{name} `{before}`, then `{after}`"))
        .collect();
    (!differing.is_empty()).then(|| list(&differing, 7))
}

pub(super) const SERVER_REPLACED: Rule = Rule {
    id: "server-replaced",
    title: "A server by URL was replaced during the experiment",
    severity: "Doubt when completed runs on one target, or on one server by URL, have different system \
               identifiers",
    source: "PostgreSQL's BootStrapXLOG draws a system identifier for each cluster",
    advice: "Compare cases within blocks, which have one server each; if blocks before and after differ, \
             repeat the experiment.",
    evidence: "The system identifier of each completed run of a target against that of its first.",
    why: "Machines of one name differ by what neither the name nor the table shows.",
    tested: ON_RECORDS,
    check: RuleCheck::Study(server_replaced),
};

fn server_replaced(context: &StudyContext) -> Option<Finding> {
    let data = context.data;
    let mut first: BTreeMap<(Option<&str>, &str, String), &str> = BTreeMap::new();
    let mut found = Vec::new();
    let completed = data.runs.iter().map(|run| &run.record).filter(|run| run.state == RunState::Completed);
    for record in completed.filter(|record| !record.case.server.source.is_embedded()) {
        let identifier = record.server.as_ref().and_then(|server| server.system_identifier.as_deref());
        let Some(identifier) = identifier else { continue };
        let target = record.case.server.target.as_ref().map_or("", |target| target.name.as_str());
        let origin = data.plan.origin_of(record.spec.run).map(|origin| origin.name.as_str());
        // A target keeps its name wherever it is made again; servers without one are known by their URLs alone.
        let source =
            if target.is_empty() { format!("{:?}", record.case.server.source) } else { String::new() };
        let before = *first.entry((origin, target, source)).or_insert(identifier);
        if before != identifier {
            let name = if target.is_empty() { String::new() } else { format!(" of target `{target}`") };
            found.push(format!(
                "run {}{name} (system identifier {before}, then {identifier})",
                record.spec.run
            ));
        }
    }
    let n = plural(found.len(), "completed run");
    (!found.is_empty()).then(|| {
        SERVER_REPLACED.finds(Severity::Doubt, format!("another server in {n}: {}", list(&found, 3)))
    })
}

pub(super) const SEQUENTIAL: Rule = Rule {
    id: "sequential-order",
    title: "The cases were measured one after the other",
    severity: "Doubt when `experiment.order` is `sequential`, with two cases or more",
    source: "Kalibera and Jones 2013; Mytkowicz et al. 2009",
    advice: "Leave experiment.order at randomized: every case once in each block.",
    evidence: "The order in plan.json and the number of cases.",
    why: "All runs of a case share their hour: drift, heat and neighbours become its result.",
    tested: "Cases in sequence on a server that pgdyno runs.",
    check: RuleCheck::Study(sequential),
};

fn sequential(context: &StudyContext) -> Option<Finding> {
    let data = context.data;
    let n_cases = data.plan.cases.len();
    let is_found = data.plan.order == RunOrder::Sequential && n_cases > 1;
    let evidence =
        || format!("{n_cases} cases in sequence: a slow hour of the machine looks like a slow case");
    is_found.then(|| SEQUENTIAL.finds(Severity::Doubt, evidence()))
}

pub(super) const SERVERS_IN_TURN: Rule = Rule {
    id: "servers-in-turn",
    title: "Servers were measured one after the other",
    severity: "Doubt when `experiment.order` is `by-server`, or `run.servers_at_a_time` kept each server's runs together",
    source: "Kalibera and Jones 2013; Mytkowicz et al. 2009",
    advice: "Provide disk space for all servers at once (see pgdyno plan) and leave experiment.order at \
             randomized, or repeat the experiment.",
    evidence: "experiment.order, run.servers_at_a_time and the order in plan.json.",
    why: "Drift, heat and neighbours of each server's hours become a difference between servers.",
    tested: ON_RECORDS,
    check: RuleCheck::Study(servers_in_turn),
};

fn servers_in_turn(context: &StudyContext) -> Option<Finding> {
    let data = context.data;
    let is_apart = data.plan.runs.windows(2).any(|pair| pair[1].block < pair[0].block);
    let (order, at_a_time) = (data.plan.order, data.plan.servers_at_a_time);
    let is_found = match order {
        RunOrder::Randomized => at_a_time.is_some() && is_apart,
        RunOrder::ByServer => has_several_servers(&data.plan),
        RunOrder::Sequential => false,
    };
    let evidence = || {
        "the runs of each server are adjacent in time: a slow hour of the machine looks like a slow server"
            .to_string()
    };
    is_found.then(|| SERVERS_IN_TURN.finds(Severity::Doubt, evidence()))
}

fn has_several_servers(plan: &Plan) -> bool {
    let mut servers = plan.cases.iter().map(|case| &case.server);
    let first = servers.next();
    servers.any(|server| {
        first.is_some_and(|first| (&first.source, &first.target) != (&server.source, &server.target))
    })
}

pub(super) const CLOSED_LOOP: Rule = Rule {
    id: "closed-loop",
    title: "Closed loop: latency excludes waiting",
    severity: "Note, once, for any case with the pace `closed` that is not analytical",
    source: "G. Tene, coordinated omission; wrk2",
    advice: "For latency as users see it, use an open pace at 50 to 90 % of this throughput.",
    evidence: "The pace of each case.",
    why: "A client that waits sends nothing: users would see worse.",
    tested: "A closed loop on a server that pgdyno runs.",
    check: RuleCheck::Study(closed_loop),
};

fn closed_loop(context: &StudyContext) -> Option<Finding> {
    let data = context.data;
    // A stream of queries is nobody's queue.
    let cases = data.plan.cases.iter().filter(|case| case.workload.analytical().is_none());
    let closed = cases.filter(|case| case.workload.pace == Pace::Closed).count();
    let evidence = format!(
        "{closed} of {} {} a closed loop: a client sends nothing while it waits, so the latency under-counts stalls",
        plural(data.plan.cases.len(), "case"),
        if closed == 1 { "uses" } else { "use" }
    );
    (closed > 0).then(|| CLOSED_LOOP.finds(Severity::Note, evidence))
}
