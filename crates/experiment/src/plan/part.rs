//! Takes one part out of the plan of a merged study again, as it was measured at its origin.
//!
//! What merging does not keep is not here either: levels of a baseline if origins were kept apart, and hosts that were measured side by
//! side, which the records of runs show.

use anyhow::{Context, Result, ensure};
use model::experiment::case::Case;
use model::experiment::origin;
use model::experiment::plan::{Plan, RunSpec};

use crate::plan::title;

/// A part of a merged study.
#[derive(Debug, Clone)]
pub struct StudyPart {
    /// Its plan, with cases, runs and blocks that are numbered from 1.
    pub plan: Plan,
    /// The number in the study of each of its cases.
    pub cases: Vec<u32>,
}

/// The part of `study` that was measured at the origin called `name`.
///
/// # Errors
/// When there is no such origin, it has no runs, or the plan is damaged.
pub fn study_part(study: &Plan, name: &str) -> Result<StudyPart> {
    let origin = study.origins.iter().find(|origin| origin.name == name);
    let origin = origin.with_context(|| {
        let names: Vec<String> = study.origins.iter().map(|origin| format!("`{}`", origin.name)).collect();
        format!("no origin is called `{name}`; there are {}", names.join(", "))
    })?;
    let of_origin: Vec<&RunSpec> = study.runs.iter().filter(|spec| origin.has(spec.run)).collect();
    ensure!(!of_origin.is_empty(), "`{name}` has no runs");
    let before = study.runs.iter().filter(|spec| spec.run <= origin.first);
    let blocks_before = before.map(|spec| spec.block).max().unwrap_or(0);
    let is_used = |case: &&Case| of_origin.iter().any(|spec| spec.case == case.id);
    let (mut cases, mut numbers) = (Vec::new(), Vec::new());
    for (case, id) in study.cases.iter().filter(is_used).zip(1..) {
        numbers.push(case.id);
        let mut case = Case { id, ..case.clone() };
        case.levels.remove(origin::FACTOR);
        cases.push(case);
    }
    let moved = |spec: &&RunSpec| -> Result<RunSpec> {
        let case = (1..).zip(&numbers).find(|(_, number)| **number == spec.case).map(|(id, _)| id);
        let block = spec.block.checked_sub(blocks_before).filter(|block| *block > 0);
        case.zip(block)
            .map(|(case, block)| RunSpec { run: spec.run - origin.first, block, case, seed: spec.seed })
            .with_context(|| {
                format!("the plan is damaged: run {} has no case or no block of its own", spec.run)
            })
    };
    let runs = of_origin.iter().map(moved).collect::<Result<Vec<RunSpec>>>()?;
    let n_of = |case: &Case| runs.iter().filter(|spec| spec.case == case.id).count() as u32;
    let without = |factors: &[String]| -> Vec<String> {
        factors.iter().filter(|factor| *factor != origin::FACTOR).cloned().collect()
    };
    let mut plan = Plan {
        tool_version: origin.tool_version.clone(),
        seed: origin.seed,
        made_unix_ns: origin.made_unix_ns,
        repeats: cases.iter().map(n_of).max().unwrap_or(1),
        spare_blocks: 0,
        factors: without(&study.factors),
        baseline_factors: without(&study.baseline_factors),
        origins: Vec::new(),
        cases,
        runs,
        ..study.clone()
    };
    if study.title == title::title(&study.cases, &study.factors) {
        plan.title = title::title(&plan.cases, &plan.factors);
    }
    Ok(StudyPart { plan, cases: numbers })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::merge::{self, merge};
    use crate::plan::sample;

    fn original(clients: &str) -> Plan {
        sample::plan(&format!("repeats = 2\n[workload]\nscale = 1\nclients = {clients}\n"))
    }

    fn merged(plans: &[Plan], by_origin: bool) -> Plan {
        let part = |(name, plan): (&str, &Plan)| merge::MergedResults {
            name: name.to_string(),
            plan: plan.clone(),
            records: Vec::new(),
            profiled: Vec::new(),
        };
        merge(["a", "b"].into_iter().zip(plans).map(part).collect(), by_origin, "9", 1 << 60).unwrap().plan
    }

    #[test]
    fn a_part_is_as_it_was_before_it_was_merged() {
        let plans = [original("[1, 4]"), Plan { seed: 77, made_unix_ns: 5, ..original("[4, 16]") }];
        for by_origin in [false, true] {
            let study = merged(&plans, by_origin);
            for (name, plan) in ["a", "b"].into_iter().zip(&plans) {
                let part = study_part(&study, name).unwrap();
                assert_eq!(part.plan, *plan, "{name}, by origin: {by_origin}");
            }
            let expected = if by_origin { [3, 4] } else { [2, 3] };
            assert_eq!(study_part(&study, "b").unwrap().cases, expected);
        }
    }

    #[test]
    fn what_is_not_in_a_study_is_refused() {
        let refused = |study: &Plan, name: &str, words: &str| {
            let error = study_part(study, name).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        };
        let mut study = merged(&[original("[1, 4]"), original("[1, 4]")], false);
        refused(&study, "c", "no origin is called `c`; there are `a`, `b`");
        study.runs.iter_mut().for_each(|spec| spec.block = 1);
        refused(&study, "b", "the plan is damaged: run 5 has no case or no block of its own");
        study.runs.retain(|spec| spec.run <= 4);
        refused(&study, "b", "`b` has no runs");
    }
}
