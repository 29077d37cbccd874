//! Asks the server about scripts before the load: whether it can parse their statements, and which tables they use.
//!
//! Each statement is parsed in a transaction that is rolled back. Parsing takes the same locks on a statement's tables
//! as running it, and the locks last until the end of the transaction: so the server itself reports what is read and
//! what is written. Nothing is executed except COPY, which the server analyzes only on execution; it gets no rows.

mod columns;

use anyhow::{Result, bail};
use model::experiment::case::WorkloadSpec;
use model::experiment::case::directory::WorkloadDirectory;
use model::experiment::script::{CaseData, CaseScript, ScriptSurvey};
use model::load::Protocol;
use wire::session::{EMPTY_LOCAL_SQL, SearchPath, Session, SessionError};
use workload::script::sqlfile::line_and_column;
use workload::{Bundle, Program, Statement, TextPiece, directories};

use crate::plan::scripts;

/// First keywords of statements that may change how others are parsed: they may create or redirect the objects that
/// those use.
const CHANGES_PARSING: [&str; 10] =
    ["alter", "call", "create", "declare", "do", "drop", "import", "prepare", "set", "reset"];
/// "relation does not exist".
const UNDEFINED_TABLE: &str = "42P01";

/// Class of errors about syntax, names and rights.
const SYNTAX_OR_ACCESS: &str = "42";

/// The relations that this transaction has locked, including those behind views. With an empty search path all of them
/// are named with their schemas.
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

/// Has the server parse every statement of the user's scripts.
///
/// # Errors
/// With script, line and column, when a statement cannot be parsed and no statement before it could change that, or when
/// a script uses a variable before anything has set it.
pub(crate) fn survey(session: &mut Session, workload: &WorkloadSpec) -> Result<ScriptSurvey> {
    ask_all(session, workload, |_| true)
}

/// The same for a plan, which executes nothing: without COPY.
///
/// # Errors
/// As [`survey`].
pub(crate) fn expect_parsable(session: &mut Session, workload: &WorkloadSpec) -> Result<()> {
    ask_all(session, workload, |statement| statement.copy_data.is_none()).map(drop)
}

/// The same where something may make what the statements need before they run: only variables are checked, as far as the server can
/// tell now.
///
/// # Errors
/// With script, line and column of each variable that nothing has set, or when the connection fails.
pub(crate) fn expect_variables(session: &mut Session, workload: &WorkloadSpec) -> Result<()> {
    columns::expect_set(session, workload, &compile(workload)?).map(drop)
}

/// Asks about the statements of all scripts for which `is_asked`.
fn ask_all(
    session: &mut Session,
    workload: &WorkloadSpec,
    is_asked: impl Fn(&Statement) -> bool,
) -> Result<ScriptSurvey> {
    let bundle = compile(workload)?;
    let is_making = bundle.programs.iter().flat_map(|program| &program.statements).any(changes_parsing);
    let mut survey = ScriptSurvey::default();
    // Transactions that only other variants of a directory run must parse, and touch nothing.
    let mut of_others = ScriptSurvey::default();
    for (program, script) in bundle.programs.iter().zip(&workload.scripts) {
        let survey = if may_run(workload, script) { &mut survey } else { &mut of_others };
        for statement in program.statements.iter().flat_map(sent).filter(|statement| is_asked(statement)) {
            let Err(error) = ask(session, statement, survey) else { continue };
            let told = located(program, statement, &script.source, &error);
            // In the simple protocol, values become part of the text, and a query may contain several statements.
            let may_do = workload.protocol == Protocol::Simple
                && (!statement.parameters.is_empty() || statement.text.trim_end_matches(';').contains(';'));
            match &error {
                SessionError::Server(_) if may_do || is_making => survey.unchecked.push(told),
                // COPY may depend on earlier statements of its transaction (FREEZE).
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
    survey.columns_unknown = columns::expect_set(session, workload, &bundle)?;
    Ok(survey)
}

/// Whether clients may run a script. Classes of a directory's clients have weights of their own.
fn may_run(workload: &WorkloadSpec, script: &CaseScript) -> bool {
    let is_left_out = |directory: &WorkloadDirectory| script.weight == 0 && !directory.has_classes;
    !workload.directory.as_deref().is_some_and(is_left_out)
}

fn compile(workload: &WorkloadSpec) -> Result<Bundle> {
    let sources: Vec<(&str, &str, u32)> =
        workload.scripts.iter().map(|s| (s.name.as_str(), s.source.as_str(), s.weight)).collect();
    let variables = scripts::variables(workload);
    Ok(match &workload.directory {
        None => Bundle::compile(&sources, &variables)?,
        Some(directory) => {
            let instance = directories::instance(directory, &variables).map_err(anyhow::Error::msg)?;
            Bundle::compile_directory(&sources, &variables, &instance)?
        }
    })
}

/// What is sent for a statement: with glued names one for each combination of their values.
fn sent(statement: &Statement) -> &[Statement] {
    statement.glued.as_deref().map_or(std::slice::from_ref(statement), |glued| &glued.variants)
}

fn changes_parsing(statement: &Statement) -> bool {
    let text = statement.text.to_ascii_lowercase();
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    // A function may do anything, but that is not likely enough to give up checking.
    words.next().is_some_and(|word| CHANGES_PARSING.contains(&word))
        || words.any(|word| word == "into") && text.trim_start().starts_with("select")
}

/// Parses one statement and records the tables that it locks.
fn ask(
    session: &mut Session,
    statement: &Statement,
    survey: &mut ScriptSurvey,
) -> std::result::Result<(), SessionError> {
    session.execute("begin")?;
    let path = session.search_path().map(SearchPath::set_local_sql);
    if let Some(sql) = &path {
        session.query(sql)?;
    }
    let asked = match &statement.copy_data {
        Some(_) if statement.parameters.is_empty() => session.copy_in(&statement.text, |_| false).map(drop),
        _ => session.prepare("", &statement.text),
    };
    let emptied = asked.and_then(|()| path.map_or(Ok(()), |_| session.query(EMPTY_LOCAL_SQL).map(drop)));
    let result = emptied.and_then(|()| session.query(LOCKED_SQL));
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
    let original = statement.original(&program.variables);
    line_start + source[line_start..].find(&original).unwrap_or(0)
}

/// Converts a character position in the text with `$1` for variables to a byte offset in the original.
fn in_original(program: &Program, statement: &Statement, position: usize) -> usize {
    let (mut n_chars, mut n_bytes, mut n_parameters) = (0, 0, 0);
    for piece in &statement.pieces {
        let (text, original_bytes) = match piece {
            TextPiece::Text(text) => (text.clone(), text.len()),
            TextPiece::Variable(variable) | TextPiece::Quoted(variable) => {
                n_parameters += 1;
                (format!("${n_parameters}"), 1 + program.variables.name(*variable).len())
            }
        };
        let here = text.chars().count();
        if position < n_chars + here {
            let within = match piece {
                TextPiece::Text(text) => text.chars().take(position - n_chars).map(char::len_utf8).sum(),
                TextPiece::Variable(_) | TextPiece::Quoted(_) => 0,
            };
            return n_bytes + within;
        }
        n_chars += here;
        n_bytes += original_bytes;
    }
    n_bytes
}

/// Advice about a missing table.
fn about_data(data: &CaseData) -> &'static str {
    match data {
        CaseData::None => {
            "  the database is used as it is; have tables created with workload.data = \"tpcb\" or \
             {files = [\"schema.sql\"]}, or name another database"
        }
        CaseData::Loaded(_) => {
            "  the database has the TPC-B-like tables (pgbench_accounts and so on); have others created with \
             workload.data = {files = [\"schema.sql\"]}"
        }
        CaseData::Files(_) => "  the files of workload.data did not create such a table",
        CaseData::Directory => "  `schema.sql` of the workload directory did not create such a table",
        CaseData::Archive(_) => {
            "  the archive of workload.restore_from has no such table, or in a schema that is not in the search path"
        }
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
