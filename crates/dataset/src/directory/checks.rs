//! Checks of a directory: queries for what must not be, after its load and after each run. Each returns the rows that violate it.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use generator::{CheckSql, Instance, Table, variable_name};
use wire::session::{Session, SessionError};

use super::limit_statements;
use crate::check::{CheckResult, violation};

/// Most rows that a check shows.
const ROWS_MAX: usize = 100;
/// Longest time of one check after a load: it may read all of the data.
pub const LOAD_CHECK_MAX: Duration = Duration::from_secs(3600);
/// Longest time of one check after a run: it delays the next one.
pub const RUN_CHECK_MAX: Duration = Duration::from_secs(60);
/// The server has ended the statement at its limit (`query_canceled`).
const CANCELED: &str = "57014";

/// Transactions of one name over a whole load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcomes {
    /// Those that ended with every statement acknowledged.
    pub committed: u64,
    /// Those of which nobody knows whether they committed.
    pub unknown: u64,
}

/// Outcome of checks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checked {
    /// Each check that was made.
    pub results: Vec<CheckResult>,
    /// Checks that took too long, with their limit in words.
    pub unfinished: BTreeMap<String, String>,
}

impl Checked {
    /// Violated ones, each with its title and an example.
    pub fn violations(&self) -> BTreeMap<String, String> {
        let broken = self.results.iter().filter_map(|result| {
            let example = result.violations.first()?;
            Some((result.id.clone(), format!("{}: {example}", result.title)))
        });
        broken.collect()
    }
}

/// The variables of checks: rows that the load has written into each table, and transactions since, by name.
pub fn variables(
    instance: &Instance,
    rows: &BTreeMap<String, u64>,
    outcomes: &BTreeMap<String, Outcomes>,
) -> BTreeMap<String, u64> {
    let of_table = |table: &Table| rows.get(&table.name).copied().unwrap_or(table.n_rows);
    let mut variables: BTreeMap<String, u64> =
        instance.tables().iter().map(|table| (format!("rows_{}", table.name), of_table(table))).collect();
    for transaction in instance.transactions() {
        let of = outcomes.get(&transaction.name).copied().unwrap_or_default();
        // A name with `-` may be written with `_`, as in pgbench's language.
        for name in [transaction.name.clone(), variable_name(&transaction.name)] {
            variables.insert(format!("committed_{name}"), of.committed);
            variables.insert(format!("unknown_{name}"), of.unknown);
        }
    }
    variables
}

/// Checks after the load, which has written so many rows into each table: nothing has committed yet.
///
/// # Errors
/// As [`run`].
pub fn after_load(
    session: &mut Session,
    instance: &Instance,
    rows: &BTreeMap<String, u64>,
    longest: Duration,
) -> Result<Checked> {
    let checks: Vec<CheckSql> = instance.checks().into_iter().filter(|check| check.on_load).collect();
    run(session, &checks, &variables(instance, rows, &BTreeMap::new()), longest)
}

/// Checks after a run, whose transactions are all since the data was restored.
///
/// # Errors
/// As [`run`].
pub fn after_run(
    session: &mut Session,
    instance: &Instance,
    rows: &BTreeMap<String, u64>,
    outcomes: &BTreeMap<String, Outcomes>,
    longest: Duration,
) -> Result<Checked> {
    let checks: Vec<CheckSql> = instance.checks().into_iter().filter(|check| check.on_run).collect();
    run(session, &checks, &variables(instance, rows, outcomes), longest)
}

/// Makes checks, all in one snapshot, which nothing can write in.
///
/// # Errors
/// When a check uses an unknown variable, is no query, or the server fails.
pub fn run(
    session: &mut Session,
    checks: &[CheckSql],
    variables: &BTreeMap<String, u64>,
    longest: Duration,
) -> Result<Checked> {
    let mut checked = Checked::default();
    if checks.is_empty() {
        return Ok(checked);
    }
    limit_statements(session, Some(longest))?;
    session.execute("begin transaction isolation level repeatable read read only")?;
    for check in checks {
        let id = match &check.table {
            Some(table) => format!("{} of {table}", check.name),
            None => check.name.clone(),
        };
        let sql =
            fill(&check.sql, variables).map_err(|why| anyhow::anyhow!("checks/{}.sql: {why}", check.name))?;
        session.execute("savepoint one_check")?;
        match one(session, &sql) {
            Ok(violations) => {
                checked.results.push(CheckResult { id, title: check.title.clone(), violations })
            }
            Err(SessionError::Server(error)) if error.sqlstate == CANCELED => {
                let why = format!("not made: it took longer than {} s", longest.as_secs());
                checked.unfinished.insert(id, why);
            }
            Err(error) => {
                return Err(error).with_context(|| format!("checks/{}.sql", check.name));
            }
        }
        session.execute("rollback to savepoint one_check")?;
    }
    session.execute("rollback")?;
    limit_statements(session, None)?;
    Ok(checked)
}

/// The rows that a query returns, at most as many as are shown.
fn one(session: &mut Session, sql: &str) -> std::result::Result<Vec<String>, SessionError> {
    // A cursor takes one query, and stops it when enough is known.
    session.query_params(&format!("declare violated no scroll cursor for {sql}"), &[])?;
    let rows = session.query(&format!("fetch {ROWS_MAX} from violated"))?;
    Ok(rows.rows.iter().map(|row| violation(&rows.columns, row)).collect())
}

/// Fails if something in a check is no variable that it has, and returns its SQL with the values otherwise.
///
/// # Errors
/// Names what is unknown.
pub fn fill(sql: &str, variables: &BTreeMap<String, u64>) -> Result<String, String> {
    let (mut filled, mut end) = (String::with_capacity(sql.len()), 0);
    for (colon, word) in generator::sql_variables(sql) {
        // A slice: a[1:2].
        if word.starts_with(char::is_numeric) {
            continue;
        }
        let (name, value) = variable(&sql[colon + 1..], variables)?;
        filled.push_str(&sql[end..colon]);
        filled.push_str(&value.to_string());
        end = colon + 1 + name.len();
    }
    filled.push_str(&sql[end..]);
    Ok(filled)
}

/// The variable with whose name the text begins, the longest one.
fn variable<'a>(text: &str, variables: &'a BTreeMap<String, u64>) -> Result<(&'a str, u64), String> {
    let is_letter = |c: char| c.is_alphanumeric() || c == '_';
    let fits = |name: &&String| text.starts_with(name.as_str()) && !text[name.len()..].starts_with(is_letter);
    match variables.iter().filter(|(name, _)| fits(name)).max_by_key(|(name, _)| name.len()) {
        Some((name, value)) => Ok((name.as_str(), *value)),
        None => {
            let word: String = text.chars().take_while(|c| is_letter(*c)).collect();
            let known: Vec<&str> = variables.keys().map(String::as_str).collect();
            Err(format!("`:{word}` is no variable; a check has {}", known.join(", ")))
        }
    }
}

/// Fails if a check of the load is violated: the data is not what its author meant.
///
/// # Errors
/// Names the violated ones, each with an example.
pub fn expect_sound(checked: &Checked) -> Result<()> {
    let violations = checked.violations();
    if violations.is_empty() {
        return Ok(());
    }
    let all: Vec<String> =
        violations.into_iter().map(|(name, example)| format!("{name} ({example})")).collect();
    bail!("the data that was loaded violates checks of the workload: {}", all.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced_where_they_are_variables() {
        let variables: BTreeMap<String, u64> = [
            ("rows_job", 7),
            ("committed_read", 1),
            ("committed_read-modify-write", 2),
            ("committed_read_all", 3),
        ]
        .map(|(name, value)| (name.to_string(), value))
        .into();
        for (sql, expected) in [
            ("select :rows_job + :committed_read", "select 7 + 1"),
            ("select :committed_read-modify-write", "select 2"),
            ("select :committed_read_all::bigint", "select 3::bigint"),
            (
                "select ':rows_job', \":x\" -- :y\n, /* :z */ 1",
                "select ':rows_job', \":x\" -- :y\n, /* :z */ 1",
            ),
            ("select a[1:2], 'it''s :x', 'open", "select a[1:2], 'it''s :x', 'open"),
            ("select $$:x$$, E'\\' :x', :rows_job", "select $$:x$$, E'\\' :x', 7"),
        ] {
            assert_eq!(fill(sql, &variables).as_deref(), Ok(expected));
        }
        let unknown = fill("select :rows_jobs", &variables).unwrap_err();
        assert!(unknown.starts_with("`:rows_jobs` is no variable; a check has committed_read,"), "{unknown}");
    }
}
