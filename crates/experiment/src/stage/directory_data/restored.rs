//! Checks of a workload directory whose data an archive holds, or is there: nothing is marked or counted, so that the rows of a table are those
//! that the directory declares, and names are found where the load finds them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, anyhow};
use dataset::directory::checks::{self, Checked, Outcomes};
use dataset::session;
use generator::Instance;
use model::experiment::case::WorkloadSpec;
use model::experiment::script::CaseData;
use model::experiment::script::archive::Archive;
use wire::Conninfo;
use wire::session::Session;

use super::with_settings;

/// Makes the checks of a load after an archive was restored.
///
/// # Errors
/// When one is violated, or the server fails.
pub(crate) fn expect_sound(
    conninfo: &Conninfo,
    workload: &WorkloadSpec,
    archive: &Archive,
    stop: &'static AtomicBool,
) -> Result<()> {
    let Some(instance) = instance(workload)? else { return Ok(()) };
    if !instance.checks().iter().any(|check| check.on_load) {
        return Ok(());
    }
    let mut session = session::open(&with_settings(conninfo.clone(), workload), stop)?;
    session.restore_for_user()?;
    let checked = checks::after_load(&mut session, &instance, &BTreeMap::new(), checks::LOAD_CHECK_MAX)?;
    checks::expect_sound(&checked).with_context(|| format!("`{}`", archive.name))
}

/// Whether a directory that makes no data has checks of a run.
///
/// # Errors
/// When its texts are not as they were planned.
pub(crate) fn has_checks(workload: &WorkloadSpec) -> Result<bool> {
    let instance = instance(workload)?;
    Ok(instance.is_some_and(|instance| instance.checks().iter().any(|check| check.on_run)))
}

/// Makes the checks of a run whose data was restored before it, in a session as the load has them; why not, if it was not.
///
/// # Errors
/// When a check is no query, or the server fails.
pub(crate) fn check(
    session: &mut Session,
    workload: &WorkloadSpec,
    outcomes: Option<&BTreeMap<String, Outcomes>>,
) -> Result<std::result::Result<Checked, &'static str>> {
    let Some(instance) = instance(workload)? else { return Ok(Ok(Checked::default())) };
    if workload.data == CaseData::None {
        return Ok(Err("the data is not restored before a run, so that others may have changed it"));
    }
    session.restore_for_user()?;
    checks::after_run(session, &instance, &BTreeMap::new(), outcomes, checks::RUN_CHECK_MAX).map(Ok)
}

fn instance(workload: &WorkloadSpec) -> Result<Option<Arc<Instance>>> {
    let at_scale = |directory| {
        workload::directories::at_scale(directory, workload.scale).map_err(|message| anyhow!(message))
    };
    workload.directory.as_deref().map(at_scale).transpose()
}
