//! What the figures of an experiment need, and what is left of them.

use std::collections::{BTreeMap, BTreeSet};

use model::experiment::Experiment;
use model::experiment::plan::figure::{FigureSection, Need};
use model::experiment::selector::{Selector, is_level, names};
use model::experiment::target::{LABEL, TargetSection};

use crate::plan::design::Dimension;
use crate::plan::expand;
use crate::plan::expand::figures::REPEATS;

/// Clients per processor at which throughput peaks at the latest. TPC-B-like transactions in memory peak at 6 to 10 of them with two
/// processors (docs/studies/m5-metal.md); our convention.
const PEAK_PER_CPU: u32 = 8;

/// What some figures need of an experiment.
#[derive(Debug, Clone, Default)]
pub(super) struct Needs {
    /// Levels by whole key; `repeats` too.
    least: BTreeMap<String, usize>,
    /// Levels at which figures are drawn, by whole key.
    at: Vec<(String, String)>,
    /// Labels of targets by figure: among those that are selected, so many values of each label.
    of_targets: Vec<(Selector, BTreeMap<String, usize>)>,
}

impl Needs {
    /// The needs of these figures of `experiment`.
    pub(super) fn new(figures: &[FigureSection], experiment: &Experiment) -> Needs {
        let dimensions = expand::dimensions(experiment);
        let mut needs = Needs::default();
        for figure in figures {
            let mut labels = BTreeMap::new();
            for (key, need) in &figure.needs {
                if let Some(dimension) = dimensions.iter().find(|dimension| names(key, &dimension.key)) {
                    let n = need.of(dimension.levels.len());
                    let known = needs.least.entry(dimension.key.clone()).or_default();
                    *known = n.max(*known);
                } else if key == REPEATS {
                    let known = needs.least.entry(REPEATS.to_string()).or_default();
                    *known = need.of(experiment.experiment.repeats as usize).max(*known);
                } else {
                    let n_all = values(&experiment.target, &figure.at, key).len();
                    labels.insert(key.clone(), need.of(n_all));
                }
            }
            if !labels.is_empty() {
                needs.of_targets.push((figure.at.clone(), labels));
            }
            for (key, wanted) in &figure.at.levels {
                let of_key = dimensions.iter().filter(|dimension| names(key, &dimension.key));
                let levels =
                    of_key.flat_map(|d| wanted.all().iter().map(|level| (d.key.clone(), level.0.clone())));
                needs.at.extend(levels);
            }
        }
        needs
    }

    /// The least number of levels of a whole key.
    pub(super) fn least(&self, key: &str) -> usize {
        self.least.get(key).copied().unwrap_or_default()
    }

    /// Whether a figure is drawn at this level.
    pub(super) fn wants(&self, key: &str, level: &str) -> bool {
        self.at.iter().any(|(of, wanted)| of == key && is_level(key, wanted, level))
    }

    /// Places of at least `n` targets that have what the figures need of their labels; `None` if none needs any.
    pub(super) fn targets(&self, all: &[TargetSection], n: usize) -> Option<Vec<usize>> {
        if self.of_targets.is_empty() {
            return None;
        }
        let given = Given::new(&self.of_targets, all);
        let n_met_by_all = given.n_met(&(0..all.len()).collect::<Vec<usize>>());
        let mut kept: Vec<usize> = Vec::new();
        loop {
            let left = (0..all.len()).filter(|place| !kept.contains(place));
            let worth = |place: usize| {
                let with: Vec<usize> = kept.iter().copied().chain([place]).collect();
                (given.n_met(&with), given.n_labels(&with))
            };
            // The first of equals.
            let best = left.rev().max_by_key(|&place| worth(place));
            let is_short = kept.len() < n || given.n_met(&kept) < n_met_by_all;
            let Some(best) = best.filter(|_| is_short) else {
                kept.sort_unstable();
                return Some(kept);
            };
            kept.push(best);
        }
    }
}

/// Labels of targets, looked up once: which targets are kept is asked for each of them many times.
struct Given {
    /// For each label that a figure needs: its value in each target that the figure selects, and how many values it needs.
    needed: Vec<(Vec<Option<String>>, usize)>,
    /// All labels of each target.
    labels: Vec<Vec<(String, String)>>,
}

impl Given {
    fn new(of_targets: &[(Selector, BTreeMap<String, usize>)], all: &[TargetSection]) -> Given {
        let of_figure = |(at, labels): &(Selector, BTreeMap<String, usize>)| -> Vec<_> {
            let of_label =
                |label: &String| all.iter().map(|target| value(target, at, label)).collect::<Vec<_>>();
            labels.iter().map(|(label, need)| (of_label(label), *need)).collect()
        };
        let labels = all.iter().map(|target| target.all_labels().into_iter().collect());
        Given { needed: of_targets.iter().flat_map(of_figure).collect(), labels: labels.collect() }
    }

    /// How many of the needed values the targets at these places have, over all figures.
    fn n_met(&self, places: &[usize]) -> usize {
        let n_values = |values: &[Option<String>]| {
            places.iter().filter_map(|&at| values[at].as_ref()).collect::<BTreeSet<_>>().len()
        };
        self.needed.iter().map(|(values, need)| n_values(values).min(*need)).sum()
    }

    /// Different values of all labels, counted: the more, the less alike the targets are.
    fn n_labels(&self, places: &[usize]) -> usize {
        places.iter().flat_map(|&at| &self.labels[at]).collect::<BTreeSet<_>>().len()
    }
}

/// Values of a label among targets that are selected.
fn values(targets: &[TargetSection], at: &Selector, label: &str) -> BTreeSet<String> {
    targets.iter().filter_map(|target| value(target, at, label)).collect()
}

/// The value of a label of a target that is selected.
fn value(target: &TargetSection, at: &Selector, label: &str) -> Option<String> {
    let labels: BTreeMap<String, String> =
        target.all_labels().into_iter().map(|(name, value)| (format!("{LABEL}{name}"), value)).collect();
    // Keys that are no labels select cases, not targets.
    let is_selected = at.levels.iter().all(|(key, wanted)| {
        let mut of_key = labels.iter().filter(|(whole, _)| names(key, whole)).peekable();
        of_key.peek().is_none() || of_key.any(|(_, value)| wanted.all().iter().any(|level| level.0 == *value))
    });
    if !is_selected {
        return None;
    }
    labels.into_iter().find(|(whole, _)| names(label, whole)).map(|(_, value)| value)
}

/// State of a figure after `--fit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FigureState {
    /// It has all levels.
    Kept,
    /// It has fewer levels, but as many as it needs.
    Thinned,
    /// It lacks what it needs.
    Dropped,
}

impl FigureState {
    /// `kept`.
    pub fn word(self) -> &'static str {
        match self {
            FigureState::Kept => "kept",
            FigureState::Thinned => "thinned",
            FigureState::Dropped => "dropped",
        }
    }
}

/// A row of the table of figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FigureRow {
    /// Name of the figure.
    pub figure: String,
    /// State of the figure.
    pub fate: FigureState,
    /// `clients 4 of 7 (1, 16, 32, 64)`, for each key that it needs.
    pub left: Vec<String>,
}

/// Levels of one key of a figure, before and after.
struct Left {
    key: String,
    need: usize,
    before: usize,
    after: Vec<String>,
}

/// What is left of the figures of `before`.
pub(super) fn table(before: &Experiment, after: &Experiment, n_cpus: u32) -> Vec<FigureRow> {
    let sides = [before, after].map(|experiment| (experiment, expand::dimensions(experiment)));
    before.figure.iter().map(|figure| row(figure, &sides, n_cpus)).collect()
}

fn row(figure: &FigureSection, sides: &[(&Experiment, Vec<Dimension>); 2], n_cpus: u32) -> FigureRow {
    let levels = |(experiment, dimensions): &(&Experiment, Vec<Dimension>), key: &str| -> Vec<String> {
        match dimensions.iter().find(|dimension| names(key, &dimension.key)) {
            Some(dimension) => dimension.levels.clone(),
            None if key == REPEATS => (1..=experiment.experiment.repeats).map(|n| n.to_string()).collect(),
            None => values(&experiment.target, &figure.at, key).into_iter().collect(),
        }
    };
    let mut left: Vec<String> = Vec::new();
    let mut fate = FigureState::Kept;
    for (key, need) in &figure.needs {
        let (before, after) = (levels(&sides[0], key).len(), levels(&sides[1], key));
        let of_key = Left { key: key.clone(), need: need.of(before), before, after };
        let has_fallen = *need != Need::Curve || of_key.has_fall(n_cpus);
        fate = match of_key.after.len() {
            n if n < of_key.need => FigureState::Dropped,
            n if (n < before || !has_fallen) && fate == FigureState::Kept => FigureState::Thinned,
            _ => fate,
        };
        left.push(of_key.words(has_fallen));
    }
    let is_label = |key: &str| !values(&sides[0].0.target, &Selector::default(), key).is_empty();
    for (key, wanted) in figure.at.levels.iter().filter(|(key, _)| !is_label(key)) {
        let after = levels(&sides[1], key);
        let is_there = |level: &String| after.iter().any(|known| is_level(key, level, known));
        let gone = wanted.all().iter().map(|level| &level.0).filter(|level| !is_there(level));
        let gone: Vec<&str> = gone.map(String::as_str).collect();
        if !gone.is_empty() {
            fate = FigureState::Dropped;
            left.push(format!("without {key} {}", gone.join(", ")));
        }
    }
    FigureRow { figure: figure.name.clone(), fate, left }
}

impl Left {
    /// Whether the most clients are certainly beyond the peak.
    fn has_fall(&self, n_cpus: u32) -> bool {
        let most = self.after.iter().filter_map(|n| n.parse::<u32>().ok()).max();
        most.is_some_and(|most| most > PEAK_PER_CPU * n_cpus)
    }

    fn words(&self, has_fallen: bool) -> String {
        let Left { key, before, after, .. } = self;
        let listed = match after.len() {
            0 => String::new(),
            n if key == REPEATS || n > 8 => String::new(),
            _ => format!(" ({})", after.join(", ")),
        };
        let fall = if has_fallen { "" } else { ", none of them surely beyond the peak" };
        format!("{key} {} of {before}{listed}{fall}", after.len())
    }
}

/// Figures without what is gone: it would be refused as a mistake.
pub(super) fn forget(experiment: &mut Experiment) {
    let dimensions = expand::dimensions(experiment);
    let has_key = |key: &str, targets: &[TargetSection]| {
        key == REPEATS
            || dimensions.iter().any(|dimension| names(key, &dimension.key))
            || !values(targets, &Selector::default(), key).is_empty()
    };
    let targets = experiment.target.clone();
    let has_level = |key: &str, wanted: &str| {
        let levels = dimensions.iter().filter(|d| names(key, &d.key)).flat_map(|d| d.levels.iter());
        levels.into_iter().any(|level| is_level(key, wanted, level))
            || values(&targets, &Selector::default(), key).contains(wanted)
    };
    let whole = |figure: &FigureSection| {
        let needs = figure.needs.iter().filter(|(key, _)| has_key(key, &targets));
        let at = figure.at.reduced(has_level)?;
        Some(FigureSection {
            at,
            needs: needs.map(|(k, n)| (k.clone(), *n)).collect(),
            name: figure.name.clone(),
        })
    };
    experiment.figure = experiment.figure.iter().filter_map(whole).collect();
}
