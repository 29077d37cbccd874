//! Scales an experiment to a machine and a time budget: data, clients and memory first, then levels, then durations. Its figures keep
//! the levels that they need, in their order; spare time goes back into levels, and what is left then into durations. Every change is
//! reported, and what is left of each figure.
//!
//! Pure except for two questions: which operating system settings this machine refuses, and what it lacks. The limits are our conventions,
//! so that a large study yields a recognisable small one.

mod changes;
mod data;
mod estimate;
mod figures;
mod left;
mod lengths;
mod memory;
mod places;
mod share;
mod speed;
mod system;
#[cfg(test)]
mod tests;
mod together;

use model::experiment::case::Think;
use model::experiment::keys::levels::Levels;
use model::experiment::{Experiment, RunSection};
use model::load::Pace;
use model::text::units::{SettingValue, Span};

use self::estimate::estimated;
use self::figures::Needs;
use self::left::NotHere;
pub use self::left::{FigureRow, FigureState};
use self::lengths::LENGTHS;
pub use self::places::placeholders;
use self::places::{Lacks, bring_here};
use self::share::{Axis, Share};
pub use self::speed::MachineSpeed;
pub use crate::forecast::commit::CommitRoom;
use crate::forecast::fit::changes::{LevelsBefore, MachineReasons};
use crate::forecast::outlook::{self, Outlook};
use crate::forecast::present::Present;
use crate::plan::expand::Versions;
use crate::stage::os::OsRefusal;

/// The machine, and the time budget.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Processors.
    pub n_cpus: u32,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// What the kernel lets programs reserve; none if it does not say.
    pub commit: Option<CommitRoom>,
    /// Free bytes where clusters are stored.
    pub free_bytes: u64,
    /// Free bytes where the WAL is, if the experiment gives it a directory: the least of several.
    pub wal_free_bytes: Option<u64>,
    /// The budget, seconds.
    pub budget_s: f64,
    /// How fast the machine is.
    pub speed: MachineSpeed,
    /// Data that need not be loaded.
    pub present: Present,
    /// What versions mean on this machine: an installed one is not fetched.
    pub versions: Versions,
    /// Version series (`9.6`, `18`) whose binaries were fetched before; others have to be.
    pub here: Vec<String>,
}

/// One change: `workload.scale: 3x RAM -> 93`, and why.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FitChange {
    pub key: String,
    pub from: String,
    pub to: String,
    pub why: String,
}

/// More clients than this per processor only queue, so they come back after everything else. Where each target has its own number of
/// clients, they do not come back.
const CLIENTS_PER_CPU: u32 = 32;
/// A number of clients that does not vary is an operating point chosen for a larger machine: here, this many keep the
/// processors as busy. More of them hold snapshots so long that frequently updated rows pile up dead versions; because
/// of that, TPROC-C at 32 clients per processor fell to a tenth of its throughput (bench/RESULTS.md).
const CLIENTS_PER_CPU_FIXED: u32 = 4;
/// All clients together may need one part in so many of the memory.
const CLIENTS_MEMORY_SHARE: u64 = 4;
/// Levels beyond what the figures need come back if a machine with this share of the speed had the time for them. This machine then has
/// time for longer runs; when it is busy, it shortens the runs and keeps the levels. Our convention.
const SPEED_FOR_LEVELS: f64 = 0.7;
/// The same for runs that end after a number of transactions: nothing but more levels can use the time of those. Our convention.
const SPEED_FOR_FIXED_RUNS: f64 = 0.9;
/// Share of the budget to plan with, once binaries are here: machines are not always as fast.
const PLANNED_SHARE: f64 = 0.9;

/// What became of an experiment that was fitted.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// Changes, with their reasons.
    pub changes: Vec<FitChange>,
    /// The table of its figures.
    pub figures: Vec<FigureRow>,
    /// How long it takes, as everything else that announces it says; none if it contradicts itself, which planning will report.
    pub outlook: Option<Outlook>,
    /// Seconds to fetch binaries before.
    pub fetch_s: f64,
    /// Blocks beyond those that have the time for sure: they are made while there is time.
    pub spare_blocks: u32,
}

/// Changes `experiment` until it fits.
pub fn fit(experiment: &mut Experiment, limits: &Limits) -> Fitted {
    let asked = experiment.clone();
    let mut changes = bring_here(experiment, &Lacks::look(experiment));
    let refused = system::refused_here(experiment);
    let has_urls = system::has_urls(experiment);
    // What another machine gives is not known here.
    let lacking = |metric: &str| if has_urls { None } else { observe::host::lacking(metric) };
    let not_here = NotHere::new(experiment, &lacking, &refused);
    not_here.remove(experiment);
    changes.extend(fit_without(experiment, limits, &refused));
    let spare_blocks = asked.experiment.repeats.saturating_sub(experiment.experiment.repeats);
    let figures = left::table(&asked, experiment, &not_here, limits.n_cpus);
    let plan = estimate::planned(experiment, limits);
    let outlook = plan.as_ref().map(|plan| estimate::outlook(plan, limits));
    let fetch_s = plan.map_or(0.0, |plan| estimate::fetch_s(&plan, limits));
    experiment.experiment.repeats = asked.experiment.repeats;
    Fitted { changes, figures, outlook, fetch_s, spare_blocks }
}

/// As [`fit`], without the operating system settings that are refused.
fn fit_without(experiment: &mut Experiment, limits: &Limits, refused: &[OsRefusal]) -> Vec<FitChange> {
    let mut changes = system::drop_refused(experiment, refused);
    changes.extend(memory::keep_to_reserve(experiment, limits.commit.as_ref(), limits.memory_bytes));
    let before = LevelsBefore::new(experiment);
    let measured = experiment.run.measure.all().iter().copied().max();
    let mut reasons = MachineReasons::new(experiment);
    let scale = experiment.workload.scale.clone();
    reasons.of_scale = fit_machine(experiment, limits);
    // What is kept is the budget's and the machine's size's: a slow machine shortens runs, and drops no figure, and data that is here
    // lengthens them. A machine that has been quick keeps more. Binaries are fetched once, so that their time may come out of the reserve.
    let known = limits.speed.relative();
    let at = |speed: f64| Limits {
        speed: MachineSpeed::new(speed),
        present: Present::default(),
        ..limits.clone()
    };
    let for_figures = at((SPEED_FOR_LEVELS * known).max(1.0));
    let fits = |part: &Experiment, limits: &Limits| {
        let needed = estimated(part, limits);
        needed.fetched_s <= limits.budget_s * PLANNED_SHARE && needed.total_s() <= limits.budget_s
    };
    if reasons.of_scale.is_some() {
        let is_there_time = |larger: &Experiment| fits(larger, &for_figures);
        if let Some((larger, why)) = data::larger(experiment, &scale, limits, &is_there_time) {
            *experiment = larger;
            reasons.of_scale = Some(why);
        }
    }
    let on_machine = LevelsBefore::new(experiment);
    // Without figures, nobody knows which levels are the question, and repeats are the first that comes back.
    let is_all_asked = experiment.figure.is_empty();
    let has_lengths = experiment.workload.transactions.is_none();
    let reserve = if has_lengths { SPEED_FOR_LEVELS } else { SPEED_FOR_FIXED_RUNS };
    let for_levels = if is_all_asked { at(1.0) } else { at(reserve * known.max(1.0)) };
    let whole = experiment.clone();
    let (mut share, needs) = if fits(&whole, &for_figures) {
        (Share::whole(), Needs::default())
    } else {
        levels_that_fit(&whole, CLIENTS_PER_CPU * limits.n_cpus, &|part| fits(part, &for_figures), &|part| {
            fits(part, &for_levels)
        })
    };
    let lengths = (0..=LENGTHS.len()).rev().map(|length| Share { length, ..share.clone() });
    let mut longest_first = lengths.skip_while(|share| !fits(&share.part(&whole, &needs), limits));
    share = longest_first.next().unwrap_or(Share { length: 0, ..share });
    *experiment = share.part(&whole, &needs);
    lengthen(experiment, measured, &|longer| fits(longer, limits));
    let repeating = |repeat_disturbed: u32| Experiment {
        run: RunSection { repeat_disturbed, ..experiment.run.clone() },
        ..experiment.clone()
    };
    let mut most_first = (1..=whole.run.repeat_disturbed).rev().map(repeating);
    if let Some(repeating) = most_first.find(|repeating| fits(repeating, limits)) {
        *experiment = repeating;
    }
    changes.extend(before.changes(&on_machine, experiment, &reasons));
    changes.extend(crate::forecast::fit::changes::drop_selectors(experiment));
    figures::forget(experiment);
    changes
}

/// The most levels that fit in the shortest runs, with the needs of as many figures as fit: the first ones first. What has room beyond
/// that comes back, more than `clients_first` clients at the end.
fn levels_that_fit(
    whole: &Experiment,
    clients_first: u32,
    fits: &dyn Fn(&Experiment) -> bool,
    has_room: &dyn Fn(&Experiment) -> bool,
) -> (Share, Needs) {
    let figures = &whole.figure;
    let least = share::least(!figures.is_empty());
    let with = |n: usize, least| (Share::new(least, clients_first), Needs::new(&figures[..n], whole));
    // Fewer repeats come before fewer figures, and those before fewer levels of the first one.
    let of_figures = (1..=figures.len())
        .rev()
        .flat_map(|n| [least[0], least[1], share::WITHOUT_SPREAD].map(|least| (n, least)));
    let of_first = least.iter().map(|least| (figures.len().min(1), *least));
    let of_none = [(0, least[least.len() - 1])];
    let mut all = of_figures.chain(of_first).chain(of_none).map(|(n, least)| with(n, least));
    let fitting = all.find(|(share, needs)| fits(&share.part(whole, needs)));
    let Some((mut share, needs)) = fitting else { return with(0, least[least.len() - 1]) };
    let n_first = together::n_clients(whole, clients_first);
    let most = |axis: Axis| if axis == Axis::Clients { n_first } else { axis.of(whole) };
    share.grow(&Axis::ALL, &most, &|share| has_room(&share.part(whole, &needs)));
    share.grow(&[Axis::Clients], &|axis| axis.of(whole), &|share| has_room(&share.part(whole, &needs)));
    (share, needs)
}

/// Removes what exceeds the machine, whatever the time. Returns what bounds the data, if it is reduced.
fn fit_machine(experiment: &mut Experiment, limits: &Limits) -> Option<String> {
    let per_cpu = if has_fixed_clients(experiment) { CLIENTS_PER_CPU_FIXED } else { CLIENTS_PER_CPU };
    let busy_max = (per_cpu * limits.n_cpus).max(1);
    let bearable = limits.memory_bytes / CLIENTS_MEMORY_SHARE / outlook::CLIENT_BYTES;
    let bearable = u32::try_from(bearable).unwrap_or(u32::MAX).max(1);
    let is_one = experiment.workload.clients.all().len() == 1;
    let is_given = is_one || together::has_clients_of_targets(experiment);
    let clients_max = if is_given { busy_max } else { bearable };
    let needs = Needs::new(&experiment.figure, experiment);
    together::keep_clients(experiment, clients_max, needs.least(together::CLIENTS));
    let of_targets = experiment.target.iter().map(|target| target.driver.len());
    let n_drivers = of_targets.chain([experiment.driver.len(), 1]).max().unwrap_or(1) as u32;
    together::keep_threads(experiment, (clients_max / n_drivers).max(1));
    memory::fit(experiment, limits.memory_bytes);
    // A directory that is not here is left out before this.
    let wal_free_bytes = if experiment.server.wal_directory.is_some() { limits.wal_free_bytes } else { None };
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
    data::fit_scale(experiment, limits, data::TIME_SHARE)
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

/// Spends the rest of the budget on the measurement, which was shortened in large steps.
fn lengthen(experiment: &mut Experiment, measured: Option<Span>, fits: &dyn Fn(&Experiment) -> bool) {
    let (Some(measured), None) = (measured, &experiment.workload.transactions) else { return };
    // With several durations, no single one is the measurement.
    let &[length] = experiment.run.measure.all() else { return };
    let of = |more_s: u64| {
        let measure = Levels::one(Span { ms: length.ms + 1000 * more_s });
        Experiment { run: RunSection { measure, ..experiment.run.clone() }, ..experiment.clone() }
    };
    let (mut fitting, mut beyond) = (0, measured.ms.saturating_sub(length.ms) / 1000 + 1);
    while beyond - fitting > 1 {
        let middle = fitting + (beyond - fitting) / 2;
        if fits(&of(middle)) {
            fitting = middle;
        } else {
            beyond = middle;
        }
    }
    *experiment = of(fitting);
}

/// Keeps the levels for which `fits` returns true, or `else_one` if there is none.
fn keep<T: Clone>(levels: &mut Levels<T>, fits: impl Fn(&T) -> bool, else_one: T) {
    let kept: Vec<T> = levels.all().iter().filter(|level| fits(level)).cloned().collect();
    replace(levels, if kept.is_empty() { vec![else_one] } else { kept });
}

/// At most `n` levels with those that are wanted: the first, the last, and evenly between them.
fn thin<T: Clone>(levels: &mut Levels<T>, n: usize, is_wanted: impl Fn(&T) -> bool) {
    let all = levels.all();
    let kept = thinned_places(all, n, is_wanted).into_iter().map(|place| all[place].clone()).collect();
    replace(levels, kept);
}

/// The places of at most `n` levels; one that is wanted takes the place of its nearest neighbour.
fn thinned_places<T>(all: &[T], n: usize, is_wanted: impl Fn(&T) -> bool) -> Vec<usize> {
    let (n_all, wanted) = (all.len(), |place: usize| is_wanted(&all[place]));
    if n_all <= n {
        return (0..n_all).collect();
    }
    let at = |i: usize| if n == 1 { 0 } else { (i * (n_all - 1) + (n - 1) / 2) / (n - 1) };
    let mut places: Vec<usize> = (0..n).map(at).collect();
    for place in (0..n_all).filter(|&place| wanted(place)) {
        if places.contains(&place) {
            continue;
        }
        let ends = [0, n_all - 1];
        let others = (0..places.len()).filter(|&at| !wanted(places[at]));
        let nearest = others.min_by_key(|&at| (ends.contains(&places[at]), places[at].abs_diff(place)));
        if let Some(nearest) = nearest {
            places[nearest] = place;
        }
    }
    places.sort_unstable();
    places
}

fn replace<T>(levels: &mut Levels<T>, with: Vec<T>) {
    if let Some(replaced) = Levels::many(with) {
        *levels = replaced;
    }
}
