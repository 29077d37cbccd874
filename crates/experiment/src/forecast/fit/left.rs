//! What is left of the figures of an experiment that was fitted, and which of them this machine cannot give.

use std::collections::BTreeMap;

use model::experiment::Experiment;
use model::experiment::plan::figure::{FigureSection, Need};
use model::experiment::selector::{Selector, is_level, names};

use super::figures::{groups, values};
use crate::plan::design::Dimension;
use crate::plan::expand;
use crate::plan::expand::figures::REPEATS;
use crate::stage::os::OsRefusal;

/// Clients per processor at which throughput peaks at the latest. TPC-B-like transactions in memory peak at 6 to 10 of them with two
/// processors (docs/studies/m5-metal.md); our convention.
const PEAK_PER_CPU: u32 = 8;

/// State of a figure after `--fit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FigureState {
    /// It has all levels.
    Kept,
    /// It has fewer levels, but as many as it needs.
    Thinned,
    /// It lacks what it needs.
    Dropped,
    /// However long it took, this machine could not give it.
    NotHere,
}

impl FigureState {
    /// `kept`.
    pub fn word(self) -> &'static str {
        match self {
            FigureState::Kept => "kept",
            FigureState::Thinned => "thinned",
            FigureState::Dropped => "dropped",
            FigureState::NotHere => "not here",
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
    /// `clients 4 of 7 (1, 16, 32, 64)`, for each key that it needs; why it cannot be had here.
    pub left: Vec<String>,
}

/// Figures that this machine cannot give, by name, with the reason.
#[derive(Debug, Clone, Default)]
pub(super) struct NotHere(BTreeMap<String, String>);

impl NotHere {
    /// Those of `experiment` that need a reading that is `lacking`, or a value of the operating system that is `refused`.
    pub(super) fn new(
        experiment: &Experiment,
        lacking: &dyn Fn(&str) -> Option<String>,
        refused: &[OsRefusal],
    ) -> NotHere {
        let dimensions = expand::dimensions(experiment);
        let counters_off = || {
            let is_off = !experiment.run.counters.all().contains(&true);
            is_off.then(|| "run.counters is off".to_string())
        };
        let of_reading = |metric: &String| {
            lacking(metric).or_else(|| metric.starts_with("counters.").then(counters_off).flatten())
        };
        let of_need = |(key, need): (&String, &Need)| {
            let dimension = dimensions.iter().find(|dimension| names(key, &dimension.key))?;
            let refusal = |level: &String| {
                refused.iter().find(|refusal| refusal.key == dimension.key && refusal.level == *level)
            };
            let n_all = dimension.levels.len();
            let refusals: Vec<&OsRefusal> = dimension.levels.iter().filter_map(refusal).collect();
            let is_short = n_all - refusals.len() < need.of(n_all);
            if is_short { refusals.first().map(|refusal| refusal.reason.clone()) } else { None }
        };
        let of_figure = |figure: &FigureSection| {
            let reason = figure.reads.iter().find_map(of_reading);
            let reason = reason.or_else(|| figure.needs.iter().find_map(of_need))?;
            Some((figure.name.clone(), reason))
        };
        NotHere(experiment.figure.iter().filter_map(of_figure).collect())
    }

    /// Removes them: nothing is kept for them.
    pub(super) fn remove(&self, experiment: &mut Experiment) {
        experiment.figure.retain(|figure| !self.0.contains_key(&figure.name));
    }
}

/// Levels of one key of a figure, before and after.
struct Left {
    key: String,
    need: usize,
    before: usize,
    after: Vec<String>,
}

/// What is left of the figures of `before`.
pub(super) fn table(
    before: &Experiment,
    after: &Experiment,
    not_here: &NotHere,
    n_cpus: u32,
) -> Vec<FigureRow> {
    let sides = [before, after].map(|experiment| (experiment, expand::dimensions(experiment)));
    let of_figure = |figure: &FigureSection| match not_here.0.get(&figure.name) {
        Some(reason) => {
            FigureRow { figure: figure.name.clone(), fate: FigureState::NotHere, left: vec![reason.clone()] }
        }
        None => row(figure, &sides, n_cpus),
    };
    before.figure.iter().map(of_figure).collect()
}

fn row(figure: &FigureSection, sides: &[(&Experiment, Vec<Dimension>); 2], n_cpus: u32) -> FigureRow {
    let levels = |(experiment, dimensions): &(&Experiment, Vec<Dimension>), key: &str| -> Vec<String> {
        match dimensions.iter().find(|dimension| names(key, &dimension.key)) {
            Some(dimension) => dimension.levels.clone(),
            None if key == REPEATS => (1..=experiment.experiment.repeats).map(|n| n.to_string()).collect(),
            None => values(&experiment.target, &figure.at, key).into_iter().collect(),
        }
    };
    let is_label = |key: &str| !values(&sides[0].0.target, &Selector::default(), key).is_empty();
    let mut left: Vec<String> = Vec::new();
    let mut fate = FigureState::Kept;
    for (key, need) in &figure.needs {
        let parts = groups(figure, key, &sides[0].0.target);
        if is_label(key) && parts.iter().any(|(_, name)| !name.is_empty()) {
            let of_groups = LeftWithin::new(figure, key, *need, &parts, sides);
            fate = of_groups.fate(fate);
            left.push(of_groups.words());
            continue;
        }
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

/// Values of one label of a figure within groups of targets, before and after.
struct LeftWithin {
    key: String,
    within: String,
    groups: Vec<LeftGroup>,
}

/// How many values are left in one of them.
struct LeftGroup {
    name: String,
    need: usize,
    before: usize,
    after: usize,
}

impl LeftWithin {
    fn new(
        figure: &FigureSection,
        key: &str,
        need: Need,
        parts: &[(Selector, String)],
        sides: &[(&Experiment, Vec<Dimension>); 2],
    ) -> LeftWithin {
        let of_part = |(at, name): &(Selector, String)| {
            let [before, after] = [0, 1].map(|side| values(&sides[side].0.target, at, key).len());
            LeftGroup { name: name.clone(), need: need.of(before), before, after }
        };
        LeftWithin {
            key: key.to_string(),
            within: figure.within.join(" and "),
            groups: parts.iter().map(of_part).collect(),
        }
    }

    fn fate(&self, others: FigureState) -> FigureState {
        let is_any = |is_so: fn(&LeftGroup) -> bool| self.groups.iter().any(is_so);
        match others {
            _ if is_any(|group| group.after < group.need) => FigureState::Dropped,
            FigureState::Kept if is_any(|group| group.after < group.before) => FigureState::Thinned,
            others => others,
        }
    }

    /// `region 6 of 10 by provider (Azure 1 of 2, GCP 1 of 2)`, with those that have fewer.
    fn words(&self) -> String {
        let sum = |n: fn(&LeftGroup) -> usize| self.groups.iter().map(n).sum::<usize>();
        let fewer = self.groups.iter().filter(|group| group.after < group.before);
        let fewer: Vec<String> =
            fewer.map(|group| format!("{} {} of {}", group.name, group.after, group.before)).collect();
        let listed = if fewer.is_empty() { String::new() } else { format!(" ({})", fewer.join(", ")) };
        let (after, before) = (sum(|group| group.after), sum(|group| group.before));
        format!("{} {after} of {before} by {}{listed}", self.key, self.within)
    }
}
