//! Work for several sessions side by side: each takes the next job of a list, until all are done or one has failed.
//!
//! A table, a range of its rows and what makes them are one [`Copy`]. To fill a table that is cut into parts, make a
//! [`Job`] for each part and give them all to one [`Streams::run`]; which session does which part does not matter,
//! because rows depend on their numbers only:
//!
//! ```text
//! let rows = move |out: &mut Vec<u8>, max_bytes: usize| rows_of_part.fill(out, max_bytes);
//! jobs.push(Job::of(name, vec![Step::Transaction(vec![
//!     Part::Execute("truncate table part_1".into()),
//!     Part::Copy(Copy { table, sql: "copy part_1 from stdin with (freeze on)".into(), rows: Box::new(rows) }),
//! ])]));
//! let sent = Streams { sessions: sessions.iter_mut().collect(), stop }.run(jobs, &mut |sent| show(sent.n_rows))?;
//! ```

pub(crate) mod marked;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use wire::session::{Session, SessionError};
use wire::{CancelHandle, Limit};

/// Size of one piece of COPY data: large enough that messages cost nothing, small enough to stay in the processor's
/// cache from where it is made to where it is sent.
pub const PIECE_BYTES: usize = 64 * 1024;
/// Pause between two looks at how far the streams are.
const LOOK: Duration = Duration::from_millis(100);

/// Appends whole rows as COPY text, at most as many bytes as it is told, but always a row if any is left; returns how
/// many rows; none is the end.
pub type Rows = Box<dyn FnMut(&mut Vec<u8>, usize) -> usize + Send>;

/// A COPY FROM STDIN and its rows.
pub struct Copy {
    /// The table, for messages.
    pub table: String,
    /// The statement.
    pub sql: String,
    /// The rows.
    pub rows: Rows,
}

impl Copy {
    /// Sends the rows over one session. `go_on` is told of each piece, and says whether to send another.
    ///
    /// # Errors
    /// As [`Streams::run`]; the transaction must then be rolled back, or the session dropped.
    pub fn run(
        self,
        session: &mut Session,
        job: &str,
        go_on: &mut dyn FnMut(Sent) -> bool,
    ) -> Result<(), LoadError> {
        let Copy { table, sql, mut rows } = self;
        let mut n_sent = 0;
        let mut is_whole = false;
        let copied = session.copy_in(&sql, |out| {
            let n_rows = rows(out, PIECE_BYTES) as u64;
            n_sent += n_rows;
            is_whole = n_rows == 0;
            !is_whole && go_on(Sent { n_rows, data_bytes: out.len() as u64 })
        });
        let n_taken = match copied {
            Ok(copied) => copied.n_rows,
            Err(error) => {
                return Err(LoadError::Statement { job: job.to_string(), sql, error: Box::new(error) });
            }
        };
        // Cut short, it must not pass for whole.
        if !is_whole {
            return Err(LoadError::Stopped);
        }
        if n_taken != n_sent {
            return Err(LoadError::RowsMissing { table, n_taken, n_sent });
        }
        Ok(())
    }
}

/// What a session does in one transaction.
pub enum Part {
    /// Runs a statement.
    Execute(String),
    /// Undoes the transaction unless the table, which an earlier part has locked, is the one that was made for the rows.
    Expect {
        /// The table, for messages.
        table: String,
        /// Yields `t`, or something else.
        sql: String,
    },
    /// Sends rows. With FREEZE, the table is made or truncated by an earlier part of the same transaction.
    Copy(Copy),
}

/// What a session does before it goes on.
pub enum Step {
    /// All parts or none.
    Transaction(Vec<Part>),
    /// A statement that must not be in a transaction, such as VACUUM, or that needs none.
    Alone(String),
}

/// What one session does in one go, step by step.
pub struct Job {
    /// For messages: mostly a table.
    pub name: String,
    /// In this order.
    pub steps: Vec<Step>,
}

impl Job {
    /// A job.
    pub fn of(name: impl Into<String>, steps: Vec<Step>) -> Job {
        Job { name: name.into(), steps }
    }
}

/// What all streams have sent together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Rows.
    pub n_rows: u64,
    /// Bytes of COPY data, without the protocol's headers.
    pub data_bytes: u64,
}

/// Why a load ended before its end. What was not committed is gone.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A statement failed, or its session was lost.
    #[error("loading `{job}`")]
    Statement {
        /// The job.
        job: String,
        /// The statement.
        sql: String,
        /// What was wrong with it.
        #[source]
        error: Box<SessionError>,
    },
    /// Rows were lost on the way: a trigger or a rule of somebody's on the table.
    #[error("the server took {n_taken} rows of `{table}` instead of {n_sent}")]
    RowsMissing {
        /// The table.
        table: String,
        /// Rows as the server counted them.
        n_taken: u64,
        /// Rows sent.
        n_sent: u64,
    },
    /// Somebody put a table of another origin in its place.
    #[error("somebody replaced table `{table}` while it was loaded; the new one is left as it was")]
    Replaced {
        /// The table.
        table: String,
    },
    /// The flag to stop was raised.
    #[error("stopped while loading")]
    Stopped,
}

/// The sessions that share the work. After an error they may be lost, or in a transaction that failed.
pub struct Streams<'a> {
    /// One for each stream; all to the same database.
    pub sessions: Vec<&'a mut Session>,
    /// Raised when the user wants to stop. The sessions should obey it too: [`Session::set_stop`].
    pub stop: &'a AtomicBool,
}

impl Streams<'_> {
    /// Does all jobs, begun in their order. `watch` is told several times a second what was sent so far.
    ///
    /// # Errors
    /// The first that any stream meets; the others are cancelled then, so that nothing runs any more.
    pub fn run(self, jobs: Vec<Job>, watch: &mut dyn FnMut(Sent)) -> Result<Sent, LoadError> {
        let handles: Vec<CancelHandle> =
            self.sessions.iter().map(|session| session.cancel_handle()).collect();
        let work = Work {
            jobs: Mutex::new(jobs.into()),
            stop: self.stop,
            has_failed: AtomicBool::new(false),
            n_rows: AtomicU64::new(0),
            data_bytes: AtomicU64::new(0),
        };
        let mut failure = None;
        thread::scope(|scope| {
            let (tell, told) = mpsc::channel();
            for (n, session) in self.sessions.into_iter().enumerate() {
                let (tell, work, limit) = (tell.clone(), &work, Limit::current());
                scope.spawn(move || {
                    let _entered = limit.enter();
                    // Nobody listens only if this function panicked.
                    tell.send((n, work.take_jobs(session))).ok()
                });
            }
            drop(tell);
            loop {
                match told.recv_timeout(LOOK) {
                    Ok((n, Err(error))) => {
                        if failure.is_none() {
                            cancel_others(&handles, n);
                        }
                        // One that stopped because another has failed may be heard before that one.
                        if matches!(failure, None | Some(LoadError::Stopped)) {
                            failure = Some(error);
                        }
                    }
                    Ok((_, Ok(()))) | Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
                watch(work.sent());
            }
        });
        match failure {
            Some(_) if self.stop.load(Ordering::Relaxed) => Err(LoadError::Stopped),
            Some(error) => Err(error),
            None => Ok(work.sent()),
        }
    }
}

/// What a stream waits for that is of no use any more: an index that is built, rows that nobody reads.
fn cancel_others(handles: &[CancelHandle], failed: usize) {
    for (_, handle) in handles.iter().enumerate().filter(|(n, _)| *n != failed) {
        // Whether it was taken shows on the session itself.
        handle.cancel().ok();
    }
}

/// What the streams share.
struct Work<'a> {
    jobs: Mutex<VecDeque<Job>>,
    stop: &'a AtomicBool,
    has_failed: AtomicBool,
    n_rows: AtomicU64,
    data_bytes: AtomicU64,
}

impl Work<'_> {
    fn sent(&self) -> Sent {
        Sent {
            n_rows: self.n_rows.load(Ordering::Relaxed),
            data_bytes: self.data_bytes.load(Ordering::Relaxed),
        }
    }

    fn is_over(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed) || self.stop.load(Ordering::Relaxed)
    }

    fn go_on(&self) -> Result<(), LoadError> {
        if self.is_over() { Err(LoadError::Stopped) } else { Ok(()) }
    }

    fn take_jobs(&self, session: &mut Session) -> Result<(), LoadError> {
        let next = || self.jobs.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        while let Some(job) = next() {
            if let Err(error) = self.do_job(session, job) {
                self.has_failed.store(true, Ordering::Relaxed);
                return Err(error);
            }
        }
        Ok(())
    }

    fn do_job(&self, session: &mut Session, job: Job) -> Result<(), LoadError> {
        let Job { name, steps } = job;
        for step in steps {
            match step {
                Step::Alone(sql) => self.execute(session, &name, &sql)?,
                Step::Transaction(parts) => {
                    self.execute(session, &name, "begin")?;
                    for part in parts {
                        match part {
                            Part::Execute(sql) => self.execute(session, &name, &sql)?,
                            Part::Expect { table, sql } => self.expect(session, &name, table, &sql)?,
                            Part::Copy(copy) => self.copy(session, &name, copy)?,
                        }
                    }
                    self.execute(session, &name, "commit")?;
                }
            }
        }
        Ok(())
    }

    fn execute(&self, session: &mut Session, job: &str, sql: &str) -> Result<(), LoadError> {
        self.go_on()?;
        session.execute(sql).map_err(|error| failed(job, sql, error))
    }

    fn expect(&self, session: &mut Session, job: &str, table: String, sql: &str) -> Result<(), LoadError> {
        self.go_on()?;
        let answer = session.query(sql).map_err(|error| failed(job, sql, error))?;
        if answer.scalar() == Some("t") {
            return Ok(());
        }
        session.execute("rollback").map_err(|error| failed(job, "rollback", error))?;
        Err(LoadError::Replaced { table })
    }

    fn copy(&self, session: &mut Session, job: &str, copy: Copy) -> Result<(), LoadError> {
        self.go_on()?;
        copy.run(session, job, &mut |piece| {
            self.n_rows.fetch_add(piece.n_rows, Ordering::Relaxed);
            self.data_bytes.fetch_add(piece.data_bytes, Ordering::Relaxed);
            !self.is_over()
        })
    }
}

fn failed(job: &str, sql: &str, error: SessionError) -> LoadError {
    LoadError::Statement { job: job.to_string(), sql: sql.to_string(), error: Box::new(error) }
}
