//! Findings about standbys: those that commits wait for, those that pgdyno runs, and one whose replay stands still.

use model::experiment::case::Case;
use model::experiment::keys;
use model::experiment::plan::RunState;
use model::experiment::topology::n_waited_for;
use model::run::server::node::{NodeRecord, is_waited_for};
use model::telemetry::reading::key;
use model::telemetry::wait::WaitStage;

use crate::finding::{Finding, Severity};
use crate::findings::format::{bytes, figure, list, moment, percent, plural};
use crate::findings::{ON_RECORDS, Rule, RuleCheck, RunContext};

/// Share of the instants in which some session waits for a standby, from which on the standby is part of the number.
const OCCUPIED: f64 = 0.5;
/// Least age of what a standby does not show that is worth a note, seconds.
const STALE_S_MIN: f64 = 0.1;
/// Shortest time after a load that a standby needs if it fell behind, seconds.
const CATCH_UP_S_MIN: f64 = 1.0;
/// The same as a share of the load.
const CATCH_UP_SHARE: f64 = 0.02;

pub(in crate::findings) const WAITS_FOR_STANDBY: Rule = Rule {
    id: "waits-for-standby",
    title: "Commits waited for a standby",
    severity: "Note when some session waited for a standby (SyncRep) at half or more of the sampled instants",
    source: "PostgreSQL documentation, synchronous replication; half is our convention",
    advice: "State the standby, its machine and the way to it with the number, or also measure with \
             synchronous_commit = local.",
    evidence: "Samples of pg_stat_activity: instants in which any session waited for SyncRep.",
    why: "The number is that of two servers and of the network between them.",
    tested: "By hand: a standby on a device with 100 writes per second (bench/limiters.py --only standby).",
    check: RuleCheck::Run(waits_for_standby),
};

fn waits_for_standby(context: &RunContext) -> Option<Finding> {
    let (from_s, to_s) = context.line.measured_span()?;
    let samples = context.usage.rate("waits.samples", from_s, to_s).filter(|n| *n > 0.0)?;
    let of_stage = key("waits.stages", WaitStage::Standby.as_str());
    let share = context.usage.rate_of_key(&of_stage, from_s, to_s)? / samples;
    let evidence = format!("at {} of the sampled instants some session waited for a standby", percent(share));
    (share >= OCCUPIED).then(|| WAITS_FOR_STANDBY.finds(Severity::Note, evidence))
}

pub(in crate::findings) const STANDBY_FALLS_BEHIND: Rule = Rule {
    id: "standby-falls-behind",
    title: "A standby fell behind",
    severity: "Doubt when a standby that pgdyno runs was not connected at the end of the load, or then \
               needed more than 1 s and more than 2 % of the load's time to replay the rest; never after an \
               outage",
    source: "our rule; 1 s and 2 % are our convention",
    advice: "Offer no more than the sustainable rate, or give the standby a faster processor or disk: one process replays.",
    evidence: "WAL that each standby had not yet replayed when the load ended, and how long it then took.",
    why: "In a longer load the standby falls behind further: a failover takes longer, and its reads grow \
          stale.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(standby_falls_behind),
};

fn standby_falls_behind(context: &RunContext) -> Option<Finding> {
    let record = &context.data.record;
    if record.outage.is_some() || record.state != RunState::Completed {
        return None;
    }
    let behind: Vec<String> = record.nodes.iter().filter_map(|node| behind(context, node)).collect();
    (!behind.is_empty()).then(|| STANDBY_FALLS_BEHIND.finds(Severity::Doubt, behind.join("; ")))
}

/// How far a standby fell behind, if it did.
fn behind(context: &RunContext, node: &NodeRecord) -> Option<String> {
    let (after, name) = (node.after.as_ref()?, &node.name);
    if after.sync_state.is_none() {
        return Some(format!("{name} was not connected when the load ended"));
    }
    let load_s = context.line.end_s;
    let lag =
        after.replay_lag_bytes.map_or(String::new(), |lag| format!(" was {} of WAL behind and", bytes(lag)));
    let Some(catch_up_s) = after.catch_up_s else {
        return Some(format!("{name}{lag} did not catch up in the time that the load took"));
    };
    let rate = context.summary.total.committed as f64 / (load_s + catch_up_s);
    (catch_up_s > CATCH_UP_S_MIN.max(CATCH_UP_SHARE * load_s)).then(|| {
        format!(
            "{name}{lag} needed {} s after a load of {load_s:.0} s, which makes {} transactions per second sustainable",
            figure(catch_up_s),
            figure(rate)
        )
    })
}

pub(in crate::findings) const STALE_READS: Rule = Rule {
    id: "stale-reads",
    title: "Reads on standbys were stale",
    severity: "Note when a standby that the load reads from lacked a transaction of the primary for 0.1 s or more in at least half of the \
               measured seconds",
    source: "PostgreSQL documentation, hot standby; 0.1 s, the time between two looks, is our convention",
    advice: "State it with the number; to read what was just committed, ask the primary, or commit with synchronous_commit = remote_apply.",
    evidence: "Numbers of the highest ended transaction, on the primary and as the standby shows it, ten times a second (reads.stale, \
               reads.stale_commits).",
    why: "These reads show an older state than the primary's, which is another service.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(stale_reads),
};

fn stale_reads(context: &RunContext) -> Option<Finding> {
    let (from_s, to_s) = context.line.measured_span()?;
    let values = |metric: &str, name: &str| -> Vec<f64> {
        context.usage.within(&key(metric, name), from_s, to_s).map(|(_, value)| value).collect()
    };
    let of_standby = |name: String| {
        let ages = values("reads.stale", &name);
        let (median, most) = (stats::quantile(&ages, 0.5)?, stats::quantile(&ages, 1.0)?);
        let n = stats::quantile(&values("reads.stale_commits", &name), 0.5)?;
        (median >= STALE_S_MIN).then(|| {
            format!(
                "{name} lacked {} for {} s at the median, {} s at most",
                plural(n.round() as usize, "transaction"),
                figure(median),
                figure(most)
            )
        })
    };
    let stale: Vec<String> =
        context.usage.instances("reads.stale").into_iter().filter_map(of_standby).collect();
    (!stale.is_empty()).then(|| STALE_READS.finds(Severity::Note, stale.join("; ")))
}

pub(in crate::findings) const NOT_SYNCHRONOUS: Rule = Rule {
    id: "not-synchronous",
    title: "Commits did not wait for the standbys that they should wait for",
    severity: "Void when fewer standbys were synchronous before or after the load than synchronous_standby_names asks for; after an outage, before it only",
    source: "PostgreSQL documentation, pg_stat_replication",
    advice: "Read the standbys' logs for why they were not connected, and repeat.",
    evidence: "sync_state of each standby before and after the load, against synchronous_standby_names.",
    why: "The number is that of a server that waits for nobody.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(not_synchronous),
};

fn not_synchronous(context: &RunContext) -> Option<Finding> {
    let record = &context.data.record;
    let names =
        record.server.as_ref()?.setting("synchronous_standby_names").filter(|names| !names.is_empty())?;
    if record.nodes.is_empty() {
        return None;
    }
    let n_asked = n_waited_for(names);
    let n_of = |states: &[Option<&str>]| states.iter().flatten().filter(|state| is_waited_for(state)).count();
    let before: Vec<Option<&str>> = record.nodes.iter().map(|node| Some(node.sync_state.as_str())).collect();
    let after: Option<Vec<Option<&str>>> =
        record.nodes.iter().map(|node| Some(node.after.as_ref()?.sync_state.as_deref())).collect();
    // A fault may take any of them out.
    let after = if record.outage.is_some() { None } else { after };
    let looks = [("before", Some(before)), ("after", after)];
    let (when, states) = looks
        .into_iter()
        .find_map(|(when, states)| Some((when, states.filter(|states| n_of(states) < n_asked)?)))?;
    let names_of = record.nodes.iter().zip(&states);
    let words: Vec<String> =
        names_of.map(|(node, state)| format!("{} {}", node.name, state.unwrap_or("not connected"))).collect();
    let evidence =
        format!("{when} the load, with synchronous_standby_names = '{names}': {}", words.join(", "));
    Some(NOT_SYNCHRONOUS.finds(Severity::Void, evidence))
}

pub(in crate::findings) const SAME_MACHINE: Rule = Rule {
    id: "same-machine",
    title: "Standbys share the machine of their primary",
    severity: "Doubt for any standby that pgdyno runs next to its primary",
    source: "our rule",
    advice: "Before you decide, measure with each standby on its own machine.",
    evidence: "The standbys in run.json.",
    why: "The standby takes processors and a device from the primary, which lowers throughput; commits cross \
          no network, which raises it.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(same_machine),
};

fn same_machine(context: &RunContext) -> Option<Finding> {
    let record = &context.data.record;
    let names: Vec<String> = record.nodes.iter().map(|node| node.name.clone()).collect();
    let n_cpus = context.summary.resources.n_cpus;
    let processors = n_cpus.map_or_else(|| "processors".to_string(), |n| plural(n, "processor"));
    let evidence =
        || format!("{} and the primary share {processors} and the devices of one machine", list(&names, 9));
    (!names.is_empty()).then(|| SAME_MACHINE.finds(Severity::Doubt, evidence()))
}

/// How long replay may stand still, seconds: our convention, far longer than a record takes.
const STALLED_S_MIN: f64 = 1.0;
/// The setting with which replay stands still on purpose.
const DELAY: &str = "recovery_min_apply_delay";

pub(in crate::findings) const REPLAY_STALLED: Rule = Rule {
    id: "replay-stalled",
    title: "A standby stopped replaying",
    severity: "Doubt when a standby replayed nothing for 1 s or longer while received WAL waited, unless it delays replay on purpose",
    source: "PostgreSQL documentation, hot standby, handling query conflicts; 1 s is our convention",
    advice: "Look for a conflict with a query (hot_standby_feedback, max_standby_streaming_delay), a paused \
             replay, or a disk or processor that the standby lacked.",
    evidence: "Positions of the standby ten times a second (pg_last_wal_receive_lsn, pg_last_wal_replay_lsn), pg_stat_database_conflicts.",
    why: "Reads were stale, commits with remote_apply waited, and a failover would have taken longer.",
    tested: "On a server with a standby that pgdyno runs, the startup process stopped by a signal for 3 s.",
    check: RuleCheck::Run(replay_stalled),
};

fn replay_stalled(context: &RunContext) -> Option<Finding> {
    let (from_s, to_s) = context.line.measured_span()?;
    if delays_replay(&context.data.record.case) {
        return None;
    }
    let standbys = context.usage.instances("standby.replay_stall");
    let stalled: Vec<String> =
        standbys.iter().filter_map(|name| stall_words(context, name, (from_s, to_s))).collect();
    (!stalled.is_empty()).then(|| REPLAY_STALLED.finds(Severity::Doubt, list(&stalled, 3)))
}

/// `s1 replayed nothing for 2.9 s up to 7 s, and 12 MiB were behind; 1 conflict (snapshot)`.
fn stall_words(context: &RunContext, name: &str, span: (f64, f64)) -> Option<String> {
    let (from_s, to_s) = span;
    let usage = context.usage;
    let within = |key: &str| -> Vec<(f64, f64)> {
        usage.within(key, from_s, to_s).map(|(placed, value)| (placed.to_s, value)).collect()
    };
    let most = |key: &str| within(key).into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let (end_s, stalled_s) = most(&key("standby.replay_stall", name))?;
    if stalled_s < STALLED_S_MIN {
        return None;
    }
    let behind = most(&key("standby.replay_lag_bytes", name)).map_or(String::new(), |(_, bytes)| {
        format!(", and up to {} were behind", model::text::prose::bytes(bytes))
    });
    let is_paused = within(&key("standby.replay_paused", name)).iter().any(|(_, paused)| *paused > 0.0);
    let paused = if is_paused { "; its replay was paused" } else { "" };
    let until = moment(end_s);
    Some(format!(
        "`{name}` replayed nothing for {stalled_s:.1} s up to {until}{behind}{paused}{}",
        conflicts(context, name, span)
    ))
}

/// The queries that a standby's replay cancelled, by kind.
fn conflicts(context: &RunContext, name: &str, span: (f64, f64)) -> String {
    let (from_s, to_s) = span;
    let mut by_kind: Vec<(String, f64)> = Vec::new();
    for instance in context.usage.instances("standby.conflicts") {
        let kind = instance.strip_prefix(name).and_then(|rest| rest.strip_prefix('/'));
        let Some(kind) = kind else { continue };
        let key = key("standby.conflicts", &instance);
        let n = context.usage.increase_of_key(&key, from_s, to_s).round();
        if n > 0.0 {
            by_kind.push((kind.to_string(), n));
        }
    }
    if by_kind.is_empty() {
        return String::new();
    }
    let n: f64 = by_kind.iter().map(|(_, n)| n).sum();
    let kinds: Vec<&str> = by_kind.iter().map(|(kind, _)| kind.as_str()).collect();
    format!("; {} with queries ({})", plural(n, "conflict"), kinds.join(", "))
}

/// Whether the case asks for a delay of replay.
fn delays_replay(case: &Case) -> bool {
    let of_standbys = case.get(keys::topology::STANDBY_SETTINGS);
    let mut settings = of_standbys.iter().chain(&case.server.settings);
    settings.any(|(name, value)| name.eq_ignore_ascii_case(DELAY) && !value.trim().starts_with('0'))
}
