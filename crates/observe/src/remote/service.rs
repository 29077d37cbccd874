//! A service by HTTP next to a database, and who asks it: an exporter, or a Prometheus server.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::ClientConfig;

use crate::http::{Address, Response};

/// A service, and who asks it.
#[derive(Clone)]
pub struct Service {
    address: Address,
    tls: Option<Arc<ClientConfig>>,
    /// Lines of the request, with a password or a token.
    header: String,
}

/// The address alone: the header has secrets.
impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address)
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address)
    }
}

/// How the asker proves its identity.
pub enum AskerIdentity<'a> {
    /// It need not.
    None,
    /// HTTP's basic authentication (RFC 7617).
    #[allow(missing_docs, reason = "the names say it")]
    Password { user: &'a str, password: &'a str },
    /// A bearer token (RFC 6750).
    Token(&'a str),
}

impl Service {
    /// A service whose certificate must come from the authorities of the file `ca`, else from those of the system.
    ///
    /// # Errors
    /// When certificates cannot be read, or a secret would go over a network as plain text. No error shows a secret.
    pub fn new(address: Address, ca: Option<&Path>, identity: &AskerIdentity) -> Result<Service> {
        let tls =
            if address.is_tls { Some(wire::tls::verified(ca).map_err(anyhow::Error::msg)?) } else { None };
        let is_plain = |text: &str| !text.is_empty() && !text.contains(|c: char| c.is_control());
        let header = match identity {
            AskerIdentity::None => String::new(),
            AskerIdentity::Password { user, password } => {
                ensure!(
                    is_plain(user) && is_plain(password) && !user.contains(':'),
                    "the user or the password is empty or has characters that HTTP does not allow there"
                );
                format!("Authorization: Basic {}\r\n", STANDARD.encode(format!("{user}:{password}")))
            }
            AskerIdentity::Token(token) => {
                let is_token = is_plain(token) && token.is_ascii() && !token.contains(' ');
                ensure!(is_token, "the token is empty or has characters that HTTP does not allow there");
                format!("Authorization: Bearer {token}\r\n")
            }
        };
        ensure!(
            header.is_empty() || address.is_private(),
            "`{address}` would carry a password or a token over the network as plain text; use https://"
        );
        Ok(Service { address, tls, header })
    }

    /// The text at the address.
    ///
    /// # Errors
    /// As [`Address::request`].
    pub(crate) fn scrape(&self, bytes_max: u64) -> Result<Response> {
        let header = format!("Accept: text/plain\r\n{}", self.header);
        self.address.request(self.tls.as_ref(), "GET", &self.address.path, &header, bytes_max)
    }

    /// The answer to `query`, a path with its parameters below the address.
    ///
    /// # Errors
    /// As [`Address::request`], and when the answer takes longer.
    pub fn ask(&self, query: &str, longest: Duration, bytes_max: u64) -> Result<Response> {
        let path = format!("{}{query}", self.address.path.trim_end_matches('/'));
        self.address.request_within(longest, self.tls.as_ref(), "GET", &path, &self.header, bytes_max)
    }
}
