//! Where the charts draw each case: its place on the axis, its group, its panel, its colour.

pub(crate) mod colour;
pub(crate) mod pair;
pub(crate) mod series;

use std::collections::BTreeMap;

use analysis::summary::Study;
use model::experiment::case::Case;
use model::experiment::keys;
use model::text::prose::shown;
use model::text::units::size_bytes;

use self::colour::Colour;
use self::series::GroupSeries;

/// The arrangement of all cases.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Axis {
    /// What varies along the axis: `clients`.
    pub(crate) title: String,
    /// The places on the axis.
    pub(crate) levels: Vec<String>,
    /// Whether the places are numbers, so that a line between them means something.
    pub(crate) numeric: bool,
    /// Names of the groups; a single empty name if only the axis varies.
    pub(crate) groups: Vec<String>,
    /// Name of the factors that distinguish the groups.
    pub(crate) groups_title: String,
    /// How each group is drawn.
    pub(crate) series: Vec<GroupSeries>,
    /// Names of the panels that share the groups; a single empty name if one panel holds them all.
    pub(crate) panels: Vec<String>,
    /// Place of each case, by case number.
    pub(crate) places: BTreeMap<u32, AxisPlace>,
}

/// Where a case is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct AxisPlace {
    /// Index into the levels.
    pub(crate) level: usize,
    /// Index into the groups.
    pub(crate) group: usize,
    /// The same in all charts.
    pub(crate) colour: Colour,
}

impl Axis {
    /// The class of a case's colour in the style sheet.
    pub(crate) fn class(&self, case: u32) -> String {
        self.places.get(&case).map_or(Colour::FIRST, |place| place.colour).class()
    }

    /// The series by name, each once, with their colours.
    pub(crate) fn keys(&self) -> Vec<(&str, Colour)> {
        let mut keys: Vec<(&str, Colour)> = Vec::new();
        for one in &self.series {
            if !keys.iter().any(|(name, _)| *name == one.name) {
                keys.push((&one.name, one.colour));
            }
        }
        keys
    }
}

/// Arranges the cases of a study: the number of clients goes along the axis if it varies, else the first factor with
/// numbers, else the first factor; all others form groups.
pub(crate) fn arrange(study: &Study) -> Axis {
    let cases: Vec<&Case> = study.cases.iter().map(|summary| &summary.case).collect();
    let Some(key) = axis_key(study, &cases) else {
        let colours = colour::of_levels(cases.len(), false);
        let place =
            |(level, case): (usize, &&Case)| (case.id, AxisPlace { level, group: 0, colour: colours[level] });
        return Axis {
            title: String::new(),
            levels: study.cases.iter().map(|summary| summary.label.clone()).collect(),
            numeric: false,
            groups: vec![String::new()],
            groups_title: String::new(),
            series: vec![GroupSeries::only()],
            panels: vec![String::new()],
            places: cases.iter().enumerate().map(place).collect(),
        };
    };
    let levels = ordered_levels(&cases, &key);
    let differ = |other: &&String| distinct(cases.iter().map(|case| level(case, other))).len() > 1;
    let others: Vec<&String> =
        study.plan.factors.iter().filter(|factor| **factor != key).filter(differ).collect();
    let groups = distinct(cases.iter().map(|case| group_name(case, &others)));
    let (series, panels) = series::arrange(study, &cases, &others, &groups);
    let of_levels = colour::of_levels(levels.len(), is_ordered(&key, &levels));
    let places = cases.iter().map(|case| {
        let level = position(&levels, &level(case, &key));
        let group = position(&groups, &group_name(case, &others));
        let colour = if groups.len() > 1 { series[group].colour } else { of_levels[level] };
        (case.id, AxisPlace { level, group, colour })
    });
    Axis {
        title: factor_words(&key),
        places: places.collect(),
        numeric: is_numeric(&levels),
        groups_title: others.iter().map(|key| factor_words(key)).collect::<Vec<_>>().join(", "),
        levels,
        groups,
        series,
        panels,
    }
}

/// The factor whose levels are releases.
const VERSION: &str = keys::server::VERSION.name;

/// The levels of a factor or label in the order of their numbers, or of the cases.
pub(crate) fn ordered_levels(cases: &[&Case], key: &str) -> Vec<String> {
    in_order(key, distinct(cases.iter().map(|case| level(case, key))))
}

fn in_order(key: &str, mut levels: Vec<String>) -> Vec<String> {
    if key == VERSION {
        levels.sort_by_key(|level| release(level));
    } else if is_numeric(&levels) {
        levels.sort_by(|a, b| number(a).partial_cmp(&number(b)).expect("parsed numbers are finite"));
    }
    levels
}

/// Whether levels follow each other: numbers, releases, and sizes of machines in the order of the file.
fn is_ordered(key: &str, levels: &[String]) -> bool {
    is_numeric(levels) || [VERSION, "target.size"].contains(&key)
}

/// The numbers of a release, in whose order releases follow each other: 10.2 comes before 10.12, and both after 9.6.
fn release(version: &str) -> Vec<u32> {
    version.split('.').map_while(|number| number.parse().ok()).collect()
}

fn is_numeric(levels: &[String]) -> bool {
    levels.iter().all(|level| number(level).is_some())
}

fn position(list: &[String], wanted: &str) -> usize {
    list.iter().position(|item| item == wanted).unwrap_or(0)
}

/// A factor's key as people say it.
pub(crate) fn factor_words(key: &str) -> String {
    const BIN_DIR: &str = keys::server::BIN_DIR.name;
    const NUMA: &str = keys::os::NUMA.name;
    const HUGE_PAGES: &str = keys::os::HUGE_PAGES.name;
    const KIND: &str = keys::workload::KIND.name;
    const POOLER: &str = keys::pooler::KIND.name;
    match key {
        KIND => "workload".to_string(),
        POOLER => "pooler".to_string(),
        VERSION => "PostgreSQL version".to_string(),
        BIN_DIR => "binaries".to_string(),
        NUMA => "NUMA".to_string(),
        HUGE_PAGES => "huge pages".to_string(),
        _ => key.rsplit('.').next().unwrap_or(key).to_string(),
    }
}

fn axis_key(study: &Study, cases: &[&Case]) -> Option<String> {
    let varying: Vec<&String> = study
        .plan
        .factors
        .iter()
        .filter(|key| distinct(cases.iter().map(|case| level(case, key))).len() > 1)
        .collect();
    let is_numeric = |key: &&&String| cases.iter().all(|case| number(&level(case, key)).is_some());
    let clients = varying.iter().find(|key| key.as_str() == keys::workload::CLIENTS.name);
    let chosen = clients
        .or_else(|| varying.iter().find(|key| key.as_str() == keys::workload::PACE.name))
        .or_else(|| varying.iter().find(is_numeric))
        .or(varying.first());
    chosen.map(|key| (*key).clone())
}

fn level(case: &Case, key: &str) -> String {
    case.level(key).unwrap_or_default().to_string()
}

fn group_name(case: &Case, factors: &[&String]) -> String {
    const KIND: &str = keys::workload::KIND.name;
    let parts: Vec<String> = factors
        .iter()
        .map(|key| match key.as_str() {
            VERSION => format!("PostgreSQL {}", level(case, key)),
            KIND | keys::TARGET | "target.provider" | "target.region" | "target.size" | "target.disk" => {
                level(case, key)
            }
            _ => format!("{} {}", factor_words(key), shown(&level(case, key))),
        })
        .collect();
    parts.join(", ")
}

fn distinct(items: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = Vec::new();
    for item in items {
        if !seen.contains(&item) {
            seen.push(item);
        }
    }
    seen
}

/// A level as a number: `16`, `2000/s`, `constant 2000/s`, `10.5`, `128MB`.
pub(crate) fn number(level: &str) -> Option<f64> {
    let text = level.strip_prefix("constant").unwrap_or(level).trim();
    let plain = text.strip_suffix("/s").unwrap_or(text).parse::<f64>().ok().filter(|x| x.is_finite());
    plain.or_else(|| size_bytes(text, 0).filter(|bytes| *bytes > 0).map(|bytes| bytes as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_numbers_where_people_read_them_as_such() {
        for (level, expected) in [
            ("16", Some(16.0)),
            ("9.6", Some(9.6)),
            ("constant 2000/s", Some(2000.0)),
            ("128MB", Some(134_217_728.0)),
            ("on", None),
            ("small", None),
            ("inf", None),
        ] {
            assert_eq!(number(level), expected, "{level}");
        }
        assert!(is_ordered("server.settings.shared_buffers", &["1GB", "512MB"].map(str::to_string)));
        assert!(is_ordered("target.size", &["small", "large"].map(str::to_string)));
        assert!(!is_ordered("target.provider", &["a", "b"].map(str::to_string)));
    }

    #[test]
    fn releases_are_ordered_by_their_numbers_including_minor_ones() {
        let levels = ["12.1", "9.6.17", "10.12", "9.5.21", "10.2", "18"].map(str::to_string);
        let levels = in_order(VERSION, levels.to_vec());
        assert_eq!(levels, ["9.5.21", "9.6.17", "10.2", "10.12", "12.1", "18"]);
        assert!(is_ordered(VERSION, &levels));
    }
}
