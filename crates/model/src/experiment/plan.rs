//! The ordered runs of an experiment, and the state of each.

pub mod condition;
pub mod figure;

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::experiment::case::Case;
use crate::experiment::keys::run::PERF;
use crate::experiment::origin::MergedFrom;
use crate::experiment::target::lane::Lane;
use crate::text::word_enum::words;

words! {
    /// Which combinations of levels become cases.
    Design, "a design" {
        /// Every combination.
        #[default]
        Grid = "grid",
        /// The first levels of all factors, then one factor at a time.
        OneFactor = "one-factor",
    }
}

words! {
    /// Order of the runs. The later in this list, the less it spreads the runs of a case over time.
    RunOrder, "an order" {
        /// Blocks that contain every case once, each in its own random order.
        #[default]
        Randomized = "randomized",
        /// Server by server: the runs of each are together, in randomized blocks of their own.
        ByServer = "by-server",
        /// Case by case, all repeats of one before the next.
        Sequential = "sequential",
    }
}

/// What to run, in which order: `plan.json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Format version, [`crate::FORMAT`].
    pub format: u32,
    /// Name of the experiment.
    pub name: String,
    /// Title for reports.
    pub title: String,
    /// The question that the experiment answers.
    pub description: String,
    /// Seed of the order and of every run.
    pub seed: u64,
    /// Times each case is run.
    pub repeats: u32,
    /// How many of these blocks, the last ones, are made only while there is time, as the experiment was fitted to one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub spare_blocks: u32,
    /// Order of the runs.
    #[serde(default)]
    pub order: RunOrder,
    /// Number of the case that reports compare the others with; 0: the first.
    #[serde(default)]
    pub baseline: u32,
    /// Factors whose levels selected that case: a case is compared with the one that has the baseline's levels of these
    /// factors and its own levels of all others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub baseline_factors: Vec<String>,
    /// Version of pgdyno that made the plan.
    pub tool_version: String,
    /// When the plan was made, nanoseconds since the Unix epoch.
    pub made_unix_ns: u64,
    /// Half width of the interval of B over A, as a share, at which a comparison by pairs ends before its last planned
    /// block; if absent, every planned run is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<f64>,
    /// Whether the two cases are the sides of a comparison, whose runs belong together in time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_comparison: bool,
    /// How often a disturbed run is repeated; see [`crate::experiment::repeat`].
    #[serde(default, skip_serializing_if = "is_zero")]
    pub repeat_disturbed: u32,
    /// How many servers run by pgdyno have their data on disk at the same time, if not all: their runs are grouped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servers_at_a_time: Option<u32>,
    /// Targets by host, if those of different hosts are measured side by side.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lanes: Vec<Lane>,
    /// The results that were merged into this study, in the order of their runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub origins: Vec<MergedFrom>,
    /// Keys of the experiment file that vary, in file order.
    pub factors: Vec<String>,
    /// Every combination of levels.
    pub cases: Vec<Case>,
    /// The runs in order of execution.
    pub runs: Vec<RunSpec>,
}

/// The blocks that do not wait for time to be left. What a file says may be more than there are.
pub fn n_sure_blocks(repeats: u32, spare_blocks: u32) -> u32 {
    repeats.saturating_sub(spare_blocks)
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl Plan {
    /// The case with this number.
    pub fn case(&self, id: u32) -> Option<&Case> {
        self.cases.iter().find(|case| case.id == id)
    }

    /// Whether a run is of a block that is made only while there is time.
    pub fn is_spare(&self, spec: &RunSpec) -> bool {
        spec.block > self.n_sure_blocks()
    }

    fn n_sure_blocks(&self) -> u32 {
        n_sure_blocks(self.repeats, self.spare_blocks)
    }

    /// The runs that are planned: those that only spare time makes are once they have begun.
    pub fn planned(&self, has_begun: impl Fn(u32) -> bool) -> impl Iterator<Item = &RunSpec> {
        self.runs.iter().filter(move |spec| !self.is_spare(spec) || has_begun(spec.run))
    }

    /// The plan without the blocks that are made only while there is time.
    pub fn without_spare(&self) -> Cow<'_, Plan> {
        if self.spare_blocks == 0 {
            return Cow::Borrowed(self);
        }
        let mut sure = Plan { repeats: self.n_sure_blocks(), spare_blocks: 0, ..self.clone() };
        sure.runs.retain(|spec| !self.is_spare(spec));
        Cow::Owned(sure)
    }

    /// The cases that have an extra run for a profile.
    pub fn profiled(&self) -> impl Iterator<Item = &Case> {
        self.cases.iter().filter(|case| case.get(PERF) && self.runs.iter().any(|spec| spec.case == case.id))
    }
}

/// One execution of one case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSpec {
    /// Number of the run, from 1, in the order of execution.
    pub run: u32,
    /// Number of the block, from 1.
    pub block: u32,
    /// The case.
    pub case: u32,
    /// Seed of the run's random streams.
    pub seed: u64,
}

/// A line of `state.jsonl`: the state of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct StateLine {
    /// Time, nanoseconds since the Unix epoch.
    pub t_unix_ns: u64,
    /// The run; 0 for the experiment as a whole.
    pub run: u32,
    pub state: RunState,
    /// The reason, unless the run ended as planned.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// State of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Started and not ended: still running, or cut off.
    Started,
    /// Ended as planned.
    Completed,
    /// Ended early; its results are kept.
    Partial,
    /// Could not be measured.
    Failed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_spare_blocks_than_there_are_leave_no_run_that_is_sure() {
        let spec = |n: u32| RunSpec { run: n + 1, block: n / 2 + 1, case: n % 2 + 1, seed: 7 };
        let n_sure = |spare_blocks: u32| {
            let plan = Plan { repeats: 3, spare_blocks, runs: (0..6).map(spec).collect(), ..Plan::default() };
            let sure = plan.without_spare();
            (sure.repeats, sure.runs.len())
        };
        assert_eq!([0, 1, 3].map(n_sure), [(3, 6), (2, 4), (0, 0)]);
        assert_eq!(n_sure(u32::MAX), (0, 0), "a file may say anything");
    }
}
