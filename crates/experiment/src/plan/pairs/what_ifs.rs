//! The plan of what-ifs: a case as it was measured, and the same case with one thing changed each, in randomized blocks.

use std::collections::BTreeMap;

use model::experiment::case::Case;
use model::experiment::plan::{Plan, RunOrder, RunSpec};
use model::load::Window;
use model::load::course::Adapt;
use workload::Prng;

/// The factor whose levels are the changes.
const CHANGE: &str = "why.change";
/// The level of the case as it was measured.
const UNCHANGED: &str = "none";

/// How often and how long each case is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WhatIfExtent {
    /// Number of blocks, each of which contains every case once.
    pub n_blocks: u32,
    /// Window of each run.
    pub window: Window,
}

/// The plan that measures `base`, a case of `measured`, and the changed cases. In each block the order is random, and all runs have the
/// same seed, so that they offer the same load. Case 1 is the unchanged one.
pub fn plan(
    measured: &Plan,
    base: &Case,
    changed: &[(String, Case)],
    extent: WhatIfExtent,
    now_unix_ns: u64,
) -> Plan {
    let of_level = |id: usize, level: &str, case: &Case| Case {
        id: id as u32,
        levels: BTreeMap::from([(CHANGE.to_string(), level.to_string())]),
        window: extent.window,
        adapt: Adapt::default(),
        workload: model::experiment::case::WorkloadSpec { transactions: None, ..case.workload.clone() },
        ..case.clone()
    };
    let levels =
        std::iter::once((UNCHANGED, base)).chain(changed.iter().map(|(level, case)| (level.as_str(), case)));
    let cases: Vec<Case> = levels.zip(1..).map(|((level, case), id)| of_level(id, level, case)).collect();
    Plan {
        name: format!("why-{}", measured.name),
        title: format!("What limits {}?", base.label()),
        description: format!("{} One thing is changed at a time.", measured.title),
        repeats: extent.n_blocks,
        spare_blocks: 0,
        order: RunOrder::Randomized,
        baseline: 1,
        baseline_factors: Vec::new(),
        precision: None,
        is_comparison: false,
        repeat_disturbed: 0,
        servers_at_a_time: None,
        lanes: Vec::new(),
        origins: Vec::new(),
        made_unix_ns: now_unix_ns,
        factors: vec![CHANGE.to_string()],
        runs: runs(&cases, extent.n_blocks, measured.seed),
        cases,
        ..measured.clone()
    }
}

fn runs(cases: &[Case], n_blocks: u32, seed: u64) -> Vec<RunSpec> {
    let mut prng = Prng::seed(seed);
    let mut runs: Vec<RunSpec> = Vec::new();
    for block in 1..=n_blocks {
        let mut order: Vec<u32> = cases.iter().map(|case| case.id).collect();
        // Fisher and Yates.
        for last in (1..order.len()).rev() {
            order.swap(last, prng.uint64_range(0, last as u64) as usize);
        }
        let seed = prng.uint64();
        let first = runs.len() as u32 + 1;
        runs.extend(order.into_iter().zip(first..).map(|(case, run)| RunSpec { run, block, case, seed }));
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_has_the_case_as_it_was_and_each_change_once() {
        let mut measured =
            crate::plan::sample::plan("[workload]\nclients = [1, 8]\nscale = 1\n[run]\nramp_up = \"auto\"");
        measured.lanes = vec![Default::default(); 2];
        let base = measured.cases[1].clone();
        let mut lifted = base.clone();
        lifted.server.settings.insert("synchronous_commit".to_string(), "off".to_string());
        let window = Window { ramp_up_s: 2, measure_s: 6, grace_s: 10 };
        let changed = [("synchronous_commit=off".to_string(), lifted)];
        let plan = plan(&measured, &base, &changed, WhatIfExtent { n_blocks: 20, window }, 7);
        let labels: Vec<String> = plan.cases.iter().map(Case::label).collect();
        assert_eq!(labels, ["change none", "change synchronous_commit=off"]);
        assert!(plan.lanes.is_empty(), "one case is of one host");
        assert!(plan.cases.iter().all(|case| case.window == window && case.adapt == Adapt::default()));
        assert_eq!((plan.runs.len(), plan.factors.as_slice()), (40, [CHANGE.to_string()].as_slice()));
        let mut first = 0;
        for (n, block) in plan.runs.chunks(2).enumerate() {
            assert_eq!([block[0].run, block[1].run], [2 * n as u32 + 1, 2 * n as u32 + 2]);
            assert_eq!((block[0].case + block[1].case, block[0].seed), (3, block[1].seed));
            first += u32::from(block[0].case == 1);
        }
        assert!((4..=16).contains(&first), "{first} of 20 begin unchanged");
    }
}
