//! SQL that an outage runs on a node: begun, seen in a session of its own, and cancelled at its time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use dataset::own::sql_files::{self, Executed};
use wire::session::SessionError;
use wire::{CancelHandle, Conninfo, Session};

/// How long it may take until the server shows the session at work.
const SEEN_MAX: Duration = Duration::from_secs(5);
/// How long a cancelled statement may take to end.
const ENDED_MAX: Duration = Duration::from_secs(10);
/// Pause between two cancels: one that came between two statements has hit none.
const CANCEL_PAUSE: Duration = Duration::from_millis(100);
const LOOK: Duration = Duration::from_millis(5);
/// SQLSTATE of a statement that a standby cancels because of what it replays (PostgreSQL documentation, hot standby).
const CONFLICT: &str = "40001";

/// The SQL of an outage, while a session runs it. Dropping it cancels it.
pub(super) struct RunningScript {
    name: String,
    place: Conninfo,
    cancel: CancelHandle,
    backend_pid: i32,
    is_over: Arc<AtomicBool>,
    conflicts_before: Vec<(String, i64)>,
    thread: Option<JoinHandle<Ending>>,
}

/// The end of a script.
struct Ending {
    executed: Result<Executed>,
    seconds: f64,
}

impl RunningScript {
    /// Begins to run a text of SQL, of the file `name`, at `place`. Returns it with what shows that it runs.
    ///
    /// # Errors
    /// When nobody can connect there, or it ends with an error at once, unless that is a conflict with what a standby replays.
    pub(super) fn start(place: &Conninfo, name: &str, text: &str) -> Result<(RunningScript, String)> {
        let mut watcher = Session::connect(place).context("connect to look at the script")?;
        let conflicts_before = conflicts(&mut watcher)?;
        let mut session = Session::connect(place).context("connect for the script")?;
        let is_over = Arc::new(AtomicBool::new(false));
        let (cancel, backend_pid) = (session.cancel_handle(), session.backend_pid());
        let (of_thread, file, sql) = (Arc::clone(&is_over), name.to_string(), text.to_string());
        let thread = thread::spawn(move || {
            let began = Instant::now();
            let executed = sql_files::run(&mut session, &file, &sql, &of_thread);
            Ending { executed, seconds: began.elapsed().as_secs_f64() }
        });
        let mut running = RunningScript {
            name: name.to_string(),
            place: place.clone(),
            cancel,
            backend_pid,
            is_over,
            conflicts_before,
            thread: Some(thread),
        };
        let proof = running.seen(&mut watcher)?;
        Ok((running, proof))
    }

    fn seen(&mut self, watcher: &mut Session) -> Result<String> {
        let (name, pid) = (self.name.clone(), self.backend_pid);
        let sql =
            format!("select state from pg_catalog.pg_stat_activity where pid = {pid} and state <> 'idle'");
        let end = Instant::now() + SEEN_MAX;
        loop {
            if let Some(state) = watcher.query(&sql)?.scalar() {
                return Ok(format!("session {pid} runs `{name}` (state {state})"));
            }
            if self.is_finished() {
                break;
            }
            if Instant::now() >= end {
                bail!("session {pid} is to run `{name}`, and is not seen at work");
            }
            thread::sleep(LOOK);
        }
        let ending = self.join()?;
        match &ending.executed {
            Err(error) if !is_conflict(error) => Err(anyhow!("{error:#}")),
            _ => Ok(ending.words(&name)),
        }
    }

    /// Ends it, and says how it ended, and which conflicts with what is replayed were counted meanwhile.
    ///
    /// # Errors
    /// When it cannot be cancelled.
    pub(super) fn end(mut self) -> Result<String> {
        let how = if self.thread.is_none() { None } else { Some(self.cancelled()?) };
        let conflicts =
            self.new_conflicts().unwrap_or_else(|error| format!("conflicts are unknown: {error:#}"));
        Ok(how.into_iter().chain([conflicts]).collect::<Vec<String>>().join("; "))
    }

    fn cancelled(&mut self) -> Result<String> {
        let was_over = self.is_finished();
        self.is_over.store(true, Ordering::Relaxed);
        let end = Instant::now() + ENDED_MAX;
        while !self.is_finished() {
            if Instant::now() >= end {
                bail!("`{}` goes on although it was cancelled", self.name);
            }
            // Whether it has worked is seen.
            self.cancel.cancel().ok();
            let next = Instant::now() + CANCEL_PAUSE;
            while !self.is_finished() && Instant::now() < next {
                thread::sleep(LOOK);
            }
        }
        let ending = self.join()?;
        if was_over {
            return Ok(ending.words(&self.name));
        }
        Ok(format!("`{}` was cancelled after {:.3} s", self.name, ending.seconds))
    }

    fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn join(&mut self) -> Result<Ending> {
        let thread = self.thread.take().context("the script has ended before")?;
        thread.join().map_err(|_| anyhow!("the script was cut off"))
    }

    fn new_conflicts(&self) -> Result<String> {
        let after = conflicts(&mut Session::connect(&self.place)?)?;
        let before = |name: &str| self.conflicts_before.iter().find(|(known, _)| known == name);
        let new: Vec<String> = after
            .iter()
            .map(|(name, n)| (name, n - before(name).map_or(0, |(_, n)| *n)))
            .filter(|(_, n)| *n > 0)
            .map(|(name, n)| format!("{name} {n}"))
            .collect();
        Ok(if new.is_empty() {
            "no conflict counted".to_string()
        } else {
            format!("conflicts counted: {}", new.join(", "))
        })
    }
}

impl Drop for RunningScript {
    fn drop(&mut self) {
        if self.thread.is_some() {
            // The server ends it with itself.
            self.cancelled().ok();
        }
    }
}

impl Ending {
    fn words(&self, name: &str) -> String {
        match &self.executed {
            Ok(executed) => {
                format!(
                    "`{name}` has ended after {:.3} s: {} statements",
                    self.seconds, executed.n_statements
                )
            }
            Err(error) => format!("`{name}` has failed after {:.3} s: {error:#}", self.seconds),
        }
    }
}

fn is_conflict(error: &anyhow::Error) -> bool {
    let of_server = error.chain().find_map(|cause| cause.downcast_ref::<SessionError>());
    matches!(of_server, Some(SessionError::Server(error)) if error.sqlstate == CONFLICT)
}

/// Conflicts that a standby has counted in this database, by kind; a primary counts none.
fn conflicts(session: &mut Session) -> Result<Vec<(String, i64)>> {
    let rows = session.query(
        "select * from pg_catalog.pg_stat_database_conflicts where datname = pg_catalog.current_database()",
    )?;
    let kinds = rows.columns.iter().filter_map(|column| Some((column, column.strip_prefix("confl_")?)));
    let n = |column: &str| rows.get(0, column).and_then(|text| text.parse().ok()).unwrap_or(0);
    Ok(kinds.map(|(column, kind)| (kind.to_string(), n(column))).collect())
}
