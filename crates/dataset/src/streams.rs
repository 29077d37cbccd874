//! Work for several concurrent sessions: each takes the next job of a list, until all are done or one has failed.
//!
//! A table, a range of its rows and their source are one [`Copy`]. To fill a table in parts, create a [`StreamJob`] for each
//! part and pass them all to one [`Streams::run`]. It does not matter which session does which part, because rows
//! depend only on their numbers:
//!
//! ```text
//! let rows = move |out: &mut Vec<u8>, max_bytes: usize| rows_of_part.fill(out, max_bytes);
//! jobs.push(StreamJob::new(name, vec![JobStep::Transaction(vec![
//!     TransactionPart::Execute("truncate table part_1".into()),
//!     TransactionPart::Copy(Copy { table, sql: "copy part_1 from stdin with (freeze on)".into(), rows: Box::new(rows) }),
//! ])]));
//! let sent = Streams { sessions: sessions.iter_mut().collect(), stop }.run(jobs, &mut |sent| show(sent.n_rows))?;
//! ```

pub(crate) mod marked;
pub mod tablespace;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use wire::session::{Session, SessionError};
use wire::{CancelHandle, Limit};

use crate::streams::marked::MarkedTable;

/// Size of one piece of COPY data: large enough that messages cost nothing, small enough to stay in the processor's
/// cache between generating and sending it.
pub const PIECE_BYTES: usize = 64 * 1024;
/// Pause between two progress reports.
const LOOK: Duration = Duration::from_millis(100);

/// Appends complete rows as COPY text, at most the given number of bytes, but always a row if any is left; returns the
/// number of rows, 0 at the end.
pub type CopyRows = Box<dyn FnMut(&mut Vec<u8>, usize) -> usize + Send>;

/// A COPY FROM STDIN and its rows.
#[allow(missing_docs, reason = "the names say it")]
pub struct Copy {
    pub table: String,
    pub sql: String,
    pub rows: CopyRows,
}

impl Copy {
    /// Sends the rows over one session. `go_on` gets the counts of each piece, and decides whether to send another.
    ///
    /// # Errors
    /// As [`Streams::run`]; the transaction then has to be rolled back, or the session dropped.
    pub fn run(
        self,
        session: &mut Session,
        job: &str,
        go_on: &mut dyn FnMut(SentTotal) -> bool,
    ) -> Result<(), StreamError> {
        let Copy { table, sql, mut rows } = self;
        let mut n_sent = 0;
        let mut is_whole = false;
        let copied = session.copy_in(&sql, |out| {
            let n_rows = rows(out, PIECE_BYTES) as u64;
            n_sent += n_rows;
            is_whole = n_rows == 0;
            !is_whole && go_on(SentTotal { n_rows })
        });
        let n_taken = match copied {
            Ok(copied) => copied.n_rows,
            Err(error) => {
                return Err(StreamError::Statement { job: job.to_string(), sql, error: Box::new(error) });
            }
        };
        // Incomplete rows must not be committed.
        if !is_whole {
            return Err(StreamError::Stopped);
        }
        if n_taken != n_sent {
            return Err(StreamError::RowsMissing { table, n_taken, n_sent });
        }
        Ok(())
    }
}

/// Part of a transaction in a session.
pub enum TransactionPart {
    /// Runs a statement.
    Execute(String),
    /// Aborts the transaction unless the table, which an earlier part has locked, is the one that was created for the
    /// rows.
    Expect(MarkedTable),
    /// Sends rows. For FREEZE, an earlier part of the same transaction creates or truncates the table.
    Copy(Copy),
}

/// Step of a job.
pub enum JobStep {
    /// All parts or none, in a transaction.
    Transaction(Vec<TransactionPart>),
    /// A statement that cannot run in a transaction, such as VACUUM, or that needs none.
    Alone(String),
}

/// Work that one session does in one go, step by step.
#[allow(missing_docs, reason = "the names say it")]
pub struct StreamJob {
    /// Name in messages: usually a table.
    pub name: String,
    pub steps: Vec<JobStep>,
}

impl StreamJob {
    /// Creates a job.
    pub fn new(name: impl Into<String>, steps: Vec<JobStep>) -> StreamJob {
        StreamJob { name: name.into(), steps }
    }
}

/// Total of what all streams have sent.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentTotal {
    pub n_rows: u64,
}

/// Why loading ended early. Whatever was not committed is gone.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// A statement failed, or its session was lost.
    #[error("loading `{job}`")]
    Statement {
        job: String,
        sql: String,
        #[source]
        error: Box<SessionError>,
    },
    /// Rows were lost on the way: somebody added a trigger or a rule to the table.
    #[error("the server took {n_taken} rows of `{table}` instead of {n_sent}")]
    RowsMissing {
        table: String,
        /// Rows according to the server.
        n_taken: u64,
        n_sent: u64,
    },
    /// Somebody replaced the table.
    #[error("somebody replaced table `{table}` during loading; the new one is left as it is")]
    Replaced { table: String },
    /// The flag to stop was set.
    #[error("stopped while loading")]
    Stopped,
}

/// Concurrent sessions. After an error they may be lost, or in a failed transaction.
pub struct Streams<'a> {
    /// One per stream, all on the same database.
    pub sessions: Vec<&'a mut Session>,
    /// Set when the user wants to stop. The sessions should obey it too: [`Session::set_stop`].
    pub stop: &'a AtomicBool,
}

impl Streams<'_> {
    /// Runs all jobs, started in their order. `watch` gets the total several times per second.
    ///
    /// # Errors
    /// The first error of any stream; the others are cancelled then, so that nothing runs any more.
    pub fn run(
        self,
        jobs: Vec<StreamJob>,
        watch: &mut dyn FnMut(SentTotal),
    ) -> Result<SentTotal, StreamError> {
        let handles: Vec<CancelHandle> =
            self.sessions.iter().map(|session| session.cancel_handle()).collect();
        let work = Work {
            jobs: Mutex::new(jobs.into()),
            stop: self.stop,
            has_failed: AtomicBool::new(false),
            n_rows: AtomicU64::new(0),
        };
        let mut failure = None;
        thread::scope(|scope| {
            let (tell, told) = mpsc::channel();
            for (n, session) in self.sessions.into_iter().enumerate() {
                let (tell, work, limit) = (tell.clone(), &work, Limit::current());
                scope.spawn(move || {
                    let _entered = limit.enter();
                    // The receiver is gone only if this function panicked.
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
                        // A stream that stopped because another one failed may report before that one.
                        if matches!(failure, None | Some(StreamError::Stopped)) {
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
            Some(_) if self.stop.load(Ordering::Relaxed) => Err(StreamError::Stopped),
            Some(error) => Err(error),
            None => Ok(work.sent()),
        }
    }
}

/// Cancels statements that have become useless: building an index, or sending rows that nobody reads.
fn cancel_others(handles: &[CancelHandle], failed: usize) {
    for (_, handle) in handles.iter().enumerate().filter(|(n, _)| *n != failed) {
        // The session itself shows whether the cancel took effect.
        handle.cancel().ok();
    }
}

/// State shared by the streams.
struct Work<'a> {
    jobs: Mutex<VecDeque<StreamJob>>,
    stop: &'a AtomicBool,
    has_failed: AtomicBool,
    n_rows: AtomicU64,
}

impl Work<'_> {
    fn sent(&self) -> SentTotal {
        SentTotal { n_rows: self.n_rows.load(Ordering::Relaxed) }
    }

    fn is_over(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed) || self.stop.load(Ordering::Relaxed)
    }

    fn go_on(&self) -> Result<(), StreamError> {
        if self.is_over() { Err(StreamError::Stopped) } else { Ok(()) }
    }

    fn take_jobs(&self, session: &mut Session) -> Result<(), StreamError> {
        let next = || self.jobs.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        while let Some(job) = next() {
            if let Err(error) = self.do_job(session, job) {
                self.has_failed.store(true, Ordering::Relaxed);
                return Err(error);
            }
        }
        Ok(())
    }

    fn do_job(&self, session: &mut Session, job: StreamJob) -> Result<(), StreamError> {
        let StreamJob { name, steps } = job;
        for step in steps {
            match step {
                JobStep::Alone(sql) => self.execute(session, &name, &sql)?,
                JobStep::Transaction(parts) => {
                    self.execute(session, &name, "begin")?;
                    for part in parts {
                        match part {
                            TransactionPart::Execute(sql) => self.execute(session, &name, &sql)?,
                            TransactionPart::Expect(expected) => self.expect(session, &name, &expected)?,
                            TransactionPart::Copy(copy) => self.copy(session, &name, copy)?,
                        }
                    }
                    self.execute(session, &name, "commit")?;
                }
            }
        }
        Ok(())
    }

    fn execute(&self, session: &mut Session, job: &str, sql: &str) -> Result<(), StreamError> {
        self.go_on()?;
        session.execute(sql).map_err(|error| failed(job, sql, error))
    }

    fn expect(&self, session: &mut Session, job: &str, expected: &MarkedTable) -> Result<(), StreamError> {
        self.go_on()?;
        let sql = expected.sql();
        let found = session.query(&sql).map_err(|error| failed(job, &sql, error))?;
        if expected.is_met(&found) {
            return Ok(());
        }
        session.execute("rollback").map_err(|error| failed(job, "rollback", error))?;
        Err(StreamError::Replaced { table: expected.plain_name() })
    }

    fn copy(&self, session: &mut Session, job: &str, copy: Copy) -> Result<(), StreamError> {
        self.go_on()?;
        copy.run(session, job, &mut |piece| {
            self.n_rows.fetch_add(piece.n_rows, Ordering::Relaxed);
            !self.is_over()
        })
    }
}

fn failed(job: &str, sql: &str, error: SessionError) -> StreamError {
    StreamError::Statement { job: job.to_string(), sql: sql.to_string(), error: Box::new(error) }
}
