//! Data on a server by URL that a load before this experiment has left, and that nobody has changed since: the first run
//! uses it instead of loading it again, and says so.

use anyhow::Result;
use dataset::layout;
use dataset::state::untouched::{fingerprint, is_untouched};
use dataset::state::{self, DataState, WorkloadTables};
use model::experiment::case::WorkloadSpec;
use wire::session::Session;
use workload::Marker;
use workload::objects::marker::MarkerState;

/// The marker of the workload's data if it is complete, of the scale, layout and tablespace that the workload asks for, and unchanged
/// since it was loaded.
///
/// # Errors
/// When the server fails.
pub(crate) fn find(session: &mut Session, workload: &WorkloadSpec) -> Result<Option<Marker>> {
    let Some(home) = WorkloadTables::find(session, workload)? else { return Ok(None) };
    let state = state::inspect(session, home.dataset, &home.schema);
    let Ok(DataState::Whole(marker)) = state else { return Ok(None) };
    let tables = layout::all_tables(home.dataset, workload.scale, workload.layout);
    let is_same = marker.scale == workload.scale && layout::is_as_wanted(&marker, home.dataset, workload);
    let is_used = is_same && is_untouched(session, &home.schema, &tables, &marker)?;
    Ok(is_used.then_some(marker))
}

/// What was loaded when, and how that is known: `scale 10, loaded at 2026-11-24T19:00:00Z, fingerprint 0123456789abcdef`.
pub(crate) fn words(marker: &Marker) -> String {
    let at = match &marker.state {
        MarkerState::Finished { at } => format!(", loaded at {at}"),
        MarkerState::Loading => String::new(),
    };
    let fingerprint = fingerprint(marker).map_or(String::new(), |digest| format!(", fingerprint {digest}"));
    format!("scale {}{at}{fingerprint}", marker.scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_that_is_used_again_is_named_with_its_proof() {
        let comment = "pgdyno workload=tpcb scale=10 tool_version=0.1.0 state=finished \
                       finished_at=2026-11-24T19:00:00Z rows=1000110 state_digest=0123456789abcdef";
        let marker = Marker::parse(comment).unwrap().unwrap();
        assert_eq!(words(&marker), "scale 10, loaded at 2026-11-24T19:00:00Z, fingerprint 0123456789abcdef");
    }
}
