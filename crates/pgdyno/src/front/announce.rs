//! Announces what will be done to a server by URL, and asks for confirmation if its database holds other objects.

use std::io::{IsTerminal, stderr, stdin};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result, bail, ensure};
use experiment::forecast::intent::{self, Intent, Leave};
use experiment::site::Risks;
use model::experiment::plan::Plan;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use server::alter_system::AllowedChange;
use server::database::template::Others;
use wire::Conninfo;

use crate::{say, signals};

/// Destructive steps that the user has agreed to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AgreedSteps<'a> {
    /// Whether to ask nothing.
    pub(crate) yes: bool,
    /// Tables and routines that pgdyno did not create may be dropped.
    pub(crate) replace: bool,
    /// Databases that may be replaced by copies of themselves.
    pub(crate) replace_databases: &'a [String],
    /// Effects of loading beyond the tables.
    pub(crate) risks: Risks,
    /// Which settings of servers by URL may be changed.
    pub(crate) allowed: AllowedChange<'a>,
    /// Servers by URL that the commands of an outage may harm.
    pub(crate) outages: &'a [String],
}

/// Prints one line about what will be done to each server by URL, and asks on a terminal if a database holds anything
/// that loading does not create.
///
/// # Errors
/// When the user does not agree, an option names no database of the plan, or a server cannot be reached.
pub(crate) fn announce(plan: &Plan, servers: &[Conninfo], consent: AgreedSteps) -> Result<()> {
    for name in consent.replace_databases {
        let known: Vec<&str> = servers.iter().map(|server| server.dbname.as_str()).collect();
        ensure!(
            known.contains(&name.as_str()),
            "--replace-database {name}: no server by URL in this experiment uses this database ({})",
            if known.is_empty() { "it has none".to_string() } else { known.join(", ") }
        );
    }
    expect_named(plan, consent.allowed)?;
    let intents = intents(plan, servers, consent)?;
    for Intent { line, others, changes, .. } in intents {
        say(&line);
        changes.iter().for_each(|line| say(line));
        if others.n > 0 && !consent.yes {
            ask(&format!("the database also holds {}; go on?", words(&others)))?;
        }
    }
    Ok(())
}

/// Fails if a setting is allowed by a name that no case asks for: it may be misspelled.
pub(crate) fn expect_named(plan: &Plan, allowed: AllowedChange) -> Result<()> {
    let AllowedChange::Changes(names) = allowed else { return Ok(()) };
    let is_asked = |name: &str| {
        let by_url = plan.cases.iter().filter(|case| !case.server.source.is_embedded());
        by_url.flat_map(|case| case.server.settings.keys()).any(|asked| asked.eq_ignore_ascii_case(name))
    };
    match names.iter().find(|name| !is_asked(name)) {
        Some(name) => bail!("--allow-setting {name}: no case changes this setting of a server by URL"),
        None => Ok(()),
    }
}

/// What will be done to each server by URL.
///
/// # Errors
/// When a server cannot be reached.
pub(crate) fn intents(plan: &Plan, servers: &[Conninfo], consent: AgreedSteps) -> Result<Vec<Intent>> {
    let leave = Leave { replace: consent.replace, databases: consent.replace_databases };
    intent::of_plan(plan, servers, leave, signals::stop_flag())
}

/// Asks `question` on a terminal; elsewhere the answer is yes.
///
/// # Errors
/// When the user does not agree.
pub(crate) fn ask(question: &str) -> Result<()> {
    if stdin().is_terminal() && stderr().is_terminal() {
        say(&format!("{question} [y/N]"));
        ensure!(is_agreed()?, "not started; use --yes to skip the question");
    }
    Ok(())
}

fn words(others: &Others) -> String {
    let named = others.first.join(", ");
    match others.n - others.first.len() {
        0 => named,
        n => format!("{named} and {n} more"),
    }
}

/// Milliseconds between two looks at the flag that a signal raises.
const LOOK_MS: u16 = 100;

/// Reads a line; Ctrl-C means no.
fn is_agreed() -> Result<bool> {
    let stdin = stdin();
    loop {
        if signals::stop_flag().load(Ordering::Relaxed) {
            bail!("stopped");
        }
        let mut waiting = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
        match poll(&mut waiting, PollTimeout::from(LOOK_MS)) {
            Ok(0) | Err(Errno::EINTR) => {}
            Ok(_) => break,
            Err(error) => return Err(error).context("cannot wait for an answer"),
        }
    }
    let mut answer = String::new();
    stdin.read_line(&mut answer).context("cannot read the answer")?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_things_are_named_and_the_others_counted() {
        let check = |n: usize, first: &[&str], expected: &str| {
            let first = first.iter().map(ToString::to_string).collect();
            assert_eq!(words(&Others { n, first }), expected);
        };
        check(1, &["table diary"], "table diary");
        check(5, &["table a", "view b", "schema c"], "table a, view b, schema c and 2 more");
    }
}
