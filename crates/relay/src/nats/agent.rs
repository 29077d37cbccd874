//! The end of a pipe on a machine that waits to be called.

use std::cell::Cell;
use std::process::Stdio;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use async_nats::{Client, Message};
use futures_util::StreamExt;
use nix::sys::signal::Signal;
use nix::unistd::setsid;
use serde::{Deserialize, Serialize};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::LocalSet;

use super::connect::{MESSAGES_WAITING, block_on, lift_memory};
use super::find::{Here, find_through};
use super::frame::{NumberCheck, Numbered, RelayMessage};
use super::pump::{End, Local, Over};
use super::subject;
use crate::{Agent, LOAD_ONLY, NatsServer, check_name};

/// How long a process may take to end once its input has: it cancels its statements first.
const END_TIMEOUT: Duration = Duration::from_secs(8);
/// Longest call, in bytes.
const CALL_BYTES_MAX: usize = 4096;

/// The request for a process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Call {
    pub(crate) session: String,
    pub(crate) command: String,
}

/// Waits for calls, one driver and one pair of eyes at a time, until SIGTERM, SIGINT or SIGHUP. Processes that were called
/// end with their callers, and with this agent. `log` gets a line for each thing that happens.
///
/// # Errors
/// If the server cannot be reached at the start, or another agent has the name. Later the agent connects again for
/// as long as it takes.
pub fn serve(
    server: &NatsServer,
    agent: Agent,
    log: impl Fn(&str) + Send + Sync + Clone + 'static,
) -> Result<()> {
    check_name(&agent.name).map_err(|reason| anyhow!(reason))?;
    block_on(async {
        let on_event = log.clone();
        let (refuse, refused) = watch::channel(None);
        let hear = move |event: String| {
            on_event(&event);
            // The server closes no connection for it, so an agent would wait in vain.
            if event.to_lowercase().contains("permissions violation") {
                refuse.send_replace(Some(event));
            }
        };
        let client = server.connect(&format!("pgdyno agent {}", agent.name), MESSAGES_WAITING, hear).await?;
        let local = LocalSet::new();
        local.run_until(wait_for_calls(client, Rc::new(agent), refused, log)).await?;
        // What was called ends by itself once it hears that we end.
        let _some_might_not_end = tokio::time::timeout(END_TIMEOUT + Duration::from_secs(1), local).await;
        Ok(())
    })
}

/// What is being driven or watched.
#[derive(Debug, Default)]
struct Slots {
    drive: Cell<bool>,
    watch: Cell<bool>,
}

impl Slots {
    /// The slot of a command, or why there is none.
    fn of(&self, command: &str) -> Result<&Cell<bool>, String> {
        match command {
            "drive" => Ok(&self.drive),
            "watch" => Ok(&self.watch),
            _ => Err(
                "an agent starts `drive` and `watch` of its own pgdyno only; nothing can be uploaded to it"
                    .into(),
            ),
        }
    }
}

async fn wait_for_calls(
    client: Client,
    agent: Rc<Agent>,
    mut refused: watch::Receiver<Option<String>>,
    log: impl Fn(&str) + Clone + 'static,
) -> Result<()> {
    let mut questions = client.subscribe(subject::FIND).await?;
    let mut calls = client.subscribe(subject::call(&agent.name)).await?;
    client.flush().await?;
    // Asked after subscribing: a twin that starts while this one waits for answers gets one from it.
    let twins = find_through(&client, &agent.name).await?;
    ensure!(twins.is_empty(), "there is an agent `{}` already; choose another name (--name)", agent.name);
    let (stop, stopping) = watch::channel(false);
    let slots = Rc::new(Slots::default());
    let mut signals = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()]
        .map(signal)
        .into_iter()
        .collect::<Result<Vec<_>, _>>()
        .context("cannot wait for signals")?;
    log(&format!("agent `{}` waits for calls", agent.name));
    let [terminate, interrupt, hangup] = &mut signals[..] else { unreachable!("three were asked for") };
    loop {
        tokio::select! {
            question = questions.next() => {
                let question = question.context("the connection has ended")?;
                announce(&client, &agent, &slots, &question).await?;
            }
            call = calls.next() => {
                let call = call.context("the connection has ended")?;
                let answering = answer(client.clone(), Rc::clone(&agent), Rc::clone(&slots), call, stopping.clone(), log.clone());
                tokio::task::spawn_local(answering);
            }
            reason = refused.wait_for(Option::is_some) => {
                let reason = reason.ok().and_then(|reason| reason.clone()).unwrap_or_default();
                bail!("the NATS server does not let this user be agent `{}`: {reason}", agent.name);
            }
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = hangup.recv() => break,
        }
    }
    log("stops");
    let _nobody_may_wait_for_it = stop.send(true);
    Ok(())
}

async fn announce(client: &Client, agent: &Agent, slots: &Slots, question: &Message) -> Result<()> {
    let id = std::str::from_utf8(&question.payload).unwrap_or_default();
    if subject::is_unique(id) {
        let here =
            Here { labels: agent.labels.clone(), build: agent.build.clone(), is_busy: slots.drive.get() };
        client.publish(subject::here(&agent.name, id), serde_json::to_vec(&here)?.into()).await?;
    }
    Ok(())
}

/// Answers a call, and stays with the process to its end.
async fn answer(
    client: Client,
    agent: Rc<Agent>,
    slots: Rc<Slots>,
    call: Message,
    stopping: watch::Receiver<bool>,
    log: impl Fn(&str),
) {
    let parsed = serde_json::from_slice::<Call>(&call.payload[..call.payload.len().min(CALL_BYTES_MAX)]);
    let Some(call) = parsed.ok().filter(|call| subject::is_unique(&call.session)) else {
        return log("a call that cannot be understood came: another build of pgdyno?");
    };
    let from = match client.subscribe(subject::input(&agent.name, &call.session)).await {
        Ok(from) => from,
        Err(error) => return log(&format!("cannot answer a call: {error}")),
    };
    let to = subject::output(&agent.name, &call.session);
    let mut end = End { client, to, from, numbered: Numbered::default(), expected: NumberCheck::default() };
    let slot = match slots.of(&call.command) {
        Ok(slot) if slot.replace(true) => return drop(end.send(&RelayMessage::Busy).await),
        Ok(slot) => slot,
        Err(reason) => return drop(end.send(&RelayMessage::Refused(reason)).await),
    };
    log(&format!("starts `pgdyno {}`", call.command));
    let ended = attend(&agent, &call, &mut end, stopping).await;
    slot.set(false);
    match ended {
        Ok(()) => log(&format!("`pgdyno {}` has ended", call.command)),
        Err(error) => log(&format!("`pgdyno {}` was ended: {error:#}", call.command)),
    }
}

/// Starts the process and carries its bytes.
async fn attend(
    agent: &Agent,
    call: &Call,
    end: &mut End,
    mut stopping: watch::Receiver<bool>,
) -> Result<()> {
    let mut child = match start(agent, &call.command) {
        Ok(child) => child,
        Err(error) => {
            end.send(&RelayMessage::Refused(format!("cannot start `{}`: {error}", agent.program.display())))
                .await?;
            return Err(error).context("cannot start it");
        }
    };
    end.send(&RelayMessage::Accepted).await?;
    let (Some(input), Some(output), Some(errors)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        unreachable!("all three were asked for as pipes");
    };
    let local = Local { input: output, errors, output: Some(input), errors_out: tokio::io::sink() };
    let pumped = tokio::select! {
        pumped = end.pump(local, Over::WhenReadToTheEnd) => pumped,
        _ = stopping.wait_for(|&stops| stops) => Err(anyhow!("the agent stops")),
    };
    if let Err(error) = &pumped {
        end.give_up(error).await;
    }
    // Its input has ended with the pump, so it stops by itself.
    if tokio::time::timeout(END_TIMEOUT, child.wait()).await.is_err() {
        child.kill().await.context("cannot kill it")?;
    }
    pumped
}

/// The process ends with this one, whatever happens.
fn start(agent: &Agent, command: &str) -> std::io::Result<Child> {
    let mut process = Command::new(&agent.program);
    process
        .arg(command)
        .args((!agent.may_execute).then(|| format!("--{LOAD_ONLY}")))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let in_child = || -> std::io::Result<()> {
        // No key of a terminal at which the agent was started stops or ends it.
        setsid()?;
        lift_memory()?;
        Ok(nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?)
    };
    // SAFETY: between fork and exec the closure makes four system calls and allocates nothing.
    unsafe { process.pre_exec(in_child) };
    process.spawn()
}
