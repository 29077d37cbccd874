//! Plans of small experiments for tests.

use model::experiment::case::Case;
use model::experiment::plan::Plan;

use crate::plan::expand::{self, PlanResources};

/// The plan of an experiment file without its `[experiment]`, on a machine with two processors and 24 GB of memory.
pub(crate) fn plan(text: &str) -> Plan {
    let text = format!("[experiment]\nname = \"x\"\nseed = 1\n{text}");
    let site = PlanResources { memory_bytes: Some(24 << 30), n_cpus: 2, ..PlanResources::default() };
    expand::plan(&crate::plan::file::parse("x.toml", &text, &[]).unwrap(), &site).unwrap()
}

/// The first case of that plan.
pub(crate) fn case(text: &str) -> Case {
    plan(text).cases.remove(0)
}
