//! How drivers on other machines reach our server: where it listens, from which addresses, as which role, and with
//! which password. Nobody else can connect, and without `server.listen` nobody can at all.

use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use model::release::{Feature, Release, privileges};
use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use wire::conninfo::{PasswordSource, SslMode};
use wire::{Conninfo, Secret, Session, Verifier, quote_ident, quote_literal};

use crate::cluster::DATABASE;
use crate::running::certificate::TlsFiles;
use crate::user::account::Account;

/// The role of a load that comes over the network. It is no superuser, so that whoever learns its password cannot execute
/// programs or read files of the database's host; and it cannot create triggers, which pgdyno would fire as superuser.
pub const LOAD_ROLE: &str = "pgdyno_load";
/// Random bytes of a password: more than anybody can guess, also from the MD5 hash of a server before 10.
const PASSWORD_BYTES: usize = 18;
/// Longest name of a network interface (IFNAMSIZ less its final zero byte).
const INTERFACE_BYTES_MAX: usize = 15;

/// Where a server listens besides its unix socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenAddress {
    /// A private address of this machine.
    pub address: IpAddr,
    /// Whether connections are encrypted, all of them or none.
    pub tls: bool,
}

impl ListenAddress {
    /// The address that `server.listen` names: an address of this machine, or the first private one of an interface.
    ///
    /// # Errors
    /// When the address is not private or not of this machine, or the interface has none that is.
    pub fn resolve(text: &str, tls: bool) -> Result<ListenAddress> {
        check(text)?;
        let (mut of_it, mut others) = (Vec::new(), Vec::new());
        for (interface, address) in own_addresses()? {
            let is_meant =
                text.parse::<IpAddr>().map_or(interface == text, |wanted| wanted.to_canonical() == address);
            if is_meant { &mut of_it } else { &mut others }.push(address);
        }
        of_it.sort_by_key(preference);
        if let Some(&address) = of_it.iter().find(|address| refusal(**address).is_none()) {
            return Ok(ListenAddress { address, tls });
        }
        if !of_it.is_empty() {
            bail!("server.listen: no address of interface `{text}` is private ({})", list(&of_it));
        }
        others.retain(|address| refusal(*address).is_none());
        others.sort();
        bail!(
            "server.listen: `{text}` is neither an address nor an interface of this machine; its private addresses are {}",
            list(&others)
        )
    }
}

/// Checks what can be known of `server.listen` without the machine.
///
/// # Errors
/// When it is an address that is not private, or cannot be the name of an interface.
pub fn check(text: &str) -> Result<()> {
    if let Ok(address) = text.parse::<IpAddr>() {
        if let Some(reason) = refusal(address.to_canonical()) {
            bail!(
                "server.listen: `{text}` {reason}; give a private address of this machine, or an interface"
            );
        }
        return Ok(());
    }
    let is_name = (1..=INTERFACE_BYTES_MAX).contains(&text.len())
        && text.chars().all(|c| c.is_ascii_graphic() && !"/:".contains(c));
    ensure!(
        is_name,
        "server.listen: `{text}` is not an address or the name of an interface; examples: \"10.0.0.5\", \"eth1\""
    );
    Ok(())
}

/// Why our servers do not listen at an address, if they do not.
fn refusal(address: IpAddr) -> Option<&'static str> {
    let is_private = match address {
        _ if address.is_unspecified() => return Some("stands for all interfaces"),
        IpAddr::V6(v6) if v6.is_unicast_link_local() => return Some("is of one link only, and needs a zone"),
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_private() || v4.is_link_local() || is_shared(v4),
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unique_local(),
    };
    (!is_private).then_some("is a public address")
}

/// Addresses within a provider's network, 100.64.0.0/10 (RFC 6598): clouds and private overlays use them.
fn is_shared(address: Ipv4Addr) -> bool {
    let [a, b, ..] = address.octets();
    a == 100 && b & 0xC0 == 64
}

/// Of the addresses of an interface, those of IPv4 come first: both ends have them in most networks. What the interface gave
/// itself, because nobody else gave it an address, comes last.
fn preference(address: &IpAddr) -> (bool, IpAddr) {
    (matches!(address, IpAddr::V4(v4) if v4.is_link_local()), *address)
}

/// The addresses of this machine, each with its network interface.
///
/// # Errors
/// When the kernel does not list them.
pub fn own_addresses() -> Result<Vec<(String, IpAddr)>> {
    let all = getifaddrs().context("cannot list the addresses of this machine")?;
    Ok(all.filter_map(|each| Some((each.interface_name.clone(), ip(&each)?))).collect())
}

fn ip(of: &InterfaceAddress) -> Option<IpAddr> {
    let address = of.address.as_ref()?;
    let v4 = address.as_sockaddr_in().map(|found| IpAddr::V4(found.ip()));
    v4.or_else(|| Some(IpAddr::V6(address.as_sockaddr_in6()?.ip())))
}

fn list(addresses: &[IpAddr]) -> String {
    addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(", ")
}

/// The entrance of one start of a server for its load.
#[derive(Debug)]
pub(crate) struct LoadEntrance {
    listen: ListenAddress,
    port: u16,
    password: Secret,
    version_num: u32,
    certificate: Option<TlsFiles>,
}

impl LoadEntrance {
    /// Chooses a free port and a password. Files of TLS are written into `dir`, which belongs to `account`.
    pub(crate) fn new(
        listen: ListenAddress,
        version_num: u32,
        dir: &Path,
        account: &Account,
    ) -> Result<LoadEntrance> {
        let address = listen.address;
        let port = TcpListener::bind((address, 0))
            .and_then(|listener| listener.local_addr())
            .with_context(|| format!("find a free port on {address}"))?
            .port();
        let password = Secret::new(files::random_hex(PASSWORD_BYTES)?);
        let certificate = listen.tls.then(|| TlsFiles::make(address, dir, account)).transpose()?;
        Ok(LoadEntrance { listen, port, password, version_num, certificate })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Settings for the server's command line.
    pub(crate) fn settings(&self) -> Vec<(&'static str, String)> {
        let mut settings = vec![("listen_addresses", self.listen.address.to_string())];
        if let Some(TlsFiles { certificate_file, key_file, .. }) = &self.certificate {
            settings.extend([
                ("ssl", "on".to_string()),
                ("ssl_cert_file", certificate_file.display().to_string()),
                ("ssl_key_file", key_file.display().to_string()),
            ]);
        }
        settings
    }

    /// How the load connects.
    pub(crate) fn conninfo(&self) -> Conninfo {
        let mut conninfo = Conninfo::new(&self.listen.address.to_string(), self.port, LOAD_ROLE, DATABASE);
        conninfo.password = Some(self.password.clone());
        conninfo.password_source = PasswordSource::Given;
        conninfo.root_certificates = self.certificate.as_ref().map(|certificate| certificate.root.clone());
        conninfo.sslmode = if self.listen.tls { SslMode::VerifyFull } else { SslMode::Disable };
        conninfo
    }

    fn has(&self, feature: Feature) -> bool {
        Release::new(self.version_num).has(feature)
    }

    /// The lines of `pg_hba.conf` that let the load in from these addresses alone.
    pub(crate) fn access(&self, addresses: &[IpAddr]) -> String {
        let method = if self.has(privileges::SCRAM) { "scram-sha-256" } else { "md5" };
        let kind = if self.listen.tls { "hostssl" } else { "hostnossl" };
        let line = |address: &IpAddr| {
            let bits = if address.is_ipv4() { 32 } else { 128 };
            format!("{kind} {DATABASE} {LOAD_ROLE} {address}/{bits} {method}\n")
        };
        addresses.iter().map(line).collect()
    }

    /// Makes the load's role, if it is not there, and gives it its rights and the password of this start. The server
    /// gets only what it stores of the password, so that no log and no statistics of statements can contain it.
    pub(crate) fn make_role(&self, session: &mut Session) -> Result<()> {
        // Standbys that commits wait for start after their primary.
        session.execute("set synchronous_commit = local")?;
        let role = quote_literal(LOAD_ROLE);
        let is_there =
            session.query(&format!("select from pg_roles where rolname = {role}"))?.rows.len() == 1;
        if !is_there {
            session.execute(&format!("create role {LOAD_ROLE}"))?;
        }
        let kind = if self.has(privileges::SCRAM) { Verifier::Scram } else { Verifier::Md5 };
        let verifier = quote_literal(&self.password.verifier(LOAD_ROLE, kind));
        session.execute(&format!("alter role {LOAD_ROLE} login password {verifier}"))?;
        session.execute(&format!("grant connect, temporary on database {DATABASE} to {LOAD_ROLE}"))?;
        // For scripts that vacuum or analyze; releases without it skip that with a warning.
        let maintain = if self.has(privileges::MAINTAIN) { ", maintain" } else { "" };
        let schemas = session.query(
            "select nspname from pg_namespace where nspname !~ '^pg_' and nspname <> 'information_schema'",
        )?;
        for schema in (0..schemas.len()).filter_map(|row| schemas.get(row, "nspname")).map(quote_ident) {
            for rights in [
                "usage on schema".to_string(),
                format!("select, insert, update, delete, truncate{maintain} on all tables in schema"),
                "usage, select, update on all sequences in schema".to_string(),
            ] {
                session.execute(&format!("grant {rights} {schema} to {LOAD_ROLE}"))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_addresses_and_names_of_interfaces_are_accepted() {
        for text in [
            "127.0.0.1",
            "10.0.0.5",
            "172.31.0.1",
            "192.168.1.1",
            "169.254.1.1",
            "100.64.0.1",
            "::1",
            "fd00::5",
            "eth1",
            "wg-db",
            "enp0s3.100",
        ] {
            check(text).unwrap();
        }
        for (text, expected) in [
            ("0.0.0.0", "stands for all interfaces"),
            ("::", "stands for all interfaces"),
            ("8.8.8.8", "is a public address"),
            ("172.32.0.1", "is a public address"),
            ("100.128.0.1", "is a public address"),
            ("2001:db8::1", "is a public address"),
            ("::ffff:8.8.8.8", "is a public address"),
            ("fe80::1", "needs a zone"),
            ("*", "neither"),
            ("", "not an address or the name"),
            ("10.0.0.5:5432", "not an address or the name"),
            ("db1.example.com.", "not an address or the name"),
            ("a b", "not an address or the name"),
        ] {
            let error = check(text)
                .and_then(|()| ListenAddress::resolve(text, false).map(drop))
                .unwrap_err()
                .to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn an_address_or_an_interface_of_this_machine_is_found() {
        let loopback = ListenAddress { address: "127.0.0.1".parse().unwrap(), tls: true };
        assert_eq!(ListenAddress::resolve("127.0.0.1", true).unwrap(), loopback);
        assert_eq!(ListenAddress::resolve("lo", true).unwrap(), loopback);
        let error = ListenAddress::resolve("10.255.255.254", false).unwrap_err().to_string();
        assert!(
            error.contains("neither an address nor an interface of this machine; its private addresses are"),
            "{error}"
        );
        assert!(error.contains("127.0.0.1"), "{error}");
    }

    #[test]
    fn an_address_that_an_interface_gave_itself_is_the_last_resort() {
        let mut addresses: Vec<IpAddr> =
            ["fd00::5", "169.254.7.1", "172.16.0.9", "10.0.0.5"].map(|text| text.parse().unwrap()).into();
        addresses.sort_by_key(preference);
        assert_eq!(list(&addresses), "10.0.0.5, 172.16.0.9, fd00::5, 169.254.7.1");
    }

    #[test]
    fn only_the_named_addresses_get_in_and_only_as_the_loads_role() {
        let check = |version_num: u32, expected: &str| {
            let listen = ListenAddress { address: "127.0.0.1".parse().unwrap(), tls: false };
            let nowhere = (Path::new("/nonexistent"), Account::choose().unwrap());
            let door = LoadEntrance::new(listen, version_num, nowhere.0, &nowhere.1).unwrap();
            assert_eq!(door.access(&["10.0.0.7".parse().unwrap(), "fd00::7".parse().unwrap()]), expected);
        };
        let scram = "hostnossl pgdyno pgdyno_load 10.0.0.7/32 scram-sha-256\n\
                     hostnossl pgdyno pgdyno_load fd00::7/128 scram-sha-256\n";
        check(150_000, scram);
        check(90_624, &scram.replace("scram-sha-256", "md5"));
    }
}
