//! The statements of a captured workload: what its directory says of the source, and what the server counts of the replay, before and after the
//! load.

use std::collections::HashMap;

use anyhow::{Context, Result};
use capture::statement::identity;
use capture::statistics::source::{self, SOURCE_FILE};
use model::experiment::case::Case;
use model::run::fidelity::{
    CountedStatement, ReplayRecord, StatementFigures, WorkloadFigures, may_be_cut_off,
};
use observe::counted::{OWN_COMMENT, StatementCounter, StatementReading};
use wire::session::Session;

/// The figures of a source, and the statements before the load.
pub(crate) struct Before {
    source: WorkloadFigures,
    counted: Result<(StatementCounter, StatementReading), String>,
}

impl Before {
    /// Reads what is counted so far; `None` for a workload without a source.
    ///
    /// # Errors
    /// When the directory's file cannot be read. A server that does not count is no error.
    pub(crate) fn read(case: &Case, session: &mut Session) -> Result<Option<Before>> {
        let directory = case.workload.directory.as_deref();
        let Some(text) = directory.and_then(|directory| directory.texts.get(SOURCE_FILE)) else {
            return Ok(None);
        };
        let source = source::parse(text).context("read the workload directory")?;
        let counted = count(session).unwrap_or_else(|error| Err(format!("{error:#}")));
        Ok(Some(Before { source, counted }))
    }

    /// The record, with what was counted since.
    pub(crate) fn since(self, session: Result<Session>) -> ReplayRecord {
        let Before { source, counted } = self;
        let after = counted.and_then(|(counter, before)| {
            let now = session.and_then(|mut session| counter.read(&mut session, true));
            now.map(|now| figures(&source, &before, &now)).map_err(|error| format!("{error:#}"))
        });
        match after {
            Ok(replay) => ReplayRecord { source, replay: Some(replay), uncounted: String::new() },
            Err(uncounted) => ReplayRecord { source, replay: None, uncounted },
        }
    }
}

fn count(session: &mut Session) -> Result<Result<(StatementCounter, StatementReading), String>> {
    Ok(match StatementCounter::find(session)? {
        Ok(counter) => {
            let reading = counter.read(session, false)?;
            Ok((counter, reading))
        }
        Err(why) => Err(why),
    })
}

/// What the source's statements did between two readings; others are a sum.
fn figures(source: &WorkloadFigures, before: &StatementReading, now: &StatementReading) -> WorkloadFigures {
    let earlier: HashMap<&str, &StatementFigures> =
        before.statements.iter().map(|one| (one.id.as_str(), &one.figures)).collect();
    let mut found = WorkloadFigures {
        length_s: (now.at_us - before.at_us).max(0) as f64 / 1e6,
        ..WorkloadFigures::default()
    };
    for one in &now.statements {
        let since = earlier.get(one.id.as_str()).and_then(|before| one.figures.since(before));
        let figures = since.unwrap_or(one.figures);
        let text = one.text.as_deref().unwrap_or_default();
        if figures.calls == 0 || text.starts_with(OWN_COMMENT) {
            continue;
        }
        let id = format!("{:016x}", identity(text));
        let is_known = source.statements.contains_key(&id) && !may_be_cut_off(text);
        if is_known {
            // The source has its text.
            found.add(id, CountedStatement { figures, ..CountedStatement::default() });
        } else {
            found.others.add(&figures);
        }
    }
    let hidden = now.hidden_calls.saturating_sub(before.hidden_calls);
    if hidden > 0 {
        let why = format!("{hidden} calls of statements that the role cannot see");
        found.unknown.insert("hidden statements".to_string(), why);
    }
    if now.reset != before.reset {
        found.unknown.insert("reset".to_string(), "pg_stat_statements was reset during the load".to_string());
    }
    found
}
