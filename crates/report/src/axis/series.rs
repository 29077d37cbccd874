//! How groups share panels and colours: together as long as readers can distinguish them, else in small multiples.

use analysis::case::labels;
use analysis::summary::Study;
use model::experiment::case::Case;

use super::colour::{self, Colour, HUES, STEPS};
use super::{distinct, group_name, is_ordered, level, ordered_levels};

/// More panels than this give no overview: all groups share one, in one colour.
const PANELS_MAX: usize = 24;

/// How a group is drawn.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GroupSeries {
    /// The name that it has in its panel.
    pub(crate) name: String,
    pub(crate) colour: Colour,
    /// Index into the panels.
    pub(crate) panel: usize,
}

impl GroupSeries {
    /// The series of a study without groups.
    pub(crate) fn only() -> GroupSeries {
        GroupSeries { name: String::new(), colour: Colour::FIRST, panel: 0 }
    }
}

/// Series and panels of the groups that the factors `others` make.
pub(super) fn arrange(
    study: &Study,
    cases: &[&Case],
    others: &[&String],
    groups: &[String],
) -> (Vec<GroupSeries>, Vec<String>) {
    let single = |colours: Vec<Colour>| {
        let of = |(name, colour): (&String, Colour)| GroupSeries { name: name.clone(), colour, panel: 0 };
        (groups.iter().zip(colours).map(of).collect(), vec![String::new()])
    };
    let varying = varying(study, cases, others);
    let ordered = |key: &String| is_ordered(key, &ordered_levels(cases, key));
    if let [one] = varying.as_slice()
        && ordered(one)
    {
        let levels = ordered_levels(cases, one);
        let colours = colour::of_levels(levels.len(), true);
        let of_group = |group: &String| {
            let level = levels_of(cases, others, group, one);
            levels.iter().position(|other| *other == level).map_or(Colour::FIRST, |at| colours[at])
        };
        return single(groups.iter().map(of_group).collect());
    }
    if groups.len() <= HUES {
        return single(colour::of_levels(groups.len(), false));
    }
    let can_colour = |key: &&String| {
        let n = ordered_levels(cases, key).len();
        n <= HUES || (ordered(key) && n <= STEPS)
    };
    let split = |key: Option<&String>| -> (Option<String>, Vec<String>, Vec<String>) {
        let rest: Vec<&String> = varying.iter().filter(|other| Some(*other) != key).collect();
        let panel_of = |group: &String| {
            let case = cases.iter().find(|case| group_name(case, others) == **group);
            case.map(|case| group_name(case, &rest)).unwrap_or_default()
        };
        let of_groups: Vec<String> = groups.iter().map(panel_of).collect();
        (key.cloned(), distinct(of_groups.iter().cloned()), of_groups)
    };
    let splits = varying.iter().filter(can_colour).map(Some).chain([None]).map(split);
    // The fewest panels; of equally many, the factor named first has the colours.
    let Some((key, panels, of_groups)) = splits.min_by_key(|(_, panels, _)| panels.len()) else {
        return single(vec![Colour::FIRST; groups.len()]);
    };
    if !(2..=PANELS_MAX).contains(&panels.len()) {
        return single(vec![Colour::FIRST; groups.len()]);
    }
    let levels = key.as_ref().map(|key| ordered_levels(cases, key)).unwrap_or_default();
    let colours = colour::of_levels(levels.len(), key.as_ref().is_some_and(ordered));
    let of_group = |(group, panel): (&String, &String)| {
        let level = key.as_ref().map(|key| levels_of(cases, others, group, key)).unwrap_or_default();
        let at = levels.iter().position(|other| *other == level);
        GroupSeries {
            name: level,
            colour: at.map_or(Colour::FIRST, |at| colours[at]),
            panel: panels.iter().position(|other| other == panel).unwrap_or(0),
        }
    };
    (groups.iter().zip(&of_groups).map(of_group).collect(), panels)
}

/// The factors that distinguish the groups; targets by their labels, if those distinguish them.
fn varying(study: &Study, cases: &[&Case], others: &[&String]) -> Vec<String> {
    let differ = |key: &&String| ordered_levels(cases, key).len() > 1;
    let factors: Vec<String> = others.iter().copied().filter(differ).cloned().collect();
    let labels = labels::varying(study);
    let by_label = |case: &&Case| -> Vec<String> { labels.iter().map(|key| level(case, key)).collect() };
    let n_targets = ordered_levels(cases, "target").len();
    let combinations: std::collections::BTreeSet<Vec<String>> = cases.iter().map(by_label).collect();
    if labels.is_empty() || combinations.len() != n_targets || !factors.iter().any(|key| key == "target") {
        return factors;
    }
    factors.into_iter().filter(|key| key != "target").chain(labels).collect()
}

/// The level that a group has of one of its factors.
fn levels_of(cases: &[&Case], others: &[&String], group: &str, key: &str) -> String {
    let case = cases.iter().find(|case| group_name(case, others) == group);
    case.and_then(|case| case.level(key)).unwrap_or_default().to_string()
}
