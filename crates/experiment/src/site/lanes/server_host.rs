//! Which machine a server by URL is on, as far as its addresses tell.

use std::collections::BTreeSet;
use std::net::IpAddr;

use anyhow::{Context, Result};
use server::running::listen::own_addresses;
use wire::Conninfo;

/// The machine of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerHost {
    /// Whether it is the machine of pgdyno: a Unix socket, a loopback address, or an address of one of its interfaces.
    pub is_here: bool,
    /// The addresses of all host names that the server was given by.
    pub addresses: BTreeSet<IpAddr>,
}

impl ServerHost {
    /// The machine of pgdyno.
    pub fn here() -> ServerHost {
        ServerHost { is_here: true, addresses: BTreeSet::new() }
    }

    /// Looks up the addresses of a server. A name may have several, of which any may answer.
    ///
    /// # Errors
    /// When a name has no address.
    pub fn find(conninfo: &Conninfo) -> Result<ServerHost> {
        let found = conninfo.with_addresses().context("cannot look up the server's host")?;
        let own: BTreeSet<IpAddr> = own_addresses()?.into_iter().map(|(_, address)| address).collect();
        let addresses = found.hosts.iter().flat_map(|host| &host.addresses);
        let addresses: BTreeSet<IpAddr> = addresses.map(|found| found.ip().to_canonical()).collect();
        let is_own = |address: &IpAddr| {
            address.is_loopback() || address.is_unspecified() || own.contains(&address.to_canonical())
        };
        let is_here = found.hosts.iter().any(|host| host.is_unix()) || addresses.iter().any(is_own);
        Ok(ServerHost { is_here, addresses })
    }

    /// Whether both are one machine. Two names of one machine that share no address are not recognized.
    pub fn is_same(&self, other: &ServerHost) -> bool {
        (self.is_here && other.is_here) || !self.addresses.is_disjoint(&other.addresses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> ServerHost {
        let text = format!("user=u dbname=d {text}");
        ServerHost::find(&Conninfo::resolve_in(&text, &Default::default()).unwrap()).unwrap()
    }

    #[test]
    fn sockets_loopback_and_own_addresses_are_this_machine_on_any_port() {
        let mut own = vec!["host=/tmp".to_string(), "host=127.0.0.1 port=1".into(), "host=localhost".into()];
        own.extend(["host=127.3.2.1", "hostaddr=0.0.0.0"].map(String::from));
        for (_, address) in own_addresses().unwrap() {
            // A link-local address of IPv6 needs its zone.
            if !address.to_string().starts_with("fe80") {
                own.push(format!("hostaddr={address} port=7"));
            }
        }
        for text in &own {
            assert!(of(text).is_here, "{text}");
            assert!(of(text).is_same(&ServerHost::here()), "{text}");
        }
        // Addresses for documents (RFC 5737) are nobody's.
        assert!(!of("hostaddr=203.0.113.1").is_here);
    }

    #[test]
    fn servers_with_an_address_in_common_are_on_one_machine() {
        let check = |one: &str, other: &str, expected: bool| {
            assert_eq!(of(one).is_same(&of(other)), expected, "{one} {other}");
            assert_eq!(of(other).is_same(&of(one)), expected, "{one} {other}");
        };
        check("hostaddr=203.0.113.1 port=5432", "hostaddr=203.0.113.1 port=5433", true);
        check("hostaddr=203.0.113.1", "hostaddr=203.0.113.2", false);
        check("hostaddr=203.0.113.1,203.0.113.2", "hostaddr=203.0.113.2", true);
        check("hostaddr=::ffff:203.0.113.1", "hostaddr=203.0.113.1", true);
        check("hostaddr=203.0.113.1", "host=/tmp", false);
    }
}
