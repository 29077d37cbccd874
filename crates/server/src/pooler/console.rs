//! A running pgbouncer paused, led to another server and resumed over its console, as in a change of servers that clients only wait for.

use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Error, Result, ensure};
use wire::session::{Session, SessionError};
use wire::{Conninfo, Host};

use super::OwnPooler;

/// How long a console may take for what waits for no client.
const CONSOLE_MAX: Duration = Duration::from_secs(5);

impl OwnPooler {
    /// Holds new transactions back, and waits until those that run have ended; at most `longest` for each process. Clients wait and
    /// see no error. Where it fails, nothing stays paused, unless the error says so.
    ///
    /// # Errors
    /// When transactions go on for longer, or a console does not answer.
    pub fn pause(&self, longest: Duration) -> Result<()> {
        self.may_be_paused.store(true, Ordering::Relaxed);
        let paused = self.consoles.iter().try_for_each(|console| {
            let what = format!(
                "PAUSE, within {:.0} s: transactions that run may take longer",
                longest.as_secs_f64()
            );
            order(console, "pause", longest).context(what)
        });
        let Err(error) = paused else { return Ok(()) };
        match self.take_pause_back() {
            Ok(()) => Err(error),
            Err(second) => Err(error.context(format!("and the pooler may stay paused ({second:#})"))),
        }
    }

    /// Lets transactions go on where they are held back.
    ///
    /// # Errors
    /// When a console does not answer; the others go on all the same.
    pub(super) fn take_pause_back(&self) -> Result<()> {
        if !self.may_be_paused.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.resume_where(|error| !is_not_paused(error))
    }

    /// Lets transactions go on.
    ///
    /// # Errors
    /// When a console does not answer, or its process was not paused; the others go on all the same.
    pub fn resume(&self) -> Result<()> {
        self.resume_where(|_| true)
    }

    /// Orders each process to let transactions go on. Of errors, only some count.
    fn resume_where(&self, counts: impl Fn(&Error) -> bool) -> Result<()> {
        let resume = |console: &Conninfo| match order(console, "resume", CONSOLE_MAX) {
            Err(error) if counts(&error) => Err(error.context("RESUME")),
            _ => Ok(()),
        };
        let all: Vec<Result<()>> = self.consoles.iter().map(resume).collect();
        all.into_iter().collect::<Result<()>>()?;
        self.may_be_paused.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Leads to our server at `server` from now on: connections to the former one end with their transactions.
    ///
    /// # Errors
    /// When the configuration cannot be written, or a process does not lead there when it has read it.
    pub fn lead_to(&self, server: &Host) -> Result<()> {
        ensure!(!self.consoles.is_empty(), "the pooler has no console, and cannot be led to another server");
        self.configure(server)?;
        for console in &self.consoles {
            order(console, "reload", CONSOLE_MAX).context("RELOAD")?;
            self.expect_led(console, server)?;
        }
        Ok(())
    }

    /// Checks that the database of the load is at `server`.
    fn expect_led(&self, console: &Conninfo, server: &Host) -> Result<()> {
        let rows = connect(console, CONSOLE_MAX)?.query("show databases")?;
        let row = (0..rows.len()).find(|row| rows.get(*row, "name") == Some(&self.conninfo().dbname));
        let found = row.and_then(|row| rows.get(row, "host").zip(rows.get(row, "port")));
        let port = server.port.to_string();
        ensure!(
            found == Some((server.host.as_str(), port.as_str())),
            "the pooler has read its configuration again, and does not lead to the new server; does it name {{host}} and {{port}}?"
        );
        Ok(())
    }
}

fn order(console: &Conninfo, what: &str, longest: Duration) -> Result<()> {
    Ok(connect(console, longest)?.execute(what)?)
}

/// Whether a console refuses RESUME because nothing is paused there.
fn is_not_paused(error: &Error) -> bool {
    let of_console = error.downcast_ref::<SessionError>();
    matches!(of_console, Some(SessionError::Server(error)) if error.message.contains("not paused"))
}

fn connect(console: &Conninfo, longest: Duration) -> Result<Session> {
    let console = Conninfo { connect_timeout: longest, ..console.clone() };
    let mut session = Session::connect(&console).context("connect to the console of the pooler")?;
    session.set_timeout(Some(longest));
    Ok(session)
}
