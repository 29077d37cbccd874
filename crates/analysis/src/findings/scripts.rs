//! Findings about what the scripts of a load do: whether they send statements, find rows, or change settings.

use model::run::RunRecord;
use model::run::touched::Touched;

use super::format::{figure, list, plural};
use super::{Check, Rule, RunContext};
use crate::finding::{Finding, Severity};

/// Rows for each transaction below which most transactions found none.
const ROWS_MIN: f64 = 0.5;
/// With fewer transactions, chance decides which rows are found.
const TRANSACTIONS_MIN: u64 = 100;

pub(super) const NO_STATEMENTS: Rule = Rule {
    id: "no-statements",
    title: "Scripts send no statement",
    severity: "Void when no script sends any; Doubt when only some do",
    source: "design: only statements are work for a server",
    advice: "Check the script: lines that begin with a backslash or with -- are not sent.",
    evidence: "The statements of each script as the driver compiled them.",
    why: "Such a transaction never reaches the server: its rate is that of the driver's own loop.",
    tested: "A script of one \\set, and a second script next to it.",
    check: Check::Run(no_statements),
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
    severity: "Void when the load read and changed no row of any table that its scripts name; Doubt when it changed none of a table \
               that they write, or when a script without conditions touches less than one row of a table in two transactions",
    source: "PostgreSQL documentation, monitoring-stats; one half is our convention",
    advice: "Check the ranges of random keys against the data (-D scale, workload.scale), and that tables were loaded.",
    evidence: "pg_stat_all_tables and pg_stat_all_indexes before and after the load: rows that scans returned, and rows inserted, \
               updated and deleted, partitions included.",
    why: "A statement that finds nothing reads a few index pages and writes no WAL: it measures little more than the protocol.",
    tested: "An UPDATE of keys that do not exist, by URL and on a server that pgdyno runs; one of which nine tenths do not exist, by URL and \
             on one side of a comparison.",
    check: Check::Run(rows_missed),
};

fn rows_missed(context: &RunContext) -> Option<Finding> {
    let record = &context.data.record;
    let n = record.done.as_ref()?.counts.committed;
    let touched = &record.touched;
    if touched.is_empty() || n < TRANSACTIONS_MIN {
        return None;
    }
    let transactions = plural(n, "transaction");
    let names = || list(&touched.keys().map(|table| format!("`{table}`")).collect::<Vec<_>>(), 4);
    if touched.values().all(|rows| *rows == Touched::default()) {
        let is_all_known = record.survey.as_ref().is_none_or(|survey| survey.unchecked.is_empty());
        let severity = if is_all_known { Severity::Void } else { Severity::Doubt };
        let evidence = format!("{transactions} read and changed no row of {}", names());
        return Some(ROWS_MISSED.finds(severity, evidence));
    }
    let missed = missed(record, n);
    let evidence = || format!("in {transactions}: {}", list(&missed, 4));
    (!missed.is_empty()).then(|| ROWS_MISSED.finds(Severity::Doubt, evidence()))
}

/// Tables of which the user's scripts find too few rows, in words. Built-in workloads use tables unequally.
fn missed(record: &RunRecord, n: u64) -> Vec<String> {
    let Some(survey) = &record.survey else { return Vec::new() };
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

pub(super) const SCRIPTS_SET: Rule = Rule {
    id: "scripts-set",
    title: "Scripts change settings",
    severity: "Note for SET, SET LOCAL and set_config() in a script that takes part in the load",
    source: "PostgreSQL documentation, SET: the session's value counts, not the server's",
    advice: "Set it for the server, the role or the database if you compare settings, so that the record of the server has it.",
    evidence: "The text of the scripts. What a function of the database sets is not seen.",
    why: "The settings in the record of the server are not those that the load ran with.",
    tested: "SET synchronous_commit = off in a script, by URL and on a server that pgdyno runs.",
    check: Check::Run(scripts_set),
};

fn scripts_set(context: &RunContext) -> Option<Finding> {
    let texts: Vec<String> = set_by_scripts(&context.data.record)
        .iter()
        .map(|(name, value)| format!("{name} = {value}"))
        .collect();
    (!texts.is_empty()).then(|| SCRIPTS_SET.finds(Severity::Note, format!("scripts set {}", list(&texts, 6))))
}

/// Settings that the scripts of a load change, with their values.
pub(super) fn set_by_scripts(record: &RunRecord) -> Vec<(String, String)> {
    let Some(load) = record.load.as_ref().filter(|load| load.profiles.is_none()) else { return Vec::new() };
    let scripts = load.scripts.iter().filter(|script| script.weight > 0);
    let mut found: Vec<(String, String)> = scripts.flat_map(|script| settings_in(&script.source)).collect();
    found.sort();
    found.dedup();
    found
}

/// The settings that a script changes: `SET a = b`, `SET LOCAL a TO 'b'`, `set_config('a', 'b', false)`.
fn settings_in(source: &str) -> Vec<(String, String)> {
    let lines =
        source.lines().map(str::trim).filter(|line| !line.starts_with(['\\']) && !line.starts_with("--"));
    let text = lines.collect::<Vec<&str>>().join(" ").to_lowercase();
    text.split(';')
        .flat_map(|statement| by_set(statement).into_iter().chain(by_function(statement)))
        .collect()
}

fn by_set(statement: &str) -> Option<(String, String)> {
    /// What else is SET, and is no setting.
    const OTHERS: [&str; 5] = ["transaction", "constraints", "role", "characteristics", "authorization"];
    let rest = statement.trim().strip_prefix("set ")?.trim_start();
    let rest = rest.strip_prefix("session ").or(rest.strip_prefix("local ")).unwrap_or(rest).trim_start();
    let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.'))?;
    let (name, value) = rest.split_at(end);
    let value = value.trim_start();
    let value = value.strip_prefix('=').or(value.strip_prefix("to "))?;
    (!OTHERS.contains(&name)).then(|| (name.to_string(), unquoted(value)))
}

fn by_function(statement: &str) -> Option<(String, String)> {
    let mut arguments = statement.split_once("set_config(")?.1.split(',');
    let (name, value) = (arguments.next()?, arguments.next()?);
    Some((unquoted(name), unquoted(value)))
}

fn unquoted(value: &str) -> String {
    value.trim().trim_matches('\'').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_a_script_changes_are_found() {
        let check = |source: &str, expected: &[(&str, &str)]| {
            let found = settings_in(source);
            let found: Vec<(&str, &str)> = found.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
            assert_eq!(found, expected, "{source}");
        };
        check("SET synchronous_commit = off;\nUPDATE t SET a = 1;", &[("synchronous_commit", "off")]);
        check("BEGIN;\nset local synchronous_commit to 'off';\nEND;", &[("synchronous_commit", "off")]);
        check("SET SESSION work_mem='1GB';", &[("work_mem", "1gb")]);
        check("SELECT set_config('jit', 'off', false);", &[("jit", "off")]);
        check("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE;\nSET ROLE x;", &[]);
        check("-- SET jit = off;\n\\set jit 1\nSELECT 1;", &[]);
    }
}
