//! Scales an experiment to a machine and a time budget: data, clients and memory first, then durations and levels, one
//! small step after the other until it fits. Every change is reported.
//!
//! Pure except for two questions: which operating system settings this machine refuses, and what it lacks. The limits are our conventions,
//! so that a large study yields a recognisable small one.

mod changes;
mod estimate;
mod places;
mod speed;
mod steps;
mod system;
#[cfg(test)]
mod tests;
mod together;

use model::experiment::Experiment;
use model::experiment::case::Think;
use model::experiment::levels::Levels;
use model::load::Pace;
use model::text::units::{Scale, SettingValue, Span};

use self::estimate::{estimated_s, loaded_bytes_per_s, most_clients, n_servers};
pub use self::places::placeholders;
use self::places::{Lacks, bring_here};
pub use self::speed::Speed;
use self::steps::STEPS;
use crate::forecast::fit::changes::LevelsBefore;
use crate::stage::os::Refusal;
use dataset::kind::Dataset;

/// The machine, and the time budget.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// Processors.
    pub n_cpus: u32,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Free bytes where clusters are stored.
    pub free_bytes: u64,
    /// Free bytes where the WAL is, if the experiment gives it a directory: the least of several.
    pub wal_free_bytes: Option<u64>,
    /// The budget, seconds.
    pub budget_s: f64,
    /// How fast the machine is.
    pub speed: Speed,
    /// Version series (`9.6`, `18`) whose binaries are here; others have to be fetched.
    pub fetched: Vec<String>,
}

/// One change: `workload.scale: 3x RAM -> 93`, and why.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub key: String,
    pub from: String,
    pub to: String,
    pub why: String,
}

/// More clients than this per processor only queue.
const CLIENTS_PER_CPU: u32 = 32;
/// A number of clients that does not vary is an operating point chosen for a larger machine: here, this many keep the
/// processors as busy. More of them hold snapshots so long that frequently updated rows pile up dead versions; because
/// of that, TPROC-C at 32 clients per processor fell to a tenth of its throughput (bench/RESULTS.md).
const CLIENTS_PER_CPU_FIXED: u32 = 4;
/// Share of the budget that loading data may take, over all datasets.
const LOADING_SHARE: f64 = 0.15;
/// Share of the budget to plan with: machines are not always as fast.
const PLANNED_SHARE: f64 = 0.9;

/// Changes `experiment` until it fits.
pub fn fit(experiment: &mut Experiment, limits: &Limits) -> Vec<Change> {
    let mut changes = bring_here(experiment, &Lacks::look(experiment));
    let refused = system::refused_here(experiment);
    changes.extend(fit_without(experiment, limits, &refused));
    changes
}

/// As [`fit`], without the operating system settings that are refused.
fn fit_without(experiment: &mut Experiment, limits: &Limits, refused: &[Refusal]) -> Vec<Change> {
    let mut changes = system::drop_refused(experiment, refused);
    let before = LevelsBefore::of(experiment);
    let measured = experiment.run.measure.all().iter().copied().max();
    fit_machine(experiment, limits);
    let whole = experiment.clone();
    for n_steps in 1..=STEPS.len() {
        if estimated_s(experiment, limits) <= limits.budget_s * PLANNED_SHARE {
            break;
        }
        *experiment = whole.clone();
        // The strongest first: levels are thinned once, from the original ones, and so stay evenly spaced.
        STEPS[..n_steps].iter().rev().for_each(|step| step.take(experiment));
    }
    lengthen(experiment, limits, measured);
    changes.extend(before.changes(experiment));
    changes.extend(crate::forecast::fit::changes::drop_selectors(experiment));
    changes
}

/// Removes what exceeds the machine, whatever the time.
fn fit_machine(experiment: &mut Experiment, limits: &Limits) {
    let per_cpu = if has_fixed_clients(experiment) { CLIENTS_PER_CPU_FIXED } else { CLIENTS_PER_CPU };
    let clients_max = (per_cpu * limits.n_cpus).max(1);
    together::keep_clients(experiment, |n| n <= clients_max, clients_max);
    let of_targets = experiment.target.iter().map(|target| target.driver.len());
    let n_drivers = of_targets.chain([experiment.driver.len(), 1]).max().unwrap_or(1) as u32;
    together::keep_threads(experiment, (clients_max / n_drivers).max(1));
    // A share already refers to this machine.
    for name in ["shared_buffers", "effective_cache_size"] {
        if let Some(levels) = experiment.server.settings.get_mut(name) {
            let fits = |value: &SettingValue| {
                let bytes = model::text::units::size_bytes(&value.0, 8 << 10);
                bytes.is_none_or(|bytes| bytes <= limits.memory_bytes / 4)
            };
            keep(levels, fits, SettingValue("25%".to_string()));
        }
    }
    // A directory that is not here is left out before this.
    let wal_free_bytes = limits.wal_free_bytes.filter(|_| experiment.server.wal_directory.is_some());
    let room = wal_free_bytes.unwrap_or(limits.free_bytes) / 8;
    for (name, least) in [("max_wal_size", 1024), ("min_wal_size", 80)] {
        let Some(levels) = experiment.server.settings.get_mut(name) else { continue };
        let fits = |value: &SettingValue| {
            model::text::units::size_bytes(&value.0, 1 << 20).is_none_or(|bytes| bytes <= room)
        };
        keep(levels, fits, SettingValue(format!("{}MB", (room >> 20).min(8192).max(least))));
    }
    let headroom = experiment.prepare.wal_headroom.as_ref();
    if headroom.and_then(|text| model::text::units::size_bytes(text, 0)).is_some_and(|bytes| bytes > room) {
        experiment.prepare.wal_headroom = None;
    }
    fit_scale(experiment, limits);
}

/// Whether the number of clients is constant and all are always busy: if they wait between transactions, the number has
/// another meaning.
fn has_fixed_clients(experiment: &Experiment) -> bool {
    let workload = &experiment.workload;
    let thinks = workload.think.as_ref().is_some_and(|think| think.all().contains(&Think::Spec));
    workload.clients.all().len() == 1
        && !thinks
        && workload.pace.all().iter().all(|pace| *pace == Pace::Closed)
}

/// Reduces the data, every scale by the same factor, so that two sizes stay two sizes.
fn fit_scale(experiment: &mut Experiment, limits: &Limits) {
    let unit = dataset_of(experiment).estimated_bytes(1).max(1) as f64;
    let most_clients = most_clients(experiment);
    let units = |scale: &Scale| scale_units(*scale, unit, most_clients, limits);
    let asked: Vec<f64> = experiment.workload.scale.all().iter().map(units).collect();
    let n_servers = n_servers(experiment) as f64;
    let loadable = limits.budget_s * LOADING_SHARE * loaded_bytes_per_s(limits) / n_servers / unit;
    let storable = limits.free_bytes as f64 / 8.0 / n_servers / unit;
    let bearable = limits.memory_bytes as f64 / 8.0 / unit;
    let most = loadable.min(storable).min(bearable);
    let largest = asked.iter().copied().fold(0.0, f64::max);
    if asked.iter().sum::<f64>() <= most || experiment.workload.scale.all() == [Scale::Fit] {
        return;
    }
    let factor = (most / asked.iter().sum::<f64>()).min(1.0);
    let least = if asked.len() == 1 { f64::from(most_clients.min(10)) } else { 1.0 };
    let scaled = asked.iter().map(|n| Scale::Units((n * factor).floor().max(least).min(largest) as u32));
    let mut distinct: Vec<Scale> = Vec::new();
    for scale in scaled {
        if !distinct.contains(&scale) {
            distinct.push(scale);
        }
    }
    replace(&mut experiment.workload.scale, distinct);
}

/// The dataset of the first workload.
fn dataset_of(experiment: &Experiment) -> Dataset {
    Dataset::of_kind(experiment.workload.kind.all()[0]).unwrap_or_default()
}

/// Approximate scale units for a rule; `unit` is the size of one, bytes.
fn scale_units(scale: Scale, unit: f64, most_clients: u32, limits: &Limits) -> f64 {
    match scale {
        Scale::Units(units) => f64::from(units),
        Scale::TimesRam(times) => (times * limits.memory_bytes as f64 / unit).ceil(),
        Scale::Fit => f64::from(most_clients),
    }
}

/// Spends the rest of the budget on the measurement, which was shortened in large steps.
fn lengthen(experiment: &mut Experiment, limits: &Limits, measured: Option<Span>) {
    let (Some(measured), None) = (measured, &experiment.workload.transactions) else { return };
    loop {
        // With several durations, no single one is the measurement.
        let &[length] = experiment.run.measure.all() else { return };
        let longer = Span { ms: length.ms + 1000 };
        let mut tried = experiment.clone();
        tried.run.measure = Levels::one(longer);
        let fits = estimated_s(&tried, limits) <= limits.budget_s * PLANNED_SHARE;
        if longer > measured || !fits {
            return;
        }
        *experiment = tried;
    }
}

/// Keeps the levels for which `fits` returns true, or `else_one` if there is none.
fn keep<T: Clone>(levels: &mut Levels<T>, fits: impl Fn(&T) -> bool, else_one: T) {
    let kept: Vec<T> = levels.all().iter().filter(|level| fits(level)).cloned().collect();
    replace(levels, if kept.is_empty() { vec![else_one] } else { kept });
}

/// At most `n` levels: the first, the last, and evenly between them.
fn thin<T: Clone>(levels: &mut Levels<T>, n: usize) {
    let all = levels.all();
    let kept = thinned_places(all.len(), n).into_iter().map(|place| all[place].clone()).collect();
    replace(levels, kept);
}

/// The places of at most `n` of `n_all` levels.
fn thinned_places(n_all: usize, n: usize) -> Vec<usize> {
    if n_all <= n {
        return (0..n_all).collect();
    }
    let at = |i: usize| if n == 1 { 0 } else { (i * (n_all - 1) + (n - 1) / 2) / (n - 1) };
    (0..n).map(at).collect()
}

fn replace<T>(levels: &mut Levels<T>, with: Vec<T>) {
    if let Some(replaced) = Levels::many(with) {
        *levels = replaced;
    }
}
