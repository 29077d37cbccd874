//! Whether drivers on other machines answer and reach the server of their load, found out before data is loaded.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fleet::Fleet;
use model::experiment::case::{Case, ServerSource};
use model::experiment::driver::DriverSpec;
use model::load::drive::DriveOrder;
use model::load::{LoadSpec, Protocol, ScriptSpec, Window};
use model::run::driver::DriverRecord;
use wire::{Conninfo, Host};

use crate::site::lanes::Seat;

/// Limit for one session of each driver.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// Greets `drivers` of `case`, and has each open a session on its server by URL among `servers`, as its load will; no
/// transaction is begun. Without `servers` they are only greeted; servers that pgdyno runs are not there yet. In a lane,
/// with a `seat`, their machines are taken for it.
///
/// # Errors
/// When a driver does not answer, is of another build, does not reach the server, or is on the machine of another lane.
pub fn try_drivers(
    case: &Case,
    drivers: &[DriverSpec],
    servers: Option<&[Conninfo]>,
    program: &Path,
    seat: Option<Seat>,
    stop: &AtomicBool,
) -> Result<()> {
    let take = |records: &[&DriverRecord]| seat.map_or(Ok(()), |seat| seat.take_drivers(case, records));
    let (ServerSource::Url(keywords), Some(servers)) = (&case.server.source, servers) else {
        let is_socket = case.server.source.is_embedded() && case.server.listen.is_none();
        let accept =
            |records: &[&DriverRecord]| expect_reachable(is_socket, records).and_then(|()| take(records));
        return Fleet::try_to_greet(drivers, program, &accept, stop);
    };
    let conninfo = crate::site::conninfo(servers, keywords)?;
    let password = conninfo.password.as_ref().map(|secret| secret.expose().to_string());
    let order = DriveOrder::new(one_session_each(&conninfo, drivers.len()), password);
    let accept = |records: &[&DriverRecord]| {
        expect_reachable(is_socket(&conninfo), records).and_then(|()| take(records))
    };
    let mut fleet = Fleet::greeted(drivers, &order, program, &accept, stop)?;
    fleet.wait_connected(READY_TIMEOUT, stop).context("tried before anything is loaded").map(drop)
}

/// Whether a server's clients connect to a Unix socket.
pub(crate) fn is_socket(conninfo: &Conninfo) -> bool {
    conninfo.hosts.first().is_some_and(Host::is_unix)
}

/// Drivers on other machines cannot reach a Unix socket of this one.
///
/// # Errors
/// Names the driver, and says what to do.
pub(crate) fn expect_reachable(is_socket: bool, drivers: &[&DriverRecord]) -> Result<()> {
    for driver in drivers {
        ensure!(
            driver.is_here || !is_socket,
            "driver `{}` is on another machine and cannot reach a server that listens on a Unix socket of this one; set \
             server.listen to a private address of this machine, or give a server by URL (--server)",
            driver.name
        );
    }
    Ok(())
}

/// A load of which only the connecting takes place.
fn one_session_each(conninfo: &Conninfo, n_drivers: usize) -> LoadSpec {
    let text = |text: &str| text.to_string();
    let script =
        ScriptSpec { name: text("reach"), tag: text("reach"), weight: 1, source: text("SELECT 1;\n") };
    LoadSpec {
        target: conninfo.keywords(),
        scripts: vec![script],
        protocol: Protocol::Simple,
        n_clients: n_drivers as u32,
        window: Window { ramp_up_s: 0, measure_s: 2, grace_s: 1 },
        ..LoadSpec::default()
    }
}
