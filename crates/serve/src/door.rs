//! Who may come in: names under which the server may be called, methods, origins, and the token, or else the user.
//!
//! A page of somebody else can make a browser send requests to this machine. It must call the server by a name that resolves
//! here, which the name in the request reveals; and it cannot read answers without our permission, which nobody gets.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, Result};
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, Method, StatusCode};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use crate::ServeOptions;
use crate::neighbour::stands_for_many;

/// Random bytes of a token.
const TOKEN_BYTES: usize = 24;
/// What a browser is to ask its user for. Browsers keep what they got for one name *and port*, while they send a cookie to every port of a
/// name: another user of the machine could listen there.
pub(crate) const CHALLENGE: &str = "Basic realm=\"pgdyno\", charset=\"UTF-8\"";

/// What is checked of each request.
#[derive(Debug)]
pub struct RequestGuard {
    is_loopback: bool,
    is_v6: bool,
    names: Vec<String>,
    token: Option<String>,
    /// The users of this machine for whom it serves.
    users: Vec<u32>,
}

/// Why a request is refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RequestRefusal {
    /// It is not allowed to anybody: status and reason.
    Never(StatusCode, &'static str),
    /// The reader has to show the token first.
    NeedsToken,
    /// The reader has to ask at this address, `http://HOST:PORT`.
    Elsewhere(String),
}

/// Whether only processes of this machine can reach an address.
pub fn is_loopback(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_loopback(),
        IpAddr::V6(v6) => v6.is_loopback() || v6.to_ipv4_mapped().is_some_and(|v4| v4.is_loopback()),
    }
}

impl RequestGuard {
    pub(crate) fn new(address: SocketAddr, options: &ServeOptions) -> Result<RequestGuard> {
        let is_loopback = is_loopback(address.ip());
        let mut names = vec!["localhost".to_string()];
        if !is_loopback {
            let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
            names.extend(Some(own.trim().to_ascii_lowercase()).filter(|name| !name.is_empty()));
        }
        names.extend(options.names.iter().map(|name| name.to_ascii_lowercase()));
        let token = if is_loopback && !options.wants_token && !options.may_control {
            None
        } else {
            Some(files::random_hex(TOKEN_BYTES).context("cannot make a token")?)
        };
        let own = rustix::process::geteuid().as_raw();
        // Whoever is root can read the results anyway.
        let users = [own, 0]
            .into_iter()
            .chain(files::trust::caller_uid())
            .filter(|uid| !stands_for_many(*uid))
            .collect();
        Ok(RequestGuard { is_loopback, is_v6: address.is_ipv6(), names, token, users })
    }

    /// Checks which user of this machine sends a request: results are for who serves them, and without a token every other user of the
    /// machine could read them. One whom the kernel does not name is another one.
    pub(crate) fn check_user(&self, user: Option<u32>) -> Result<(), RequestRefusal> {
        if self.token.is_some() || self.serves(user) {
            return Ok(());
        }
        let reason = match user {
            Some(_) => {
                "these results are for the user who serves them; with --token, whoever has the token of this server may read them"
            }
            None => {
                "the kernel does not say which user of this machine asks, and results are for the user who serves them; start the server with --token"
            }
        };
        Err(RequestRefusal::Never(StatusCode::FORBIDDEN, reason))
    }

    pub(crate) fn serves(&self, user: Option<u32>) -> bool {
        user.is_some_and(|user| self.users.contains(&user))
    }

    pub(crate) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Checks a request. `is_free`: whether its address needs no token.
    pub(crate) fn check(
        &self,
        method: &Method,
        headers: &HeaderMap,
        is_free: bool,
    ) -> Result<(), RequestRefusal> {
        let never = |status, reason| Err(RequestRefusal::Never(status, reason));
        let Some(host) = only(headers, HOST.as_str()) else {
            return never(StatusCode::BAD_REQUEST, "the request does not name its host");
        };
        if !self.knows(host) {
            return never(
                StatusCode::FORBIDDEN,
                "this server is not known by that name; use its address, or start it with --name",
            );
        }
        if self.token.is_some()
            && let Some(address) = address_of_localhost(host, self.is_v6)
        {
            return Err(RequestRefusal::Elsewhere(address));
        }
        match *method {
            Method::GET | Method::HEAD => {
                if is_embedded_elsewhere(headers) {
                    return never(StatusCode::FORBIDDEN, "another site must not embed or fetch this");
                }
            }
            Method::POST => {
                if only(headers, ORIGIN.as_str()) != Some(&format!("http://{host}")) {
                    return never(StatusCode::FORBIDDEN, "only pages of this server may change something");
                }
            }
            _ => return never(StatusCode::METHOD_NOT_ALLOWED, "only GET, and POST of forms"),
        }
        match &self.token {
            Some(token) if !is_free && !has_token(headers, token) => Err(RequestRefusal::NeedsToken),
            _ => Ok(()),
        }
    }

    /// Whether a request may call the server by this name. A name that is an address cannot be made to resolve to another.
    fn knows(&self, host: &str) -> bool {
        let name = without_port(host);
        match name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            Ok(address) => !self.is_loopback || is_loopback(address),
            Err(_) => self.names.contains(&name.to_ascii_lowercase()),
        }
    }
}

/// The address that a browser is to use in place of `localhost`, which has two: somebody else may listen at this port of the other one, and
/// would be sent the token.
fn address_of_localhost(host: &str, is_v6: bool) -> Option<String> {
    let name = without_port(host);
    let address = if is_v6 { "[::1]" } else { "127.0.0.1" };
    name.eq_ignore_ascii_case("localhost").then(|| format!("http://{address}{}", &host[name.len()..]))
}

/// Whether a request shows the token: as the password of any user (RFC 7617), as browsers do, or by itself (RFC 6750).
fn has_token(headers: &HeaderMap, token: &str) -> bool {
    let Some((scheme, shown)) = only(headers, AUTHORIZATION.as_str()).and_then(|value| value.split_once(' '))
    else {
        return false;
    };
    let shown = shown.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return is_same(shown, token);
    }
    let decoded = scheme.eq_ignore_ascii_case("basic").then(|| BASE64_STANDARD.decode(shown).ok()).flatten();
    let pair = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
    pair.is_some_and(|pair| pair.split_once(':').is_some_and(|(_, password)| is_same(password.trim(), token)))
}

/// The value of a header that is there once, as text.
fn only<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// Browsers say where a request comes from; one that another site's page makes in the background is refused, a link is followed.
fn is_embedded_elsewhere(headers: &HeaderMap) -> bool {
    let site = only(headers, "sec-fetch-site").unwrap_or("none");
    let mode = only(headers, "sec-fetch-mode").unwrap_or("navigate");
    let is_frame = only(headers, "sec-fetch-dest")
        .is_some_and(|dest| ["iframe", "frame", "embed", "object"].contains(&dest));
    ["cross-site", "same-site"].contains(&site) && (mode != "navigate" || is_frame)
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    }
}

/// Compares in a time that does not depend on where two texts differ.
fn is_same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

#[cfg(test)]
mod tests;
