//! Findings about the records themselves: runs cut short, sums that do not add up, damage.

use std::collections::{BTreeMap, BTreeSet};

use model::experiment::plan::RunState;
use model::load::drive::Done;
use model::load::interval::Counts;
use model::run::RunData;

use super::format::{list, percent, plural};
use super::server::ended_by_limit;
use super::{ON_RECORDS, Rule, RuleCheck, RunContext};
use crate::finding::{Finding, Severity};
use crate::run::seconds::{HistogramRole, Recorded};
use crate::run::tpcc;

pub(super) const RUN_INCOMPLETE: Rule = Rule {
    id: "run-incomplete",
    title: "The run did not reach its planned end",
    severity: "Void for any run that is not completed",
    source: "our rule",
    advice: "Repeat the run, or resume the experiment; its results are shown but do not count.",
    evidence: "The state of the run in run.json, its last second and the recorded reason.",
    why: "It measured another period: its mean is not comparable with the others.",
    tested: "A server by URL that crashes, or that lies once the load has begun.",
    check: RuleCheck::Run(run_incomplete),
};

fn run_incomplete(context: &RunContext) -> Option<Finding> {
    let what = match context.data.record.state {
        RunState::Completed => return None,
        RunState::Started => "was cut off",
        RunState::Partial => "ended early",
        RunState::Failed => "could not be measured",
    };
    let window = context.data.record.window();
    let measured = match context.summary.measured_s {
        0.0 => "nothing was measured".to_string(),
        s => format!("{s:.0} of {} s were measured", window.measure_s),
    };
    let reason = match context.data.record.reason.as_str() {
        "" => String::new(),
        reason => format!(": {reason}"),
    };
    if ended_by_limit(context) {
        let evidence = format!("the run {what}, {measured}, because of the limit that message-limit names");
        let finding = RUN_INCOMPLETE.finds(Severity::Void, evidence);
        return Some(Finding { advice: UNTIL_LIMIT.to_string(), ..finding });
    }
    Some(RUN_INCOMPLETE.finds(Severity::Void, format!("the run {what}, {measured}{reason}")))
}

const UNTIL_LIMIT: &str =
    "Do what message-limit says, and measure again; resumed, it would end the same way.";

pub(super) const COUNTS_BROKEN: Rule = Rule {
    id: "counts-broken",
    title: "Transactions do not add up",
    severity: "Void when due = skipped + started or started = committed + failed + expected + unknown + aborted does not hold, the seconds \
               do not add up to the driver's totals, or a trace's statements are not those sent, refused or cut off",
    source: "pgbench.c, StatsData: the same identity",
    advice: "Restore truncated or changed files of the run; if there are none, report this bug with the run \
             directory.",
    evidence: "The driver's totals against their identity and against the sum of intervals.jsonl; a trace's \
               statements against theirs.",
    why: "Some transactions were counted twice or lost: no figure of the run can be right.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(counts_broken),
};

fn counts_broken(context: &RunContext) -> Option<Finding> {
    let total = context.summary.total;
    let evidence = match &context.data.record.done {
        Some(done) if !done.counts.identity_holds(0) => {
            format!("the driver's totals break their identity: {:?}", done.counts)
        }
        Some(Done { replayed: Some(trace), .. }) if !trace.identity_holds() => {
            format!("the statements of the trace break their identity: {trace:?}")
        }
        // Lost lines are damage, for which there is another finding.
        Some(done) if done.counts != total && context.data.damage.is_empty() => {
            format!(
                "the seconds do not add up to what the driver says: {}",
                differences(&total, &done.counts)
            )
        }
        None if total.due != total.skipped + total.started || total.ended() > total.started => {
            format!("the seconds' counts break their identity: {total:?}")
        }
        _ => return None,
    };
    Some(COUNTS_BROKEN.finds(Severity::Void, evidence))
}

/// The counts that differ between the seconds and the driver's totals.
fn differences(seconds: &Counts, driver: &Counts) -> String {
    let both = seconds.named().into_iter().zip(driver.named()).filter(|((_, a), (_, b))| a != b);
    let differing: Vec<String> = both.map(|((name, a), (_, b))| format!("{a} {name}, not {b}")).collect();
    list(&differing, 3)
}

pub(super) const RECORDS_DAMAGED: Rule = Rule {
    id: "records-damaged",
    title: "Records could not be read",
    severity: "Doubt when a line or a histogram cannot be read (except the torn last line of a run that was \
               cut off), a second of the window is missing, or histograms of a completed run and its seconds \
               hold different numbers of times",
    source: "design: each time is counted in its second and in a histogram",
    advice: "Check the disk with the results, restore the directory from a copy, or repeat the run.",
    evidence: "Unreadable lines and histograms, seconds without an interval, and the times in each histogram \
               against its second.",
    why: "What is missing may be the worst second.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(records_damaged),
};

fn records_damaged(context: &RunContext) -> Option<Finding> {
    let mut parts: Vec<String> = context.data.damage.clone();
    parts.extend(context.unreadable.iter().cloned());
    if let Some((from_s, to_s)) = context.line.measured_span() {
        let missing = (to_s - from_s).round() - context.line.measured_s().round();
        if missing >= 1.0 {
            let share = percent(missing / (to_s - from_s));
            let lacking = plural(format!("{missing:.0}"), "second");
            parts.push(format!("the measurement lacks {lacking} ({share})"));
        }
    }
    parts.extend(times_missing(context));
    (!parts.is_empty()).then(|| RECORDS_DAMAGED.finds(Severity::Doubt, list(&parts, 3)))
}

/// Where the histograms of a completed run do not match its seconds; a run that was cut off may lack some anywhere.
fn times_missing(context: &RunContext) -> Option<String> {
    let data = context.data;
    let is_completed = data.record.state == RunState::Completed;
    // Records without exact sums do not say how many times there are.
    if !is_completed || data.intervals.iter().all(|interval| interval.latency.n == 0) {
        return None;
    }
    let counted = kept_of(data, context);
    let keys: BTreeSet<&(u32, HistogramRole)> = counted.keys().chain(context.recorded.keys()).collect();
    let n_of = |from: &Recorded, key| from.get(key).copied().unwrap_or(0);
    let wrong: Vec<_> =
        keys.into_iter().filter(|key| n_of(&counted, key) != n_of(context.recorded, key)).collect();
    let first = wrong.first()?;
    Some(format!(
        "{} in latency.hlog and intervals.jsonl, first in second {}: the histogram `{}` holds {} of {}",
        match wrong.len() {
            1 => "1 histogram differs".to_string(),
            n => format!("{n} histograms differ"),
        },
        first.0,
        first.1.tag(data),
        n_of(context.recorded, first),
        plural(n_of(&counted, first), "time")
    ))
}

/// How many times the histograms should contain by the counts of the seconds; of a statement with a sum over the measurement
/// instead of histograms of each second, the sum.
fn kept_of(data: &RunData, context: &RunContext) -> Recorded {
    let sums: BTreeMap<HistogramRole, u32> =
        context.recorded.keys().filter(|(_, role)| role.is_sum()).map(|(t, role)| (*role, *t)).collect();
    let n_scripts = data.record.load.as_ref().map_or(0, |load| load.scripts.len());
    let mut kept = Recorded::new();
    for interval in &data.intervals {
        let script = interval.script as usize;
        if script >= n_scripts {
            continue;
        }
        let n = interval.latency.n;
        let whole = [
            (HistogramRole::Latency { script }, n),
            (HistogramRole::Service { script }, n),
            (HistogramRole::Lag { script }, interval.lag.n),
        ];
        for (role, n) in whole {
            *kept.entry((interval.t, role)).or_default() += n;
        }
        for (index, n) in interval.statements.iter().enumerate() {
            let sum = HistogramRole::StatementSum { script, index };
            let key = match sums.get(&sum) {
                Some(first) if context.line.is_in_window(interval.t) => (*first, sum),
                Some(_) => continue,
                None => (interval.t, HistogramRole::Statement { script, index }),
            };
            *kept.entry(key).or_default() += n;
        }
    }
    kept
}

pub(super) const HISTORY_DIFFERS: Rule = Rule {
    id: "history-differs",
    title: "The database does not contain what was committed",
    severity: "Void when the history table did not grow by the committed transactions (TPC-C: payments, and \
               orders by New-Orders), give or take unknown outcomes; with procedures of TPROC-C, which \
               return normally after a deadlock, when it grew by more or lost rows",
    source: "each such transaction adds one row: acknowledged <= rows <= acknowledged + unknown outcomes",
    advice: "If rows are missing, commits were lost: check synchronous_commit and the storage; if there are \
             too many, something else wrote to the tables.",
    evidence: "Rows of the history table before and after the run, against committed transactions.",
    why: "A server that loses acknowledged commits is faster than one that keeps them.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(history_differs),
};

fn history_differs(context: &RunContext) -> Option<Finding> {
    let record = &context.data.record;
    // The rows are those of one of several servers; after an outage, its ledger says more.
    if record.spread_hosts().is_some() || record.outage.is_some() {
        return None;
    }
    let done = record.done.as_ref()?.counts;
    // Some scripts change nothing, and what the others change only the user knows.
    let differs = record.case.workload.kind.row().growth.iter().find_map(|of| {
        let (counts, n_without) = match of.script {
            None => (done, 0),
            Some(script) => tpcc::over_load(context.data, script, of.less),
        };
        growth(context, of.table, counts.committed.saturating_sub(n_without), counts.unknown, of.what)
    });
    differs.map(|evidence| HISTORY_DIFFERS.finds(Severity::Void, evidence))
}

pub(super) const CONSISTENCY_BROKEN: Rule = Rule {
    id: "consistency-broken",
    title: "The database violates consistency conditions",
    severity: "Void when a quick consistency condition fails before the load or after the drain (TPC-C), or \
               a check of a workload directory after the drain",
    source: "TPC-C 3.3.2.1 to 3 and 8 to 9; checks/NAME.sql of a workload directory",
    advice: "For TPC-C, see pgdyno check: without violations before, the server lost or mixed up \
             transactions; for a workload directory, run the check's SQL by hand, and see whether its \
             transactions do what they should.",
    evidence: "TPC-C conditions that read no large table, before the load and after the drain; checks of a \
               workload directory, after the drain.",
    why: "The server or the driver lost or mixed up transactions.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(consistency_broken),
};

fn consistency_broken(context: &RunContext) -> Option<Finding> {
    let record = &context.data.record;
    let told = |when: &str, broken: &BTreeMap<String, String>| -> Vec<String> {
        broken.iter().map(|(id, example)| format!("{id} {when} ({example})")).collect()
    };
    let before = told("before the load", &record.violations_before);
    let after = told("after the load", &record.violations_after);
    let all = [before, after].concat();
    (!all.is_empty()).then(|| CONSISTENCY_BROKEN.finds(Severity::Void, list(&all, 3)))
}

/// How the growth of a table deviates, if that is known.
fn growth(context: &RunContext, table: &str, committed: u64, unknown: u64, what: &str) -> Option<String> {
    let record = &context.data.record;
    let rows = |counts: &BTreeMap<String, u64>| counts.get(table).copied();
    let (before, after) = (rows(&record.rows_before)?, rows(&record.rows_after)?);
    let changed = match after.checked_sub(before) {
        Some(grown) => {
            let least = if tpcc::hides_rollbacks(&record.case) { 0 } else { committed };
            if (least..=committed + unknown).contains(&grown) {
                return None;
            }
            format!("grew by {}", plural(grown, "row"))
        }
        None => format!("lost {}", plural(before - after, "row")),
    };
    let unknown = match unknown {
        0 => String::new(),
        n => format!(" and {n} of unknown outcome"),
    };
    Some(format!("{committed} {what} were committed{unknown}, but `{table}` {changed}"))
}
