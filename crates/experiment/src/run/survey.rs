//! Asks the server about scripts before the load: whether it can parse their statements, and which tables they name.
//!
//! Each statement is parsed in a transaction that is rolled back. Parsing locks the tables that a statement names as
//! running it would, and the locks last until the end of the transaction: the server itself says what is read and what
//! is written. Nothing is executed but COPY, of which the server looks at nothing before that: it is given no rows.

use anyhow::{Result, bail};
use model::experiment::case::WorkloadSpec;
use model::experiment::script::{CaseData, ScriptSurvey};
use model::load::Protocol;
use wire::session::{Session, SessionError};
use workload::script::sqlfile::line_and_column;
use workload::{Bundle, Piece, Program, Statement};

use crate::plan::scripts;

/// First words of statements after which others may be parsed in another way: what they need may be made, or found
/// elsewhere.
const CHANGES_PARSING: [&str; 10] =
    ["alter", "call", "create", "declare", "do", "drop", "import", "prepare", "set", "reset"];
/// "relation does not exist".
const UNDEFINED_TABLE: &str = "42P01";

/// Class of errors about syntax, names and rights.
const SYNTAX_OR_ACCESS: &str = "42";

/// The relations that this transaction has locked, those behind views included.
const LOCKED_SQL: &str = "
with recursive found(oid, is_written) as (
    select l.relation, l.mode not in ('AccessShareLock') from pg_catalog.pg_locks l
     where l.pid = pg_catalog.pg_backend_pid() and l.locktype = 'relation'
  union
    select d.refobjid, f.is_written from found f
      join pg_catalog.pg_rewrite r on r.ev_class = f.oid
      join pg_catalog.pg_depend d on d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass and d.objid = r.oid
       and d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass and d.refobjid <> f.oid
)
select case when pg_catalog.pg_table_is_visible(c.oid) then c.relname::text
            else n.nspname::text || '.' || c.relname::text end as name,
       bool_or(f.is_written) as is_written
  from found f join pg_catalog.pg_class c on c.oid = f.oid join pg_catalog.pg_namespace n on n.oid = c.relnamespace
 where c.relkind in ('r', 'p', 'm') and c.relname !~ '[.]'
   and n.nspname not in ('pg_catalog', 'information_schema') and n.nspname !~ '^pg_(toast|temp)'
 group by 1 order by 1";

/// Has the server parse every statement of the user's own scripts.
///
/// # Errors
/// With script, line and column, when a statement cannot be parsed and no statement before it could change that.
pub(crate) fn survey(session: &mut Session, workload: &WorkloadSpec) -> Result<ScriptSurvey> {
    let sources: Vec<(&str, &str, u32)> =
        workload.scripts.iter().map(|s| (s.name.as_str(), s.source.as_str(), s.weight)).collect();
    let bundle = Bundle::compile(&sources, &scripts::variables(workload))?;
    let is_making = bundle.programs.iter().flat_map(|program| &program.statements).any(changes_parsing);
    let mut survey = ScriptSurvey::default();
    for (program, script) in bundle.programs.iter().zip(&workload.scripts) {
        for statement in &program.statements {
            let Err(error) = ask(session, statement, &mut survey) else { continue };
            let told = located(program, statement, &script.source, &error);
            // Values become part of the text of a simple query, and more than one statement may be in it.
            let may_do = workload.protocol == Protocol::Simple
                && (!statement.parameters.is_empty() || statement.text.trim_end_matches(';').contains(';'));
            match &error {
                SessionError::Server(_) if may_do || is_making => survey.unchecked.push(told),
                // What else a COPY needs may come from what was done before it in its transaction (FREEZE).
                SessionError::Server(error)
                    if statement.copy_data.is_some() && !error.sqlstate.starts_with(SYNTAX_OR_ACCESS) =>
                {
                    survey.unchecked.push(told);
                }
                SessionError::Server(error) if error.sqlstate == UNDEFINED_TABLE => {
                    bail!("{told}\n{}", about_data(&workload.data))
                }
                SessionError::Server(_) => bail!(told),
                _ => return Err(error.into()),
            }
        }
    }
    Ok(survey)
}

fn changes_parsing(statement: &Statement) -> bool {
    let text = statement.text.to_ascii_lowercase();
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    // A function may do anything, but that one does is not likely enough to give up checking.
    words.next().is_some_and(|word| CHANGES_PARSING.contains(&word))
        || words.any(|word| word == "into") && text.trim_start().starts_with("select")
}

/// Parses one statement and notes the tables that it locks.
fn ask(
    session: &mut Session,
    statement: &Statement,
    survey: &mut ScriptSurvey,
) -> std::result::Result<(), SessionError> {
    session.execute("begin")?;
    let asked = match &statement.copy_data {
        Some(_) if statement.parameters.is_empty() => session.copy_in(&statement.text, |_| false).map(drop),
        _ => session.prepare("", &statement.text),
    };
    let result = asked.and_then(|()| session.query(LOCKED_SQL));
    session.execute("rollback")?;
    let rows = result?;
    for i in 0..rows.len() {
        let Some(name) = rows.get(i, "name") else { continue };
        survey.tables.insert(name.to_string());
        if rows.get(i, "is_written") == Some("t") {
            survey.written.insert(name.to_string());
        }
    }
    Ok(())
}

/// The server's message with script, line and column, and the line with a caret.
fn located(program: &Program, statement: &Statement, source: &str, error: &SessionError) -> String {
    let SessionError::Server(error) = error else { return format!("{}: {error}", program.name) };
    let position = error.position.map(|position| position as usize - 1);
    let offset =
        start_of(program, statement, source) + position.map_or(0, |at| in_original(program, statement, at));
    let (line, column) = line_and_column(source, offset);
    let shown = source.lines().nth(line - 1).unwrap_or_default();
    let caret = " ".repeat(column - 1);
    let hint = error.hint.as_ref().map(|hint| format!("\n  {hint}")).unwrap_or_default();
    format!(
        "{}:{line}:{column}: {} ({})\n  {shown}\n  {caret}^{hint}",
        program.name, error.message, error.sqlstate
    )
}

/// Offset of a statement in its script.
fn start_of(program: &Program, statement: &Statement, source: &str) -> usize {
    let line_start: usize = source.split_inclusive('\n').take(statement.line - 1).map(str::len).sum();
    let original: String = statement
        .pieces
        .iter()
        .map(|piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Variable(variable) => format!(":{}", program.variables.name(*variable)),
        })
        .collect();
    line_start + source[line_start..].find(&original).unwrap_or(0)
}

/// From characters of the text with `$1` for variables to bytes of the original.
fn in_original(program: &Program, statement: &Statement, position: usize) -> usize {
    let (mut n_chars, mut n_bytes, mut n_parameters) = (0, 0, 0);
    for piece in &statement.pieces {
        let (text, original_bytes) = match piece {
            Piece::Text(text) => (text.clone(), text.len()),
            Piece::Variable(variable) => {
                n_parameters += 1;
                (format!("${n_parameters}"), 1 + program.variables.name(*variable).len())
            }
        };
        let here = text.chars().count();
        if position < n_chars + here {
            let within = match piece {
                Piece::Text(text) => text.chars().take(position - n_chars).map(char::len_utf8).sum(),
                Piece::Variable(_) => 0,
            };
            return n_bytes + within;
        }
        n_chars += here;
        n_bytes += original_bytes;
    }
    n_bytes
}

/// What to do about a table that is not there.
fn about_data(data: &CaseData) -> &'static str {
    match data {
        CaseData::None => {
            "  the database is taken as it is; have tables made with workload.data = \"tpcb\" or \
             {files = [\"schema.sql\"]}, or name another database"
        }
        CaseData::Tpcb | CaseData::Tpcc | CaseData::TprocC => {
            "  there are the TPC-B-like tables (pgbench_accounts and so on); have others made with \
             workload.data = {files = [\"schema.sql\"]}"
        }
        CaseData::Files(_) => "  the files of workload.data have made no such table",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_the_servers_text_are_found_in_the_script() {
        let source = "\\set aid 1\n  SELECT ü, :aid,\n  x FROM t WHERE y = :aid AND z;\n";
        let program = Program::compile("a.sql", source).unwrap();
        let statement = &program.statements[0];
        let check = |word: &str, expected: (usize, usize)| {
            let at = statement.text.find(word).unwrap();
            let position = statement.text[..at].chars().count();
            let offset = start_of(&program, statement, source) + in_original(&program, statement, position);
            assert_eq!(line_and_column(source, offset), expected, "{word}");
        };
        check("SELECT", (2, 3));
        check("ü", (2, 10));
        check("$1", (2, 13));
        check("x FROM", (3, 3));
        check("$2", (3, 22));
        check("z", (3, 31));
    }

    #[test]
    fn some_statements_make_later_ones_hard_to_judge() {
        let check = |sql: &str, expected| {
            let program = Program::compile("a", sql).unwrap();
            assert_eq!(changes_parsing(&program.statements[0]), expected, "{sql}");
        };
        check("create temp table t ();", true);
        check("SET search_path = x;", true);
        check("select 1 into t;", true);
        check("select 1;", false);
        check("insert into t values (1);", false);
        check("update t set a = 1;", false);
    }
}
