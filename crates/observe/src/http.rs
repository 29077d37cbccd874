//! GET over HTTP, for services next to a database: telemetry exporters, maintenance notices of clouds. Redirections are
//! not followed: a password would go where nobody sent it.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

/// Limit for one request, from connecting to the end of the answer. Name resolution comes before that.
const TIMEOUT: Duration = Duration::from_secs(2);
const PART_BYTES: usize = 64 << 10;

/// An address for HTTP, without user and password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Whether it is one of HTTPS.
    pub is_tls: bool,
    /// Host and port.
    pub host: String,
    /// From the first slash on.
    pub path: String,
}

/// An HTTP response.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Debug, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    pub body: String,
}

impl Address {
    /// Parses `http://host:port/path` or `https://host:port/path`.
    ///
    /// # Errors
    /// When it is something else, or has a user or a password; the message does not repeat those.
    pub fn parse(url: &str) -> Result<Address> {
        // Before any message that would show the text.
        let before_query = url.split(['?', '#']).next().unwrap_or(url);
        // Also after a slash: where a password ends is unknown, and paths rarely contain the sign.
        ensure!(
            !before_query.contains('@'),
            "the address has a user or a password, which would be recorded; leave them out"
        );
        let is_tls = url.starts_with("https://");
        let rest = url.strip_prefix(if is_tls { "https://" } else { "http://" });
        let rest = rest.with_context(|| format!("`{url}` does not begin with http:// or https://"))?;
        let (host, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        ensure!(!host.is_empty(), "`{url}` has no host name");
        ensure!(
            !url.contains(char::is_whitespace),
            "`{url}` is not an address; example: http://127.0.0.1:9100/metrics"
        );
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let default_port = if is_tls { 443 } else { 80 };
        Ok(Address {
            is_tls,
            host: if has_port { host.to_string() } else { format!("{host}:{default_port}") },
            path: if path.starts_with('/') { path.to_string() } else { format!("/{path}") },
        })
    }

    /// The host without its port.
    fn name(&self) -> &str {
        let name = self.host.rsplit_once(':').map_or(self.host.as_str(), |(name, _)| name);
        name.trim_start_matches('[').trim_end_matches(']')
    }

    /// Whether nobody but this machine can read what is sent there.
    pub fn is_private(&self) -> bool {
        self.is_tls
            || self.name() == "localhost"
            || self.name().parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// Sends a request for `path`; `header` consists of complete lines. An address of HTTPS needs `tls`.
    ///
    /// # Errors
    /// When nobody listens, the server's certificate is not trusted, the answer is late, is longer than `bytes_max`, or is
    /// not HTTP.
    pub fn request(
        &self,
        tls: Option<&Arc<ClientConfig>>,
        method: &str,
        path: &str,
        header: &str,
        bytes_max: u64,
    ) -> Result<Response> {
        self.request_within(TIMEOUT, tls, method, path, header, bytes_max)
    }

    /// The same for an answer that may take longer to make.
    ///
    /// # Errors
    /// As there.
    pub fn request_within(
        &self,
        longest: Duration,
        tls: Option<&Arc<ClientConfig>>,
        method: &str,
        path: &str,
        header: &str,
        bytes_max: u64,
    ) -> Result<Response> {
        let host = &self.host;
        let places =
            host.to_socket_addrs().with_context(|| format!("cannot resolve the host name of `{host}`"))?;
        let end = End { at: Instant::now() + longest, longest };
        // A name may have several addresses, and the server might not listen on all of them.
        let mut streams =
            places.filter_map(|place| TcpStream::connect_timeout(&place, end.left().ok()?).ok());
        let stream = streams.next().with_context(|| format!("cannot connect to `{host}`"))?;
        let mut stream = Timed { stream, end };
        // Version 1.0: the answer is not chunked and ends when the connection closes.
        let head = format!("{method} {path} HTTP/1.0\r\nHost: {host}\r\n{header}\r\n");
        let text = if self.is_tls {
            let config = tls.context("this address needs TLS, which is not supported here")?;
            let name = ServerName::try_from(self.name().to_string())
                .with_context(|| format!("`{}` is not a valid name for a certificate", self.name()))?;
            let connection = ClientConnection::new(Arc::clone(config), name)?;
            exchange(&mut StreamOwned::new(connection, stream), &head, bytes_max)
        } else {
            exchange(&mut stream, &head, bytes_max)
        };
        let text = text.with_context(|| format!("`{host}` does not answer"))?;
        ensure!(text.len() as u64 <= bytes_max, "the answer of `{host}` is longer than {bytes_max} bytes");
        Response::read(&String::from_utf8_lossy(&text))
            .with_context(|| format!("`{host}` does not answer with HTTP"))
    }
}

/// A connection that is given up at its end. A limit per read would let a server that sends one byte a second block us
/// forever.
struct Timed {
    stream: TcpStream,
    end: End,
}

/// The end of a request, and the time that it had.
#[derive(Clone, Copy)]
struct End {
    at: Instant,
    longest: Duration,
}

impl End {
    /// Time left; an error if none is left.
    fn left(self) -> io::Result<Duration> {
        let left = self.at.saturating_duration_since(Instant::now());
        let late = || io::Error::new(ErrorKind::TimedOut, format!("not within {} s", self.longest.as_secs()));
        (!left.is_zero()).then_some(left).ok_or_else(late)
    }
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.end.left()?))?;
        self.stream.read(buffer)
    }
}

impl Write for Timed {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.end.left()?))?;
        self.stream.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Sends `head` and reads until the other side closes, or until more than `bytes_max` bytes have come.
fn exchange(stream: &mut (impl Read + Write), head: &str, bytes_max: u64) -> io::Result<Vec<u8>> {
    stream.write_all(head.as_bytes())?;
    stream.flush()?;
    let (mut text, mut part) = (Vec::new(), vec![0; PART_BYTES]);
    while (text.len() as u64) <= bytes_max {
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(n_bytes) => text.extend_from_slice(&part[..n_bytes]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(text)
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.host, self.path)
    }
}

impl Response {
    /// Splits header and body.
    pub fn read(text: &str) -> Option<Response> {
        let (head, body) = text.split_once("\r\n\r\n").or_else(|| text.split_once("\n\n"))?;
        let status = head.strip_prefix("HTTP/")?.split_whitespace().nth(1)?.parse().ok()?;
        Some(Response { status, body: body.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_of_http() {
        let check = |url: &str, expected: (&str, &str)| {
            let address = Address::parse(url).unwrap();
            assert_eq!((address.host.as_str(), address.path.as_str()), expected);
        };
        check("http://169.254.169.254/a/b?c=d", ("169.254.169.254:80", "/a/b?c=d"));
        check("http://h:8080", ("h:8080", "/"));
        check("http://h/x?y=@z", ("h:80", "/x?y=@z"));
        check("https://h/a", ("h:443", "/a"));
        for (url, is_private) in [
            ("http://127.0.0.1:9100/m", true),
            ("http://[::1]:9100/m", true),
            ("http://localhost/m", true),
            ("http://127.0.0.1.example.org/m", false),
            ("http://10.0.0.5:9100/m", false),
            ("https://10.0.0.5:9100/m", true),
        ] {
            assert_eq!(Address::parse(url).unwrap().is_private(), is_private, "{url}");
        }
        for url in ["ftp://h/a", "h/a", "http://", "http://h/a b"] {
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
    fn an_answer_that_comes_byte_by_byte_is_not_waited_for() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::parse(&format!("http://{}/metrics", listener.local_addr().unwrap())).unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // Closing a connection before everything was read ends with an error on the other side.
            stream.read_exact(&mut [0; 20]).unwrap();
            stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            stream.read_to_end(&mut Vec::new()).ok();
            // Each byte is in time; all of them would take 12 s.
            for byte in b"HTTP/1.0 200 OK\r\n\r\nabc" {
                std::thread::sleep(Duration::from_millis(500));
                if stream.write_all(&[*byte]).is_err() {
                    return;
                }
            }
        });
        let refused = address.request(None, "GET", "/metrics", "", 1000).unwrap_err();
        assert!(format!("{refused:#}").contains("does not answer"), "{refused:#}");
    }

    #[test]
    fn answers_have_a_status_and_a_body() {
        let answer = Response::read("HTTP/1.1 404 Not Found\r\nA: b\r\n\r\n<html>").unwrap();
        assert_eq!((answer.status, answer.body.as_str()), (404, "<html>"));
        assert_eq!(Response::read("SSH-2.0"), None);
    }
}
