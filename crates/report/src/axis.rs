//! Where the charts draw each case: its place on the axis, its group, its colour.

use std::collections::BTreeMap;

use analysis::summary::Study;
use model::experiment::case::Case;

/// Number of colours in the page's palette.
pub(crate) const N_COLOURS: usize = 8;

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
    /// Index into the palette, the same in all charts.
    pub(crate) colour: usize,
}

/// Arranges the cases of a study: the number of clients goes along the axis if it varies, else the first factor with
/// numbers, else the first factor; all others form groups.
pub(crate) fn arrange(study: &Study) -> Axis {
    let cases: Vec<&Case> = study.cases.iter().map(|summary| &summary.case).collect();
    let Some(key) = axis_key(study, &cases) else {
        let places = cases
            .iter()
            .enumerate()
            .map(|(i, case)| (case.id, AxisPlace { level: i, group: 0, colour: i % N_COLOURS }));
        return Axis {
            title: String::new(),
            levels: study.cases.iter().map(|summary| summary.label.clone()).collect(),
            numeric: false,
            groups: vec![String::new()],
            groups_title: String::new(),
            places: places.collect(),
        };
    };
    let mut levels = distinct(cases.iter().map(|case| level(case, &key)));
    let numeric = levels.iter().all(|level| number(level).is_some());
    if numeric {
        levels.sort_by(|a, b| number(a).partial_cmp(&number(b)).expect("parsed numbers are finite"));
    }
    let others: Vec<&String> = study.plan.factors.iter().filter(|factor| **factor != key).collect();
    let groups = distinct(cases.iter().map(|case| group_name(case, &others)));
    let position = |list: &[String], wanted: &str| list.iter().position(|item| item == wanted).unwrap_or(0);
    let places = cases.iter().map(|case| {
        let level = position(&levels, &level(case, &key));
        let group = position(&groups, &group_name(case, &others));
        let colour = if groups.len() > 1 { group } else { level };
        (case.id, AxisPlace { level, group, colour: colour % N_COLOURS })
    });
    Axis {
        title: factor_words(&key),
        places: places.collect(),
        numeric,
        groups_title: others.iter().map(|key| factor_words(key)).collect::<Vec<_>>().join(", "),
        levels,
        groups,
    }
}

/// A factor's key as people say it.
pub(crate) fn factor_words(key: &str) -> String {
    match key {
        "server.version" => "PostgreSQL version".to_string(),
        "server.bin_dir" => "binaries".to_string(),
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
    let clients = varying.iter().find(|key| key.as_str() == "workload.clients");
    let chosen = clients
        .or_else(|| varying.iter().find(|key| key.as_str() == "workload.pace"))
        .or_else(|| varying.iter().find(is_numeric))
        .or(varying.first());
    chosen.map(|key| (*key).clone())
}

fn level(case: &Case, key: &str) -> String {
    case.levels.get(key).cloned().unwrap_or_default()
}

fn group_name(case: &Case, keys: &[&String]) -> String {
    let parts: Vec<String> = keys
        .iter()
        .map(|key| match key.as_str() {
            "server.version" => format!("PostgreSQL {}", level(case, key)),
            "workload.kind" | "target" => level(case, key),
            _ => format!("{} {}", factor_words(key), level(case, key)),
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

/// A level as a number: `16`, `2000/s`, `constant 2000/s`, `10.5`.
fn number(level: &str) -> Option<f64> {
    let text = level.strip_prefix("constant").unwrap_or(level).trim();
    text.strip_suffix("/s").unwrap_or(text).parse::<f64>().ok().filter(|x| x.is_finite())
}
