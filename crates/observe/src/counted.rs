//! What pg_stat_statements has counted so far, statement by statement, in one reading: for a source whose load is captured, and before and
//! after a load that replays it. Nothing is reset. What the server hides or does not count is unknown.

use anyhow::{Context, Result};
use model::run::fidelity::StatementFigures;
pub use model::run::fidelity::{OWN_COMMENT, TEXT_READ_MAX};
use wire::session::{Extension, Session};

use crate::server::statements::{NAME, StatExtension};

/// Statements that are read: the extension keeps 5,000 by default. Those with the most time come first.
pub const STATEMENTS_READ_MAX: usize = 20_000;

/// Reads the extension.
#[derive(Debug, Clone)]
pub struct StatementCounter {
    extension: StatExtension,
}

/// A reading.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StatementReading {
    /// The server's clock, microseconds since the Unix epoch.
    pub at_us: i64,
    /// Each statement of the database.
    pub statements: Vec<ReadStatement>,
    /// Calls of statements that the role cannot see.
    pub hidden_calls: u64,
    /// When all was reset last, as the server writes it; `None` if it does not say (before 14).
    pub reset: Option<String>,
    /// Times that statements were dropped for want of space; `None` if the server does not say (before 14).
    pub n_evictions: Option<u64>,
}

/// A statement.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadStatement {
    /// The server's identifier.
    pub id: String,
    /// Text, if it was asked for; at most [`TEXT_READ_MAX`] characters.
    pub text: Option<String>,
    /// Counted since the statement is known.
    pub figures: StatementFigures,
}

impl StatementCounter {
    /// Looks for the extension in the session's database.
    ///
    /// # Errors
    /// When the session fails. The inner error says in words why nothing can be read.
    pub fn find(session: &mut Session) -> Result<Result<StatementCounter, String>> {
        let found = session.extension(NAME).context("look for pg_stat_statements")?;
        if let Some(objection) = found.as_ref().and_then(|found| found.objection(NAME)) {
            return Ok(Err(objection));
        }
        let Some(Extension::Safe { schema, version }) = found else {
            return Ok(Err(format!(
                "the extension {NAME} is not in this database: add it to shared_preload_libraries, restart, and create extension {NAME}"
            )));
        };
        let Some(extension) = StatExtension::new(&schema, &version) else {
            return Ok(Err(format!("{NAME} has the unknown version `{version}`")));
        };
        let counter = StatementCounter { extension };
        match session.query(&counter.sql(false)) {
            Ok(_) => Ok(Ok(counter)),
            Err(wire::SessionError::Server(error)) if !error.is_fatal() => Ok(Err(error.message.to_string())),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads all statements of the session's database, with their texts if they are wanted: then the server reads a file of all texts.
    ///
    /// # Errors
    /// When the session fails.
    pub fn read(&self, session: &mut Session, has_texts: bool) -> Result<StatementReading> {
        let rows = session.query(&self.sql(has_texts)).context("read pg_stat_statements")?;
        let mut reading = StatementReading::default();
        for n in 0..rows.len() {
            let whole = |name: &str| rows.parse::<u64>(n, name);
            let figures = StatementFigures {
                calls: whole("calls").unwrap_or(0),
                time_us: rows.parse::<f64>(n, "time_us").filter(|us| us.is_finite()).unwrap_or(0.0).max(0.0),
                rows: whole("n_rows"),
                blocks: whole("blocks"),
                blocks_read: whole("blocks_read"),
                wal_records: whole("wal_records"),
                wal_bytes: whole("wal_bytes"),
            };
            match rows.get(n, "queryid") {
                Some(id) => reading.statements.push(ReadStatement {
                    id: id.to_string(),
                    text: if has_texts { rows.get(n, "query").map(str::to_string) } else { None },
                    figures,
                }),
                None => reading.hidden_calls += figures.calls,
            }
        }
        let info = session.query(&self.info_sql()).context("read pg_stat_statements_info")?;
        reading.at_us = info.parse(0, "at_us").context("the server does not say its time")?;
        reading.reset = info.get(0, "reset").map(str::to_string);
        reading.n_evictions = info.parse(0, "evictions");
        Ok(reading)
    }

    /// Statements within functions are part of those that call them.
    fn sql(&self, has_texts: bool) -> String {
        let StatExtension { schema, version } = &self.extension;
        let since =
            |minor: u32, column: &'static str| if *version >= (1, minor) { column } else { "null::bigint" };
        let executing = if *version >= (1, 8) { "total_exec_time" } else { "total_time" };
        let of_clients = if *version >= (1, 9) { " and s.toplevel" } else { "" };
        let text = if has_texts {
            format!("min(pg_catalog.left(s.query, {TEXT_READ_MAX}))")
        } else {
            "null".to_string()
        };
        format!(
            "{OWN_COMMENT} select s.queryid::text, {text} as query, sum(s.calls)::bigint as calls, sum(s.{executing}) * 1000 as time_us, \
             sum(s.rows)::bigint as n_rows, sum(s.shared_blks_hit + s.shared_blks_read)::bigint as blocks, \
             sum(s.shared_blks_read)::bigint as blocks_read, sum({})::bigint as wal_records, sum({})::bigint as wal_bytes \
             from {schema}.pg_stat_statements({has_texts}) s \
             where s.dbid = (select oid from pg_catalog.pg_database where datname = pg_catalog.current_database()){of_clients} \
             group by s.queryid order by time_us desc limit {STATEMENTS_READ_MAX}",
            since(8, "s.wal_records"),
            since(8, "s.wal_bytes"),
        )
    }

    fn info_sql(&self) -> String {
        let at = "(extract(epoch from pg_catalog.clock_timestamp()) * 1000000)::bigint as at_us";
        if self.extension.version >= (1, 9) {
            let schema = &self.extension.schema;
            format!(
                "{OWN_COMMENT} select {at}, stats_reset as reset, dealloc as evictions from {schema}.pg_stat_statements_info()"
            )
        } else {
            format!("{OWN_COMMENT} select {at}, null as reset, null as evictions")
        }
    }
}
