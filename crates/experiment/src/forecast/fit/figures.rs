//! What the figures of an experiment need of its levels, and of the labels of its targets. What is left of them: `left.rs`.

use std::collections::{BTreeMap, BTreeSet};

use model::experiment::Experiment;
use model::experiment::keys::levels::Levels;
use model::experiment::plan::figure::FigureSection;
use model::experiment::selector::{Selector, is_level, names};
use model::experiment::target::{LABEL, TargetSection};
use model::text::units::SettingValue;

use crate::plan::expand;
use crate::plan::expand::figures::REPEATS;

/// What some figures need of an experiment.
#[derive(Debug, Clone, Default)]
pub(super) struct Needs {
    /// Levels by whole key; `repeats` too.
    least: BTreeMap<String, usize>,
    /// Levels at which figures are drawn, by whole key.
    at: Vec<(String, String)>,
    /// Labels of targets: among those that are selected, so many values of a label.
    of_targets: Vec<(Selector, String, usize)>,
}

impl Needs {
    /// The needs of these figures of `experiment`.
    pub(super) fn new(figures: &[FigureSection], experiment: &Experiment) -> Needs {
        let dimensions = expand::dimensions(experiment);
        let mut needs = Needs::default();
        for figure in figures {
            for (key, need) in &figure.needs {
                if let Some(dimension) = dimensions.iter().find(|dimension| names(key, &dimension.key)) {
                    let n = need.of(dimension.levels.len());
                    let known = needs.least.entry(dimension.key.clone()).or_default();
                    *known = n.max(*known);
                } else if key == REPEATS {
                    let known = needs.least.entry(REPEATS.to_string()).or_default();
                    *known = need.of(experiment.experiment.repeats as usize).max(*known);
                } else {
                    let of_group = |(at, _): (Selector, String)| {
                        let n_all = values(&experiment.target, &at, key).len();
                        (at, key.clone(), need.of(n_all))
                    };
                    needs
                        .of_targets
                        .extend(groups(figure, key, &experiment.target).into_iter().map(of_group));
                }
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
    fn new(of_targets: &[(Selector, String, usize)], all: &[TargetSection]) -> Given {
        let needed = of_targets.iter().map(|(at, label, need)| {
            (all.iter().map(|target| value(target, at, label)).collect::<Vec<_>>(), *need)
        });
        let labels = all.iter().map(|target| target.all_labels().into_iter().collect());
        Given { needed: needed.collect(), labels: labels.collect() }
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

/// The targets among which values of `label` count for a figure, with the name of each group: all that are selected, or those with each
/// value of the labels within which it counts.
pub(super) fn groups(
    figure: &FigureSection,
    label: &str,
    targets: &[TargetSection],
) -> Vec<(Selector, String)> {
    let mut groups = vec![(figure.at.clone(), String::new())];
    if figure.within.iter().any(|key| key == label) {
        return groups;
    }
    for key in &figure.within {
        let with_each = |(at, name): (Selector, String)| {
            let named = |value: String| {
                let mut at = at.clone();
                at.levels.insert(key.clone(), Levels::one(SettingValue(value.clone())));
                (at, format!("{name} {value}").trim().to_string())
            };
            values(targets, &at, key).into_iter().map(named).collect::<Vec<_>>()
        };
        groups = groups.into_iter().flat_map(with_each).collect();
    }
    groups
}

/// Values of a label among targets that are selected.
pub(super) fn values(targets: &[TargetSection], at: &Selector, label: &str) -> BTreeSet<String> {
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
        let needs = needs.map(|(k, n)| (k.clone(), *n)).collect();
        Some(FigureSection { at, needs, ..figure.clone() })
    };
    experiment.figure = experiment.figure.iter().filter_map(whole).collect();
}
