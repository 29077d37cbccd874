//! Estimates how long an experiment takes on a machine: its combinations of levels, with the seconds of each.

use std::collections::{BTreeMap, BTreeSet};

use model::experiment::repeat::repeats_max;
use model::experiment::target::TargetSection;
use model::experiment::{Experiment, RunSection};
use model::load::course::RampUp;
use model::text::units::{PgVersion, Scale, Span};

use super::{Limits, dataset_of, scale_units};
use crate::forecast::outlook::{START_S, around_load_s};
use crate::plan::design::{self, Combine};
use crate::plan::expand;
use crate::site::estimates::counted_s;

/// Bytes per second for loading, indexing and taking a snapshot, on the machine of [`super::Speed`].
const LOADED_BYTES_PER_S: f64 = 40e6;
/// Seconds to initialize a cluster there and start it for the first time.
const FIRST_S: f64 = 6.0;
/// Seconds to fetch the binaries of a version, 10 to 20 MB, at 10 Mbit/s, and to unpack them.
const FETCH_S: f64 = 20.0;

/// Bytes of data that the machine loads per second.
pub(super) fn loaded_bytes_per_s(limits: &Limits) -> f64 {
    LOADED_BYTES_PER_S * limits.speed.whole()
}

/// Seconds for the whole experiment, including fetching binaries and loading data.
pub(super) fn estimated_s(experiment: &Experiment, limits: &Limits) -> f64 {
    let cases = cases(experiment);
    let distinct = |keys: &[&str]| -> BTreeSet<Vec<String>> {
        let text = |case: &Sketch, key: &str| match key {
            "target" => place_of(experiment, case.text(key)),
            key => case.text(key).to_string(),
        };
        cases.iter().map(|case| keys.iter().map(|key| text(case, key)).collect()).collect()
    };
    let unit = dataset_of(experiment).estimated_bytes(1).max(1) as f64;
    let most_clients = most_clients(experiment);
    let bytes =
        |scale: &str| scale_units(scale.parse().unwrap_or(Scale::Fit), unit, most_clients, limits) * unit;
    let prepare = &experiment.prepare;
    let reads_all = prepare.restore.all().contains(&true) || prepare.prewarm.all().contains(&true);
    let run_s = |case: &Sketch| {
        let around_s = around_load_s(bytes(case.text("workload.scale")), reads_all) + START_S;
        case.load_s(&experiment.run, limits) + around_s / limits.speed.whole()
    };
    let runs_s: f64 = cases.iter().map(run_s).sum();
    let loaded: f64 = distinct(&[&SERVER[..], &DATA].concat())
        .iter()
        .filter_map(|stage| stage.last())
        .map(|scale| bytes(scale))
        .sum();
    let n_servers = distinct(&SERVER).len() as f64;
    // Builds from source are kept, and not part of the budget (`builds.rs`).
    let is_built =
        |version: &PgVersion| experiment.server.source.is_some() || version.last_before_binaries().is_some();
    let is_missing = |server: &&Vec<String>| {
        // A version of a series that is present need not be the requested one, but usually is.
        let version = server[1].parse::<PgVersion>();
        version.is_ok_and(|v| !is_built(&v) && !limits.fetched.contains(&v.series()))
    };
    let n_fetched = distinct(&SERVER).iter().filter(is_missing).count() as f64;
    let first_s = n_servers * FIRST_S / limits.speed.whole() + n_fetched * FETCH_S;
    let n_runs = cases.len() * experiment.experiment.repeats as usize;
    let n_again = repeats_max(n_runs, experiment.run.repeat_disturbed);
    let again = 1.0 + n_again as f64 / n_runs.max(1) as f64;
    let for_profiles = if experiment.run.perf { 1.0 } else { 0.0 };
    let of_each_case = f64::from(experiment.experiment.repeats) * again + for_profiles;
    runs_s * of_each_case + loaded / loaded_bytes_per_s(limits) + first_s
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
    let places: BTreeSet<String> =
        experiment.target.iter().map(|target| place_of(experiment, &target.name)).collect();
    versions * dirs * checksums * places.len().max(1)
}

/// What distinguishes the data of a target: its server by URL, or the directory of its clusters, the cache by default.
fn place_of(experiment: &Experiment, name: &str) -> String {
    let target = experiment.target.iter().find(|target| target.name == name);
    let directory = |target: &TargetSection| target.directory.as_ref().map(|dir| dir.display().to_string());
    target.and_then(|target| target.url.clone().or_else(|| directory(target))).unwrap_or_default()
}

/// Keys that distinguish servers with data of their own.
const SERVER: [&str; 6] = [
    "target",
    "server.version",
    "server.bin_dir",
    "server.revision",
    "server.wal_directory",
    "server.data_checksums",
];
/// Keys that distinguish data on one server; the scale comes last.
const DATA: [&str; 3] = ["workload.kind", "workload.partitions", "workload.scale"];

/// The level of each key of one combination.
struct Sketch(BTreeMap<String, String>);

/// The combinations, including those that `zip` and `exclude` would remove if they named existing levels.
fn cases(experiment: &Experiment) -> Vec<Sketch> {
    let header = &experiment.experiment;
    let dimensions = expand::dimensions(experiment);
    let combine = |zip, exclude| Combine { design: header.design, zip, exclude }.combinations(&dimensions);
    let combinations = combine(&header.zip, &header.exclude).or_else(|_| combine(&[], &[]));
    let levels = |combination| Sketch(design::levels_of(&dimensions, combination));
    combinations.iter().flatten().map(levels).collect()
}

impl Sketch {
    /// The level of a key; empty if it has none.
    fn text(&self, key: &str) -> &str {
        self.0.get(key).map_or("", String::as_str)
    }

    /// Upper limit for the seconds of load.
    fn load_s(&self, run: &RunSection, limits: &Limits) -> f64 {
        let seconds = |key: &str| self.text(key).parse().map_or(0.0, |span: Span| span.ms as f64 / 1000.0);
        let number = |key: &str| self.text(key).parse::<f64>().ok();
        match number("workload.transactions") {
            None => self.ramp_up_s(run) + seconds("run.measure") + run.extend.ms as f64 / 1000.0,
            Some(n) => {
                let n_clients = number("workload.clients").unwrap_or(1.0);
                counted_s(self.text("workload.kind"), n, n_clients, limits.n_cpus) / limits.speed.whole()
            }
        }
    }

    fn ramp_up_s(&self, run: &RunSection) -> f64 {
        let ramp_up = self.text("run.ramp_up").parse().unwrap_or(RampUp::For(Span::from_s(0)));
        let measure = self.text("run.measure").parse().unwrap_or(Span::from_s(0));
        run.ramp_up_longest(ramp_up, measure).ms as f64 / 1000.0
    }
}
