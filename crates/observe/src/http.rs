//! GET over plain HTTP, for services next to a database: telemetry exporters, maintenance notices of clouds.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

/// Limit for one request, from connecting to the end of the answer. Name resolution comes before that.
const TIMEOUT: Duration = Duration::from_secs(2);
const PART_BYTES: usize = 64 << 10;

/// An address for plain HTTP, without user and password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Host and port.
    pub host: String,
    /// From the first slash on.
    pub path: String,
}

/// An HTTP response.
#[allow(missing_docs, reason = "the names say it")]
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub body: String,
}

impl Address {
    /// Parses `http://host:port/path`.
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
        let rest = url.strip_prefix("http://");
        let rest =
            rest.with_context(|| format!("`{url}` does not begin with http://; TLS is not supported"))?;
        let (host, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        ensure!(!host.is_empty(), "`{url}` has no host name");
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

    /// Sends a request for `path`; `header` consists of complete lines.
    ///
    /// # Errors
    /// When nobody listens, the answer is late, is longer than `bytes_max`, or is not HTTP.
    pub fn request(&self, method: &str, path: &str, header: &str, bytes_max: u64) -> Result<Answer> {
        let host = &self.host;
        let places =
            host.to_socket_addrs().with_context(|| format!("cannot resolve the host name of `{host}`"))?;
        let end = Instant::now() + TIMEOUT;
        // A name may have several addresses, and the server may not listen on all of them.
        let mut streams = places.filter_map(|place| TcpStream::connect_timeout(&place, left(end).ok()?).ok());
        let mut stream = streams.next().with_context(|| format!("cannot connect to `{host}`"))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        // Version 1.0: the answer is not chunked and ends when the connection closes.
        let head = format!("{method} {path} HTTP/1.0\r\nHost: {host}\r\n{header}\r\n");
        let text = stream
            .write_all(head.as_bytes())
            .and_then(|()| read_until(&mut stream, end, bytes_max + 1))
            .with_context(|| format!("`{host}` does not answer"))?;
        ensure!(text.len() as u64 <= bytes_max, "the answer of `{host}` is longer than {bytes_max} bytes");
        Answer::read(&String::from_utf8_lossy(&text))
            .with_context(|| format!("`{host}` does not answer with HTTP"))
    }
}

/// Reads until the other side closes, or until `bytes_max` bytes have come. A limit per read would let a server that
/// sends one byte a second block us forever.
fn read_until(stream: &mut TcpStream, end: Instant, bytes_max: u64) -> io::Result<Vec<u8>> {
    let (mut text, mut part) = (Vec::new(), vec![0; PART_BYTES]);
    while (text.len() as u64) < bytes_max {
        stream.set_read_timeout(Some(left(end)?))?;
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(n_bytes) => text.extend_from_slice(&part[..n_bytes]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(text)
}

/// Time left until `end`; an error if none is left.
fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    let late = || io::Error::new(ErrorKind::TimedOut, format!("not within {} s", TIMEOUT.as_secs()));
    (!left.is_zero()).then_some(left).ok_or_else(late)
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
        let refused = address.request("GET", "/metrics", "", 1000).unwrap_err();
        assert!(format!("{refused:#}").contains("does not answer"), "{refused:#}");
    }

    #[test]
    fn answers_have_a_status_and_a_body() {
        let answer = Answer::read("HTTP/1.1 404 Not Found\r\nA: b\r\n\r\n<html>").unwrap();
        assert_eq!((answer.status, answer.body.as_str()), (404, "<html>"));
        assert_eq!(Answer::read("SSH-2.0"), None);
    }
}
