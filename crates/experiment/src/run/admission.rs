//! Which addresses are let into our server when it listens for drivers elsewhere: those of the run's drivers alone.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, Result, anyhow};
use model::experiment::case::Case;
use model::experiment::driver::DriverSpec;
use model::run::RunRecord;
use model::run::driver::DriverRecord;
use model::run::server::Route;
use wire::Conninfo;

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
                server.hosts.first().map(ToString::to_string).unwrap_or_default()
            )
        })
    };
    let mut found: Vec<IpAddr> = specs.iter().zip(drivers).map(address).collect::<Result<_>>()?;
    found.sort();
    found.dedup();
    Ok(found)
}

/// The address from which a driver on this machine connects.
///
/// # Errors
/// When the server's address is no longer this machine's.
pub(crate) fn own_address(server: &Conninfo) -> Result<IpAddr> {
    let host = server.hosts.first().context("the server has no address")?;
    let address: IpAddr = host.host.parse().context("the server has no address")?;
    let from = wire::address_toward(SocketAddr::new(address, host.port));
    from.with_context(|| format!("there is no route to {host} (server.listen)"))
}

/// Says what to do about drivers that come from another address than they know.
pub(crate) fn explained(error: anyhow::Error, case: &Case) -> anyhow::Error {
    let is_translated = case.server.listen.is_some() && format!("{error:#}").contains("no pg_hba.conf entry");
    if !is_translated {
        return error;
    }
    anyhow!(
        "{error:#}; pgdyno let in the addresses that its drivers found: if addresses are translated on the way, give the one \
         that the server sees as `address` of [[driver]]"
    )
}

/// Records the way of the load, which is not that of pgdyno's own sessions.
pub(crate) fn record_route(server: &Conninfo, record: &mut RunRecord) {
    if let (Some(of_server), Some(host)) = (&mut record.server, server.hosts.first()) {
        // Nothing is in between: the server listens at this address itself.
        let place = format!("{}:{}", host.host, host.port);
        of_server.route = Some(Route { reached: place.clone(), answered: place, pooler: None });
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
        assert_eq!(
            error,
            "driver `c` has no route to 10.0.0.5:6000, where the server listens (server.listen)"
        );
    }
}
