//! The end of a pipe where the experiment is conducted.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};

use super::agent::Call;
use super::connect::{LastEvent, MESSAGES_WAITING, block_on};
use super::frame::{NumberCheck, Numbered, RelayMessage};
use super::pump::{End, Local, Over, SILENCE};
use super::subject;
use crate::{NatsServer, check_name};

/// How long an agent that drives for somebody else is asked again: one whose caller was killed notices within seconds.
const BUSY_TIMEOUT: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_secs(1);

/// Connects this process's standard input and output with `pgdyno COMMAND` (`drive` or `watch`) at an agent until that has
/// ended. What it writes to standard error comes to ours.
///
/// # Errors
/// If the server or the agent cannot be reached, refuses, is silent, or a message is lost.
pub fn dial(server: &NatsServer, agent: &str, command: &str) -> Result<()> {
    check_name(agent).map_err(|reason| anyhow!(reason))?;
    block_on(async {
        let events = LastEvent::default();
        let kept = events.clone();
        let client = server.connect("pgdyno dial", MESSAGES_WAITING, move |event| kept.keep(event)).await?;
        let mut end = call(&client, agent, command).await?;
        let local = Local {
            input: tokio::io::stdin(),
            errors: tokio::io::empty(),
            output: Some(tokio::io::stdout()),
            errors_out: tokio::io::stderr(),
        };
        let pumped = end.pump(local, Over::WhenWrittenToTheEnd).await;
        if let Err(error) = &pumped {
            end.give_up(error).await;
        }
        pumped.with_context(|| format!("the pipe to agent `{agent}` broke{}", events.words()))
    })
}

/// Asks an agent to start a process, again if it is busy.
async fn call(client: &async_nats::Client, agent: &str, command: &str) -> Result<End> {
    let begun = Instant::now();
    loop {
        let session = subject::unique()?;
        let from = client.subscribe(subject::output(agent, &session)).await?;
        let call = serde_json::to_vec(&Call { session: session.clone(), command: command.to_string() })?;
        client.publish(subject::call(agent), call.into()).await?;
        client.flush().await?;
        let to = subject::input(agent, &session);
        let (numbered, expected) = (Numbered::default(), NumberCheck::default());
        let mut end = End { client: client.clone(), to, from, numbered, expected };
        match end.next(SILENCE).await.with_context(|| format!("agent `{agent}`"))? {
            Some(RelayMessage::Accepted) => return Ok(end),
            Some(RelayMessage::Busy) => {
                ensure!(begun.elapsed() < BUSY_TIMEOUT, "agent `{agent}` works for another pgdyno");
                tokio::time::sleep(PAUSE).await;
            }
            Some(RelayMessage::Refused(reason)) => bail!("agent `{agent}` refuses: {reason}"),
            Some(_) => bail!("agent `{agent}` did not say whether it accepts"),
            None => bail!(
                "agent `{agent}` has not answered within {} s; `pgdyno agents` lists those that do",
                SILENCE.as_secs()
            ),
        }
    }
}
