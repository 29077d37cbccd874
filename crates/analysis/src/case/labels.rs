//! Labels of targets as factors: they group cases, are compared with a baseline, and select cases.

use std::collections::{BTreeMap, BTreeSet};

use model::experiment::case::Case;
use model::experiment::plan::Plan;
use model::experiment::selector::names;
use model::experiment::target::LABEL;
use model::run::ExperimentData;

use crate::summary::Study;

/// Labels with a key of their own, in the order in which people name a machine; others follow by name.
const KNOWN: [&str; 6] = ["provider", "region", "size", "instance", "memory", "disk"];

/// Keys of all labels of the targets, `target.provider`.
pub fn keys(plan: &Plan) -> Vec<String> {
    let targets = plan.cases.iter().filter_map(|case| case.server.target.as_ref());
    let found: BTreeSet<&str> = targets.flat_map(|target| target.labels.keys()).map(String::as_str).collect();
    let known = KNOWN.iter().copied().filter(|name| found.contains(name));
    let others = found.iter().copied().filter(|name| !KNOWN.contains(name));
    known.chain(others).map(|name| format!("{LABEL}{name}")).collect()
}

/// Keys of the labels in which the targets of the cases differ.
pub fn varying(study: &Study) -> Vec<String> {
    let differ = |key: &String| {
        let levels: BTreeSet<Option<&str>> = study.cases.iter().map(|case| case.case.level(key)).collect();
        levels.len() > 1
    };
    keys(&study.plan).into_iter().filter(differ).collect()
}

/// A condition of `--where`: a factor or a label, and its levels.
#[derive(Debug, Clone, PartialEq)]
pub struct WhereCondition {
    /// The whole key.
    key: String,
    levels: Vec<String>,
}

impl WhereCondition {
    /// Reads `provider=aws` or `clients=16,64`, for the cases of a plan.
    ///
    /// # Errors
    /// When it has no `=`, or names no factor, or no case has the level.
    pub fn parse(text: &str, plan: &Plan) -> Result<WhereCondition, String> {
        let (named, levels) = text
            .split_once('=')
            .ok_or_else(|| format!("`{text}` is not KEY=LEVEL, such as provider=aws or clients=16"))?;
        let known: BTreeMap<String, BTreeSet<String>> = plan.cases.iter().map(Case::levels_and_labels).fold(
            BTreeMap::new(),
            |mut known: BTreeMap<String, BTreeSet<String>>, all| {
                all.into_iter().for_each(|(key, level)| {
                    known.entry(key).or_default().insert(level);
                });
                known
            },
        );
        let found: Vec<&String> = known.keys().filter(|whole| names(named.trim(), whole)).collect();
        let key = match found.as_slice() {
            [one] => (*one).clone(),
            [] => {
                let known: Vec<&str> = known.keys().map(String::as_str).collect();
                return Err(format!(
                    "`{named}` is neither a factor nor a label of a target; this study has {}",
                    if known.is_empty() { "none".to_string() } else { known.join(", ") }
                ));
            }
            several => {
                let keys: Vec<&str> = several.iter().map(|key| key.as_str()).collect();
                return Err(format!("`{named}` may be {}; write the whole key", keys.join(" or ")));
            }
        };
        // A level may contain commas itself.
        let has = |level: &str| known[&key].contains(level);
        let levels: Vec<String> = if has(levels) {
            vec![levels.to_string()]
        } else {
            levels.split(',').map(|level| level.trim().to_string()).collect()
        };
        if let Some(missing) = levels.iter().find(|level| !has(level)) {
            let known: Vec<&str> = known[&key].iter().map(String::as_str).collect();
            return Err(format!("no case has {key} `{missing}`; it is {}", known.join(" or ")));
        }
        Ok(WhereCondition { key, levels })
    }

    fn selects(&self, case: &Case) -> bool {
        case.level(&self.key).is_some_and(|level| self.levels.iter().any(|wanted| wanted == level))
    }
}

/// Leaves the cases that meet all conditions, and their runs. Conditions on one key add up: either level will do.
///
/// # Errors
/// When no case is left.
pub fn select(data: &mut ExperimentData, conditions: &[WhereCondition]) -> Result<(), String> {
    let is_met = |case: &Case, key: &str| {
        let mut of_key = conditions.iter().filter(|condition| condition.key == key);
        of_key.any(|condition| condition.selects(case))
    };
    let meets = |case: &Case| conditions.iter().all(|condition| is_met(case, &condition.key));
    let plan = &mut data.plan;
    plan.cases.retain(meets);
    if plan.cases.is_empty() {
        return Err("no case meets all of these conditions".to_string());
    }
    let left: BTreeSet<u32> = plan.cases.iter().map(|case| case.id).collect();
    plan.runs.retain(|run| left.contains(&run.case));
    data.runs.retain(|run| left.contains(&run.record.spec.case));
    Ok(())
}
