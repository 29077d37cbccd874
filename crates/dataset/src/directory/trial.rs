//! Proof of a directory against a server before hours of loading: its tables, some rows of each, and what follows them, in a transaction
//! that is rolled back. Everything that is wrong is reported at once.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use generator::{DirectoryTransaction, Problem, Table};
use wire::session::{Session, SessionError, quote_ident};
use workload::{Bundle, Statement, directories};

use super::checks::FilledSql;
use super::created::Created;
use super::load::{AFTER_SQL, MadeTables, begin, difference, make_tables};
use super::rows::samples;
use super::statements::statements;
use super::{DirectoryData, checks, extensions, limit_statements};
use crate::session::{parse, undone_if_failed};
use crate::streams::PIECE_BYTES;

/// Most bytes of a table's rows that are tried.
const TRIED_BYTES_MAX: usize = 8 << 20;
/// A foreign key to a row that is not among those that are tried.
const FOREIGN_KEY_VIOLATION: &str = "23503";
/// Class of errors about syntax, names and rights.
const SYNTAX_OR_ACCESS: &str = "42";
/// Before the query of a check.
const CURSOR: &str = "declare violated no scroll cursor for ";
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

fn try_all(session: &mut Session, data: DirectoryData<'_>, longest: Duration) -> Result<Vec<String>> {
    data.drop_marked(session)?;
    let MadeTables { before, created, problems: of_tables } = make_tables(session, data, longest)?;
    if !of_tables.of_objects.is_empty() {
        // Without its tables, whatever follows would only fail again.
        return Ok(of_tables.into_words());
    }
    data.enter(session)?;
    limit_statements(session, Some(longest))?;
    let misfits: Vec<String> = of_tables.of_columns.keys().cloned().collect();
    let mut problems = of_tables.into_words();
    for table in data.instance.tables() {
        if !misfits.contains(&table.name) && table.n_rows > 0 && created.tables.contains_key(&table.name) {
            problems.extend(try_rows(session, data, &created, table)?);
        }
    }
    problems.extend(try_after(session, data)?);
    problems.extend(difference(session, &before, data, AFTER_SQL)?.1);
    data.enter(session)?;
    limit_statements(session, Some(longest))?;
    problems.extend(try_transactions(session, data)?);
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
                        Some(range) => rows = Some(table.trial_rows(range)),
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
    let all = match statements(AFTER_SQL, parts) {
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

fn in_words(error: &wire::ServerError) -> String {
    let hint = error.hint.as_ref().map_or(String::new(), |hint| format!("; {hint}"));
    format!("{} ({}){hint}", error.message, error.sqlstate)
}

/// Has the server parse the statements of all transactions, also of those that only other variants run.
fn try_transactions(session: &mut Session, data: DirectoryData<'_>) -> Result<Vec<String>> {
    let mut defines = data.instance.options().clone();
    defines.insert("scale".to_string(), data.scale.to_string());
    // Scripts that do not compile are named without a server.
    let compiled: Vec<(&DirectoryTransaction, Bundle)> = data
        .instance
        .transactions()
        .iter()
        .filter_map(|one| Some((one, directories::of_transaction(data.instance, one, &defines).ok()?)))
        .collect();
    let statements = || compiled.iter().flat_map(|(_, bundle)| &bundle.programs[0].statements);
    if statements().any(Statement::changes_parsing) {
        return Ok(Vec::new());
    }
    let is_simple = data.instance.manifest().defaults.protocol.as_deref() == Some("simple");
    let mut problems = Vec::new();
    for (transaction, bundle) in &compiled {
        let program = &bundle.programs[0];
        for statement in &program.statements {
            if is_simple && statement.differs_in_simple() {
                continue;
            }
            // Names that are glued differ by a number alone.
            let (first, last) = (statement.sent().first(), statement.sent().last());
            let ends = first.into_iter().chain(if statement.glued.is_some() { last } else { None });
            for sent in ends {
                if let Err(error) = try_statement(session, sent)? {
                    let file = directories::script_file(&transaction.name);
                    let at = sent.offset_in(&transaction.source, &program.variables, error.character());
                    problems.push(
                        Problem::at(&file, &transaction.source, at..at + 1, in_words(&error)).to_string(),
                    );
                    break;
                }
            }
        }
    }
    Ok(problems)
}

/// Has the server parse a statement; a COPY is only looked at when it runs, which it does without rows.
fn try_statement(
    session: &mut Session,
    statement: &Statement,
) -> Result<std::result::Result<(), wire::ServerError>> {
    let tried = undone_if_failed(session, |session| parse(session, statement))?;
    // COPY may depend on earlier statements of its transaction (FREEZE).
    let is_open =
        |error: &wire::ServerError| statement.copy_data.is_some() && !error.is_class(SYNTAX_OR_ACCESS);
    Ok(tried.or_else(|error| if is_open(&error) { Ok(()) } else { Err(error) }))
}

/// Has the server parse the checks.
fn try_checks(session: &mut Session, data: DirectoryData<'_>) -> Result<Vec<String>> {
    let variables = checks::variables(data.instance, &BTreeMap::new(), &BTreeMap::new());
    let mut problems = Vec::new();
    for check in data.instance.checks() {
        match FilledSql::new(&check.sql, &variables) {
            Err((at, why)) => problems.push(checks::located(check, at, &why)),
            Ok(filled) => {
                let sql = format!("{CURSOR}{}", filled.sql);
                if let Err(error) = undone_if_failed(session, |session| session.prepare("", &sql))? {
                    let position = error.character().saturating_sub(CURSOR.len());
                    problems.push(checks::located(
                        check,
                        filled.offset_in_check(position),
                        &in_words(&error),
                    ));
                }
            }
        }
    }
    Ok(problems)
}
