//! Findings about the records themselves: runs cut short, sums that do not add up, damage.

use std::collections::BTreeMap;

use model::case::WorkloadKind;
use model::plan::RunState;

use super::words::{list, percent};
use super::{Rule, RunContext};
use crate::finding::{Finding, Severity};

pub(super) const RUN_INCOMPLETE: Rule = Rule {
    id: "run-incomplete",
    title: "The run did not go to its planned end",
    severity: "Void for any run that is not completed",
    source: "design: a partial result is kept and shown, never counted",
    advice: "Repeat the run, or resume the experiment; what was measured is shown but not counted.",
};

pub(super) fn run_incomplete(context: &RunContext) -> Option<Finding> {
    let what = match context.data.record.state {
        RunState::Completed => return None,
        RunState::Started => "was cut off",
        RunState::Partial => "ended early",
        RunState::Failed => "could not be measured",
    };
    let window = crate::timeline::window(context.data);
    let measured = match context.summary.measured_s {
        0.0 => "nothing was measured".to_string(),
        s => format!("{s:.0} of {} s were measured", window.measure_s),
    };
    let reason = match context.data.record.reason.as_str() {
        "" => String::new(),
        reason => format!(": {reason}"),
    };
    Some(RUN_INCOMPLETE.finds(Severity::Void, format!("the run {what}, {measured}{reason}")))
}

pub(super) const COUNTS_BROKEN: Rule = Rule {
    id: "counts-broken",
    title: "Transactions do not add up",
    severity: "Void when due = skipped + started or started = committed + failed + unknown + aborted does not hold, \
               or the seconds do not add up to the driver's totals",
    source: "identity of counts, checked like pgbench's own counters (pgbench.c, StatsData)",
    advice: "This is an error inside pgdyno: please report it with the run directory.",
};

pub(super) fn counts_broken(context: &RunContext) -> Option<Finding> {
    let total = context.summary.total;
    let evidence = match &context.data.record.done {
        Some(done) if !done.counts.identity_holds(0) => {
            format!("the driver's totals break their identity: {:?}", done.counts)
        }
        // Lost lines are damage, which has its own finding.
        Some(done) if done.counts != total && context.data.damage.is_empty() => {
            format!(
                "the seconds add up to {} committed, the driver says {}",
                total.committed, done.counts.committed
            )
        }
        None if total.due != total.skipped + total.started || total.ended() > total.started => {
            format!("the seconds' counts break their identity: {total:?}")
        }
        _ => return None,
    };
    Some(COUNTS_BROKEN.finds(Severity::Void, evidence))
}

pub(super) const RECORDS_DAMAGED: Rule = Rule {
    id: "records-damaged",
    title: "Records could not be read",
    severity: "Doubt when a line or a histogram cannot be read (a torn last line is not damage), or a second of the \
               window is missing",
    source: "design: nothing is dropped silently",
    advice: "Check the disk that holds the results, restore the directory from a copy or repeat the run.",
};

pub(super) fn records_damaged(context: &RunContext) -> Option<Finding> {
    let mut parts: Vec<String> = context.data.damage.clone();
    parts.extend(context.unreadable.iter().cloned());
    if let Some((from_s, to_s)) = context.line.measured_span() {
        let missing = (to_s - from_s).round() - context.line.measured_s().round();
        if missing >= 1.0 {
            let share = percent(missing / (to_s - from_s));
            parts.push(format!("{missing:.0} seconds of the measure are missing ({share})"));
        }
    }
    (!parts.is_empty()).then(|| RECORDS_DAMAGED.finds(Severity::Doubt, list(&parts, 3)))
}

pub(super) const HISTORY_DIFFERS: Rule = Rule {
    id: "history-differs",
    title: "The database does not hold what was committed",
    severity: "Void when the history table did not grow by the committed transactions, give or take those whose \
               outcome is unknown (read-write TPC-B-like workloads)",
    source: "TPC-B-like transactions add one row each: acknowledged <= rows <= acknowledged + unknown outcomes",
    advice: "If rows are missing, acknowledged commits were lost: check synchronous_commit and the storage; if there \
             are too many, something else wrote to the tables.",
};

pub(super) fn history_differs(context: &RunContext) -> Option<Finding> {
    let record = &context.data.record;
    if !matches!(record.case.workload.kind, WorkloadKind::Tpcb | WorkloadKind::TpcbSimple) {
        return None;
    }
    let rows = |counts: &BTreeMap<String, u64>| counts.get("pgbench_history").copied();
    let grown = rows(&record.rows_after)?.checked_sub(rows(&record.rows_before)?)?;
    let counts = record.done.as_ref()?.counts;
    if (counts.committed..=counts.committed + counts.unknown).contains(&grown) {
        return None;
    }
    let unknown = match counts.unknown {
        0 => String::new(),
        n => format!(" and {n} of unknown outcome"),
    };
    let evidence = format!(
        "{} transactions were committed{unknown}, but the history grew by {grown} rows",
        counts.committed
    );
    Some(HISTORY_DIFFERS.finds(Severity::Void, evidence))
}
