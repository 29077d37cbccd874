//! Loads the tables of a dataset, whichever it is.

use std::sync::atomic::Ordering;

use anyhow::{Result, bail};
use wire::session::Session;

use crate::kind::{Dataset, Family};
use crate::load::{LoadProgress, LoadReport, LoadRequest, STOPPED_LOADING};
use crate::{tpcb, tpcc};

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
    let result = match dataset.facts().family {
        Family::Tpcb => tpcb::load::load(session, request, progress),
        Family::Tpcc(variant) => tpcc::load::load(session, variant, request, progress),
    };
    if result.is_err() && request.stop.load(Ordering::Relaxed) {
        // Whatever the statement that was cancelled says of it.
        bail!(STOPPED_LOADING);
    }
    result
}
