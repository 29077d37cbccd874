//! Lanes: targets of different hosts that are measured side by side (`run.parallel_targets`).

use core::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::experiment::case::Case;
use crate::experiment::plan::{Plan, RunSpec};

/// Targets whose servers are on one host: their runs are made one after the other, next to those of other lanes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lane {
    /// Names of the targets, in the order of their first cases.
    pub targets: Vec<String>,
    /// Addresses of their host; none if it is the machine of pgdyno.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<IpAddr>,
}

impl Lane {
    /// Its name for people: that of its targets.
    pub fn name(&self) -> String {
        self.targets.join("+")
    }

    /// Whether its servers are on the machine of pgdyno.
    pub fn is_here(&self) -> bool {
        self.addresses.is_empty()
    }

    /// Whether a case is one of its targets.
    pub fn has(&self, case: &Case) -> bool {
        case.server.target.as_ref().is_some_and(|target| self.targets.contains(&target.name))
    }
}

impl Plan {
    /// Whether runs of different lanes are made at the same time.
    pub fn is_side_by_side(&self) -> bool {
        self.lanes.len() > 1
    }

    /// The plan of one lane: its cases, and their runs in their order.
    #[must_use]
    pub fn of_lane(&self, lane: &Lane) -> Plan {
        let is_its = |spec: &&RunSpec| self.case(spec.case).is_some_and(|case| lane.has(case));
        let runs = self.runs.iter().filter(is_its).cloned().collect();
        let cases = self.cases.iter().filter(|case| lane.has(case)).cloned().collect();
        Plan { runs, cases, lanes: Vec::new(), ..self.clone() }
    }
}
