//! Findings about captured workloads: rows that ran out, transactions that only reading leaves out, and errors that the source did not have.

use crate::finding::{Finding, Severity};
use crate::findings::format::{list, percent, plural};
use crate::findings::{Rule, RuleCheck, RunContext};
use crate::summary::ScriptSummary;

/// The fact that counts executions with a row that was dealt before.
const REUSED_DRAWS: &str = "reused_draws";
/// Most transactions of a script that may get a row that was dealt before. Our convention.
const REUSED_MAX: f64 = 0.01;
/// Most transactions of a template, and of a load, that may fail with errors that the source did not have. Our convention.
const NEW_ERRORS_MAX: f64 = 0.01;
/// Fewest failed transactions that are no chance. Our convention.
const NEW_ERRORS_MIN: u64 = 2;

pub(in crate::findings) const DRAWS_REUSED: Rule = Rule {
    id: "draws-reused",
    title: "Captured rows ran out",
    severity: "Doubt when more than 1 % of the transactions of a script with `draws_order = \"once\"` got a row that was dealt before, Note for any",
    source: "our rule",
    advice: "Make the run shorter or slower, or capture for longer.",
    evidence: "The fact `reused_draws` of each script.",
    why: "The row is already deleted or changed: the statement finds nothing, and costs less.",
    tested: "A captured workload with six rows that are dealt once, by URL.",
    check: RuleCheck::Run(draws_reused),
};

fn draws_reused(context: &RunContext) -> Option<Finding> {
    let share = |script: &ScriptSummary| {
        let reused = script.facts.get(REUSED_DRAWS).copied().unwrap_or(0);
        (reused, reused as f64 / script.counts.committed.max(1) as f64)
    };
    let found: Vec<&ScriptSummary> = context.summary.scripts.iter().filter(|one| share(one).0 > 0).collect();
    let most = found.iter().map(|script| share(script).1).fold(0.0, f64::max);
    let severity = if most > REUSED_MAX { Severity::Doubt } else { Severity::Note };
    let words = |script: &&ScriptSummary| {
        let (n, share) = share(script);
        format!("{} of `{}` ({})", plural(n, "transaction"), script.name, percent(share))
    };
    let words: Vec<String> = found.iter().map(words).collect();
    let evidence = || format!("{} got rows that were dealt before", list(&words, 4));
    (!found.is_empty()).then(|| DRAWS_REUSED.finds(severity, evidence()))
}

pub(in crate::findings) const LEFT_OUT_BY_READING: Rule = Rule {
    id: "left-out-by-reading",
    title: "Transactions that write are left out",
    severity: "Note for any with `workload.only_reads`",
    source: "PostgreSQL documentation, error codes: 25006",
    advice: "To measure what writes, run the whole workload on a restored copy.",
    evidence: "The transactions of each script that the server refused, counted with errors that are \
               expected.",
    why: "The load is that of readers alone: it writes no WAL, and they do not wait for writers.",
    tested: "A captured workload of a reader and a writer, by URL.",
    check: RuleCheck::Run(left_out_by_reading),
};

fn left_out_by_reading(context: &RunContext) -> Option<Finding> {
    let workload = &context.data.record.case.workload;
    if !workload.only_reads {
        return None;
    }
    let refused = context.summary.scripts.iter().filter(|script| script.counts.expected > 0);
    let words = |script: &ScriptSummary| {
        let counts = &script.counts;
        format!("{} of {} of `{}`", counts.expected, plural(counts.ended(), "transaction"), script.name)
    };
    let words: Vec<String> = refused.map(words).collect();
    let evidence = || format!("{} were refused or ended with an expected error", list(&words, 10));
    (!words.is_empty()).then(|| LEFT_OUT_BY_READING.finds(Severity::Note, evidence()))
}

pub(in crate::findings) const NEW_ERRORS: Rule = Rule {
    id: "new-errors",
    title: "Errors that the source did not have",
    severity: "For a captured workload: Void when more than 1 % of all transactions failed, Doubt when more than 1 % of a script's did (2 or more)",
    source: "our rule; 1 % is our convention",
    advice: "See the errors by SQLSTATE in report.html: tables, rows or rights of the source may be missing \
             here.",
    evidence: "Failed transactions of each script; errors that the source had are expected, and do not count.",
    why: "An error ends a transaction early: the load is not the captured one.",
    tested: "A captured workload of which one transaction divides by zero, by URL.",
    check: RuleCheck::Run(new_errors),
};

fn new_errors(context: &RunContext) -> Option<Finding> {
    let directory = context.data.record.case.workload.directory.as_ref()?;
    directory.captured.as_ref()?;
    let share = |failed: u64, ended: u64| failed as f64 / ended.max(1) as f64;
    let is_new = |script: &&ScriptSummary| {
        let counts = &script.counts;
        counts.failed >= NEW_ERRORS_MIN && share(counts.failed, counts.ended()) > NEW_ERRORS_MAX
    };
    let found: Vec<String> = context
        .summary
        .scripts
        .iter()
        .filter(is_new)
        .map(|script| {
            let counts = &script.counts;
            format!("{} of `{}`", percent(share(counts.failed, counts.ended())), script.name)
        })
        .collect();
    if found.is_empty() {
        return None;
    }
    let counts = &context.summary.counts;
    let of_all = share(counts.failed, counts.ended());
    let severity = if of_all > NEW_ERRORS_MAX { Severity::Void } else { Severity::Doubt };
    Some(NEW_ERRORS.finds(severity, format!("{} failed, {} of all", list(&found, 4), percent(of_all))))
}
