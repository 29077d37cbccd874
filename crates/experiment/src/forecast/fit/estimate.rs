//! Estimates how long an experiment takes on a machine: that of its plan, with what precedes the first run.

use std::collections::BTreeSet;

use model::experiment::Experiment;
use model::experiment::case::ServerSource;
use model::experiment::plan::Plan;
use model::experiment::target::TargetSection;

use super::{Limits, changes};
use crate::forecast::outlook::Outlook;
use crate::plan::expand::{self, Resources};

/// Seconds to fetch the binaries of a version, 10 to 20 MB, at 10 Mbit/s, and to unpack them.
const FETCH_S: f64 = 20.0;

/// Seconds for the whole experiment, including fetching binaries and loading data; 0 if it contradicts itself, which planning will report.
/// Builds from source are kept, and not part of it (`builds.rs`).
pub(super) fn estimated_s(experiment: &Experiment, limits: &Limits) -> f64 {
    let Some(plan) = planned(experiment, limits) else { return 0.0 };
    let outlook = Outlook::at_speed(&plan, limits.memory_bytes, limits.speed);
    outlook.planned_s() + outlook.repeats_s + fetch_s(&plan, limits)
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
        .filter(|series| !limits.fetched.contains(series))
        .collect();
    missing.len() as f64 * FETCH_S
}

/// The plan of an experiment as it is now; `None` if it contradicts itself.
pub(super) fn planned(experiment: &Experiment, limits: &Limits) -> Option<Plan> {
    let mut sound = experiment.clone();
    changes::drop_selectors(&mut sound);
    // They were checked, and some of their levels may be gone.
    sound.figure.clear();
    let site = Resources {
        memory_bytes: Some(limits.memory_bytes),
        n_cpus: limits.n_cpus,
        ..Resources::unseen(&sound)
    };
    expand::plan(&sound, &site).ok()
}

/// The largest number of clients.
pub(super) fn most_clients(experiment: &Experiment) -> u32 {
    experiment.workload.clients.all().iter().copied().max().unwrap_or(1)
}

/// Number of servers with data of their own: each is loaded.
pub(super) fn n_servers(experiment: &Experiment) -> usize {
    let server = &experiment.server;
    let versions = server.version.as_ref().map_or(1, |levels| levels.all().len());
    let dirs = server.bin_dir.as_ref().map_or(1, |levels| levels.all().len());
    let checksums = server.data_checksums.as_ref().map_or(1, |levels| levels.all().len());
    let places: BTreeSet<String> = experiment.target.iter().map(place_of).collect();
    versions * dirs * checksums * places.len().max(1)
}

/// What distinguishes the data of a target: its server by URL, or the directory of its clusters, the cache by default.
fn place_of(target: &TargetSection) -> String {
    let directory = || target.directory.as_ref().map(|dir| dir.display().to_string());
    target.url.clone().or_else(directory).unwrap_or_default()
}
