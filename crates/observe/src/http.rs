//! A GET over plain HTTP, for what runs beside a database: exporters of telemetry, notices of clouds.

use std::fmt;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// How long connecting, writing and each read may take.
const TIMEOUT: Duration = Duration::from_secs(2);

/// An address of plain HTTP, without user and password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// With the port.
    pub host: String,
    /// From the slash on.
    pub path: String,
}

/// What came back.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status: 200 when all is well.
    pub status: u16,
    /// What follows the header.
    pub body: String,
}

impl Address {
    /// Reads `http://host:port/path`.
    ///
    /// # Errors
    /// When it is something else, or has a user or a password: the message does not repeat those.
    pub fn parse(url: &str) -> Result<Address> {
        // Before anything that would show the text.
        let before_query = url.split(['?', '#']).next().unwrap_or(url);
        // Also behind a slash: where a password ends is not known, and a path seldom has the sign.
        ensure!(
            !before_query.contains('@'),
            "the address has a user or a password, which would be recorded; leave them out"
        );
        let rest = url.strip_prefix("http://");
        let rest =
            rest.with_context(|| format!("`{url}` must begin with http://; TLS is not spoken here"))?;
        let (host, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        ensure!(!host.is_empty(), "`{url}` names no host");
        ensure!(
            !url.contains(char::is_whitespace),
            "`{url}` is not an address; example: http://127.0.0.1:9100/metrics"
        );
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        Ok(Address {
            host: if has_port { host.to_string() } else { format!("{host}:80") },
            path: if path.starts_with('/') { path.to_string() } else { format!("/{path}") },
        })
    }

    /// Asks for `path` by `method`; `header` is whole lines.
    ///
    /// # Errors
    /// When nobody is there, the answer does not come in time, is longer than `bytes_max`, or is not HTTP.
    pub fn request(&self, method: &str, path: &str, header: &str, bytes_max: u64) -> Result<Answer> {
        let host = &self.host;
        let places = host.to_socket_addrs().with_context(|| format!("the host of `{host}` is not known"))?;
        // A name may have several addresses, of which not all are listened on.
        let stream = places.filter_map(|place| TcpStream::connect_timeout(&place, TIMEOUT).ok()).next();
        let mut stream = stream.with_context(|| format!("cannot connect to `{host}`"))?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        // Version 1.0: the answer ends with the connection, and comes in one piece.
        let head = format!("{method} {path} HTTP/1.0\r\nHost: {host}\r\n{header}\r\n");
        let mut text = Vec::new();
        stream
            .write_all(head.as_bytes())
            .and_then(|()| stream.take(bytes_max + 1).read_to_end(&mut text).map(drop))
            .with_context(|| format!("`{host}` does not answer"))?;
        ensure!(text.len() as u64 <= bytes_max, "the answer of `{host}` is longer than {bytes_max} bytes");
        Answer::read(&String::from_utf8_lossy(&text))
            .with_context(|| format!("`{host}` does not answer in HTTP"))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.host, self.path)
    }
}

impl Answer {
    /// Splits header and body.
    pub fn read(text: &str) -> Option<Answer> {
        let (head, body) = text.split_once("\r\n\r\n").or_else(|| text.split_once("\n\n"))?;
        let status = head.strip_prefix("HTTP/")?.split_whitespace().nth(1)?.parse().ok()?;
        Some(Answer { status, body: body.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_of_plain_http() {
        let check = |url: &str, expected: (&str, &str)| {
            let address = Address::parse(url).unwrap();
            assert_eq!((address.host.as_str(), address.path.as_str()), expected);
        };
        check("http://169.254.169.254/a/b?c=d", ("169.254.169.254:80", "/a/b?c=d"));
        check("http://h:8080", ("h:8080", "/"));
        check("http://h/x?y=@z", ("h:80", "/x?y=@z"));
        for url in ["https://h/a", "h/a", "http://", "http://h/a b"] {
            assert!(Address::parse(url).is_err(), "{url}");
        }
        for url in [
            "http://u:secret@h/",
            "https://secret@h",
            "u:secret@h",
            "http:/u:secret@h/m",
            "http://u:p/secret@h/m",
        ] {
            let message = format!("{:#}", Address::parse(url).unwrap_err());
            assert!(message.contains("leave them out") && !message.contains("secret"), "{message}");
        }
    }

    #[test]
    fn answers_have_a_status_and_a_body() {
        let answer = Answer::read("HTTP/1.1 404 Not Found\r\nA: b\r\n\r\n<html>").unwrap();
        assert_eq!((answer.status, answer.body.as_str()), (404, "<html>"));
        assert_eq!(Answer::read("SSH-2.0"), None);
    }
}
