//! The experiment file: what to measure. A list makes its key a factor; unknown keys are errors.

pub mod agents;
pub mod case;
pub mod comparison;
pub mod driver;
pub mod hooks;
pub mod keys;
pub mod origin;
pub mod os;
pub mod plan;
pub mod prepare;
pub mod repeat;
pub mod script;
pub mod selector;
pub mod target;
pub mod topology;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::experiment::agents::AgentsSection;
use crate::experiment::driver::inventory::DriverSection;
use crate::experiment::hooks::HooksSection;
use crate::experiment::keys::levels::Levels;
use crate::experiment::os::OsSection;
use crate::experiment::os::limits::Limits;
use crate::experiment::plan::figure::FigureSection;
use crate::experiment::target::TargetSection;
use crate::experiment::topology::outage::Outages;
use crate::telemetry::import::Import;
use crate::text::units::SettingValue;
pub use keys::header::Header;
pub use keys::run::RunSection;
pub use keys::server::ServerSection;
pub use keys::workload::WorkloadSection;
pub use prepare::{Prepare, PrepareSection, RestoreBy, SpaceSpec};
pub use topology::pooler::PoolerSection;
pub use topology::{ArchiveSection, TopologySection};

/// An experiment file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Name, order, repeats.
    pub experiment: Header,
    /// The server under test.
    #[serde(default)]
    pub server: ServerSection,
    /// Servers in different places; a factor.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target: Vec<TargetSection>,
    /// Drivers on other machines; without any, one child process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub driver: Vec<DriverSection>,
    /// Drivers that wait at a NATS server: they become [`Experiment::driver`] when the experiment begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents: Option<AgentsSection>,
    /// The servers besides the primary.
    #[serde(default, skip_serializing_if = "TopologySection::is_default")]
    pub topology: TopologySection,
    /// What archives WAL while the load runs.
    #[serde(default, skip_serializing_if = "ArchiveSection::is_default")]
    pub archive: ArchiveSection,
    /// A pooler between the load and the server.
    #[serde(default, skip_serializing_if = "PoolerSection::is_default")]
    pub pooler: PoolerSection,
    /// Faults that are injected while the load runs; a factor.
    #[serde(default, skip_serializing_if = "Outages::is_empty")]
    pub outage: Outages,
    /// The load.
    #[serde(default)]
    pub workload: WorkloadSection,
    /// Durations of the phases.
    #[serde(default)]
    pub run: RunSection,
    /// Steps before each run.
    #[serde(default)]
    pub prepare: PrepareSection,
    /// What the server's devices and network are declared to give.
    #[serde(default, skip_serializing_if = "Limits::is_empty")]
    pub limits: Limits,
    /// Values of the operating system.
    #[serde(default, skip_serializing_if = "OsSection::is_empty")]
    pub os: OsSection,
    /// What pgdyno does not know, by name: only the user's hooks set it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub factors: BTreeMap<String, Levels<SettingValue>>,
    /// Commands before and after cases and runs.
    #[serde(default, skip_serializing_if = "HooksSection::is_empty")]
    pub hooks: HooksSection,
    /// Series that something else measures, which are taken into each run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub import: Vec<Import>,
    /// Figures of the study that the experiment repeats.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figure: Vec<FigureSection>,
}
