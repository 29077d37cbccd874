//! Agents and their server, as callers name them, with or without NATS in the build.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use serde::Serialize;

/// A NATS server, and how to be let in.
#[derive(Debug, Clone, Default)]
pub struct NatsServer {
    /// `nats://HOST:PORT`, or `tls://HOST:PORT`.
    pub url: String,
    /// A file with the user's JWT and key, with a key, or with `USER:PASSWORD`.
    pub creds: Option<PathBuf>,
    /// Certificates of authorities to trust besides the system's.
    pub ca: Option<PathBuf>,
}

impl NatsServer {
    /// Refuses a URL that has a secret, which every user of the machine could read among the arguments.
    ///
    /// # Errors
    /// Says what to do.
    pub fn check(&self) -> Result<()> {
        ensure!(!self.url.is_empty(), "name the NATS server: --nats tls://HOST:4222, or PGDYNO_NATS");
        ensure!(
            !self.url.contains('@'),
            "the URL of the NATS server must not have a user or a password; give a file as --creds"
        );
        let Some((scheme, place)) = self.url.split_once("://") else {
            bail!("`{}` is no URL of a NATS server; say tls://HOST:4222 or nats://HOST:4222", self.url);
        };
        ensure!(
            ["nats", "tls"].contains(&scheme),
            "pgdyno reaches NATS servers as tls:// or nats://, not {scheme}://"
        );
        ensure!(
            scheme == "tls" || is_loopback(place),
            "credentials and the load's password would cross the network in clear text; use tls:// (nats:// reaches this \
             machine only)"
        );
        Ok(())
    }
}

/// Whether `HOST:PORT` is this machine.
fn is_loopback(place: &str) -> bool {
    let host = place.rsplit_once(':').map_or(place, |(host, _)| host).trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Who an agent is, and what it may start.
#[derive(Debug, Clone)]
pub struct Agent {
    /// Its name, unique at the server.
    pub name: String,
    /// Labels by which experiments choose it.
    pub labels: BTreeMap<String, String>,
    /// The program that it starts: this build of pgdyno.
    pub program: PathBuf,
    /// Name and version of the program, for lists.
    pub build: String,
    /// Whether loads may execute shell commands and write files.
    pub may_execute: bool,
}

/// The option, without its dashes, of a driver that only loads.
pub const LOAD_ONLY: &str = "load-only";

/// An agent that answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AnsweringAgent {
    /// The name that the server lets it speak for.
    pub name: String,
    /// Labels that it was given.
    pub labels: BTreeMap<String, String>,
    /// Name and version of its program.
    pub build: String,
    /// Whether it drives a load at the moment.
    pub is_busy: bool,
    /// How many agents answered to this name: more than one cannot be used.
    pub n: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_and_unknown_ways_are_refused() {
        let check = |url: &str| {
            NatsServer { url: url.into(), ..NatsServer::default() }.check().map_err(|error| error.to_string())
        };
        assert_eq!(check("tls://nats.example.org:4222"), Ok(()));
        assert!(check("nats://me:secret@host").unwrap_err().contains("--creds"));
        assert!(!check("nats://me:secret@host").unwrap_err().contains("secret"));
        assert!(check("http://host").unwrap_err().contains("not http://"));
        assert!(check("host").unwrap_err().contains("is no URL"));
        assert!(check("").unwrap_err().contains("PGDYNO_NATS"));
        assert!(!check("me:secret@host:4222").unwrap_err().contains("secret"));
        assert!(check("nats://nats.example.org:4222").unwrap_err().contains("use tls://"));
        for here in ["nats://localhost", "nats://127.0.0.1:4222", "nats://[::1]:4222"] {
            assert_eq!(check(here), Ok(()), "{here}");
        }
    }
}
