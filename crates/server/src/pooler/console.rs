//! A running pgbouncer paused, led to another server and resumed over its console, as in a change of servers that clients only wait for.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use wire::session::Session;
use wire::{Conninfo, Host};

use super::OwnPooler;

/// How long a console may take for what waits for no client.
const CONSOLE_MAX: Duration = Duration::from_secs(5);

impl OwnPooler {
    /// Holds new transactions back, and waits until those that run have ended; at most `longest` for each process. Clients wait and
    /// see no error. Where it fails, nothing stays paused.
    ///
    /// # Errors
    /// When transactions go on for longer, or a console does not answer.
    pub fn pause(&self, longest: Duration) -> Result<()> {
        let paused = self.consoles.iter().try_for_each(|console| {
            let what = format!(
                "PAUSE, within {:.0} s: transactions that run may take longer",
                longest.as_secs_f64()
            );
            order(console, "pause", longest).context(what)
        });
        if paused.is_err() {
            // Some were not paused, which they say.
            self.consoles.iter().for_each(|console| drop(order(console, "resume", CONSOLE_MAX)));
        }
        paused
    }

    /// Lets transactions go on.
    ///
    /// # Errors
    /// When a console does not answer, or its process was not paused; the others go on all the same.
    pub fn resume(&self) -> Result<()> {
        let all: Vec<Result<()>> = self
            .consoles
            .iter()
            .map(|console| order(console, "resume", CONSOLE_MAX).context("RESUME"))
            .collect();
        all.into_iter().collect()
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

fn connect(console: &Conninfo, longest: Duration) -> Result<Session> {
    let mut session = Session::connect(console).context("connect to the console of the pooler")?;
    session.set_timeout(Some(longest));
    Ok(session)
}
