//! Options of agents: drivers that wait at a NATS server.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

/// The NATS server, and how to be let in.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct NatsArgs {
    /// The NATS server where agents wait: tls://HOST:PORT, or nats://HOST:PORT on this machine.
    #[arg(long, value_name = "URL", env = "PGDYNO_NATS")]
    pub(crate) nats: Option<String>,
    /// A file with the NATS user's JWT and key, with a key alone, or with USER:PASSWORD.
    #[arg(long = "nats-creds", visible_alias = "creds", value_name = "FILE", env = "PGDYNO_NATS_CREDS")]
    pub(crate) creds: Option<PathBuf>,
    /// Certificates of authorities that may have signed the NATS server's, besides the system's.
    #[arg(long = "nats-ca", visible_alias = "ca", value_name = "FILE", env = "PGDYNO_NATS_CA")]
    pub(crate) ca: Option<PathBuf>,
}

impl NatsArgs {
    /// The server, whose URL is checked when it is connected to.
    pub(crate) fn server(&self) -> relay::NatsServer {
        let NatsArgs { nats, creds, ca } = self.clone();
        relay::NatsServer { url: nats.unwrap_or_default(), creds, ca }
    }
}

/// Options of `agent`.
#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    #[command(flatten)]
    pub(crate) nats: NatsArgs,
    /// Name of this agent, unique at the server [default: the host's name].
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// What experiments choose this agent by. Repeatable.
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = relay::check_label)]
    pub(crate) labels: Vec<(String, String)>,
    /// Let loads that come by message do as this user what goes beyond loading: execute their scripts' shell commands, write logs of
    /// transactions, and log in at servers as this user by a unix socket or with a client certificate of this machine.
    #[arg(long)]
    pub(crate) allow_shell: bool,
}

/// Options of `drive` and `watch`.
#[derive(Debug, Args)]
pub(crate) struct FarArgs {
    /// Execute no shell command, write no file, and read no file that the order names, whatever the order says.
    #[arg(long = relay::LOAD_ONLY)]
    load_only: bool,
}

impl FarArgs {
    /// How far whoever sends the order is trusted.
    pub(crate) fn rights(&self) -> driver::SenderTrust {
        if self.load_only { driver::SenderTrust::LoadOnly } else { driver::SenderTrust::OfUser }
    }
}

/// Options of `agents`.
#[derive(Debug, Args)]
pub(crate) struct ListAgentsArgs {
    #[command(flatten)]
    pub(crate) nats: NatsArgs,
    /// Print as JSON, one object per line.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `dial`.
#[derive(Debug, Args)]
pub(crate) struct DialArgs {
    #[command(flatten)]
    pub(crate) nats: NatsArgs,
    /// The agent.
    #[arg(value_name = "AGENT")]
    pub(crate) agent: String,
    /// The program there, which the agent chooses itself.
    #[arg(value_name = "PROGRAM")]
    pub(crate) program: String,
    /// drive or watch.
    #[arg(value_name = "COMMAND", allow_hyphen_values = true, trailing_var_arg = true, required = true)]
    pub(crate) command: Vec<String>,
}

/// `az=a,disk=nvme*20`, or `all`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AgentsWanted {
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) count: Option<u32>,
    /// As typed.
    pub(crate) text: String,
}

impl FromStr for AgentsWanted {
    type Err = String;

    fn from_str(text: &str) -> Result<AgentsWanted, String> {
        let (labels, count) = match text.rsplit_once('*') {
            Some((labels, count)) => {
                let parsed = count.parse().ok().filter(|count| *count > 0);
                (labels, Some(parsed.ok_or_else(|| format!("`{count}` is no number of agents"))?))
            }
            None => (text, None),
        };
        let labels = match labels {
            "all" => BTreeMap::new(),
            labels => labels.split(',').map(relay::check_label).collect::<Result<_, _>>()?,
        };
        Ok(AgentsWanted { labels, count, text: text.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_are_chosen_by_labels_and_a_count() {
        let wanted: AgentsWanted = "az=a,disk=nvme*20".parse().unwrap();
        assert_eq!((wanted.labels["disk"].as_str(), wanted.count), ("nvme", Some(20)));
        let all: AgentsWanted = "all".parse().unwrap();
        assert!(all.labels.is_empty() && all.count.is_none());
        for bad in ["", "az", "az=a*0", "az=a*x", "*3"] {
            assert!(bad.parse::<AgentsWanted>().is_err(), "{bad}");
        }
    }
}
