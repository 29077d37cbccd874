//! Checks of a directory: queries for what must not be, after its load and after each run. Each returns the rows that violate it.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use generator::{CheckSql, Instance, Problem, Table, variable_name};
use model::text::nearest::nearest;
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

/// Why a check is left out where nobody has counted transactions by name.
const UNCOUNTED: &str =
    "not made: it counts transactions by name, and the load was a trace, whose transactions have none";
/// How the names of variables begin that count transactions.
const COUNTS: [&str; 2] = ["committed_", "unknown_"];

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
    /// Checks that were not made, or took too long, with the reason in words.
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
    let checks: Vec<&CheckSql> = instance.checks().iter().filter(|check| check.on_load).collect();
    run(session, &checks, &variables(instance, rows, &BTreeMap::new()), longest)
}

/// Checks after a run, whose transactions are all since the data was restored. Without `outcomes`, those that count transactions are not
/// made: what nobody has counted is not none.
///
/// # Errors
/// As [`run`].
pub fn after_run(
    session: &mut Session,
    instance: &Instance,
    rows: &BTreeMap<String, u64>,
    outcomes: Option<&BTreeMap<String, Outcomes>>,
    longest: Duration,
) -> Result<Checked> {
    let variables = variables(instance, rows, outcomes.unwrap_or(&BTreeMap::new()));
    let of_run = instance.checks().iter().filter(|check| check.on_run);
    let is_made = |check: &&CheckSql| outcomes.is_some() || !counts_transactions(&check.sql, &variables);
    let (made, left): (Vec<&CheckSql>, Vec<&CheckSql>) = of_run.partition(is_made);
    let mut checked = run(session, &made, &variables, longest)?;
    checked.unfinished.extend(left.into_iter().map(|check| (id(check), UNCOUNTED.to_string())));
    Ok(checked)
}

/// Whether a check has a variable that counts transactions.
fn counts_transactions(sql: &str, variables: &BTreeMap<String, u64>) -> bool {
    let of_colon = |(colon, _)| variable(&sql[colon + 1..], variables).ok();
    let mut named = generator::sql_variables(sql).filter_map(of_colon);
    named.any(|(name, _)| COUNTS.iter().any(|begin| name.starts_with(begin)))
}

/// The name of a check, by table if there is one for each.
fn id(check: &CheckSql) -> String {
    match &check.table {
        Some(table) => format!("{} of {table}", check.name),
        None => check.name.clone(),
    }
}

/// Makes checks, all in one snapshot, which nothing can write in.
///
/// # Errors
/// When a check uses an unknown variable, is no query, or the server fails.
pub fn run(
    session: &mut Session,
    checks: &[&CheckSql],
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
        let id = id(check);
        let filled = FilledSql::new(&check.sql, variables)
            .map_err(|(at, why)| anyhow::anyhow!(located(check, at, &why)))?;
        session.execute("savepoint one_check")?;
        match one(session, &filled.sql) {
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

/// A message with its place in a check: a byte of its SQL.
pub(super) fn located(check: &CheckSql, at: usize, message: &str) -> String {
    Problem::at(&format!("checks/{}.sql", check.name), &check.sql, at..at + 1, message).to_string()
}

/// The rows that a query returns, at most as many as are shown.
fn one(session: &mut Session, sql: &str) -> std::result::Result<Vec<String>, SessionError> {
    // A cursor takes one query, and stops it when enough is known.
    session.query_params(&format!("declare violated no scroll cursor for {sql}"), &[])?;
    let rows = session.query(&format!("fetch {ROWS_MAX} from violated"))?;
    Ok(rows.rows.iter().map(|row| violation(&rows.columns, row)).collect())
}

/// A check's SQL with values in place of its variables.
pub(super) struct FilledSql {
    pub(super) sql: String,
    /// Where texts between variables begin: in `sql`, and in the check.
    starts: Vec<(usize, usize)>,
}

impl FilledSql {
    /// Replaces the variables of a check.
    ///
    /// # Errors
    /// Names what is no variable, and where it stands.
    pub(super) fn new(sql: &str, variables: &BTreeMap<String, u64>) -> Result<FilledSql, (usize, String)> {
        let (mut filled, mut end) = (String::with_capacity(sql.len()), 0);
        let mut starts = vec![(0, 0)];
        for (colon, word) in generator::sql_variables(sql) {
            // A slice: a[1:2].
            if word.starts_with(char::is_numeric) {
                continue;
            }
            let (name, value) = variable(&sql[colon + 1..], variables).map_err(|why| (colon, why))?;
            filled.push_str(&sql[end..colon]);
            filled.push_str(&value.to_string());
            end = colon + 1 + name.len();
            starts.push((filled.len(), end));
        }
        filled.push_str(&sql[end..]);
        Ok(FilledSql { sql: filled, starts })
    }

    /// Where a character of the SQL, by its number from 0, stands in the check: a byte.
    pub(super) fn offset_in_check(&self, position: usize) -> usize {
        let at: usize = self.sql.chars().take(position).map(char::len_utf8).sum();
        let (filled, of_check) =
            self.starts.iter().rev().find(|(filled, _)| *filled <= at).copied().unwrap_or((0, 0));
        of_check + (at - filled)
    }
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
            Err(match nearest(&word, known.iter().copied()) {
                Some(near) => format!("`:{word}` is no variable of a check; did you mean `:{near}`?"),
                None => format!("`:{word}` is no variable of a check, which has {}", known.join(", ")),
            })
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
            let filled = FilledSql::new(sql, &variables).map(|filled| filled.sql);
            assert_eq!(filled.as_deref(), Ok(expected));
        }
        let (at, unknown) = FilledSql::new("select :rows_jobs", &variables).err().unwrap();
        assert_eq!((at, &*unknown), (7, "`:rows_jobs` is no variable of a check; did you mean `:rows_job`?"));
        let (_, unknown) = FilledSql::new("select :a", &variables).err().unwrap();
        assert!(
            unknown.starts_with("`:a` is no variable of a check, which has committed_read,"),
            "{unknown}"
        );
    }

    #[test]
    fn checks_that_count_transactions_are_known_by_their_variables() {
        let variables: BTreeMap<String, u64> =
            ["rows_job", "committed_take", "unknown_take"].map(|name| (name.to_string(), 0)).into();
        for (sql, expected) in [
            ("select 1 where :committed_take > 1", true),
            ("select 1 where :rows_job + :unknown_take::bigint > 1", true),
            ("select 1 where :rows_job > 1", false),
            ("select ':committed_take', a[1:2] -- :unknown_take", false),
        ] {
            assert_eq!(counts_transactions(sql, &variables), expected, "{sql}");
        }
    }

    #[test]
    fn places_after_variables_are_those_of_the_check() {
        let variables = BTreeMap::from([("rows_job".to_string(), 123_456_789_012)]);
        let check = "select 'ü', :rows_job, :rows_job where x";
        let filled = FilledSql::new(check, &variables).unwrap();
        for word in ["select", "ü", "where", "x"] {
            let position =
                filled.sql.chars().count() - filled.sql[filled.sql.rfind(word).unwrap()..].chars().count();
            assert_eq!(filled.offset_in_check(position), check.rfind(word).unwrap(), "{word}");
        }
    }
}
