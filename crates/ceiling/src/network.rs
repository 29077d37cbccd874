//! The way from this machine to a server: round trips and bandwidth of one session, the server's part included.

use anyhow::{Context, Result, ensure};
use model::run::ceilings::Calibration;
use wire::Conninfo;
use wire::session::Session;

use crate::rounds::{Round, median};
use crate::{Effort, Found};

/// Bytes of the row that is received.
const ROW_BYTES: usize = 1 << 20;

/// Measures the way to a server. Nothing is written there.
///
/// # Errors
/// When the server cannot be reached or fails; when the user wants to stop.
pub fn network(conninfo: &Conninfo, effort: &Effort) -> Result<Calibration> {
    let mut session = Session::connect_unless(conninfo, effort.stop)?.context("stopped on request")?;
    // Before anything else is called by name: functions and operators of a schema of somebody else are not ours.
    session.empty_search_path()?;
    let mut found = Found::default();
    let trip = median(effort, |length| {
        Round::take(length, effort, |_| session.query("select 1").map(drop).context("`select 1`"))
    })?;
    found.put("round_trip_rate", None, trip.rate);
    found.put("round_trip_time", None, trip.time_s);
    let sql = format!("select pg_catalog.repeat('x', {ROW_BYTES})");
    let received = median(effort, |length| {
        Round::take(length, effort, |_| {
            let rows = session.query(&sql).context("receive 1 MiB")?;
            let n_bytes = rows.scalar().map(str::len);
            ensure!(n_bytes == Some(ROW_BYTES), "the server answers with another row than the one of 1 MiB");
            Ok(())
        })
    })?;
    found.put("receive_throughput", None, received.rate * ROW_BYTES as f64);
    Ok(found.of_place(way_to(conninfo), effort))
}

/// Name of the way to a server.
pub fn way_to(conninfo: &Conninfo) -> String {
    format!("way to {conninfo}")
}
