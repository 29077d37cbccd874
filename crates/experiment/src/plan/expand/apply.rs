//! Where `workload.apply` may run: only where the next restore undoes it.

use dataset::own::apply::{refusal_by_url, statements};
use model::experiment::case::WorkloadSpec;
use model::experiment::keys;
use model::experiment::script::CaseData;

use crate::plan::design::choice::LevelChoice;

const APPLY: &str = keys::workload::APPLY.name;

/// Refuses statements that nothing would undo, on a server of our own or by URL.
pub(super) fn check(choice: &LevelChoice, workload: &WorkloadSpec, is_own: bool) -> Result<(), String> {
    let Some(sql) = choice.get(keys::workload::APPLY) else { return Ok(()) };
    let all = statements(&sql).map_err(|why| format!("{APPLY}: {why}"))?;
    if !choice.get(keys::prepare::RESTORE) {
        return Err(format!(
            "{APPLY} changes the data, and only a restore undoes it; leave prepare.restore on (no --no-restore)"
        ));
    }
    if is_own {
        return Ok(());
    }
    let made_by = match &workload.data {
        CaseData::Loaded(_) | CaseData::Directory => None,
        CaseData::None => Some("tables that are there already (workload.data is none)"),
        CaseData::Files(_) => Some("tables that your own SQL files make"),
        CaseData::Archive(_) => Some("an archive"),
    };
    if let Some(made_by) = made_by {
        return Err(format!(
            "{APPLY} on a server by URL is for tables that pgdyno loads and restores itself, and not for {made_by}; measure it on a server \
             that pgdyno runs (--version)"
        ));
    }
    match all.iter().find_map(|statement| refusal_by_url(statement)) {
        Some(why) => Err(format!("{APPLY}: {why}")),
        None => Ok(()),
    }
}
