//! Scales an experiment to a machine and a time budget: data, clients and memory first, then lengths and levels, one small
//! step after the other until it fits. Everything that was changed is told.
//!
//! Pure but for one question: which values of the operating system this machine refuses. The limits are conventions of
//! ours, so that a large study gives a recognisable small one.

mod system;

use model::course::RampUp;
use model::experiment::{Experiment, RunSection};
use model::levels::Levels;
use model::selector::{Selector, names};
use model::units::{PgVersion, Scale, SettingValue, Span};

use crate::dataset::Dataset;
use crate::lengths::RAMP_UP_AUTO_S_MIN;
use crate::os::Refusal;
use crate::outlook::{AROUND_LOAD_S, START_S};

/// The machine, and how long the whole may take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Processors.
    pub n_cpus: u32,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Free bytes where clusters are kept.
    pub free_bytes: u64,
    /// The budget, seconds.
    pub budget_s: f64,
}

/// One thing that was changed: `workload.scale: 3x RAM -> 93`, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The key.
    pub key: String,
    /// What it was.
    pub from: String,
    /// What it is.
    pub to: String,
    /// Why.
    pub why: String,
}

/// Clients beyond this many for each processor only queue.
const CLIENTS_PER_CPU: u32 = 32;
/// Share of the budget that loading may take, over all sets of data.
const LOADING_SHARE: f64 = 0.15;
/// Bytes loaded, indexed and kept as a snapshot in a second.
const LOADED_BYTES_PER_S: f64 = 40e6;
/// Seconds of a run beside its load: restore, start, tend, stop.
const AROUND_S: f64 = AROUND_LOAD_S + START_S;
/// Seconds to fetch, initialize and start each version for the first time.
const FIRST_S: f64 = 6.0;
/// Committed transactions per second and processor, low: how long fixed numbers of transactions take at most.
const TPS_PER_CPU: f64 = 500.0;
/// Seconds of load of a run of fixed length that are never gone below.
const MEASURE_S_MIN: u32 = 5;
/// Part of the budget that is planned with: machines are not always as fast.
const PLANNED_SHARE: f64 = 0.9;

/// Changes `experiment` until it fits.
pub fn fit(experiment: &mut Experiment, limits: &Limits) -> Vec<Change> {
    let refused = system::refused_here(experiment);
    fit_without(experiment, limits, &refused)
}

/// The same where these values of the operating system cannot be had.
fn fit_without(experiment: &mut Experiment, limits: &Limits, refused: &[Refusal]) -> Vec<Change> {
    let mut changes = system::drop_refused(experiment, refused);
    let before = Snapshot::of(experiment);
    fit_machine(experiment, limits);
    let whole = experiment.clone();
    for n_steps in 1..=STEPS.len() {
        if estimated_s(experiment, limits) <= limits.budget_s * PLANNED_SHARE {
            break;
        }
        *experiment = whole.clone();
        // The strongest first: levels are thinned once, from what they were, and so stay evenly spaced.
        STEPS[..n_steps].iter().rev().for_each(|step| step.take(experiment));
    }
    lengthen(experiment, limits, &before);
    changes.extend(before.changes(experiment));
    changes.extend(drop_selectors(experiment));
    changes
}

fn selectors_dropped(key: &str) -> Change {
    Change {
        key: key.to_string(),
        from: "given".to_string(),
        to: "none".to_string(),
        why: "its levels were left out".to_string(),
    }
}

/// Takes out what selects a level that is gone: it would be refused as a mistake.
fn drop_selectors(experiment: &mut Experiment) -> Vec<Change> {
    let texts = Snapshot::of(experiment).texts;
    let is_gone = |selector: &Selector| {
        selector.levels.iter().any(|(key, levels)| {
            let known = texts.iter().find(|(whole, _)| names(key, whole));
            let is_there =
                |text: &str| levels.all().iter().any(|level| text.split(", ").any(|t| t == level.0));
            known.is_some_and(|(_, text)| !is_there(text))
        })
    };
    let header = &mut experiment.experiment;
    let mut changes = Vec::new();
    if header.baseline.as_ref().is_some_and(is_gone) {
        header.baseline = None;
        changes.push(selectors_dropped("experiment.baseline"));
    }
    let n_before = header.exclude.len();
    header.exclude.retain(|selector| !is_gone(selector));
    if header.exclude.len() < n_before {
        changes.push(selectors_dropped("experiment.exclude"));
    }
    changes
}

/// What the machine cannot hold, whatever the time.
fn fit_machine(experiment: &mut Experiment, limits: &Limits) {
    let clients_max = (CLIENTS_PER_CPU * limits.n_cpus).max(1);
    keep(&mut experiment.workload.clients, |n| *n <= clients_max, clients_max);
    // A share is of this machine already.
    for name in ["shared_buffers", "effective_cache_size"] {
        if let Some(levels) = experiment.server.settings.get_mut(name) {
            let fits = |value: &SettingValue| {
                let bytes = server::defaults::size_bytes(&value.0, 8 << 10);
                bytes.is_none_or(|bytes| bytes <= limits.memory_bytes / 4)
            };
            keep(levels, fits, SettingValue("25%".to_string()));
        }
    }
    let room = limits.free_bytes / 8;
    if let Some(levels) = experiment.server.settings.get_mut("max_wal_size") {
        let fits = |value: &SettingValue| {
            server::defaults::size_bytes(&value.0, 1 << 20).is_none_or(|bytes| bytes <= room)
        };
        keep(levels, fits, SettingValue(format!("{}MB", (room >> 20).clamp(1024, 8192))));
    }
    fit_scale(experiment, limits);
}

/// Less data, each scale by the same factor, so that two sizes stay two sizes.
fn fit_scale(experiment: &mut Experiment, limits: &Limits) {
    let kinds = experiment.workload.kind.all();
    let dataset = match kinds[0] {
        model::case::WorkloadKind::Tpcc => Dataset::Tpcc,
        model::case::WorkloadKind::TprocC => Dataset::TprocC,
        _ => Dataset::Tpcb,
    };
    let unit = dataset.estimated_bytes(1).max(1) as f64;
    let most_clients = experiment.workload.clients.all().iter().copied().max().unwrap_or(1);
    let units = |scale: &Scale| match scale {
        Scale::Units(units) => f64::from(*units),
        Scale::TimesRam(times) => (times * limits.memory_bytes as f64 / unit).ceil(),
        Scale::Fit => f64::from(most_clients),
    };
    let asked: Vec<f64> = experiment.workload.scale.all().iter().map(units).collect();
    let n_servers = n_servers(experiment) as f64;
    let loadable = limits.budget_s * LOADING_SHARE * LOADED_BYTES_PER_S / n_servers / unit;
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

/// How many servers with data of their own there are: each is loaded.
fn n_servers(experiment: &Experiment) -> usize {
    let server = &experiment.server;
    let versions = server.version.as_ref().map_or(1, |levels| levels.all().len());
    let dirs = server.bin_dir.as_ref().map_or(1, |levels| levels.all().len());
    versions * dirs * experiment.target.len().max(1)
}

/// One way to make an experiment shorter.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// No longer than this many seconds of ramp-up and measure.
    Length(u32, u32),
    /// No more levels of versions than this.
    Versions(usize),
    /// No more levels of clients than this.
    Clients(usize),
    /// No more levels of a setting than this.
    Settings(usize),
    /// No more levels of any other factor than this.
    Others(usize),
    /// No more transactions for each client than this.
    Transactions(u64),
    /// No more repeats than this.
    Repeats(u32),
}

/// In the order in which least is lost.
const STEPS: [Step; 22] = [
    Step::Length(30, 120),
    Step::Length(10, 60),
    Step::Versions(6),
    Step::Clients(6),
    Step::Length(5, 30),
    Step::Others(4),
    Step::Versions(4),
    Step::Clients(4),
    Step::Length(3, 15),
    Step::Others(3),
    Step::Length(2, 10),
    Step::Length(1, MEASURE_S_MIN),
    Step::Settings(1),
    Step::Clients(3),
    Step::Transactions(500),
    Step::Clients(2),
    Step::Others(2),
    Step::Repeats(3),
    Step::Transactions(100),
    Step::Versions(2),
    Step::Repeats(2),
    Step::Others(1),
];

impl Step {
    fn take(self, experiment: &mut Experiment) {
        let workload = &mut experiment.workload;
        match self {
            Step::Length(ramp_up_s, measure_s) => {
                let run = &mut experiment.run;
                if workload.transactions.is_none() {
                    shorten_ramp_up(run, Span::from_s(ramp_up_s.into()));
                    run.measure = run.measure.min(Span::from_s(measure_s.into()));
                }
            }
            Step::Versions(n) => {
                if let Some(levels) = &mut experiment.server.version {
                    thin(levels, n);
                }
            }
            Step::Clients(n) => thin(&mut workload.clients, n),
            Step::Settings(n) => {
                experiment.server.settings.values_mut().for_each(|levels| thin(levels, n));
            }
            Step::Others(n) => {
                thin(&mut workload.scale, n);
                thin(&mut workload.protocol, n);
                thin(&mut workload.pace, n);
                thin(&mut workload.partitions, n);
                system::thin(&mut experiment.os, n);
                if let Some(levels) = &mut workload.transactions {
                    thin(levels, n);
                }
            }
            Step::Transactions(n) => {
                if let Some(levels) = &mut workload.transactions {
                    keep(levels, |transactions| *transactions <= n, n);
                }
            }
            Step::Repeats(n) => experiment.experiment.repeats = experiment.experiment.repeats.min(n),
        }
    }
}

/// A ramp-up of a fixed length has at most `longest`; one that is found is waited for less long.
fn shorten_ramp_up(run: &mut RunSection, longest: Span) {
    match run.ramp_up {
        RampUp::For(span) => run.ramp_up = RampUp::For(span.min(longest)),
        RampUp::Auto => {
            run.ramp_up_max =
                Some(run.ramp_up_longest().min(longest.max(Span::from_s(RAMP_UP_AUTO_S_MIN.into()))))
        }
    }
}

/// Seconds that the experiment takes, loading included.
fn estimated_s(experiment: &Experiment, limits: &Limits) -> f64 {
    let workload = &experiment.workload;
    let n_others: usize = experiment.server.settings.values().map(|levels| levels.all().len()).product();
    let n_without_load = n_servers(experiment)
        * n_others
        * workload.scale.all().len()
        * workload.protocol.all().len()
        * workload.pace.all().len()
        * workload.partitions.all().len()
        * workload.kind.all().len()
        * experiment.os.levels().iter().map(|(_, levels)| levels.len()).product::<usize>();
    let n_runs = n_without_load as f64 * f64::from(experiment.experiment.repeats);
    let n_clients = workload.clients.all().len() as f64;
    let load_s = match &workload.transactions {
        None => {
            let n_cases = n_runs * n_clients;
            n_cases
                * (experiment.run.ramp_up_longest().ms + experiment.run.measure.ms + experiment.run.extend.ms)
                    as f64
                / 1000.0
        }
        Some(transactions) => {
            let all: u64 = transactions.all().iter().sum();
            let clients: u32 = workload.clients.all().iter().sum();
            n_runs * all as f64 * f64::from(clients) / (TPS_PER_CPU * f64::from(limits.n_cpus))
        }
    };
    let n_transactions = workload.transactions.as_ref().map_or(1, |levels| levels.all().len()) as f64;
    let loading_s = limits.budget_s * LOADING_SHARE + FIRST_S * n_servers(experiment) as f64;
    load_s + n_runs * n_clients * n_transactions * AROUND_S + loading_s
}

/// What is left of the budget goes to the measure, which was shortened in large steps.
fn lengthen(experiment: &mut Experiment, limits: &Limits, before: &Snapshot) {
    if experiment.workload.transactions.is_some() {
        return;
    }
    loop {
        let longer = Span { ms: experiment.run.measure.ms + 1000 };
        let mut tried = experiment.clone();
        tried.run.measure = longer;
        let fits = estimated_s(&tried, limits) <= limits.budget_s * PLANNED_SHARE;
        if longer > before.measure || !fits {
            return;
        }
        *experiment = tried;
    }
}

/// Keeps the levels that `fits` lets through, or `else_one` when there is none.
fn keep<T: Clone>(levels: &mut Levels<T>, fits: impl Fn(&T) -> bool, else_one: T) {
    let kept: Vec<T> = levels.all().iter().filter(|level| fits(level)).cloned().collect();
    replace(levels, if kept.is_empty() { vec![else_one] } else { kept });
}

/// At most `n` levels: the first, the last, and evenly between them.
fn thin<T: Clone>(levels: &mut Levels<T>, n: usize) {
    let all = levels.all();
    if all.len() <= n {
        return;
    }
    let at = |i: usize| if n == 1 { 0 } else { (i * (all.len() - 1) + (n - 1) / 2) / (n - 1) };
    let kept = (0..n).map(|i| all[at(i)].clone()).collect();
    replace(levels, kept);
}

fn replace<T>(levels: &mut Levels<T>, with: Vec<T>) {
    if let Some(replaced) = Levels::many(with) {
        *levels = replaced;
    }
}

/// What an experiment was before it was fitted, as text by key.
struct Snapshot {
    measure: Span,
    texts: Vec<(String, String)>,
}

impl Snapshot {
    fn of(experiment: &Experiment) -> Snapshot {
        fn text<T: ToString>(levels: &Levels<T>) -> String {
            levels.all().iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        }
        let workload = &experiment.workload;
        let protocols: Vec<&str> = workload.protocol.all().iter().map(|p| p.as_str()).collect();
        let mut texts = vec![
            ("experiment.repeats".to_string(), experiment.experiment.repeats.to_string()),
            (
                "server.version".to_string(),
                experiment.server.version.as_ref().map_or(String::new(), text::<PgVersion>),
            ),
            ("workload.scale".to_string(), text(&workload.scale)),
            ("workload.protocol".to_string(), protocols.join(", ")),
            ("workload.clients".to_string(), text(&workload.clients)),
            (
                "workload.transactions".to_string(),
                workload.transactions.as_ref().map_or(String::new(), text::<u64>),
            ),
            ("workload.pace".to_string(), text(&workload.pace)),
            ("workload.partitions".to_string(), text(&workload.partitions)),
            ("run.ramp_up".to_string(), experiment.run.ramp_up.to_string()),
            ("run.measure".to_string(), experiment.run.measure.to_string()),
        ];
        let settings = experiment.server.settings.iter();
        texts.extend(settings.map(|(name, levels)| (format!("server.settings.{name}"), text(levels))));
        let os = experiment.os.levels().into_iter();
        texts.extend(os.map(|(key, levels)| (format!("os.{key}"), levels.join(", "))));
        Snapshot { measure: experiment.run.measure, texts }
    }

    fn changes(&self, experiment: &Experiment) -> Vec<Change> {
        let after = Snapshot::of(experiment);
        let changed = self.texts.iter().zip(after.texts).filter(|((_, from), (_, to))| from != to);
        changed
            .map(|((key, from), (_, to))| Change {
                key: key.clone(),
                from: from.clone(),
                to,
                why: why(key).to_string(),
            })
            .collect()
    }
}

fn why(key: &str) -> &'static str {
    match key {
        "workload.clients" => "time, and at most 32 clients for each processor",
        "workload.scale" => {
            "time to load it, disk and memory; data that was to exceed memory may fit into it now"
        }
        "server.settings.shared_buffers" | "server.settings.effective_cache_size" => "memory of this machine",
        "server.settings.max_wal_size" => "free disk",
        _ => "time",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Limits = Limits { n_cpus: 2, memory_bytes: 24 << 30, free_bytes: 40 << 30, budget_s: 900.0 };

    fn study(name: &str) -> Experiment {
        let text = crate::builtin::text(name, 2).unwrap();
        crate::file::parse(name, &text, &[]).unwrap()
    }

    #[test]
    fn every_study_fits_a_quarter_of_an_hour_on_a_small_machine_and_stays_itself() {
        for name in ["versions", "iops", "clouds", "low-variation", "numa-hugepages"] {
            let mut experiment = study(name);
            let factors = |e: &Experiment| {
                let site =
                    crate::expand::Site { memory_bytes: Some(24 << 30), n_cpus: 2, ..Default::default() };
                crate::expand::plan(e, &site).unwrap().factors
            };
            let asked = factors(&experiment);
            let changes = fit_without(&mut experiment, &HERE, &[]);
            assert!(!changes.is_empty(), "{name}");
            assert!(estimated_s(&experiment, &HERE) <= 900.0, "{name}: {changes:#?}");
            // Each factor stays one, but for the setting in the study of versions, which has most of them.
            let kept: Vec<String> =
                asked.into_iter().filter(|key| !key.ends_with("wal_compression")).collect();
            assert_eq!(factors(&experiment), kept, "{name}: {changes:#?}");
            assert!(experiment.experiment.repeats >= 3, "{name}");
        }
    }

    #[test]
    fn on_one_numa_node_the_study_of_memory_is_one_of_huge_pages() {
        let mut experiment = study("numa-hugepages");
        let changes = fit_without(&mut experiment, &HERE, &system::one_node());
        let numa = Change {
            key: "os.numa".to_string(),
            from: "local, remote".to_string(),
            to: "as it is".to_string(),
            why: "this machine has one NUMA node".to_string(),
        };
        assert_eq!(changes[0], numa);
        let site = crate::expand::Site { memory_bytes: Some(24 << 30), n_cpus: 2, ..Default::default() };
        let plan = crate::expand::plan(&experiment, &site).unwrap();
        assert_eq!(
            (plan.factors, plan.cases.len(), plan.baseline),
            (vec!["os.huge_pages".to_string()], 2, 1)
        );
    }

    #[test]
    fn the_study_of_versions_keeps_its_ends_and_what_lies_between() {
        let mut experiment = study("versions");
        fit(&mut experiment, &HERE);
        let versions: Vec<String> =
            experiment.server.version.as_ref().unwrap().all().iter().map(ToString::to_string).collect();
        assert_eq!(versions, ["9.6", "12", "15", "18"]);
        let clients = experiment.workload.clients.all();
        assert_eq!((clients.first(), clients.last()), (Some(&1), Some(&64)));
        assert!(clients.len() >= 3, "{clients:?}");
    }

    #[test]
    fn what_fits_is_not_touched() {
        let text = "[experiment]\nname = \"x\"\n[workload]\nscale = 10\nclients = [1, 4]\n[run]\nmeasure = \"10s\"\n";
        let mut experiment = crate::file::parse("x", text, &[]).unwrap();
        assert_eq!(fit(&mut experiment, &HERE), []);
    }

    #[test]
    fn levels_are_thinned_evenly_with_both_ends() {
        let check = |n_levels: u32, n: usize, expected: &[u32]| {
            let mut levels = Levels::many((0..n_levels).collect()).unwrap();
            thin(&mut levels, n);
            assert_eq!(levels.all(), expected);
        };
        check(10, 4, &[0, 3, 6, 9]);
        check(10, 2, &[0, 9]);
        check(10, 1, &[0]);
        check(7, 3, &[0, 3, 6]);
        check(2, 4, &[0, 1]);
    }
}
