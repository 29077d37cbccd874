//! Asks the server which columns `\gset` and `\aset` make variables of: without them it would not be known whether a
//! script uses a variable that nothing has set.

use anyhow::Result;
use model::experiment::case::WorkloadSpec;
use model::load::Protocol;
use wire::session::{SearchPath, Session, SessionError};
use workload::script::assignment::Columns;
use workload::{Bundle, Fetch, Program, Statement, TextPiece};

use crate::plan::scripts;
use crate::plan::scripts::unset::CompiledScripts;

/// First keywords of statements whose columns only exist when they run: what they name is made by other statements.
const RETURNS_WHAT_OTHERS_MADE: [&str; 2] = ["execute", "fetch"];

/// Expects that no variable is used before something has set it; returns the statements whose columns are unknown.
pub(super) fn expect_set(
    session: &mut Session,
    workload: &WorkloadSpec,
    bundle: &Bundle,
) -> Result<Vec<String>> {
    if workload.directory.as_ref().is_some_and(|directory| directory.replay.is_some()) {
        // Each execution of a trace has its values.
        return Ok(Vec::new());
    }
    let defines = scripts::variables(workload);
    let sources: Vec<&str> = workload.scripts.iter().map(|script| script.source.as_str()).collect();
    let mut known = CompiledScripts::without_columns(bundle, &sources, defines.keys().map(String::as_str));
    let mut unknown = Vec::new();
    for (n, program) in bundle.programs.iter().enumerate() {
        for (statement, columns) in program.statements.iter().zip(&mut known.columns[n]) {
            if *columns != Columns::Unknown {
                continue;
            }
            match columns_of(session, statement, program, workload) {
                Ok(names) => *columns = Columns::Known(names),
                Err(Unnamed::Connection(error)) => return Err(error.into()),
                Err(Unnamed::Because(why)) => {
                    unknown.push(format!("{}:{}: {why}", program.name, statement.line));
                }
            }
        }
    }
    known.check().map_err(anyhow::Error::msg)?;
    Ok(unknown)
}

/// Why the columns of a statement are unknown.
enum Unnamed {
    Because(String),
    Connection(SessionError),
}

/// The columns that a statement of `\gset` or `\aset` makes variables of.
fn columns_of(
    session: &mut Session,
    statement: &Statement,
    program: &Program,
    workload: &WorkloadSpec,
) -> std::result::Result<Vec<String>, Unnamed> {
    if let Some(name) = word_in(statement, program, workload) {
        return Err(Unnamed::Because(format!("its columns depend on the text of `{name}`")));
    }

    // Only the simple protocol takes several statements at once.
    let mut parts = match workload.protocol {
        Protocol::Simple => statement.parts(&program.variables),
        Protocol::Extended | Protocol::Prepared => vec![statement.text.clone()],
    };
    if matches!(statement.fetch, Fetch::Gset { .. }) {
        parts.drain(..parts.len().saturating_sub(1));
    }
    let mut names = Vec::new();
    for part in &parts {
        let columns = ask_columns(session, part).map_err(|error| match error {
            SessionError::Server(error) => {
                Unnamed::Because(format!("{} ({})", error.message, error.sqlstate))
            }
            error => Unnamed::Connection(error),
        })?;
        let word = workload::first_words(part).pop().unwrap_or_default();
        if columns.is_empty() && RETURNS_WHAT_OTHERS_MADE.contains(&word.as_str()) {
            return Err(Unnamed::Because(format!(
                "the columns of {} show when it runs",
                word.to_uppercase()
            )));
        }
        names.extend(columns);
    }
    Ok(names)
}

/// A variable that a statement of the simple protocol has as text which is no number: it may be the name of a column.
fn word_in<'a>(statement: &Statement, program: &'a Program, workload: &WorkloadSpec) -> Option<&'a str> {
    if workload.protocol != Protocol::Simple {
        return None;
    }
    let is_word =
        |name: &&str| workload.defines.get(*name).is_some_and(|value| value.trim().parse::<f64>().is_err());
    statement.pieces.iter().filter_map(TextPiece::variable).map(|id| program.variables.name(id)).find(is_word)
}

/// The columns of one statement, parsed under the scripts' search path in a transaction that is rolled back.
fn ask_columns(session: &mut Session, sql: &str) -> std::result::Result<Vec<String>, SessionError> {
    session.execute("begin")?;
    let path = session.search_path().map(SearchPath::set_local_sql);
    let asked = match path.map_or(Ok(()), |sql| session.execute(&sql)) {
        Ok(()) => session.columns(sql),
        Err(error) => Err(error),
    };
    session.execute("rollback")?;
    asked
}
