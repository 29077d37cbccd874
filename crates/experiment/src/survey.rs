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
use workload::{Bundle, Program, Statement};

use crate::plan::scripts;

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
    let is_making =
        bundle.programs.iter().flat_map(|program| &program.statements).any(Statement::changes_parsing);
    let mut survey = ScriptSurvey::default();
    // Transactions that only other variants of a directory run must parse, and touch nothing.
    let mut of_others = ScriptSurvey::default();
    for (program, script) in bundle.programs.iter().zip(&workload.scripts) {
        let survey = if may_run(workload, script) { &mut survey } else { &mut of_others };
        for statement in
            program.statements.iter().flat_map(Statement::sent).filter(|statement| is_asked(statement))
        {
            let Err(error) = ask(session, statement, survey) else { continue };
            let told = located(program, statement, &script.source, &error);
            let may_do = workload.protocol == Protocol::Simple && statement.differs_in_simple();
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
    Bundle::from_scripts(&sources, &variables, workload.directory.as_deref()).map_err(anyhow::Error::msg)
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
    let offset = statement.offset_in(source, &program.variables, error.character());
    let (line, column) = line_and_column(source, offset);
    let shown = source.lines().nth(line - 1).unwrap_or_default();
    let caret = " ".repeat(column - 1);
    let hint = error.hint.as_ref().map(|hint| format!("\n  {hint}")).unwrap_or_default();
    format!(
        "{}:{line}:{column}: {} ({})\n  {shown}\n  {caret}^{hint}",
        program.name, error.message, error.sqlstate
    )
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
