//! Proof of a directory against a server before hours of loading: its tables, some rows of each, and what follows them, in a transaction
//! that is rolled back. Everything that is wrong is reported at once.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, bail};
use generator::Table;
use wire::session::{Session, SessionError, quote_ident};

use super::created::Created;
use super::load::{AFTER_SQL, begin, make_tables};
use super::rows::samples;
use super::statements::statements;
use super::{DirectoryData, checks, extensions, limit_statements};
use crate::streams::PIECE_BYTES;

/// Most bytes of a table's rows that are tried.
const TRIED_BYTES_MAX: usize = 8 << 20;
/// A foreign key to a row that is not among those that are tried.
const FOREIGN_KEY_VIOLATION: &str = "23503";
/// A statement that cannot run in a transaction (`active_sql_transaction`).
const IN_TRANSACTION: &str = "25001";

/// All that is wrong with a directory on this server, each with its place; nothing is changed. The session's settings are lost.
///
/// # Errors
/// When the server fails.
pub fn problems(session: &mut Session, data: DirectoryData<'_>, longest: Duration) -> Result<Vec<String>> {
    let needs = &data.instance.manifest().needs;
    let found = extensions::problems(session, &needs.extensions)?;
    if !found.is_empty() {
        return Ok(found);
    }
    begin(session)?;
    let tried = try_all(session, data, longest);
    let is_lost = session.is_lost();
    let ended = if is_lost { Ok(()) } else { session.execute("rollback") };
    match tried {
        Ok(problems) => {
            ended?;
            limit_statements(session, None)?;
            Ok(problems)
        }
        // What the directory's SQL did wrong; the server is well.
        Err(error) if error.downcast_ref::<SessionError>().is_none_or(|_| is_lost) => {
            Ok(vec![format!("{error:#}")])
        }
        Err(error) => Err(error),
    }
}

/// Fails with all problems.
///
/// # Errors
/// The problems, or when the server fails.
pub fn expect_none(session: &mut Session, data: DirectoryData<'_>, longest: Duration) -> Result<()> {
    let found = problems(session, data, longest)?;
    if !found.is_empty() {
        bail!("{}", found.join("\n"));
    }
    Ok(())
}

fn try_all(session: &mut Session, data: DirectoryData<'_>, longest: Duration) -> Result<Vec<String>> {
    data.drop_marked(session)?;
    let (created, mut problems) = make_tables(session, data, longest)?;
    if !problems.is_empty() {
        return Ok(problems);
    }
    data.enter(session)?;
    limit_statements(session, Some(longest))?;
    for table in data.instance.tables() {
        if table.n_rows > 0 && created.tables.contains_key(&table.name) {
            problems.extend(try_rows(session, data, &created, table)?);
        }
    }
    problems.extend(try_after(session, data)?);
    problems.extend(try_checks(session, data)?);
    Ok(problems)
}

/// Copies some rows of a table.
fn try_rows(
    session: &mut Session,
    data: DirectoryData<'_>,
    created: &Created,
    table: &Table,
) -> Result<Option<String>> {
    let columns: Vec<String> = table.copy_columns().into_iter().map(quote_ident).collect();
    let sql = format!("copy {} ({}) from stdin", data.table_sql(&table.name), columns.join(", "));
    let mut ranges = samples(table.n_rows).into_iter();
    let (mut rows, mut fault) = (None, None);
    let mut n_bytes = 0;
    let copied = undone_if_failed(session, |session| {
        session.copy_in(&sql, |out| {
            while n_bytes < TRIED_BYTES_MAX {
                let Some(of_range) = rows.as_mut() else {
                    match ranges.next() {
                        Some(range) => rows = Some(table.rows(range)),
                        None => return false,
                    }
                    continue;
                };
                if of_range.fill(out, PIECE_BYTES) == 0 {
                    fault = fault.take().or_else(|| of_range.fault().map(ToString::to_string));
                    rows = None;
                    continue;
                }
                n_bytes += out.len();
                return true;
            }
            false
        })
    })?;
    if let Some(fault) = fault {
        return Ok(Some(format!("workload.toml: {fault}")));
    }
    let is_parentless = |error: &wire::ServerError| {
        error.sqlstate == FOREIGN_KEY_VIOLATION
            && created.tables.get(&table.name).is_some_and(|made| made.has_foreign_keys)
    };
    Ok(match copied {
        Err(error) if !is_parentless(&error) => {
            let place = error.about.as_ref().and_then(|about| about.context.clone());
            let place = place.map_or(String::new(), |context| format!("; {context}"));
            let detail = error.detail.as_ref().map_or(String::new(), |detail| format!("; {detail}"));
            Some(format!(
                "workload.toml: the server does not take rows of `{}`: {} ({}){detail}{place}",
                table.name, error.message, error.sqlstate
            ))
        }
        _ => None,
    })
}

/// Runs `after.sql` over the rows that were tried.
fn try_after(session: &mut Session, data: DirectoryData<'_>) -> Result<Vec<String>> {
    let parts = data.instance.after_sql();
    let all = match statements(AFTER_SQL, &parts) {
        Ok(all) => all,
        Err(problems) => return Ok(problems),
    };
    let mut problems = Vec::new();
    for statement in &all {
        let done = undone_if_failed(session, |session| session.query_params(&statement.text, &[]).map(drop))?;
        match done {
            Err(error) if ![FOREIGN_KEY_VIOLATION, IN_TRANSACTION].contains(&error.sqlstate.as_str()) => {
                problems.push(format!("{:#}", statement.failed(SessionError::Server(error))));
            }
            _ => {}
        }
    }
    Ok(problems)
}

/// Has the server parse the checks.
fn try_checks(session: &mut Session, data: DirectoryData<'_>) -> Result<Vec<String>> {
    let variables = checks::variables(data.instance, &BTreeMap::new(), &BTreeMap::new());
    let mut problems = Vec::new();
    for check in data.instance.checks() {
        let file = format!("checks/{}.sql", check.name);
        match checks::fill(&check.sql, &variables) {
            Err(why) => problems.push(format!("{file}: {why}")),
            Ok(sql) => {
                let sql = format!("declare violated no scroll cursor for {sql}");
                if let Err(error) = undone_if_failed(session, |session| session.prepare("", &sql))? {
                    problems.push(format!("{file}: {} ({})", error.message, error.sqlstate));
                }
            }
        }
    }
    Ok(problems)
}

/// Takes a step; what the server refuses leaves the transaction as it was.
fn undone_if_failed<T>(
    session: &mut Session,
    step: impl FnOnce(&mut Session) -> std::result::Result<T, SessionError>,
) -> Result<std::result::Result<T, wire::ServerError>> {
    session.execute("savepoint tried")?;
    match step(session) {
        Ok(done) => {
            session.execute("release savepoint tried")?;
            Ok(Ok(done))
        }
        Err(SessionError::Server(error)) => {
            session.execute("rollback to savepoint tried")?;
            Ok(Err(error))
        }
        Err(error) => Err(error.into()),
    }
}
