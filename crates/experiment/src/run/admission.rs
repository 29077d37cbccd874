//! The address of a driver here, the explanation of a refusal, and the record of the way, where our server listens.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, Result, anyhow};
use model::experiment::case::Case;
use model::run::RunRecord;
use model::run::server::Route;
use wire::Conninfo;

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
