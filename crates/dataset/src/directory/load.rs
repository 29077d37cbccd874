//! Loads the data of a directory: `schema.sql` in a transaction, a COPY per table over several sessions, `after.sql`, and the checks that
//! belong to the load.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use generator::Table;
use wire::session::{Session, quote_ident};

use super::created::{Created, CreatedTable, Inventory};
use super::rows::Faults;
use super::statements::{OwnStatement, statements};
use super::{DirectoryData, checks, limit_statements, marks, rows};
use crate::load::{LoadProgress, LoadReport, STOPPED_LOADING};
use crate::session::LIMIT_LOCK_WAITS;
use crate::streams::marked::MarkedTable;
use crate::streams::{Copy, JobStep, StreamError, StreamJob, Streams, TransactionPart};

/// Most streams: as many as processors that make rows, and no more than a server of a few has use for.
const STREAMS_MAX: usize = 8;
/// Name of the file that makes the tables.
pub(super) const SCHEMA_SQL: &str = "schema.sql";
/// Name of the file that runs after the rows.
pub(super) const AFTER_SQL: &str = "after.sql";

/// What became of a load that failed in the middle.
const HALF: &str = "the data is not complete, and marked as such; load it again";

/// How a directory's data is loaded.
#[allow(missing_docs, reason = "the names say it")]
pub struct DirectoryRequest<'a> {
    pub data: DirectoryData<'a>,
    /// Opens a session with the rights of the directory's SQL.
    pub connect: &'a dyn Fn() -> Result<Session>,
    /// Number of concurrent sessions; by default one per processor.
    pub n_streams: Option<u32>,
    /// Whether complete data of this workload that is not this one may be dropped.
    pub may_replace: bool,
    /// Longest time of a statement of `schema.sql`.
    pub schema_statement_max: Duration,
    /// Returns the current time, as written in the marker when loading is finished.
    pub now: &'a dyn Fn() -> String,
    /// Set when the user wants to stop.
    pub stop: &'a AtomicBool,
}

/// Loads the data, marked as unfinished until it is complete and its checks hold.
///
/// # Errors
/// With all problems of `schema.sql` at once, or with the statement that failed; when a check is violated, the server fails, or `stop` is
/// set.
pub fn load(request: &DirectoryRequest<'_>, progress: &mut dyn FnMut(LoadProgress)) -> Result<LoadReport> {
    let result = load_all(request, progress);
    if result.is_err() && request.stop.load(Ordering::Relaxed) {
        bail!(STOPPED_LOADING);
    }
    result
}

fn load_all(request: &DirectoryRequest<'_>, progress: &mut dyn FnMut(LoadProgress)) -> Result<LoadReport> {
    let begun = Instant::now();
    let DirectoryRequest { data, connect, .. } = *request;
    let after_parts = data.instance.after_sql();
    let after = statements(AFTER_SQL, after_parts).map_err(|problems| anyhow!(problems.join("\n")))?;
    let created = create(request)?;

    let n_cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let is_ordered = created.tables.values().any(|table| table.has_foreign_keys);
    let n_tables = data.instance.tables().iter().filter(|table| table.n_rows > 0).count();
    let wanted = request.n_streams.map_or(n_cpus.min(STREAMS_MAX), |n| n as usize);
    let n_streams = if is_ordered { 1 } else { wanted.min(n_tables).max(1) };
    let mut sessions: Vec<Session> = (0..n_streams)
        .map(|_| {
            let mut session = connect()?;
            data.enter(&mut session)?;
            Ok(session)
        })
        .collect::<Result<_>>()?;

    let before_after = if after.is_empty() { None } else { Some(marks::look(&mut sessions[0])?) };
    let fill = Fill::new(data, &created, is_ordered);
    let waves = waves(&after, &fill.names());
    let (first, rest) = match waves.split_first() {
        Some((Wave::OfTables(statements), rest)) => (statements.as_slice(), rest),
        _ => (&[][..], waves.as_slice()),
    };
    let rows_total = fill.rows_total;
    let (counts, faults) = (fill.counts.clone(), fill.faults.clone());
    let jobs = fill.jobs(first);
    run(&mut sessions, jobs, &after, request.stop, &mut |n_rows| {
        let rows_done = n_rows.min(rows_total);
        let step = if rows_done == rows_total { "indexes" } else { "rows" };
        progress(LoadProgress { step, rows_done, rows_total });
    })?;
    let fault = faults.lock().unwrap_or_else(PoisonError::into_inner).first().cloned();
    fault.map_or(Ok(()), |fault| Err(anyhow!(fault).context(HALF)))?;
    let mut tell = |step| progress(LoadProgress { step, rows_done: rows_total, rows_total });
    for wave in rest {
        tell("indexes");
        match wave {
            Wave::Alone(statement) => statement.run(&mut sessions[0]).context(HALF)?,
            Wave::OfTables(statements) => {
                let jobs =
                    by_table(statements).into_iter().map(|(table, steps)| StreamJob::new(table, steps));
                run(&mut sessions, jobs.collect(), &after, request.stop, &mut |_| {})?;
            }
        }
    }
    if let Some(before) = before_after {
        data.mark_later(&mut sessions[0], &before, after_parts).context(HALF)?;
    }
    tell("vacuum");
    let vacuums = created.tables.keys().map(|table| {
        let step = JobStep::Alone(format!("vacuum (analyze) {}", data.table_sql(table)));
        StreamJob::new(table.clone(), vec![step])
    });
    run(&mut sessions, vacuums.collect(), &after, request.stop, &mut |_| {})?;

    let n_rows: BTreeMap<String, u64> =
        counts.iter().map(|(table, n)| (table.clone(), n.load(Ordering::Relaxed))).collect();
    let session = &mut sessions[0];
    tell("checks");
    let checked = checks::after_load(session, data.instance, &n_rows, checks::LOAD_CHECK_MAX)?;
    checks::expect_sound(&checked)?;
    data.mark_complete(session, &created, &n_rows, (request.now)())?;
    let names: Vec<String> = created.tables.keys().cloned().collect();
    let stored_bytes = crate::load::stored_bytes(session, data.schema, &names);
    let seconds = begun.elapsed().as_secs_f64();
    Ok(LoadReport { n_rows: n_rows.values().sum(), stored_bytes, n_streams, seconds })
}

/// Drops what an earlier load has made, and makes the empty tables, marked as being loaded: all or nothing.
fn create(request: &DirectoryRequest<'_>) -> Result<Created> {
    let data = request.data;
    let mut session = (request.connect)()?;
    if !request.may_replace
        && let Some(why) = data.refusal_to_replace(&mut session)?
    {
        bail!(why);
    }
    if let Some(why) = data.in_the_way(&mut session)? {
        bail!(why);
    }
    begin(&mut session)?;
    let done = data.drop_marked(&mut session).and_then(|()| {
        let MadeTables { created, problems, .. } =
            make_tables(&mut session, data, request.schema_statement_max)?;
        let problems = problems.into_words();
        ensure!(problems.is_empty(), "{}", problems.join("\n"));
        data.mark(&mut session, &created)?;
        Ok(created)
    });
    // The session may be lost, and its settings are whatever the SQL has left.
    let ended = session.execute(if done.is_ok() { "commit" } else { "rollback" });
    let created = done?;
    ended?;
    Ok(created)
}

/// Begins a transaction in which catalogues show nobody else's changes.
pub(super) fn begin(session: &mut Session) -> Result<()> {
    session.execute("begin isolation level repeatable read")?;
    Ok(session.execute(LIMIT_LOCK_WAITS)?)
}

/// What is wrong with what `schema.sql` has made.
#[derive(Default)]
pub(super) struct TableProblems {
    /// Objects that it should not have made, and tables that it has not made.
    pub(super) of_objects: Vec<String>,
    /// By table, columns that rows do not fit.
    pub(super) of_columns: BTreeMap<String, Vec<String>>,
}

/// What `schema.sql` has made in an open transaction.
pub(super) struct MadeTables {
    /// The objects that were there before.
    pub(super) before: Inventory,
    pub(super) created: Created,
    pub(super) problems: TableProblems,
}

impl TableProblems {
    pub(super) fn into_words(self) -> Vec<String> {
        self.of_objects.into_iter().chain(self.of_columns.into_values().flatten()).collect()
    }
}

/// Runs `schema.sql` in the open transaction. Returns what it has made, and all problems with that; nothing after a statement that failed.
///
/// # Errors
/// When a statement fails, or the server does.
pub(super) fn make_tables(
    session: &mut Session,
    data: DirectoryData<'_>,
    longest: Duration,
) -> Result<MadeTables> {
    let parts = data.instance.schema_sql();
    let statements = statements(SCHEMA_SQL, parts).map_err(|problems| anyhow!(problems.join("\n")))?;
    let before = Inventory::take(session)?;
    data.enter(session)?;
    limit_statements(session, Some(longest))?;
    statements.iter().try_for_each(|statement| statement.run(session))?;
    limit_statements(session, None)?;
    let (created, of_objects) = difference(session, &before, data, SCHEMA_SQL)?;
    let mut problems = TableProblems { of_objects, ..TableProblems::default() };
    expect_columns(session, data, &created, &mut problems)?;
    Ok(MadeTables { before, created, problems })
}

/// What the SQL of `file` has made in the open transaction, and what it must not have done.
pub(super) fn difference(
    session: &mut Session,
    before: &Inventory,
    data: DirectoryData<'_>,
    file: &str,
) -> Result<(Created, Vec<String>)> {
    // Whatever the SQL has set.
    session.execute("select pg_catalog.set_config('search_path', '', true)")?;
    before.difference(session, data.schema, file)
}

/// Adds what keeps the rows from going into the tables that were made.
fn expect_columns(
    session: &mut Session,
    data: DirectoryData<'_>,
    created: &Created,
    problems: &mut TableProblems,
) -> Result<()> {
    for table in data.instance.tables() {
        let name = &table.name;
        match created.columns(session, name)? {
            None => problems.of_objects.push(format!(
                "{SCHEMA_SQL}: makes no table `{name}`, which workload.toml names; create it without a schema"
            )),
            Some(columns) => {
                let found = table.check_columns(&columns);
                let errors = found.iter().filter(|problem| !problem.is_warning).map(ToString::to_string);
                let errors: Vec<String> = errors.collect();
                if !errors.is_empty() {
                    problems.of_columns.insert(name.clone(), errors);
                }
            }
        }
        if table.n_rows > 0 && created.tables.get(name).is_some_and(|table| table.has_rows) {
            problems.of_objects.push(format!(
                "{SCHEMA_SQL}: puts rows into `{name}`, which workload.toml fills; leave one of both out"
            ));
        }
    }
    Ok(())
}

/// The jobs that fill the tables.
struct Fill<'a> {
    data: DirectoryData<'a>,
    tables: Vec<(&'a Table, CreatedTable)>,
    /// Rows made so far, by table.
    counts: BTreeMap<String, Arc<AtomicU64>>,
    /// Values that could not be made.
    faults: Faults,
    rows_total: u64,
    is_ordered: bool,
}

impl<'a> Fill<'a> {
    /// The table that takes the longest first, unless rows need those of other tables.
    fn new(data: DirectoryData<'a>, created: &Created, is_ordered: bool) -> Fill<'a> {
        let with_rows = data.instance.tables().iter().filter(|table| table.n_rows > 0);
        let mut tables: Vec<(&Table, CreatedTable)> =
            with_rows.filter_map(|table| Some((table, created.tables.get(&table.name)?.clone()))).collect();
        if !is_ordered {
            let bytes = |table: &Table| (table.estimated_rows() as f64 * table.estimated_row_bytes()) as u64;
            tables.sort_by_cached_key(|(table, _)| Reverse(bytes(table)));
        }
        let counts = tables.iter().map(|(table, _)| (table.name.clone(), Arc::default())).collect();
        let rows_total = tables.iter().map(|(table, _)| table.estimated_rows()).sum();
        Fill { data, tables, counts, faults: Arc::default(), rows_total, is_ordered }
    }

    fn names(&self) -> Vec<&'a str> {
        self.tables.iter().map(|(table, _)| table.name.as_str()).collect()
    }

    /// A job for each table, with the statements that follow its rows.
    fn jobs(&self, after: &[(&'a str, &OwnStatement<'_>)]) -> Vec<StreamJob> {
        let mut after = by_table(after);
        let job = |(table, made): &(&'a Table, CreatedTable)| {
            let filled = self.fill(table, made);
            let then = after.remove(table.name.as_str()).unwrap_or_default();
            StreamJob::new(table.name.clone(), std::iter::once(filled).chain(then).collect())
        };
        self.tables.iter().map(job).collect()
    }

    /// Rows are written frozen where the table can be truncated in the same transaction.
    fn fill(&self, table: &'a Table, made: &CreatedTable) -> JobStep {
        let name = self.data.table_sql(&table.name);
        let is_frozen = !made.is_partitioned && !made.has_foreign_keys && !self.is_ordered;
        let expected = MarkedTable::with_oid(self.data.schema, &table.name, made.oid);
        let mut parts = vec![
            TransactionPart::Execute(LIMIT_LOCK_WAITS.to_string()),
            TransactionPart::Execute(format!("lock table only {name} in access exclusive mode")),
            TransactionPart::Expect(expected),
        ];
        if is_frozen {
            parts.push(TransactionPart::Execute(format!("truncate table only {name}")));
        }
        let columns: Vec<String> = table.copy_columns().into_iter().map(quote_ident).collect();
        let freeze = if is_frozen { " with (freeze on)" } else { "" };
        let count = self.counts.get(&table.name).cloned().unwrap_or_default();
        let faults = self.faults.clone();
        parts.push(TransactionPart::Copy(Copy {
            table: table.name.clone(),
            sql: format!("copy {name} ({}) from stdin{freeze}", columns.join(", ")),
            rows: rows::ahead(table.rows(0..table.n_rows), count, faults),
        }));
        JobStep::Transaction(parts)
    }
}

/// Statements of `after.sql` that may run at once.
enum Wave<'a, 's, 'p> {
    /// Each about one table; those of one table in their order.
    OfTables(Vec<(&'a str, &'s OwnStatement<'p>)>),
    /// One that may be about anything.
    Alone(&'s OwnStatement<'p>),
}

fn waves<'a, 's, 'p>(all: &'s [OwnStatement<'p>], tables: &[&'a str]) -> Vec<Wave<'a, 's, 'p>> {
    let mut waves: Vec<Wave<'a, 's, 'p>> = Vec::new();
    for statement in all {
        match (statement.table(tables), waves.last_mut()) {
            (None, _) => waves.push(Wave::Alone(statement)),
            (Some(table), Some(Wave::OfTables(last))) => last.push((table, statement)),
            (Some(table), _) => waves.push(Wave::OfTables(vec![(table, statement)])),
        }
    }
    waves
}

fn by_table<'a>(statements: &[(&'a str, &OwnStatement<'_>)]) -> BTreeMap<&'a str, Vec<JobStep>> {
    let mut jobs: BTreeMap<&str, Vec<JobStep>> = BTreeMap::new();
    for (table, statement) in statements {
        jobs.entry(table).or_default().push(JobStep::Alone(statement.text.clone()));
    }
    jobs
}

/// Runs jobs; a statement of `after.sql` that failed is named by its place.
fn run(
    sessions: &mut [Session],
    jobs: Vec<StreamJob>,
    after: &[OwnStatement<'_>],
    stop: &AtomicBool,
    watch: &mut dyn FnMut(u64),
) -> Result<()> {
    let streams = Streams { sessions: sessions.iter_mut().collect(), stop };
    match streams.run(jobs, &mut |sent| watch(sent.n_rows)) {
        Ok(_) => Ok(()),
        Err(StreamError::Statement { job, sql, error }) => {
            let told = match after.iter().find(|statement| statement.text == sql) {
                Some(statement) => statement.failed(*error),
                None => anyhow::Error::new(*error).context(format!("loading `{job}`")),
            };
            Err(told.context(HALF))
        }
        Err(error) => Err(anyhow::Error::new(error).context(HALF)),
    }
}
