//! The queries of an analytical run: their executions as the driver reports them, and after the measurement their plans and answers.
//!
//! A query is explained, and its answer compared, with the parameters of the first stream's first pass.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use dataset::directory::answers;
use model::directory::{AnalyticalSpec, WorkloadDirectory};
use model::experiment::case::{Case, WorkloadSpec};
use model::experiment::script::CaseScript;
use model::load::execution::{AnswerRecord, Execution, ExecutionEnd, ExecutionLine, QueryPlan};
use model::release::{Release, settings};
use wire::session::{Session, SessionError};
use workload::directories::classes::Classes;

use crate::plan::scripts::sessions;
use crate::stage::Stage;
use crate::stage::connections::options_with;

/// A query that took longer is explained without being executed again.
const ANALYZED_MAX: Duration = Duration::from_secs(300);
/// Longest time of one statement after the measurement.
const STATEMENT_MAX: Duration = Duration::from_secs(3600);
/// Longest text of a plan that is stored.
const PLAN_BYTES_MAX: usize = 1 << 20;
/// Statements that EXPLAIN takes.
const EXPLAINABLE: [&str; 8] = ["select", "with", "values", "table", "insert", "update", "delete", "merge"];
/// Statements that would end the transaction in which others are tried.
const CONTROL: [&str; 7] = ["begin", "start", "commit", "end", "rollback", "abort", "prepare"];

/// What the first stream did in its first pass, by the name of the query.
#[derive(Debug, Default)]
pub(crate) struct FirstPass(BTreeMap<u32, FirstExecution>);

#[derive(Debug)]
struct FirstExecution {
    execution: Execution,
    statements: Vec<String>,
}

impl FirstPass {
    /// Takes in what a driver says of an execution.
    pub(crate) fn hear(&mut self, line: &ExecutionLine) {
        if !line.statements.is_empty() {
            let statements = line.statements.clone();
            let first = FirstExecution { execution: line.execution.clone(), statements };
            self.0.entry(line.execution.script).or_insert(first);
        }
    }

    fn by_name<'a>(
        &'a self,
        scripts: &'a [CaseScript],
    ) -> impl Iterator<Item = (&'a str, &'a FirstExecution)> {
        self.0
            .iter()
            .filter_map(|(script, first)| Some((scripts.get(*script as usize)?.name.as_str(), first)))
    }
}

/// What was found after the measurement.
#[derive(Debug, Default)]
pub(crate) struct QueriesAfter {
    pub(crate) plans: Vec<QueryPlan>,
    pub(crate) answers: Vec<AnswerRecord>,
}

/// Takes the plans and compares the answers that the case asks for.
///
/// # Errors
/// When no session is to be had, or one is lost.
pub(crate) fn after(
    case: &Case,
    stage: &Stage,
    first: &FirstPass,
    stop: &'static AtomicBool,
) -> Result<QueriesAfter> {
    let mut found = QueriesAfter::default();
    let Some((directory, spec)) = analytical(&case.workload) else { return Ok(found) };
    let mut session = open(case, stage, stop)?;
    for (name, first) in first.by_name(&case.workload.scripts) {
        if spec.explain {
            found.plans.extend(plans(&mut session, name, first)?);
        }
        if let Some(file) = spec.answers.get(name) {
            found.answers.push(answer(&mut session, name, file, directory, first)?);
        }
    }
    Ok(found)
}

/// Whether something is to be done after the measurement.
pub(crate) fn are_wanted(workload: &WorkloadSpec) -> bool {
    workload.analytical().is_some_and(|spec| spec.explain || !spec.answers.is_empty())
}

fn analytical(workload: &WorkloadSpec) -> Option<(&WorkloadDirectory, &AnalyticalSpec)> {
    workload.directory.as_deref().zip(workload.analytical())
}

/// A session with the rights and settings of those of the load.
fn open(case: &Case, stage: &Stage, stop: &'static AtomicBool) -> Result<Session> {
    let workload = &case.workload;
    let directory = workload.directory.as_deref().context("the case has no workload directory")?;
    let instance = workload::directories::at_scale(directory, workload.scale).map_err(|why| anyhow!(why))?;
    let scripts: Vec<(&str, u32)> =
        workload.scripts.iter().map(|one| (one.name.as_str(), one.weight)).collect();
    let classes =
        Classes::of_directory(&instance, &scripts, workload.n_clients).map_err(|why| anyhow!(why))?;
    let mut settings = workload.session_settings.clone();
    settings.extend(sessions::settings_of(workload));
    settings.extend(classes.into_iter().flat_map(|classes| classes.all).flat_map(|class| class.settings));
    let mut conninfo = stage.direct_conninfo(case)?;
    conninfo.options = options_with(conninfo.options, &settings);
    let session = Session::connect_unless(&conninfo, stop)?;
    let mut session = session.context(dataset::session::STOPPED)?;
    session.set_stop(stop);
    session.set_timeout(Some(STATEMENT_MAX));
    Ok(session)
}

/// The first word of a statement.
fn verb(statement: &str) -> String {
    workload::leading_words(statement, 1).pop().unwrap_or_default()
}

/// Whether EXPLAIN takes a statement.
pub(crate) fn is_explainable(statement: &str) -> bool {
    EXPLAINABLE.contains(&verb(statement).as_str())
}

/// The plans of a transaction's statements, of which nothing stays.
fn plans(session: &mut Session, name: &str, first: &FirstExecution) -> Result<Vec<QueryPlan>> {
    let execution = &first.execution;
    let length = Duration::from_nanos(execution.length_ns);
    let is_analyzed = execution.end == ExecutionEnd::Committed && length <= ANALYZED_MAX;
    let mut found = Vec::new();
    session.execute("begin")?;
    for statement in &first.statements {
        let verb = verb(statement);
        if CONTROL.contains(&verb.as_str()) {
            continue;
        }
        if !is_explainable(statement) {
            if let Err(error) = of_server(session.execute(statement))? {
                let (transaction, statement) = (name.to_string(), statement.clone());
                found.push(QueryPlan { transaction, statement, error: Some(error), ..QueryPlan::default() });
                break;
            }
            continue;
        }
        found.push(plan(session, name, statement, is_analyzed)?);
    }
    session.execute("rollback")?;
    Ok(found)
}

/// The plan of one statement; where it fails when it is executed, the plan alone.
fn plan(session: &mut Session, name: &str, statement: &str, is_analyzed: bool) -> Result<QueryPlan> {
    let mut made =
        QueryPlan { transaction: name.to_string(), statement: statement.to_string(), ..QueryPlan::default() };
    for is_analyzed in [true, false].into_iter().filter(|with| is_analyzed || !with) {
        session.execute("savepoint pgdyno")?;
        let answer =
            of_server(session.query(&format!("{} {statement}", explain_words(session, is_analyzed))))?;
        let back = "rollback to savepoint pgdyno";
        session.execute(back)?;
        match answer.map(|rows| rows.scalar().unwrap_or_default().to_string()) {
            Ok(text) if text.len() > PLAN_BYTES_MAX => {
                made.error = Some(format!("its text has {} bytes, more than {PLAN_BYTES_MAX}", text.len()));
            }
            Ok(text) => {
                made.plan = serde_json::from_str(&text).ok();
                made.error = made.plan.is_none().then(|| "the server's answer is no JSON".to_string());
                made.is_analyzed = is_analyzed;
            }
            Err(why) => {
                made.error = Some(why);
                continue;
            }
        }
        break;
    }
    Ok(made)
}

fn explain_words(session: &Session, is_analyzed: bool) -> String {
    let release = Release::new(session.server_version_num());
    let settings = if release.has(settings::IN_EXPLAIN) { ", settings" } else { "" };
    let analyze = if is_analyzed { "analyze, buffers" } else { "costs" };
    format!("explain ({analyze}{settings}, format json)")
}

/// Runs the statements of a transaction once more, and compares the rows of the last one that has any.
fn answer(
    session: &mut Session,
    name: &str,
    file: &str,
    directory: &WorkloadDirectory,
    first: &FirstExecution,
) -> Result<AnswerRecord> {
    let mut made =
        AnswerRecord { transaction: name.to_string(), file: file.to_string(), ..AnswerRecord::default() };
    let Some(expected) = directory.texts.get(file) else {
        made.unfinished = Some("the directory has no answers for this scale".to_string());
        return Ok(made);
    };
    if first.execution.end != ExecutionEnd::Committed {
        made.unfinished = Some("its first execution did not end with an answer".to_string());
        return Ok(made);
    }
    session.execute("begin")?;
    let mut rows = None;
    for statement in first.statements.iter().filter(|one| !CONTROL.contains(&verb(one).as_str())) {
        match of_server(session.query(statement))? {
            Ok(found) if !found.columns.is_empty() => rows = Some(found),
            Ok(_) => {}
            Err(why) => {
                made.unfinished = Some(why);
                break;
            }
        }
    }
    session.execute("rollback")?;
    if made.unfinished.is_none() {
        let rows = rows.unwrap_or_default();
        made.difference = answers::difference(expected, &rows.columns, &rows.rows);
    }
    Ok(made)
}

/// An error of the server in words; others end the session.
fn of_server<T>(result: std::result::Result<T, SessionError>) -> Result<std::result::Result<T, String>> {
    match result {
        Ok(found) => Ok(Ok(found)),
        Err(SessionError::Server(error)) => Ok(Err(error.to_string())),
        Err(error) => Err(error.into()),
    }
}
