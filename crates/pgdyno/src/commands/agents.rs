//! `pgdyno agent`, `pgdyno agents` and `pgdyno dial`: drivers that wait at a NATS server to be called.

use std::fmt::Write;

use anyhow::{Context, Result, anyhow};
use model::text::columns;
use relay::AnsweringAgent;

use crate::front::cli::agents::{AgentArgs, DialArgs, ListAgentsArgs};
use crate::{Exit, print, print_exact, say};

/// Waits for calls until a signal ends it.
pub(crate) fn agent(args: &AgentArgs) -> Result<Exit> {
    let name = args.name.clone().map_or_else(host_name, Ok)?;
    relay::check_name(&name).map_err(|reason| anyhow!("{reason}; say another one as --name"))?;
    let agent = relay::Agent {
        name,
        labels: args.labels.iter().cloned().collect(),
        program: std::env::current_exe().context("cannot find this program's own file")?,
        build: concat!("pgdyno ", env!("CARGO_PKG_VERSION")).to_string(),
        may_execute: args.allow_shell,
    };
    relay::serve(&args.nats.server(), agent, |line| say(&format!("pgdyno agent: {line}")))?;
    Ok(Exit::Done)
}

fn host_name() -> Result<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .context("cannot read the host's name; say --name")?;
    // A name may have no dots.
    Ok(name.trim().split('.').next().unwrap_or_default().to_string())
}

/// Lists the agents.
pub(crate) fn agents(args: &ListAgentsArgs) -> Result<Exit> {
    let found = relay::find(&args.nats.server())?;
    if args.json {
        let lines: Result<Vec<String>, _> = found.iter().map(serde_json::to_string).collect();
        print_exact(&lines?.into_iter().fold(String::new(), |text, line| text + &line + "\n"))?;
    } else if found.is_empty() {
        say("no agent answers; start some with `pgdyno agent`");
    } else {
        print(&table(&found))?;
    }
    Ok(Exit::Done)
}

fn table(found: &[AnsweringAgent]) -> String {
    let width = found.iter().map(|agent| agent.name.len()).max().unwrap_or(0).max(5);
    let mut text = format!("{}  state  build         labels\n", columns::left("agent", width));
    for agent in found {
        let state = match agent {
            AnsweringAgent { n: 2.., .. } => "twins",
            AnsweringAgent { is_busy: true, .. } => "busy",
            AnsweringAgent { .. } => "free",
        };
        let labels: Vec<String> = agent.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let (name, build, labels) = (&agent.name, &agent.build, labels.join(" "));
        let line = format!("{}  {state:5}  {build:12}  {labels}", columns::left(name, width));
        let _never_fails = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// Leads a pipe to an agent's process.
pub(crate) fn dial(args: &DialArgs) -> Result<Exit> {
    let command = args.command.first().map_or("", String::as_str);
    relay::dial(&args.nats.server(), &args.agent, command)?;
    Ok(Exit::Done)
}
