//! Whether drivers on other machines answer and reach the server of their load, found out before data is loaded.

pub mod trust;

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fleet::Fleet;
use model::experiment::case::{Case, ServerSource};
use model::experiment::driver::DriverSpec;
use model::load::{LoadSpec, Protocol, ScriptSpec, Window};
use model::run::driver::DriverRecord;
use server::cluster::DATABASE;
use server::running::listen::{LOAD_ROLE, ListenAddress};
use wire::{Conninfo, Host};

use crate::site::lanes::Seat;

/// Limit for one session of each driver.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// Routes do not depend on ports, and that of a server which is not there yet is unknown.
const ANY_PORT: u16 = 5432;

/// Greets `drivers` of `case`, and has each open a session on its server by URL among `servers`, as its load will; no
/// transaction is begun. Without `servers` they are only greeted. Servers that pgdyno runs are not there yet: of their
/// drivers only the route to the address is asked, if the server will listen at one.
/// In a lane, with a `seat`, their machines are taken for it.
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
        // An address that this machine does not have is an obstacle of its own.
        let listen = case.server.listen.as_deref().and_then(|text| ListenAddress::resolve(text, false).ok());
        let server = listen.map(|listen| SocketAddr::new(listen.address, ANY_PORT));
        let accept = |records: &[&DriverRecord]| {
            expect_reachable(is_socket, records)?;
            take(records)?;
            let Some(server) = server else { return Ok(()) };
            let server = Conninfo::new(&server.ip().to_string(), ANY_PORT, LOAD_ROLE, DATABASE);
            addresses(drivers, records, &server).map(drop)
        };
        return Fleet::try_to_greet(drivers, server, program, &accept, stop);
    };
    let conninfo = crate::site::conninfo(servers, keywords)?;
    let mut order = fleet::drive_order(one_session_each(&conninfo, drivers.len()), &conninfo);
    order.root_certificates = roots_for_elsewhere(&conninfo)?;
    let accept = |records: &[&DriverRecord]| {
        expect_reachable(is_socket(&conninfo), records).and_then(|()| take(records))
    };
    let mut fleet = Fleet::greeted(drivers, &order, program, &accept, stop)?;
    fleet.wait_connected(READY_TIMEOUT, stop).context("tried before anything is loaded").map(drop)
}

/// The root certificates that a driver on another machine is to trust: those of this one's file, which that machine need not have. With a
/// list of revoked certificates, it needs both files itself.
///
/// # Errors
/// When the file cannot be read.
pub(crate) fn roots_for_elsewhere(conninfo: &Conninfo) -> Result<Option<String>> {
    let file = conninfo.sslrootcert.as_deref().unwrap_or_default();
    conninfo.roots().with_context(|| format!("cannot read `sslrootcert` file `{file}`"))
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

/// The addresses of these drivers, each once: as the experiment file names them, or as the drivers found them.
///
/// # Errors
/// When a driver has no route to the server.
pub(crate) fn addresses(
    specs: &[DriverSpec],
    drivers: &[&DriverRecord],
    server: &Conninfo,
) -> Result<Vec<IpAddr>> {
    let address = |(spec, driver): (&DriverSpec, &&DriverRecord)| {
        let found = spec.address.or(driver.hello.address).map(|address| address.to_canonical());
        found.with_context(|| {
            format!(
                "driver `{}` has no route to {}, where the server listens (server.listen)",
                driver.name,
                server.hosts.first().map_or("its server", |host| &host.host)
            )
        })
    };
    let mut found: Vec<IpAddr> = specs.iter().zip(drivers).map(address).collect::<Result<_>>()?;
    found.sort();
    found.dedup();
    Ok(found)
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

#[cfg(test)]
mod tests {
    use super::*;
    use model::load::hello::Hello;

    #[test]
    fn a_given_address_counts_before_the_one_that_a_driver_found() {
        let spec = |address: Option<&str>| DriverSpec {
            address: address.map(|text| text.parse().unwrap()),
            ..DriverSpec::default()
        };
        let driver = |name: &str, address: Option<&str>| {
            let address = address.map(|text| text.parse().unwrap());
            DriverRecord {
                name: name.to_string(),
                hello: Hello { address, ..Hello::default() },
                ..DriverRecord::default()
            }
        };
        let server = Conninfo::new("10.0.0.5", 6000, "u", "d");
        let (a, b, c) = (driver("a", Some("10.0.0.7")), driver("b", Some("172.17.0.2")), driver("c", None));
        let specs = [spec(None), spec(Some("10.0.0.8")), spec(Some("::ffff:10.0.0.7"))];
        let found = addresses(&specs, &[&a, &b, &c], &server).unwrap();
        assert_eq!(found, ["10.0.0.7", "10.0.0.8"].map(|text| text.parse::<IpAddr>().unwrap()));
        let error = addresses(&[spec(None)], &[&c], &server).unwrap_err().to_string();
        assert_eq!(error, "driver `c` has no route to 10.0.0.5, where the server listens (server.listen)");
    }
}
