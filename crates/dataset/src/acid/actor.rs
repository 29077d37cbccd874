//! One transaction of a test in its own session: it proceeds statement by statement, and stops where it is asked to.

use anyhow::{Context, Result, anyhow, ensure};
use wire::session::{Rows, Session, SessionError};
use workload::tpcc::{Trial, TrialStatement};

/// Limit for the statements of a transaction, with margin: a Delivery has up to six per district.
const STATEMENTS_MAX: usize = 200;
/// Attempts of a transaction that conflicts with others, as in the driver.
const TRIES_MAX: usize = 10;

pub(crate) struct Actor<'a> {
    session: &'a mut Session,
    trial: Trial,
    /// Produced by the transaction but not sent yet.
    next: Option<TrialStatement>,
    /// Statements sent, and their results.
    log: Vec<(TrialStatement, Rows)>,
}

impl<'a> Actor<'a> {
    pub(crate) fn new(session: &'a mut Session, trial: Trial) -> Actor<'a> {
        let mut actor = Actor { session, trial, next: None, log: Vec::new() };
        actor.trial.rewind();
        actor
    }

    /// Process id of its backend.
    pub(crate) fn backend_pid(&self) -> i32 {
        self.session.backend_pid()
    }

    /// Proceeds until a statement for which `is_it` returns true has been sent and answered.
    pub(crate) fn go_through(&mut self, is_it: impl Fn(&TrialStatement) -> bool) -> Result<()> {
        loop {
            let sent = self.send_next()?;
            ensure!(sent.is_some(), "the transaction has no such statement");
            if self.log.last().is_some_and(|(sent, _)| is_it(sent)) {
                return Ok(());
            }
        }
    }

    /// Proceeds until only COMMIT or ROLLBACK is left.
    pub(crate) fn go_to_end(&mut self) -> Result<()> {
        loop {
            self.fetch_next()?;
            match &self.next {
                Some(sent) if sent.is_end() => return Ok(()),
                Some(_) => self.send_next()?,
                None => return Err(anyhow!("the transaction has no end")),
            };
        }
    }

    /// Proceeds to the end that the transaction chooses.
    pub(crate) fn finish(&mut self) -> Result<()> {
        while self.send_next()?.is_some() {}
        Ok(())
    }

    /// As [`Actor::finish`]; starts over after a serialization failure or deadlock, as the driver does.
    pub(crate) fn finish_with_retries(&mut self) -> Result<usize> {
        for n_retries in 0..TRIES_MAX {
            match self.finish() {
                Err(error) if is_undone_for_others(&error) => {
                    self.session.execute("rollback")?;
                    self.trial.rewind();
                    self.next = None;
                    self.log.clear();
                }
                result => return result.map(|()| n_retries),
            }
        }
        Err(anyhow!("the transaction failed {TRIES_MAX} times because of concurrent ones"))
    }

    /// Ends with ROLLBACK, whatever the transaction would choose.
    pub(crate) fn roll_back(&mut self) -> Result<()> {
        self.next = None;
        Ok(self.session.execute("rollback")?)
    }

    /// Sends the last statement again; returns whether the rows are the same.
    pub(crate) fn repeats(&mut self) -> Result<bool> {
        let (sent, before) = self.log.last().context("nothing was sent")?;
        let again = send(self.session, sent)?;
        Ok(again.rows == before.rows)
    }

    /// Rows of the first statement with this beginning, with `@.` for the schema.
    pub(crate) fn rows(&self, beginning: &str) -> Result<&Rows> {
        let filled = self.trial.schema().fill(beginning);
        let found = self.log.iter().find(|(sent, _)| sent.sql.starts_with(&filled));
        found
            .map(|(_, rows)| rows)
            .with_context(|| format!("no statement that begins with `{beginning}` was sent"))
    }

    /// A number in the first row of the first statement with this beginning.
    pub(crate) fn number(&self, beginning: &str, column: usize) -> Result<i64> {
        let value = self.rows(beginning)?.rows.first().and_then(|row| row.get(column)?.as_deref());
        let value = value.with_context(|| format!("`{beginning}` has no such value"))?;
        value.parse().with_context(|| format!("`{beginning}` returned `{value}`, which is not a number"))
    }

    fn fetch_next(&mut self) -> Result<()> {
        ensure!(self.log.len() < STATEMENTS_MAX, "the transaction does not end");
        if self.next.is_none() {
            self.next = self.trial.statement().map_err(|what| anyhow!("the database lacks {what}"))?;
        }
        Ok(())
    }

    /// `None` if there was nothing left to send.
    fn send_next(&mut self) -> Result<Option<()>> {
        self.fetch_next()?;
        let Some(sent) = self.next.take() else { return Ok(None) };
        let rows = send(self.session, &sent)?;
        for row in &rows.rows {
            self.trial.take_row(row).map_err(|what| anyhow!("`{}` did not return {what}", sent.sql))?;
        }
        self.log.push((sent, rows));
        Ok(Some(()))
    }
}

fn send(session: &mut Session, sent: &TrialStatement) -> Result<Rows, SessionError> {
    let params: Vec<Option<&str>> = sent.params.iter().map(Option::as_deref).collect();
    session.query_params(&sent.sql, &params)
}

/// Serialization failure or deadlock.
fn is_undone_for_others(error: &anyhow::Error) -> bool {
    match error.downcast_ref::<SessionError>() {
        Some(SessionError::Server(error)) => error.is_retryable(),
        _ => false,
    }
}
