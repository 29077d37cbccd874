//! How much data fits: the least of what there is time to load and to read, and of what disk and memory take.

use model::experiment::Experiment;
use model::experiment::keys::levels::Levels;
use model::text::prose::{bytes, percent};
use model::text::units::Scale;
use model::workload::Dataset;

use super::estimate::{self, most_clients, n_loads};
use super::lengths::LENGTHS;
use super::{Limits, replace};
use crate::forecast::outlook;
use crate::plan::scripts::directories::chosen;

/// Data may take one part in so many of the free disk; with its copies and WAL it takes some three times as much.
const DISK_PARTS: f64 = 8.0;
/// Data may take one part in so many of the memory.
const MEMORY_PARTS: f64 = 8.0;
/// Share of the budget that loading data may take, over all datasets, and as much for restoring and reading more than little data, over all runs.
pub(super) const TIME_SHARE: f64 = 0.15;
/// Larger shares, for experiments of which nothing else has to be left out: a small part of what was asked for is less of an answer.
const LARGER_SHARES: [f64; 3] = [0.6, 0.45, 0.3];

/// Reduces the data, every scale by the same factor, so that two sizes stay two sizes. Returns what bounds it.
pub(super) fn fit_scale(experiment: &mut Experiment, limits: &Limits, time_share: f64) -> Option<String> {
    let unit = unit_bytes(experiment).max(1) as f64;
    let most_clients = most_clients(experiment);
    let units = |scale: &Scale| scale_units(*scale, unit, most_clients, limits);
    let asked: Vec<f64> = experiment.workload.scale.all().iter().map(units).collect();
    let all: f64 = asked.iter().sum();
    let DataBound { bytes: most_bytes, why } = data_bound(experiment, limits, time_share);
    let most = most_bytes / unit;
    if all <= most || experiment.workload.scale.all() == [Scale::Fit] {
        return None;
    }
    let factor = (most / all).min(1.0);
    let least = if asked.len() == 1 { f64::from(most_clients.min(10)) } else { 1.0 };
    let largest = asked.iter().copied().fold(0.0, f64::max);
    let scaled = asked.iter().map(|n| Scale::Units((n * factor).floor().max(least).min(largest) as u32));
    let mut distinct: Vec<Scale> = Vec::new();
    for scale in scaled {
        if !distinct.contains(&scale) {
            distinct.push(scale);
        }
    }
    replace(&mut experiment.workload.scale, distinct);
    let memory = limits.memory_bytes as f64;
    let beyond = if all * unit > memory && most_bytes < memory { "; it fits into memory now" } else { "" };
    Some(format!("asked for are {} of data; {why}{beyond}", bytes(all * unit)))
}

/// The experiment with the most data of `scale` for which there is time with all that it has, and what bounds it; none if the least share is all
/// that there is.
pub(super) fn larger(
    experiment: &Experiment,
    scale: &Levels<Scale>,
    limits: &Limits,
    fits: &dyn Fn(&Experiment) -> bool,
) -> Option<(Experiment, String)> {
    LARGER_SHARES.iter().find_map(|share| {
        let mut larger = experiment.clone();
        larger.workload.scale = scale.clone();
        let why = fit_scale(&mut larger, limits, *share)?;
        // Where disk or memory bounds it, more time gives no more.
        let is_larger = larger.workload.scale != experiment.workload.scale;
        (is_larger && fits(&larger)).then_some((larger, why))
    })
}

/// The most data of one kind that a machine and a time take, and what bounds it.
struct DataBound {
    bytes: f64,
    why: String,
}

/// The least of what there is time to load and to read, and of what disk and memory take.
fn data_bound(experiment: &Experiment, limits: &Limits, time_share: f64) -> DataBound {
    let n_loads = n_loads(experiment, limits);
    let times = if n_loads == 1 { String::new() } else { format!(" {n_loads} times") };
    let (free, memory) = (limits.free_bytes as f64, limits.memory_bytes as f64);
    let bound = |bytes: f64, why: String| DataBound { bytes, why };
    let all = [
        bound(
            limits.budget_s * time_share * outlook::LOADED_BYTES_PER_S / n_loads as f64,
            format!("loading it{times} may take {} of the time", percent(time_share)),
        ),
        bound(
            free / DISK_PARTS / n_loads as f64,
            format!(
                "storing it{times} may take an eighth of the {} that are free, and copies as much",
                bytes(free)
            ),
        ),
        bound(memory / MEMORY_PARTS, format!("it may take an eighth of the {} of memory", bytes(memory))),
        bound(
            bytes_read_between_runs(experiment, limits, time_share),
            format!("reading it before each run may take {} of the time", percent(time_share)),
        ),
    ];
    let [mut least, others @ ..] = all;
    for other in others {
        if other.bytes < least.bytes {
            least = other;
        }
    }
    least
}

/// Bytes of data that leave time for all levels, or for as many runs as the time has room for: a restore and prewarming read all of it
/// before each.
fn bytes_read_between_runs(experiment: &Experiment, limits: &Limits, time_share: f64) -> f64 {
    let prepare = &experiment.prepare;
    if !prepare.restore.all().contains(&true) && !prepare.prewarm.all().contains(&true) {
        return f64::INFINITY;
    }
    let n_all = estimate::planned(experiment, limits).map_or(1, |plan| plan.runs.len());
    let (ramp_up_s, measure_s) = LENGTHS[0];
    let shortest_s = f64::from(ramp_up_s + measure_s) + outlook::AROUND_LOAD_S + outlook::START_S;
    let n_runs = n_all.min((limits.budget_s / shortest_s) as usize);
    outlook::bytes_read_within(limits.budget_s * time_share, n_runs)
}

/// The size of a scale unit of the first workload.
fn unit_bytes(experiment: &Experiment) -> u64 {
    let name = &experiment.workload.kind.all()[0];
    match name.directory() {
        Some(directory) => chosen::unit_bytes(&experiment.workload, directory),
        None => Dataset::of_kind(name.kind()).unwrap_or_default().estimated_bytes(1),
    }
}

/// Approximate scale units for a rule; `unit` is the size of one, bytes.
fn scale_units(scale: Scale, unit: f64, most_clients: u32, limits: &Limits) -> f64 {
    match scale {
        Scale::Units(units) => f64::from(units),
        Scale::TimesRam(times) => (times * limits.memory_bytes as f64 / unit).ceil(),
        Scale::Fit => f64::from(most_clients),
    }
}
