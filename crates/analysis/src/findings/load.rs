//! Findings about the load: how many transactions, how they ended, how evenly they were spread.

pub(super) mod concurrent;
pub(super) mod drivers;

use model::experiment::case::Think;
use model::experiment::keys::run::MAX_FAILED;
use model::experiment::plan::RunState;
use model::load::drive::LoadEnding;
use model::load::execution::{Execution, ExecutionEnd};
use model::telemetry::event::EventKind;
use model::text::share::Share;
use model::workload::TryLimit;

use super::format::{chance, excerpt, figure, list, percent, plural};
use super::scripts::queries::is_analytical;
use super::{ON_RECORDS, Rule, RuleCheck, RunContext};
use crate::finding::{Finding, Severity};
use crate::summary::{ErrorSummary, ScriptSummary};

pub(super) const TOO_FEW_TRANSACTIONS: Rule = Rule {
    id: crate::summary::TOO_FEW_TRANSACTIONS,
    title: "Too few transactions to report",
    severity: "Void below 100 committed transactions, or 10 per client unless clients are terminals that \
               think; never in an analytical run",
    source: "fault study",
    advice: "Measure longer, or find out why so little was committed.",
    evidence: "Committed transactions within the measurement, in total and per client.",
    why: "A 99th percentile of a hundred values is one value; a rate over few transactions is mostly chance.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(too_few_transactions),
};

fn too_few_transactions(context: &RunContext) -> Option<Finding> {
    if context.data.record.state != RunState::Completed || is_analytical(context) {
        return None;
    }
    let committed = context.summary.counts.committed;
    let n_clients = u64::from(n_clients(context));
    // If none is committed because all fail, another finding says so, and more time does not help.
    if committed == 0 && never_committed(context).is_some() {
        return None;
    }
    let think = context.data.record.case.workload.tpcc.map(|spec| spec.think);
    let per_client = if think == Some(Think::Spec) { 0 } else { 10 };
    if committed >= 100 && committed >= per_client * n_clients {
        return None;
    }
    let clients = plural(n_clients, "client");
    let evidence = format!("{committed} committed in {:.0} s by {clients}", context.summary.measured_s);
    Some(TOO_FEW_TRANSACTIONS.finds(Severity::Void, evidence))
}

pub(super) const TRANSACTIONS_FAILED: Rule = Rule {
    id: "transactions-failed",
    title: "Transactions failed",
    severity: "Void when all of a script's failed (5 or more, with other scripts in the load) or more than \
               10 % of those that ended in the measurement; Doubt above 1 % (`run.max_failed`; Void above \
               ten times that); Note for any; never in an analytical run",
    source: "fault study; 1 % and 10 % are our convention",
    advice: "See the errors by SQLSTATE in report.html: throughput counts only committed transactions.",
    evidence: "Failed transactions over those that ended in the measurement, with the commonest SQLSTATE.",
    why: "A failing transaction often costs less than one that commits, and without one of its scripts it is \
          another load.",
    tested: "SELECT 1/0 by URL; a function that fails in one of 40 calls, on one side of a comparison.",
    check: RuleCheck::Run(transactions_failed),
};

/// How many times the allowed share voids the number.
const FAILED_VOID: f64 = 10.0;

fn transactions_failed(context: &RunContext) -> Option<Finding> {
    let counts = context.summary.counts;
    // Of queries, each counts, and one that reaches its timeout has a time.
    if counts.failed == 0 || is_analytical(context) {
        return None;
    }
    let share = counts.failed as f64 / counts.ended() as f64;
    let max_failed = context.data.record.case.get(MAX_FAILED).unwrap_or(Share::PERCENT).value();
    let n = plural(counts.failed, "transaction");
    let example = context.summary.errors.first().map_or(String::new(), |error| {
        format!("; most often {} {}", error.sqlstate, excerpt(&error.message))
    });
    let evidence = format!("{n} ({}) failed{}", percent(share), example.trim_end());
    let mut finding = match never_committed(context) {
        Some(of) => TRANSACTIONS_FAILED.finds(Severity::Void, format!("{evidence}; {of}")),
        None if share > (FAILED_VOID * max_failed).min(1.0) => {
            TRANSACTIONS_FAILED.finds(Severity::Void, evidence)
        }
        None if share > max_failed => TRANSACTIONS_FAILED.finds(Severity::Doubt, evidence),
        None => TRANSACTIONS_FAILED.finds(Severity::Note, evidence),
    };
    finding.advice.push_str(if is_worth_another_try(context) { TRY_AGAIN } else { "" });
    Some(finding)
}

/// The advice for transactions that stood in each other's way.
const TRY_AGAIN: &str = " Serialization failures and deadlocks are the load's own: --max-tries 0 tries such transactions again, as an \
                         application would.";

/// Whether most failures are of the kind that another try mends, and there was none because nobody asked for it.
fn is_worth_another_try(context: &RunContext) -> bool {
    let workload = &context.data.record.case.workload;
    let is_mended =
        |error: &ErrorSummary| matches!(error.sqlstate.as_str(), SERIALIZATION_FAILURE | DEADLOCK_DETECTED);
    context.summary.errors.first().is_some_and(is_mended)
        && workload.max_tries.unwrap_or(1) == 1
        && workload.kind.row().options.tries == TryLimit::AsAsked
}

const SERIALIZATION_FAILURE: &str = "40001";
const DEADLOCK_DETECTED: &str = "40P01";

/// Fewest failed transactions of a script, in a load with other scripts, for which it is no chance that all failed:
/// with one that fails every other time, five in a row fail once in 32.
const ALL_FAILED_MIN: u64 = 5;

/// The scripts of which transactions failed and none was committed.
fn never_committed(context: &RunContext) -> Option<String> {
    let scripts = &context.summary.scripts;
    let least = if context.summary.counts.committed > 0 { ALL_FAILED_MIN } else { 1 };
    let is_dead = |script: &&ScriptSummary| script.counts.committed == 0 && script.counts.failed >= least;
    let dead: Vec<String> = scripts.iter().filter(is_dead).map(|script| script.name.clone()).collect();
    match dead.len() {
        0 => None,
        n if n == scripts.len() => Some("none was committed".to_string()),
        _ => Some(format!("none of {} was committed: the mix is not the requested one", list(&dead, 3))),
    }
}

pub(super) const OUTCOMES_UNKNOWN: Rule = Rule {
    id: "outcomes-unknown",
    title: "Transactions with an unknown outcome",
    severity: "Doubt for any",
    source: "Jepsen's third outcome `info`",
    advice: "Find out why connections broke within transactions; more rows may be committed than counted.",
    evidence: "Transactions whose connection ended while the client waited for the answer to COMMIT.",
    why: "Nobody knows whether they took place: neither throughput nor the rows in the tables are exact.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(outcomes_unknown),
};

fn outcomes_unknown(context: &RunContext) -> Option<Finding> {
    let n = context.summary.total.unknown.saturating_sub(unknown_in_outage(context));
    let evidence = || format!("{} ended without an answer", plural(n, "transaction"));
    let mut finding = (n > 0).then(|| OUTCOMES_UNKNOWN.finds(Severity::Doubt, evidence()))?;
    // No connection broke: pgdyno ended those that brought more than it reads.
    let n_limited = context.data.events.iter().filter(|event| event.kind == EventKind::LimitExceeded).count();
    if n_limited as u64 >= n {
        finding.advice = ABOVE_LIMIT.to_string();
    }
    Some(finding)
}

/// Those that an outage left without an answer, which the ledger resolves.
fn unknown_in_outage(context: &RunContext) -> u64 {
    let end_s = |one: &Execution| one.end_ns() as f64 / 1e9;
    let is_of_it = |one: &&Execution| one.end == ExecutionEnd::Unknown && context.is_in_outage(end_s(one));
    context.data.executions.iter().filter(is_of_it).count() as u64
}

const ABOVE_LIMIT: &str =
    "Raise the limit that message-limit names: their answers came, and pgdyno did not read them to the end.";

pub(super) const CUT_OFF_AT_END: Rule = Rule {
    id: "cut-off-at-end",
    title: "Transactions outlived the run",
    severity: "Doubt when a completed run had to cancel or abandon transactions after its grace time",
    source: "fault study",
    advice: "Measure for longer than the longest transaction takes, or find out what it waited for.",
    evidence: "Transactions that were cancelled when the grace time ended.",
    why: "The longest transactions are cut off: the tail of the latency distribution is too short.",
    tested: "A lock on a table that outlives the load, by URL.",
    check: RuleCheck::Run(cut_off_at_end),
};

fn cut_off_at_end(context: &RunContext) -> Option<Finding> {
    let completed =
        context.data.record.done.as_ref().is_some_and(|done| done.ending == LoadEnding::Completed);
    let n = context.summary.total.aborted;
    // The end of the load is then part of the outage.
    if !completed || n == 0 || context.is_in_outage(context.line.end_s) {
        return None;
    }
    let grace_s = context.data.record.window().grace_s;
    let evidence = format!("{} had not ended {grace_s} s after the measurement", plural(n, "transaction"));
    Some(CUT_OFF_AT_END.finds(Severity::Doubt, evidence))
}

pub(super) const OFFERED_NOT_ACHIEVED: Rule = Rule {
    id: "offered-load-not-achieved",
    title: "The offered load was not achieved",
    severity: "Doubt in an open loop when fewer than 99 % of the offered transactions ended, beyond chance (3 sigma)",
    source: "wrk2; 99 % is our convention",
    advice: "Offer less: beyond the server's capacity, the queue and latency grow for as long as the run \
             lasts.",
    evidence: "Transactions that ended per second over the scheduled rate, with three standard deviations \
               for chance.",
    why: "Latency then measures the length of the run.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(offered_not_achieved),
};

fn offered_not_achieved(context: &RunContext) -> Option<Finding> {
    let rate_per_s = context.data.record.pace().rate_per_s()?;
    let offered = rate_per_s * context.summary.measured_s;
    let ended = context.summary.counts.ended() as f64;
    if offered <= 0.0 || context.summary.sustains(rate_per_s) {
        return None;
    }
    let evidence = format!(
        "{} of {} transactions per second ended ({})",
        figure(ended / context.summary.measured_s),
        figure(rate_per_s),
        percent(ended / offered)
    );
    Some(OFFERED_NOT_ACHIEVED.finds(Severity::Doubt, evidence))
}

pub(super) const STALL: Rule = Rule {
    id: "stall",
    title: "The load stood still",
    severity: "Doubt for any second below 10 % of the median or the mean throughput, whichever is higher, if \
               that is at least 20 per second; never in an analytical run",
    source: "stall share, after G. Tene on coordinated omission",
    advice: "Check marks and telemetry at these seconds; an open pace shows how long users would have \
             waited.",
    evidence: "One-second throughput against a tenth of its median, or of its mean where the load mostly \
               stands still.",
    why: "A closed loop sends nothing while it waits: a stall of a tenth of the run is invisible up to the 99.99th percentile.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(stall),
};

fn stall(context: &RunContext) -> Option<Finding> {
    // Whole seconds may belong to the other side.
    if context.data.record.took_turns() || is_analytical(context) {
        return None;
    }
    let measured: Vec<(u32, f64)> =
        context.summary.seconds.iter().filter(|s| s.measured).map(|s| (s.t, s.tps)).collect();
    let tps: Vec<f64> = measured.iter().map(|(_, tps)| *tps).collect();
    // The median says nothing where most seconds stand still, and the mean little where long stalls lower it.
    let (median, mean) = (stats::median(&tps)?, stats::mean(&tps)?);
    let (level, which) = if mean > median { (mean, "mean") } else { (median, "median") };
    if level < 20.0 {
        return None;
    }
    let stalled: Vec<String> =
        measured.iter().filter(|(_, tps)| *tps < 0.1 * level).map(|(t, _)| t.to_string()).collect();
    if stalled.is_empty() {
        return None;
    }
    let hides = if context.data.record.pace().is_open() {
        ""
    } else {
        "; a closed loop sends nothing meanwhile, so its percentiles hide it"
    };
    let evidence = format!(
        "{} of {} measured seconds ({}) committed less than 10 % of the {which} {} per second{hides}",
        stalled.len(),
        measured.len(),
        list(&stalled, 5),
        figure(level)
    );
    Some(STALL.finds(Severity::Doubt, evidence))
}

pub(super) const NOT_STEADY: Rule = Rule {
    id: "not-steady",
    title: "The throughput was not steady",
    severity: "Doubt when the halves of the measurement differ by more than 3 % and a trend (Mann-Kendall on 12 batch \
               means, 5 %, or 1 % below 24 s) or a step (t test on 10 batch means, 1 %) is significant; never in an analytical run",
    source: "Barrett et al. 2017; Mann 1945; Kendall 1975; chosen by simulation (stats::steadiness)",
    advice: "Use a longer ramp-up, and check what grows or fills up (tables, caches, WAL).",
    evidence: "One-second throughput over the measurement.",
    why: "The mean depends on the length of the run, not only on the server.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(not_steady),
};

fn not_steady(context: &RunContext) -> Option<Finding> {
    if is_analytical(context) {
        return None;
    }
    let result = stats::steadiness(&measured_tps(context)).filter(|result| !result.steady)?;
    let word = if result.change < 0.0 { "below" } else { "above" };
    let evidence = format!(
        "the second half of the measurement is {} {word} the first (trend {}, step {})",
        percent(result.change.abs()),
        chance(result.trend_p),
        chance(result.halves_p)
    );
    Some(NOT_STEADY.finds(Severity::Doubt, evidence))
}

pub(super) const TOO_SHORT_TO_JUDGE: Rule = Rule {
    id: "too-short-to-judge",
    title: "Too short to judge whether it was steady",
    severity: "Note below 8 measured seconds; never in an analytical run",
    source: "below eight values no rank test reaches 1 % usefully (stats::steadiness)",
    advice: "Measure for 30 s or more.",
    evidence: "The number of measured seconds.",
    why: "A few seconds may show a steady level, or the way to it.",
    tested: "A measure of 3 s on a server that pgdyno runs, and of 2 s by hand, by URL.",
    check: RuleCheck::Run(too_short_to_judge),
};

fn too_short_to_judge(context: &RunContext) -> Option<Finding> {
    let n = context.summary.seconds.iter().filter(|second| second.measured).count();
    let short = n > 0 && n < stats::series::trend::STEADINESS_MIN && !is_analytical(context);
    short.then(|| TOO_SHORT_TO_JUDGE.finds(Severity::Note, format!("{n} s were measured")))
}

/// Measured seconds from which on their effective number is judged.
const SECONDS_MIN: usize = 30;
/// Independent values that an interval of the mean needs.
const EFFECTIVE_MIN: f64 = 10.0;

pub(super) const FEW_EFFECTIVE_SECONDS: Rule = Rule {
    id: "few-effective-seconds",
    title: "Neighbouring seconds are correlated",
    severity: "Note when 30 or more measured seconds determine the mean no better than ten independent ones; \
               never in an analytical run",
    source: "Geyer 1992, effective sample size; Law and Kelton 9.5: ten batches or more",
    advice: "Measure longer, and treat the run as a single value.",
    evidence: "Autocorrelation of one-second throughput, summed up to an effective sample size.",
    why: "An interval computed from such seconds is two or three times too narrow.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(few_effective_seconds),
};

fn few_effective_seconds(context: &RunContext) -> Option<Finding> {
    let tps = measured_tps(context);
    if tps.len() < SECONDS_MIN || is_analytical(context) {
        return None;
    }
    let effective = stats::effective_sample_size(&tps)?;
    let evidence = format!("{} measured seconds are worth {} independent ones", tps.len(), figure(effective));
    (effective < EFFECTIVE_MIN).then(|| FEW_EFFECTIVE_SECONDS.finds(Severity::Note, evidence))
}

pub(super) const UNFAIR_CLIENTS: Rule = Rule {
    id: "unfair-clients",
    title: "Clients got uneven shares",
    severity: "Note when Jain's index is below 0.95, with 100 transactions per client or more on average",
    source: "Jain, Chiu and Hawe 1984; below 100 chance alone moves the index",
    advice: "Compare the clients: percentiles give more weight to the favoured ones.",
    evidence: "Jain's index over the transactions that each client committed in the measurement.",
    why: "Percentiles hide the waits of clients that were served less.",
    tested: ON_RECORDS,
    check: RuleCheck::Run(unfair_clients),
};

fn unfair_clients(context: &RunContext) -> Option<Finding> {
    let index = context.summary.fairness.filter(|index| *index < 0.95)?;
    let shares = &context.data.record.done.as_ref()?.measured_by_client;
    let enough = shares.iter().sum::<u64>() >= 100 * shares.len() as u64;
    let (least, most) = (shares.iter().min()?, shares.iter().max()?);
    let evidence =
        format!("Jain's index is {index:.2}; clients committed between {least} and {most} transactions");
    enough.then(|| UNFAIR_CLIENTS.finds(Severity::Note, evidence))
}

/// Throughput of each measured second.
fn measured_tps(context: &RunContext) -> Vec<f64> {
    context.summary.seconds.iter().filter(|second| second.measured).map(|second| second.tps).collect()
}

pub(crate) fn n_clients(context: &RunContext) -> u32 {
    let record = &context.data.record;
    record.load.as_ref().map_or(record.case.workload.n_clients, |load| load.n_clients)
}

pub(super) const TOOK_TURNS: Rule = Rule {
    id: "took-turns",
    title: "The load ran only part of the time",
    severity: "Doubt for a run that is a side of a duet, not for the duet",
    source: "our rule",
    advice: "Compare the sides with pgdyno compare DIR; this run alone does not measure its server.",
    evidence: "The slices in run.json, and which of them belonged to this load.",
    why: "Half of its seconds are idle, and its throughput is about half of the server's.",
    tested: "A duet on servers that pgdyno runs.",
    check: RuleCheck::Run(took_turns),
};

fn took_turns(context: &RunContext) -> Option<Finding> {
    let turns = context.data.record.load.as_ref()?.turns.as_ref()?;
    let n_own = turns.slices.bytes().filter(|slice| *slice == b'1').count();
    let evidence = format!("it began transactions in {n_own} of {} slices", turns.slices.len());
    Some(TOOK_TURNS.finds(Severity::Doubt, evidence))
}
