//! A captured workload on a server by URL: never the one that it was captured from, and on data that is there only with rights that reach
//! no further than the database.

use anyhow::{Result, bail};
use model::experiment::case::WorkloadSpec;
use model::experiment::script::CaseData;
use wire::session::Session;

use super::beyond_rights;
use crate::site::Permissions;

/// Why a captured workload must not run on this server, if so.
///
/// # Errors
/// When the server fails.
pub(crate) fn refusal(
    session: &mut Session,
    workload: &WorkloadSpec,
    permissions: &Permissions,
) -> Result<Option<String>> {
    if let Some(why) = may_be_source(session, workload, permissions.risks.is_copy) {
        return Ok(Some(why));
    }
    // Data that is loaded or restored is judged where that is done.
    if workload.data != CaseData::None {
        return Ok(None);
    }
    beyond_rights(session, workload, permissions.risks)
}

/// Fails where [`refusal`] has a reason.
///
/// # Errors
/// With the reason, or when the server fails.
pub(crate) fn expect_allowed(
    session: &mut Session,
    workload: &WorkloadSpec,
    permissions: &Permissions,
) -> Result<()> {
    match refusal(session, workload, permissions)? {
        Some(why) => bail!(why),
        None => Ok(()),
    }
}

/// Why this server may be the captured one, if so. A physical copy has its identifier.
fn may_be_source(session: &mut Session, workload: &WorkloadSpec, is_copy: bool) -> Option<String> {
    let directory = workload.directory.as_ref()?;
    let captured = directory.captured.as_ref()?;
    if is_copy {
        return None;
    }
    let Some(source) = captured.system_identifier.as_ref() else {
        // Of data that is restored, nobody else's is changed.
        return (workload.data == CaseData::None).then(|| {
            refusal_of_source(&format!(
                "may be the one that workload `{}` was captured from, whose log does not say which that was",
                directory.name
            ))
        });
    };
    let found = session.query("select system_identifier from pg_catalog.pg_control_system()");
    let found = found.ok().and_then(|rows| rows.scalar().map(str::to_string));
    let why = match found {
        Some(found) if found != *source => return None,
        Some(_) => format!(
            "has the system identifier {source} of the server that workload `{}` was captured from",
            directory.name
        ),
        None => format!(
            "does not tell its system identifier (pg_control_system), so that it may be the one that workload `{}` was captured from",
            directory.name
        ),
    };
    Some(refusal_of_source(&why))
}

fn refusal_of_source(why: &str) -> String {
    format!(
        "this server {why}: the load would change what its users work with; run it on a restored copy, and if this is one, pass \
         --this-is-a-copy"
    )
}
