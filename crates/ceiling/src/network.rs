//! The way from this machine to a server: round trips and bandwidth of one session, the server's part included.

use anyhow::{Context, Result, ensure};
use model::run::ceilings::Calibration;
use wire::Conninfo;
use wire::session::Session;

use crate::rounds::{CeilingRound, median};
use crate::{Effort, Found};

/// Bytes of the row that is received, and of the text that is sent.
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
        CeilingRound::take(length, effort, |_| session.query("select 1").map(drop).context("`select 1`"))
    })?;
    found.put("round_trip_rate", None, trip.rate);
    found.put("round_trip_time", None, trip.time_s);
    let sql = format!("select pg_catalog.repeat('x', {ROW_BYTES})");
    let received = median(effort, |length| {
        CeilingRound::take(length, effort, |_| {
            let rows = session.query(&sql).context("receive 1 MiB")?;
            let n_bytes = rows.scalar().map(str::len);
            ensure!(n_bytes == Some(ROW_BYTES), "the server answers with another row than the one of 1 MiB");
            Ok(())
        })
    })?;
    found.put("receive_throughput", None, received.rate * ROW_BYTES as f64);
    let sql = format!("select pg_catalog.octet_length('{}')", "x".repeat(ROW_BYTES));
    let sent = median(effort, |length| {
        CeilingRound::take(length, effort, |_| {
            let rows = session.query(&sql).context("send 1 MiB")?;
            let n_bytes = rows.scalar().and_then(|n| n.parse().ok());
            ensure!(n_bytes == Some(ROW_BYTES), "the server received another text than the one of 1 MiB");
            Ok(())
        })
    })?;
    found.put("send_throughput", None, sent.rate * ROW_BYTES as f64);
    Ok(found.of_place(way_to(conninfo), effort))
}

/// Name of the way to a server.
pub fn way_to(conninfo: &Conninfo) -> String {
    format!("way to {conninfo}")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    use model::run::ceilings::CEILINGS;
    use testbed::{ClusterOptions, TestServer};

    use super::*;

    static GO_ON: AtomicBool = AtomicBool::new(false);
    static STOPPED: AtomicBool = AtomicBool::new(true);

    #[test]
    fn the_way_to_a_server_has_a_time_and_a_throughput_in_each_direction() {
        let server = TestServer::start(&ClusterOptions::default());
        let conninfo = server.socket("postgres");
        let effort = Effort { part: Duration::from_millis(60), stop: &GO_ON };
        let made = network(&conninfo, &effort).unwrap();
        let names = ["receive_throughput", "round_trip_rate", "round_trip_time", "send_throughput"];
        assert_eq!(made.values.keys().map(String::as_str).collect::<Vec<_>>(), names);
        for name in names {
            assert!(made.value(name).is_some() && CEILINGS.iter().any(|row| row.name == name), "{made:?}");
        }
        assert_eq!((made.place, made.part_ms), (way_to(&conninfo), 60));
        assert!(network(&conninfo, &Effort { stop: &STOPPED, ..effort }).is_err());
        let nowhere = Conninfo { dbname: "none".to_string(), ..conninfo };
        assert!(format!("{:#}", network(&nowhere, &effort).unwrap_err()).contains("none"));
        // Nothing is left there, and nobody is connected any more.
        let sql = "select count(*) from pg_catalog.pg_stat_activity where backend_type = 'client backend'";
        assert_eq!(server.wait_ready().query(sql).unwrap().scalar(), Some("1"));
    }
}
