//! Drivers that wait at a NATS server to be called (`[agents]`, `--agents`).

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::experiment::driver::{DriverSpec, OWN_PROGRAM};

/// Which agents of a NATS server drive. They are chosen when the experiment begins, and become its drivers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentsSection {
    /// `tls://HOST:PORT`, or `nats://` for this machine, without secrets.
    #[serde(default)]
    pub nats: String,
    /// A file with the user's JWT and key, with a key alone, or with `USER:PASSWORD`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creds: Option<PathBuf>,
    /// Certificates of authorities to trust besides the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// Labels that a chosen agent has, all of them.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// How many, in order of their names; by default all that have the labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
}

impl AgentsSection {
    /// The driver that this agent is: our own program leads the pipe there.
    #[must_use]
    pub fn driver(&self, agent: &str) -> DriverSpec {
        let mut via = [OWN_PROGRAM, "dial", "--nats", &self.nats].map(str::to_string).to_vec();
        for (option, file) in [("--creds", &self.creds), ("--ca", &self.ca)] {
            via.extend(file.iter().flat_map(|file| [option.to_string(), file.display().to_string()]));
        }
        via.push(agent.to_string());
        DriverSpec { name: agent.to_string(), via, program: "pgdyno".to_string(), ..DriverSpec::default() }
    }
}

/// Whether a driver is an agent: one at a time may call it.
pub fn is_agent(driver: &DriverSpec) -> bool {
    matches!(driver.via.as_slice(), [program, command, ..] if program == OWN_PROGRAM && command == "dial")
}
