//! SQL that an outage runs on a node: begun, seen in a session of its own, and cancelled at its time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use dataset::own::sql_files::{self, DataFile, Executed};
use dataset::session::STOPPED;
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
/// SQLSTATE of a statement that was cancelled (PostgreSQL documentation, error codes).
const CANCELED: &str = "57014";

/// The SQL of an outage, while a session runs it. Dropping it cancels it.
pub(super) struct RunningScript {
    name: String,
    place: Conninfo,
    cancel: CancelHandle,
    backend_pid: i32,
    is_over: Arc<AtomicBool>,
    conflicts_before: Vec<(String, i64)>,
    /// Whether its server replays what another one has written.
    is_standby: bool,
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
        let is_standby = server::database::facts::in_recovery(&mut watcher);
        let mut session = Session::connect(place).context("connect for the script")?;
        let is_over = Arc::new(AtomicBool::new(false));
        let (cancel, backend_pid) = (session.cancel_handle(), session.backend_pid());
        let (of_thread, file, sql) = (Arc::clone(&is_over), name.to_string(), text.to_string());
        let thread = thread::spawn(move || {
            let began = Instant::now();
            let executed = sql_files::parsed(&file, &sql).and_then(|dump| {
                sql_files::run(&mut session, DataFile { name: &file, dump: &dump, roles: None }, &of_thread)
            });
            Ending { executed, seconds: began.elapsed().as_secs_f64() }
        });
        let mut running = RunningScript {
            name: name.to_string(),
            place: place.clone(),
            cancel,
            backend_pid,
            is_over,
            conflicts_before,
            is_standby,
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
        ending.by_itself(&name, self.is_standby)
    }

    /// Ends it, and says how it ended, and which conflicts with what is replayed were counted meanwhile.
    ///
    /// # Errors
    /// When it cannot be cancelled, or has failed before, unless that is a conflict with what a standby replays.
    pub(super) fn end(mut self) -> Result<String> {
        let how = if self.thread.is_none() { Ok(None) } else { self.cancelled().map(Some) };
        let conflicts =
            self.new_conflicts().unwrap_or_else(|error| format!("conflicts are unknown: {error:#}"));
        match how {
            Ok(how) => Ok(how.into_iter().chain([conflicts]).collect::<Vec<String>>().join("; ")),
            Err(error) => Err(anyhow!("{error:#}; {conflicts}")),
        }
    }

    fn cancelled(&mut self) -> Result<String> {
        if self.is_finished() {
            return self.join()?.by_itself(&self.name, self.is_standby);
        }
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
        self.join()?.cancelled(&self.name, self.is_standby)
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
    /// How it ended after it was cancelled, in words: by that, between two statements, or all the same by itself.
    ///
    /// # Errors
    /// As [`Ending::by_itself`].
    fn cancelled(&self, name: &str, is_standby: bool) -> Result<String> {
        let is_ours =
            |error: &anyhow::Error| sqlstate(error) == Some(CANCELED) || error.to_string() == STOPPED;
        if self.executed.as_ref().is_err_and(is_ours) {
            return Ok(format!("`{name}` was cancelled after {:.3} s", self.seconds));
        }
        self.by_itself(name, is_standby)
    }

    /// How it ended by itself, in words.
    ///
    /// # Errors
    /// When it has failed, unless that is a conflict with what a standby replays, which it is for.
    fn by_itself(&self, name: &str, is_standby: bool) -> Result<String> {
        let seconds = self.seconds;
        match &self.executed {
            Ok(Executed { n_statements, .. }) => {
                Ok(format!("`{name}` has ended after {seconds:.3} s: {n_statements} statements"))
            }
            Err(error) => {
                let failed = format!("`{name}` has failed after {seconds:.3} s: {error:#}");
                let is_conflict = is_standby && sqlstate(error) == Some(CONFLICT);
                if is_conflict { Ok(failed) } else { Err(anyhow!(failed)) }
            }
        }
    }
}

/// SQLSTATE of the server's error behind an error.
fn sqlstate(error: &anyhow::Error) -> Option<&str> {
    let of_server = error.chain().find_map(|cause| cause.downcast_ref::<SessionError>());
    match of_server? {
        SessionError::Server(error) => Some(&error.sqlstate),
        _ => None,
    }
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

#[cfg(test)]
mod tests {
    use wire::ServerError;

    use super::*;

    #[test]
    fn sql_that_fails_by_itself_is_a_problem_unless_it_is_in_the_way_of_replay() {
        let ending = |sqlstate: &str| {
            let error = ServerError {
                sqlstate: sqlstate.to_string(),
                message: "it says so".to_string(),
                ..ServerError::default()
            };
            let error = anyhow::Error::new(SessionError::Server(error)).context("x.sql:2:1");
            Ending { executed: Err(error), seconds: 1.5 }
        };
        for (sqlstate, is_standby, is_problem) in
            [("22012", false, true), ("22012", true, true), (CONFLICT, true, false), (CONFLICT, false, true)]
        {
            for ended in
                [ending(sqlstate).by_itself("x", is_standby), ending(sqlstate).cancelled("x", is_standby)]
            {
                assert_eq!(ended.is_err(), is_problem, "{sqlstate} {is_standby}");
                let words = ended.unwrap_or_else(|error| error.to_string());
                assert!(words.starts_with("`x` has failed after 1.500 s: x.sql:2:1: "), "{words}");
                assert!(words.contains("it says so"), "{words}");
            }
        }

        let cancelled = ending(CANCELED).cancelled("x", false).unwrap();
        assert_eq!(cancelled, "`x` was cancelled after 1.500 s");
        assert!(ending(CANCELED).by_itself("x", false).is_err(), "at a time limit of its own");
        let stopped = Ending { executed: Err(anyhow!(STOPPED)), seconds: 1.5 };
        assert_eq!(stopped.cancelled("x", true).unwrap(), cancelled, "between two statements");
    }
}
