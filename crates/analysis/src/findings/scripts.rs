//! Findings about what the scripts of a load do: whether they send statements, find rows, or change settings.

pub(super) mod captured;
pub(super) mod fidelity;
pub(super) mod pages;
pub(super) mod queries;
pub(super) mod traced;

use model::run::RunRecord;
use model::run::touched::Touched;

use super::format::{figure, list, plural};
use super::{Rule, RuleCheck, RunContext};
use crate::finding::{Finding, Severity};
use crate::run::settings::{changed_in_sessions, set_by_scripts};

/// Rows for each transaction below which most transactions found none.
const ROWS_MIN: f64 = 0.5;
/// With fewer transactions, chance decides which rows are found.
const TRANSACTIONS_MIN: u64 = 100;

pub(super) const NO_STATEMENTS: Rule = Rule {
    id: "no-statements",
    title: "Scripts send no statement",
    severity: "Void when no script sends any; Doubt when only some do",
    source: "our rule",
    advice: "Check the script: lines that begin with a backslash or with -- are not sent.",
    evidence: "The statements of each script as the driver compiled them.",
    why: "Such a transaction never reaches the server: its rate is that of the driver's own loop.",
    tested: "A script of one \\set next to a second script, by URL, and on one side of a comparison.",
    check: RuleCheck::Run(no_statements),
};

fn no_statements(context: &RunContext) -> Option<Finding> {
    let record = &context.data.record;
    let (load, ready) = (record.load.as_ref()?, record.ready.as_ref()?);
    let scripts = load.scripts.iter().zip(&ready.statements).filter(|(script, _)| script.weight > 0);
    let n_scripts = scripts.clone().count();
    let silent: Vec<String> = scripts
        .filter(|(_, statements)| statements.is_empty())
        .map(|(script, _)| format!("`{}`", script.name))
        .collect();
    let severity = if silent.len() == n_scripts { Severity::Void } else { Severity::Doubt };
    let evidence = || format!("no statement in {}", list(&silent, 4));
    (!silent.is_empty()).then(|| NO_STATEMENTS.finds(severity, evidence()))
}

pub(super) const ROWS_MISSED: Rule = Rule {
    id: "rows-missed",
    title: "Statements find no rows",
    severity: "From 100 transactions on: Void when the load read and changed no row of any table that its \
               scripts name (Doubt if the tables of some statements are unknown); Doubt when it changed none \
               of a table that they write, or when a script without conditions, not of a workload directory, \
               touches less than one row of a table in two transactions",
    source: "PostgreSQL documentation, monitoring-stats; one half is our convention",
    advice: "Check the ranges of random keys against the data (-D scale, workload.scale), and that tables were loaded.",
    evidence: "pg_stat_all_tables and pg_stat_all_indexes before and after the load: rows returned by scans, \
               inserted, updated and deleted, partitions included.",
    why: "A statement that finds nothing reads a few index pages and writes no WAL: it measures little but \
          the protocol.",
    tested: "An UPDATE of keys that do not exist, by URL and on a server that pgdyno runs; one of which nine tenths do not exist, by URL.",
    check: RuleCheck::Run(rows_missed),
};

fn rows_missed(context: &RunContext) -> Option<Finding> {
    let record = &context.data.record;
    let done = record.done.as_ref()?;
    let (n, touched) = (done.counts.committed, &record.touched);
    if touched.is_empty() || n < TRANSACTIONS_MIN || record.spread_hosts().is_some() {
        return None;
    }
    let transactions = plural(n, "transaction");
    let names = || list(&touched.keys().map(|table| format!("`{table}`")).collect::<Vec<_>>(), 4);
    if touched.values().all(|rows| rows.rows_read == 0 && rows.rows_changed == 0) {
        // A server that crashes forgets what it has counted.
        if done.n_lost > 0 || done.clients_lost > 0 {
            return None;
        }
        let is_all_known = record.survey.as_ref().is_none_or(|survey| survey.unchecked.is_empty());
        let severity = if is_all_known { Severity::Void } else { Severity::Doubt };
        let evidence = format!("{transactions} read and changed no row of {}", names());
        return Some(ROWS_MISSED.finds(severity, evidence));
    }
    let missed = missed(record, n);
    let evidence = || format!("in {transactions}: {}", list(&missed, 4));
    (!missed.is_empty()).then(|| ROWS_MISSED.finds(Severity::Doubt, evidence()))
}

/// Tables of which the user's scripts find too few rows, in words. Built-in workloads and directories use tables unequally.
fn missed(record: &RunRecord, n: u64) -> Vec<String> {
    let Some(survey) = &record.survey else { return Vec::new() };
    if record.case.workload.directory.is_some() {
        return Vec::new();
    }
    let is_plain = |source: &str| !source.contains("\\if");
    let always = match record.load.as_ref().map(|load| load.scripts.as_slice()) {
        Some([script]) => is_plain(&script.source),
        _ => false,
    };
    let least = if always { ROWS_MIN * n as f64 } else { 1.0 };
    let judge = |(table, rows): (&String, &Touched)| {
        let (verb, rows) = match survey.written.contains(table) {
            true => ("changed", rows.rows_changed),
            false if always => ("read", rows.rows_read + rows.rows_changed),
            false => return None,
        };
        let share = figure(rows as f64 / n as f64);
        ((rows as f64) < least).then(|| format!("{share} rows of `{table}` {verb} per transaction"))
    };
    record.touched.iter().filter_map(judge).collect()
}

pub(super) const COLUMNS_UNKNOWN: Rule = Rule {
    id: "columns-unknown",
    title: "Variables of scripts could not be checked before the load",
    severity: "Note for any statement of \\gset or \\aset whose columns the server could not name",
    source: "design: a variable that nothing has set is never sent, and its client ends",
    advice: "If clients were aborted, look for a name that the statement does not return; a prefix of \\gset \
             lets the check cover all other names.",
    evidence: "The server's answer to Parse and Describe of each statement, in a transaction that was rolled \
               back.",
    why: "A mistyped name then ends clients during the load, instead of the experiment before it.",
    tested: "A script that fetches from a table of its own, by URL.",
    check: RuleCheck::Run(columns_unknown),
};

fn columns_unknown(context: &RunContext) -> Option<Finding> {
    let unknown = &context.data.record.survey.as_ref()?.columns_unknown;
    let evidence = || {
        format!(
            "the columns of {} are not known: {}",
            plural(unknown.len() as u64, "statement"),
            list(unknown, 4)
        )
    };
    (!unknown.is_empty()).then(|| COLUMNS_UNKNOWN.finds(Severity::Note, evidence()))
}

pub(super) const SCRIPTS_SET: Rule = Rule {
    id: "scripts-set",
    title: "Scripts change settings",
    severity: "Note for SET, SET LOCAL and set_config() in a script, and for settings that a session of the \
               load has changed",
    source: "PostgreSQL documentation, SET and pg_settings",
    advice: "To compare settings, set them for the server, the role or the database.",
    evidence: "The scripts, and pg_settings in a session of each driver thread after its last transaction, \
               without what a transaction or a function sets for itself; a pooler gives any of its \
               connections.",
    why: "The load ran with other settings than the server's record has.",
    tested: "SET synchronous_commit = off in a script and by a function that it calls, by URL and on a server that pgdyno runs.",
    check: RuleCheck::Run(scripts_set),
};

fn scripts_set(context: &RunContext) -> Option<Finding> {
    let record = &context.data.record;
    let by_text = set_by_scripts(record);
    let in_text = |name: &str| by_text.iter().any(|(set, _)| *set == name.to_lowercase());
    let texts: Vec<String> = by_text.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    let sessions = changed_in_sessions(record).unwrap_or_default();
    let changed = sessions.values().flatten().filter(|setting| setting.source == "session");
    let hidden: Vec<String> = changed
        .filter(|setting| !in_text(&setting.name))
        .map(|setting| format!("{} = {}", setting.name, setting.value))
        .collect();
    let parts = [
        (!texts.is_empty()).then(|| format!("scripts set {}", list(&texts, 6))),
        (!hidden.is_empty()).then(|| {
            format!("sessions of the load had {} at its end, which no script's text sets", list(&hidden, 6))
        }),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| SCRIPTS_SET.finds(Severity::Note, parts.join("; ")))
}
