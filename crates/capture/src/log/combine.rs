//! Records put together to executed statements: texts with their durations, steps of the extended protocol, errors with their statements.
//!
//! Each session has a state of what is open. Records of a session are in their order; how sessions interleave does not matter.

mod batch;
mod message;
mod output;
mod prepared;
mod session;
mod states;
mod values;

use std::borrow::Cow;

use anyhow::{Result, bail};

use self::message::{Said, Step, said};
use self::output::Output;
use self::session::SessionState;
use self::states::States;
use super::executed::StatementSink;
use super::format::record::{LogRecord, MessageLevel, SessionKey};
use super::reading::{FileReading, LogReading, SkipReason, TimeResolution};
use super::source::LogSource;

/// A step back of the clock that is more than lines of several processes out of order.
const BACKWARD_US: i64 = 1_000_000;

/// Takes records, pushes statements.
pub(crate) struct Combiner<'a> {
    output: Output<'a>,
    states: States,
    file: String,
    latest_us: Option<i64>,
    /// The server that an export or syslog names, and its first line.
    server: Option<Vec<u8>>,
}

impl<'a> Combiner<'a> {
    pub(crate) fn new(sink: &'a mut dyn StatementSink) -> Combiner<'a> {
        Combiner {
            output: Output::new(sink),
            states: States::default(),
            file: String::new(),
            latest_us: None,
            server: None,
        }
    }

    pub(crate) fn begin_file(&mut self, name: &str) {
        self.file = name.to_string();
    }

    pub(crate) fn end_file(&mut self, format: &str, source: &LogSource) {
        self.output.reading.files.push(FileReading {
            name: self.file.clone(),
            format: format.to_string(),
            lines: source.line(),
            bytes: source.bytes_taken(),
        });
    }

    /// Counts something that is no record.
    pub(crate) fn skip(&mut self, reason: SkipReason) {
        self.output.reading.skip(reason, 0);
    }

    /// A text as it is, or, if it is not in UTF-8, as Latin-1.
    pub(crate) fn decode<'b>(&mut self, bytes: &'b [u8]) -> Cow<'b, str> {
        self.output.decode(bytes)
    }

    /// Takes a record.
    ///
    /// # Errors
    /// If it is of another server than the ones before.
    pub(crate) fn record(&mut self, record: &LogRecord) -> Result<()> {
        self.output.reading.records += 1;
        let now_us = self.keep_time(record);
        self.expect_same_server(record)?;
        if record.level == MessageLevel::Foreign {
            self.skip(SkipReason::OtherLanguage);
            return Ok(());
        }
        let is_client = matches!(record.process_kind, b"" | b"client backend" | b"not initialized");
        if !is_client || record.is_worker {
            self.skip(SkipReason::ServerProcess);
            return Ok(());
        }
        self.output.reading.has_processes |= record.session != SessionKey::Unknown;
        let said = if record.level == MessageLevel::Log { said(&record.message) } else { Said::Other };
        if record.level == MessageLevel::Lower {
            self.skip(SkipReason::OtherMessage);
            return Ok(());
        }
        let is_new = said == Said::Received;
        let state = match self.states.of(record.session, now_us, is_new, &mut self.output) {
            Ok(state) => state,
            Err(earlier) => bail!("{}", out_of_order(&self.file, record, earlier)),
        };
        let held = state.held_bytes();
        state.describe(record);
        if record.level == MessageLevel::Error {
            self.output.error(state, record, now_us);
        } else {
            take(&mut self.output, state, record, said, now_us);
        }
        let is_ended = said == Said::Disconnected;
        let held_now = state.held_bytes();
        self.states.settle(record.session, held, held_now, is_ended, &mut self.output);
        Ok(())
    }

    /// The rest of what is open.
    pub(crate) fn finish(mut self) -> LogReading {
        self.states.end_all(&mut self.output);
        self.output.reading
    }

    /// The time of a record, or that of the one before.
    fn keep_time(&mut self, record: &LogRecord) -> i64 {
        let Some(time) = record.time else { return self.latest_us.unwrap_or(0) };
        let reading = &mut self.output.reading;
        reading.first_us = Some(reading.first_us.map_or(time.us, |first| first.min(time.us)));
        reading.last_us = Some(reading.last_us.map_or(time.us, |last| last.max(time.us)));
        reading.unknown_zones += u64::from(time.is_zone_unknown);
        if time.is_whole {
            reading.resolution = TimeResolution::Second;
        }
        let back_us = self.latest_us.unwrap_or(time.us).saturating_sub(time.us);
        reading.later_lines += u64::from(back_us < 0);
        reading.earlier_lines += u64::from(back_us > 0);
        if back_us > BACKWARD_US {
            reading.backward_steps += 1;
            reading.backward_us_max = reading.backward_us_max.max(back_us);
        }
        self.latest_us = Some(time.us);
        time.us
    }

    fn expect_same_server(&mut self, record: &LogRecord) -> Result<()> {
        if record.server.is_empty() {
            return Ok(());
        }
        match &self.server {
            None => self.server = Some(record.server.to_vec()),
            Some(first) if first == record.server => {}
            Some(first) => bail!(
                "`{}`, line {} is of the server `{}`, the lines before of `{}`: give the log of one server",
                self.file,
                record.line,
                String::from_utf8_lossy(record.server),
                String::from_utf8_lossy(first)
            ),
        }
        Ok(())
    }
}

/// The message about a session that goes on after a later one of the same process.
fn out_of_order(file: &str, record: &LogRecord, pid: u32) -> String {
    format!(
        "`{file}`, line {}: a session of process {pid} goes on after a later session of the same process has begun: \
         the files are of two servers, or not in the order of their times",
        record.line
    )
}

/// Takes what a message of level LOG says.
fn take(output: &mut Output, state: &mut SessionState, record: &LogRecord, said: Said, now_us: i64) {
    match said {
        Said::Duration(us) => output.duration(state, us, record, now_us),
        Said::Statement { text, duration_us } => output.simple(state, text, duration_us, record, now_us),
        Said::Step { step: Step::Parse, name, duration_us, .. } => {
            output.parse(state, name, duration_us.unwrap_or(0));
        }
        Said::Step { step: Step::Bind, name, text, duration_us } => {
            output.bind(state, name, text, duration_us.unwrap_or(0), record);
        }
        Said::Step { step, name, text, duration_us } => {
            let step = output::ExecuteStep { name, text, duration_us, is_fetch: step == Step::Fetch };
            output.execute(state, &step, record, now_us);
        }
        Said::Received | Said::Authorized | Said::Disconnected => {
            state.connected(&record.message, said, now_us);
            output.reading.counts.connections += 1;
        }
        Said::FastPath => output.reading.skip(SkipReason::FastPath, 0),
        Said::Plan => output.reading.skip(SkipReason::ExplainedPlan, 0),
        Said::Audit => output.reading.skip(SkipReason::Audit, 0),
        Said::Replication => output.reading.skip(SkipReason::Replication, 0),
        Said::OtherLanguage => output.reading.skip(SkipReason::OtherLanguage, 0),
        Said::Other => output.reading.skip(SkipReason::OtherMessage, 0),
    }
}
