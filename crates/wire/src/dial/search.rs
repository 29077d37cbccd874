//! Decides what to try next: hosts, their addresses, and the encryption methods for each, in libpq's order.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use super::attempt::{Attempt, Encryption, Endpoint, Route};
use super::error::ConnectError;
use super::shuffle::{random_below, shuffle};
use crate::conninfo::{Conninfo, ConninfoError, Host, LoadBalanceHosts, SslMode};
use crate::link::look_up;

/// What is left to try, and why the previous attempts failed.
pub(super) struct Search {
    /// Indexes into `Conninfo::hosts`.
    hosts: Vec<usize>,
    /// How many of `hosts` have been tried.
    n_begun: usize,
    /// Remaining routes of the current host.
    routes: VecDeque<Route>,
    errors: Vec<ConnectError>,
}

impl Search {
    /// Decides on the order of hosts.
    pub(super) fn new(conninfo: &Conninfo) -> Search {
        let mut hosts: Vec<usize> = (0..conninfo.hosts.len()).collect();
        balance(conninfo, &mut hosts);
        Search { hosts, n_begun: 0, routes: VecDeque::new(), errors: Vec::new() }
    }

    /// Starts over with the first host in the same order.
    pub(super) fn restart(&mut self) {
        self.n_begun = 0;
        self.routes.clear();
        self.errors.clear();
    }

    /// Starts the next attempt that can be started.
    pub(super) fn next_attempt(&mut self, conninfo: &Conninfo) -> Result<Attempt, ConnectError> {
        loop {
            if let Some(route) = self.routes.pop_front() {
                match Attempt::start(conninfo, route) {
                    Ok(attempt) => return Ok(attempt),
                    Err(error) => {
                        self.skip_fallbacks();
                        self.errors.push(error);
                    }
                }
            } else if let Some(&host) = self.hosts.get(self.n_begun) {
                self.n_begun += 1;
                match targets(&conninfo.hosts[host]) {
                    Ok(mut targets) => {
                        balance(conninfo, &mut targets);
                        self.routes.extend(routes(conninfo, host, targets));
                    }
                    Err(error) => self.errors.push(error),
                }
            } else {
                return Err(self.summary());
            }
        }
    }

    /// Records why an attempt failed, and returns whether another one may succeed.
    pub(super) fn is_worth_another(&mut self, error: ConnectError, was_fallback: bool) -> bool {
        let has_fallback = self.routes.front().is_some_and(|route| route.is_fallback);
        let verdict = match &error {
            // Rules of `pg_hba.conf` may differ with and without TLS; a wrong password stays wrong (28P01), and
            // sending it again without TLS would only expose it.
            ConnectError::Auth { error, .. } => has_fallback && error.sqlstate == "28000",
            ConnectError::TlsRequired { .. } | ConnectError::NoRule { .. } => has_fallback,
            ConnectError::Tls { .. } | ConnectError::TlsNotOffered { .. } | ConnectError::Closed { .. } => {
                true
            }
            ConnectError::Refused { .. }
            | ConnectError::Timeout { .. }
            | ConnectError::NotPostgres { .. }
            | ConnectError::WrongRole { .. }
            | ConnectError::Io { .. } => {
                self.skip_fallbacks();
                true
            }
            // libpq tries the next host if a server is starting up or shutting down.
            ConnectError::Server(error) => {
                self.skip_fallbacks();
                error.sqlstate == "57P03"
            }
            _ => false,
        };
        let first_way = if was_fallback { self.errors.pop() } else { None };
        self.errors.push(match first_way {
            Some(first) if tells_more(&first, &error) => first,
            _ => error,
        });
        verdict
    }

    fn skip_fallbacks(&mut self) {
        while self.routes.front().is_some_and(|route| route.is_fallback) {
            self.routes.pop_front();
        }
    }

    /// All errors as one; equal messages are reported once.
    pub(super) fn summary(&mut self) -> ConnectError {
        let mut distinct: Vec<ConnectError> = Vec::new();
        for error in std::mem::take(&mut self.errors) {
            if !distinct.iter().any(|known| known.to_string() == error.to_string()) {
                distinct.push(error);
            }
        }
        match distinct.pop() {
            Some(only) if distinct.is_empty() => only,
            Some(last) => {
                distinct.push(last);
                ConnectError::Several(distinct)
            }
            None => ConnectError::Conninfo(ConninfoError::new("no host to connect to".to_owned())),
        }
    }
}

/// Whether the first of two methods to reach one place failed for the more informative reason.
fn tells_more(first: &ConnectError, second: &ConnectError) -> bool {
    matches!(first, ConnectError::Auth { .. } | ConnectError::NoRule { .. })
        || matches!(
            (first, second),
            (ConnectError::Tls { .. }, ConnectError::TlsRequired { .. })
                | (ConnectError::TlsRequired { .. }, ConnectError::TlsNotOffered { .. })
        )
}

/// Puts hosts, or the addresses of one host, into the order in which to try them.
fn balance<T>(conninfo: &Conninfo, items: &mut [T]) {
    if conninfo.load_balance_hosts == LoadBalanceHosts::Random {
        shuffle(items, random_below);
    }
}

/// The addresses of a host.
pub(super) fn targets(host: &Host) -> Result<Vec<Endpoint>, ConnectError> {
    if let Some(path) = host.socket_path() {
        return Ok(vec![Endpoint::Socket(path)]);
    }
    if !host.addresses.is_empty() {
        return Ok(host.addresses.iter().copied().map(Endpoint::Address).collect());
    }
    let name = host.hostaddr.as_deref().unwrap_or(&host.host);
    if let Ok(address) = name.parse::<IpAddr>() {
        return Ok(vec![Endpoint::Address(SocketAddr::new(address, host.port))]);
    }
    let failed = |reason: String| ConnectError::NoSuchHost { host: name.to_owned(), reason };
    match look_up(name, host.port) {
        Ok(found) if found.is_empty() => Err(failed("it has no address".to_owned())),
        Ok(found) => Ok(found.into_iter().map(Endpoint::Address).collect()),
        Err(error) => Err(failed(error.to_string())),
    }
}

/// The routes to each address, according to `sslmode`.
fn routes(conninfo: &Conninfo, host: usize, targets: Vec<Endpoint>) -> Vec<Route> {
    let over_network: &[Encryption] = match conninfo.sslmode {
        SslMode::Disable => &[Encryption::Plain],
        SslMode::Allow => &[Encryption::Plain, Encryption::Tls],
        SslMode::Prefer => &[Encryption::IfOffered, Encryption::Plain],
        SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => &[Encryption::Tls],
    };
    let mut routes = Vec::new();
    for target in targets {
        let ways = if matches!(target, Endpoint::Socket(_)) { &[Encryption::Plain] } else { over_network };
        for (i, &encryption) in ways.iter().enumerate() {
            routes.push(Route { host, target: target.clone(), encryption, is_fallback: i > 0 });
        }
    }
    routes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sslmode_has_its_attempts() {
        let check = |sslmode: SslMode, host: &str, expected: &[Encryption]| {
            let mut conninfo = Conninfo::new(host, 1, "u", "d");
            conninfo.sslmode = sslmode;
            let ways: Vec<_> = routes(&conninfo, 0, targets(&conninfo.hosts[0]).unwrap())
                .into_iter()
                .map(|route| route.encryption)
                .collect();
            assert_eq!(ways, expected, "{sslmode:?} {host}");
        };
        check(SslMode::Disable, "127.0.0.1", &[Encryption::Plain]);
        check(SslMode::Allow, "127.0.0.1", &[Encryption::Plain, Encryption::Tls]);
        check(SslMode::Prefer, "::1", &[Encryption::IfOffered, Encryption::Plain]);
        check(SslMode::VerifyFull, "127.0.0.1", &[Encryption::Tls]);
        check(SslMode::VerifyFull, "/tmp", &[Encryption::Plain]);
    }
}
