//! Loads the tables of a dataset, whichever it is.

pub mod by_table;
pub mod tpcb;

use std::sync::atomic::Ordering;

use anyhow::{Result, bail};
use model::workload::Dataset;
use wire::session::Session;
use workload::catalogue::{self, Filling};

use crate::load::{LoadProgress, LoadReport, LoadRequest, STOPPED_LOADING};

/// Loads the tables, marked as unfinished until they are complete.
///
/// # Errors
/// When tables exist that must not be dropped, when the server or one of the streams fails, or when `stop` is raised.
pub fn load(
    session: &mut Session,
    dataset: Dataset,
    request: &LoadRequest<'_>,
    progress: &mut dyn FnMut(LoadProgress),
) -> Result<LoadReport> {
    let result = match &catalogue::maker(dataset).filling {
        Filling::Pgbench => tpcb::load::load(session, request, progress),
        Filling::ByTable(tables) => by_table::load(session, dataset, tables, request, progress),
    };
    if result.is_err() && request.stop.load(Ordering::Relaxed) {
        // Whatever the statement that was cancelled says of it.
        bail!(STOPPED_LOADING);
    }
    result
}
