//! Plans of small experiments for tests.

use model::experiment::case::Case;
use model::experiment::plan::Plan;

use crate::plan::expand::{self, PlanResources};

/// The plan of an experiment file without its `[experiment]`, on a machine with two processors and 24 GB of memory.
pub(crate) fn plan(text: &str) -> Plan {
    plan_at(text, PlanResources::default())
}

/// The same of one side of a comparison.
pub(crate) fn side(text: &str) -> Plan {
    plan_at(text, PlanResources { is_side: true, ..PlanResources::default() })
}

fn plan_at(text: &str, site: PlanResources) -> Plan {
    let text = format!("[experiment]\nname = \"x\"\nseed = 1\n{text}");
    let site = PlanResources { memory_bytes: Some(24 << 30), n_cpus: 2, ..site };
    expand::plan(&crate::plan::file::parse("x.toml", &text, &[]).unwrap(), &site).unwrap()
}

/// Expects that an experiment file without its `[experiment]` is refused with these words, or planned. A URL in it is of the host `h`.
pub(crate) fn expect_refusal(text: &str, expected: Option<&str>) {
    let text = format!("[experiment]\nname = \"x\"\n{text}");
    let experiment = crate::plan::file::parse("x.toml", &text, &[]).unwrap();
    let url_keywords =
        experiment.server.url.is_some().then(|| [("host".to_string(), "h".to_string())].into());
    let site =
        PlanResources { memory_bytes: Some(1 << 30), n_cpus: 1, url_keywords, ..PlanResources::default() };
    let found = expand::plan(&experiment, &site).err();
    match (&found, expected) {
        (None, None) => {}
        (Some(found), Some(expected)) => assert!(found.contains(expected), "{text}: {found}"),
        _ => panic!("{text}: {found:?}"),
    }
}

/// The first case of that plan.
pub(crate) fn case(text: &str) -> Case {
    plan(text).cases.remove(0)
}
