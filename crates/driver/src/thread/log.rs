//! Transaction logs in pgbench's format: a line per transaction, or per interval of some seconds.
//!
//! Differs from pgbench in one thing: every write is checked. As in pgbench, the interval that has not ended when the
//! load does is not in an aggregated log.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use model::load::interval::Moments;
use model::load::{LoadSpec, OnError, TransactionLog};
use workload::Prng;

/// Bytes kept before they are written, even if the second is not over.
const BUFFER_BYTES: usize = 64 * 1024;
const SECOND_US: u64 = 1_000_000;
/// As fopen(3), by which pgbench opens it, creates files.
const MODE: u32 = 0o666;

/// One thread's log.
pub(crate) struct ThreadLog {
    path: String,
    file: File,
    buffer: Vec<u8>,
    /// The stream that decides which transactions are logged, and their share.
    sample: Option<(Prng, f64)>,
    aggregate: Option<Aggregate>,
    format: Format,
    error: Option<io::Error>,
}

/// The optional fields of lines.
#[derive(Debug, Clone, Copy)]
struct Format {
    has_lag: bool,
    has_skipped: bool,
    has_retries: bool,
    is_detailed: bool,
    /// Errors of other kinds are failures too (a field of pgbench 19).
    has_other: bool,
}

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TransactionOutcome {
    Committed,
    Skipped,
    /// 40001.
    Serialization,
    /// 40P01.
    Deadlock,
    /// Any other error.
    Other,
    /// An error with which the transaction may end. pgbench knows none.
    Expected,
    /// The connection was lost, perhaps after a commit. pgbench ends the client then, and logs nothing.
    Unknown,
}

/// A transaction that ended or was skipped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoggedTransaction {
    pub(crate) client: usize,
    /// Number of the transaction among the client's, from 1.
    pub(crate) number: u64,
    pub(crate) script: usize,
    pub(crate) outcome: TransactionOutcome,
    /// When it ended, microseconds since the Unix epoch.
    pub(crate) at_us: u64,
    /// 0 unless it was committed.
    pub(crate) latency_us: u64,
    pub(crate) lag_us: u64,
    pub(crate) tries: u32,
}

impl ThreadLog {
    /// Creates the thread's file; `None` if none is asked for.
    pub(crate) fn create(load: &LoadSpec, thread: usize, sample: Prng) -> Result<Option<ThreadLog>, String> {
        let Some(spec) = &load.log else { return Ok(None) };
        let pid = spec.pid.unwrap_or(std::process::id());
        let path = match thread {
            0 => format!("{}.{pid}", spec.prefix),
            _ => format!("{}.{pid}.{thread}", spec.prefix),
        };
        // The name is easy to guess, and the directory may be one where others plant a link.
        let file = files::create(Path::new(&path), MODE);
        ThreadLog::open(path, file, load, spec, sample).map(Some)
    }

    /// A log for the transactions of a rehearsal, which nobody keeps.
    pub(crate) fn rehearsed(load: &LoadSpec, sample: Prng) -> Option<ThreadLog> {
        let spec = load.log.as_ref().filter(|spec| spec.aggregate_interval_s == 0)?;
        let path = "/dev/null".to_string();
        let file = File::create(&path);
        ThreadLog::open(path, file, load, spec, sample).ok()
    }

    fn open(
        path: String,
        file: io::Result<File>,
        load: &LoadSpec,
        spec: &TransactionLog,
        sample: Prng,
    ) -> Result<ThreadLog, String> {
        let file = file.map_err(|e| format!("could not open logfile \"{path}\": {e}"))?;
        let interval_us = u64::from(spec.aggregate_interval_s) * SECOND_US;
        Ok(ThreadLog {
            path,
            file,
            buffer: Vec::with_capacity(BUFFER_BYTES + 1024),
            sample: (spec.sampling_rate < 1.0).then_some((sample, spec.sampling_rate)),
            aggregate: (interval_us > 0).then(|| Aggregate::new(interval_us)),
            format: Format {
                has_lag: load.pace.is_open(),
                has_skipped: load.latency_limit_ns.is_some(),
                has_retries: load.max_tries != 1,
                is_detailed: spec.failures_detailed,
                has_other: load.on_error == OnError::Continue,
            },
            error: None,
        })
    }

    /// The load begins; the first aggregate begins with that whole second.
    pub(crate) fn begin(&mut self, at_us: u64) {
        if let Some(aggregate) = &mut self.aggregate {
            aggregate.start_us = at_us / SECOND_US * SECOND_US;
        }
    }

    /// Logs a transaction, unless the sample leaves it out.
    pub(crate) fn record(&mut self, entry: &LoggedTransaction) {
        if let Some((sample, rate)) = &mut self.sample
            && sample.double() > *rate
        {
            return;
        }
        match &mut self.aggregate {
            Some(aggregate) => {
                aggregate.write_ended(entry.at_us, self.format, &mut self.buffer);
                aggregate.add(entry);
            }
            None => write_line(entry, self.format, &mut self.buffer),
        }
        if self.buffer.len() >= BUFFER_BYTES {
            self.write_buffer();
        }
    }

    /// Writes the aggregates that have ended by now: the load is over.
    pub(crate) fn finish(&mut self, at_us: u64) {
        if let Some(aggregate) = &mut self.aggregate {
            aggregate.write_ended(at_us, self.format, &mut self.buffer);
        }
    }

    /// Writes the lines kept so far.
    ///
    /// # Errors
    /// Any write that failed since the last call.
    pub(crate) fn flush(&mut self) -> Result<(), String> {
        self.write_buffer();
        match self.error.take() {
            None => Ok(()),
            Some(e) => Err(format!("could not write to logfile \"{}\": {e}", self.path)),
        }
    }

    fn write_buffer(&mut self) {
        if self.error.is_none()
            && let Err(e) = self.file.write_all(&self.buffer)
        {
            self.error = Some(e);
        }
        self.buffer.clear();
    }
}

/// Appends formatted text. Writing to memory cannot fail.
macro_rules! put {
    ($out:expr, $($format:tt)*) => { let _ = write!($out, $($format)*); };
}

fn write_line(entry: &LoggedTransaction, format: Format, out: &mut Vec<u8>) {
    put!(out, "{} {} ", entry.client, entry.number);
    let word = match entry.outcome {
        TransactionOutcome::Committed => "",
        TransactionOutcome::Skipped => "skipped",
        TransactionOutcome::Unknown => "unknown",
        TransactionOutcome::Expected => "expected",
        _ if !format.is_detailed => "failed",
        TransactionOutcome::Serialization => "serialization",
        TransactionOutcome::Deadlock => "deadlock",
        TransactionOutcome::Other => "other",
    };
    if entry.outcome == TransactionOutcome::Committed {
        put!(out, "{}", entry.latency_us);
    } else {
        put!(out, "{word}");
    }
    put!(out, " {} {} {}", entry.script, entry.at_us / SECOND_US, entry.at_us % SECOND_US);
    if format.has_lag {
        put!(out, " {}", entry.lag_us);
    }
    if format.has_retries {
        put!(out, " {}", entry.tries - 1);
    }
    out.push(b'\n');
}

/// The sums of an interval that has not ended.
#[derive(Debug, Default)]
struct Aggregate {
    interval_us: u64,
    start_us: u64,
    latency: Moments,
    lag: Moments,
    skipped: u64,
    retried: u64,
    retries: u64,
    serialization: u64,
    deadlock: u64,
    other: u64,
}

impl Aggregate {
    fn new(interval_us: u64) -> Aggregate {
        Aggregate { interval_us, ..Aggregate::default() }
    }

    /// Writes the intervals that have ended by `now_us`, empty ones too.
    fn write_ended(&mut self, now_us: u64, format: Format, out: &mut Vec<u8>) {
        while self.start_us + self.interval_us <= now_us {
            self.write(format, out);
            let start_us = self.start_us + self.interval_us;
            *self = Aggregate { start_us, ..Aggregate::new(self.interval_us) };
        }
    }

    fn write(&self, format: Format, out: &mut Vec<u8>) {
        let moments = |out: &mut Vec<u8>, m: &Moments| {
            put!(out, " {:.0} {:.0} {:.0} {:.0}", m.sum, m.sum_squares, m.min, m.max);
        };
        let only_if = |is_asked, n: u64| if is_asked { n } else { 0 };
        put!(out, "{} {}", self.start_us / SECOND_US, self.latency.n);
        moments(out, &self.latency);
        moments(out, &if format.has_lag { self.lag } else { Moments::default() });
        put!(out, " {}", only_if(format.has_skipped, self.skipped));
        put!(out, " {}", only_if(format.has_retries, self.retried));
        put!(out, " {}", only_if(format.has_retries, self.retries));
        put!(out, " {}", only_if(format.is_detailed, self.serialization));
        put!(out, " {}", only_if(format.is_detailed, self.deadlock));
        if format.has_other {
            put!(out, " {}", only_if(format.is_detailed, self.other));
        }
        out.push(b'\n');
    }

    fn add(&mut self, entry: &LoggedTransaction) {
        if entry.outcome == TransactionOutcome::Skipped {
            self.skipped += 1;
            return;
        }
        if entry.tries > 1 {
            self.retried += 1;
            self.retries += u64::from(entry.tries - 1);
        }
        match entry.outcome {
            TransactionOutcome::Committed => {
                // Microseconds here, as in the log.
                self.latency.record(entry.latency_us);
                self.lag.record(entry.lag_us);
            }
            TransactionOutcome::Serialization => self.serialization += 1,
            TransactionOutcome::Deadlock => self.deadlock += 1,
            TransactionOutcome::Expected => {}
            TransactionOutcome::Other | TransactionOutcome::Unknown | TransactionOutcome::Skipped => {
                self.other += 1
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_link_that_somebody_planted_in_place_of_a_log_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (victim, log) = (dir.path().join("victim"), dir.path().join("log.7"));
        fs::write(&victim, "mine").unwrap();
        symlink(&victim, &log).unwrap();
        let spec = TransactionLog {
            prefix: dir.path().join("log").display().to_string(),
            pid: Some(7),
            sampling_rate: 1.0,
            aggregate_interval_s: 0,
            failures_detailed: false,
        };
        let load = LoadSpec { log: Some(spec), ..LoadSpec::default() };
        drop(ThreadLog::create(&load, 0, Prng::seed(1)).unwrap());
        assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
        assert!(fs::symlink_metadata(&log).unwrap().is_file());
    }
}
