//! Logs read as `pgdyno capture log` reads them: shapes of all formats, messages put together, and real logs of pgbench.

mod detection;
mod languages;
mod messages;
mod pgbench;
mod shapes;

use std::io::Cursor;

use capture::log::{
    ExecutedStatement, LogFile, LogReading, LoggedSession, LoggedValue, ReadOptions, SessionId, StatementSink,
};

/// Everything that was pushed.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub(crate) statements: Vec<ExecutedStatement>,
    pub(crate) began: Vec<(SessionId, LoggedSession)>,
    pub(crate) ended: Vec<(SessionId, LoggedSession)>,
}

impl StatementSink for Collected {
    fn session_began(&mut self, id: SessionId, session: &LoggedSession) {
        self.began.push((id, session.clone()));
    }

    fn session_ended(&mut self, id: SessionId, session: &LoggedSession) {
        self.ended.push((id, session.clone()));
    }

    fn executed(&mut self, statement: ExecutedStatement) {
        self.statements.push(statement);
    }
}

impl Collected {
    pub(crate) fn texts(&self) -> Vec<&str> {
        self.statements.iter().map(|statement| statement.text.as_str()).collect()
    }
}

pub(crate) fn file(name: &str, bytes: impl Into<Vec<u8>>) -> LogFile {
    LogFile { name: name.to_string(), bytes: Box::new(Cursor::new(bytes.into())) }
}

/// Reads files; every record has to be accounted for.
pub(crate) fn read_files(
    files: Vec<LogFile>,
    options: &ReadOptions,
) -> Result<(Collected, LogReading), String> {
    let mut collected = Collected::default();
    let reading = capture::log::read(files, options, &mut collected).map_err(|error| format!("{error:#}"))?;
    assert_eq!(reading.records, reading.counts.sum() + reading.records_skipped(), "{reading:?}");
    assert_eq!(reading.statements, collected.statements.len() as u64);
    assert_eq!(u64::from(reading.sessions), collected.began.len() as u64);
    assert_eq!(collected.began.len(), collected.ended.len());
    Ok((collected, reading))
}

pub(crate) fn try_read(text: impl Into<Vec<u8>>) -> Result<(Collected, LogReading), String> {
    read_files(vec![file("a.log", text)], &ReadOptions::default())
}

#[track_caller]
pub(crate) fn read(text: impl Into<Vec<u8>>) -> (Collected, LogReading) {
    try_read(text).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn text(value: &str) -> LoggedValue {
    LoggedValue::Text(value.to_string())
}
