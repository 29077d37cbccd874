//! Estimates how long an experiment takes on a machine: that of its plan, with what precedes the first run.

use std::collections::BTreeSet;

use model::experiment::Experiment;
use model::experiment::case::{Case, ServerSource};
use model::experiment::plan::Plan;
use model::experiment::target::TargetSection;

use super::{Limits, changes};
use crate::forecast::outlook::{Outlook, PlannedMachine};
use crate::plan::expand::{self, PlanResources};
use crate::site::keys::StageKey;

/// Seconds to fetch the binaries of a version, 10 to 20 MB, at 10 Mbit/s, and to unpack them.
const FETCH_S: f64 = 20.0;

/// Seconds that an experiment needs.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct NeededTime {
    /// To fetch binaries.
    pub(super) fetch_s: f64,
    /// For everything else, including loading data, once binaries are here.
    pub(super) fetched_s: f64,
}

impl NeededTime {
    /// Both.
    pub(super) fn total_s(self) -> f64 {
        self.fetch_s + self.fetched_s
    }
}

/// The time for the whole experiment; none if it contradicts itself, which planning will report. Builds from source are kept, and not part of
/// it (`builds.rs`).
pub(super) fn estimated(experiment: &Experiment, limits: &Limits) -> NeededTime {
    let Some(plan) = planned(experiment, limits) else { return NeededTime::default() };
    let outlook = outlook(&plan, limits);
    NeededTime { fetch_s: fetch_s(&plan, limits), fetched_s: outlook.planned_s() + outlook.repeats_s }
}

/// The outlook of a plan.
pub(super) fn outlook(plan: &Plan, limits: &Limits) -> Outlook {
    let Limits { memory_bytes, speed, present, .. } = limits;
    Outlook::on(plan, PlannedMachine { memory_bytes: *memory_bytes, speed: *speed, present })
}

/// Seconds to fetch the binaries that are missing.
pub(super) fn fetch_s(plan: &Plan, limits: &Limits) -> f64 {
    let missing: BTreeSet<String> = plan
        .cases
        .iter()
        .filter_map(|case| match &case.server.source {
            // A version of a series that is present need not be the requested one, but usually is.
            ServerSource::Version(version) => Some(version.series()),
            _ => None,
        })
        .filter(|series| !limits.here.contains(series))
        .collect();
    missing.len() as f64 * FETCH_S
}

/// The plan of an experiment as it is now; `None` if it contradicts itself.
pub(super) fn planned(experiment: &Experiment, limits: &Limits) -> Option<Plan> {
    let mut sound = experiment.clone();
    changes::drop_selectors(&mut sound);
    // They were checked, and some of their levels may be gone.
    sound.figure.clear();
    let site = PlanResources {
        memory_bytes: Some(limits.memory_bytes),
        n_cpus: limits.n_cpus,
        versions: limits.versions.clone(),
        ..PlanResources::unseen(&sound)
    };
    expand::plan(&sound, &site).ok()
}

/// The largest number of clients.
pub(super) fn most_clients(experiment: &Experiment) -> u32 {
    experiment.workload.clients.all().iter().copied().max().unwrap_or(1)
}

/// How many times data is made, apart from its size: for each server, and for each level of what decides what is stored.
pub(super) fn n_loads(experiment: &Experiment, limits: &Limits) -> usize {
    let Some(plan) = planned(experiment, limits) else { return 1 };
    let place = |case: &Case| {
        let name = &case.server.target.as_ref()?.name;
        experiment.target.iter().find(|target| target.name == *name).map(place_of)
    };
    let mut made: Vec<(Option<String>, StageKey)> = Vec::new();
    for case in &plan.cases {
        let mut of_one_size = case.clone();
        of_one_size.workload.scale = 1;
        let key = (place(case), StageKey::new(&of_one_size));
        if !made.contains(&key) {
            made.push(key);
        }
    }
    made.len().max(1)
}

/// What distinguishes the data of a target: its server by URL, or the directory of its clusters, the cache by default.
fn place_of(target: &TargetSection) -> String {
    let directory = || target.directory.as_ref().map(|dir| dir.display().to_string());
    target.url.clone().or_else(directory).unwrap_or_default()
}
