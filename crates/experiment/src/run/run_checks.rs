//! Checks of a workload directory after a run: of the data as this run left it, with what it committed.

pub(super) mod queries;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use dataset::directory::checks::{Checked, Outcomes, RUN_CHECK_MAX};
use dataset::session::{self, limit};
use model::experiment::case::Case;

use crate::stage::Stage;
use crate::stage::directory_data::{DirectoryCase, restored};

/// Longest time of all checks together.
const ALL_MAX: Duration = RUN_CHECK_MAX.saturating_mul(5);
/// What stands for all checks where none is made.
const ALL: &str = "of the workload";

/// Makes the checks of a case whose load had these outcomes.
///
/// # Errors
/// When a check is no query, or the server fails or takes too long.
pub(super) fn after(
    case: &Case,
    stage: &Stage,
    outcomes: &BTreeMap<String, Outcomes>,
    stop: &'static AtomicBool,
) -> Result<Checked> {
    let not_made = |why: &str| Checked {
        unfinished: BTreeMap::from([(ALL.to_string(), format!("not made: {why}"))]),
        ..Checked::default()
    };
    if !case.prepare.restore {
        return Ok(not_made("prepare.restore is off, so that other runs may have changed the data"));
    }
    if stop.load(Ordering::Relaxed) {
        return Ok(not_made("the run was stopped"));
    }
    // The transactions of a trace are those of its script, and not the workload's.
    let is_traced = case.workload.directory.as_ref().is_some_and(|directory| directory.replay.is_some());
    let outcomes = if is_traced { None } else { Some(outcomes) };
    limit::within("checks of the workload", ALL_MAX, || {
        let mut session = session::open(&stage.conninfo_of_sql(&case.workload)?, stop)?;
        match DirectoryCase::find(&mut session, &case.workload)? {
            Some(of_case) => of_case.check(&mut session, outcomes),
            None => Ok(restored::check(&mut session, &case.workload, outcomes)?.unwrap_or_else(not_made)),
        }
    })
}
