//! The smallest HTTP server that a scraper needs: one request at a time, each with bounds of size and time.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// Longest head of a request; Prometheus sends some hundred bytes.
const HEAD_BYTES_MAX: usize = 8 << 10;
/// Longest time for a request and its answer: a slow client holds up the others.
const TIME_MAX: Duration = Duration::from_secs(2);
/// What is served (OpenMetrics 1.0.0).
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answers requests for ever; `page` makes the text.
pub(super) fn each(listener: &TcpListener, page: impl Fn() -> String) {
    loop {
        match listener.accept() {
            // A client that does not understand the answer, or is gone, changes nothing.
            Ok((mut client, _)) => drop(one(&mut client, &page)),
            // Out of descriptors: the next accept would fail at once, too.
            Err(_) => thread::sleep(Duration::from_millis(100)),
        }
    }
}

fn one(client: &mut TcpStream, page: &impl Fn() -> String) -> io::Result<()> {
    let end = Instant::now() + TIME_MAX;
    let head = read_head(client, end)?;
    let (status, kind, body) = match request(&head) {
        Some(("GET" | "HEAD", "/metrics")) => ("200 OK", CONTENT_TYPE, page()),
        Some(("GET" | "HEAD", "/")) => ("200 OK", "text/plain", "pgdyno: see /metrics\n".to_string()),
        Some(("GET" | "HEAD", _)) => ("404 Not Found", "text/plain", "only /metrics is here\n".to_string()),
        Some(_) => ("405 Method Not Allowed", "text/plain", "only GET is answered\n".to_string()),
        None => ("400 Bad Request", "text/plain", "not a request of HTTP/1\n".to_string()),
    };
    let head_only = head.starts_with("HEAD ");
    let length = body.len();
    let mut answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    );
    if !head_only {
        answer.push_str(&body);
    }
    write_all(client, answer.as_bytes(), end)
}

/// Method and path of a request.
fn request(head: &str) -> Option<(&str, &str)> {
    let mut words = head.lines().next()?.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    let path = target.split('?').next()?;
    (version.starts_with("HTTP/1.") && words.next().is_none()).then_some((method, path))
}

/// Reads up to the empty line that ends a head.
fn read_head(client: &mut TcpStream, end: Instant) -> io::Result<String> {
    let mut head = Vec::new();
    let mut part = [0; 1024];
    while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        client.set_read_timeout(Some(left(end)?))?;
        let n = client.read(&mut part)?;
        if n == 0 || head.len() + n > HEAD_BYTES_MAX {
            break;
        }
        head.extend_from_slice(&part[..n]);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

fn write_all(client: &mut TcpStream, mut bytes: &[u8], end: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        client.set_write_timeout(Some(left(end)?))?;
        let n = client.write(bytes)?;
        bytes = &bytes[n..];
        if n == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
    }
    client.flush()
}

fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

#[cfg(test)]
mod tests {
    use std::net::Shutdown;

    use super::*;

    fn asked(listener: &TcpListener, request: &[u8]) -> String {
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.write_all(request).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).ok();
        answer
    }

    #[test]
    fn only_metrics_are_served_and_nothing_keeps_the_server() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let of_thread = listener.try_clone().unwrap();
        thread::spawn(move || each(&of_thread, || "a 1\n# EOF\n".to_string()));
        for (request, status, body) in [
            ("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "200 OK", "a 1\n# EOF\n"),
            ("GET /metrics?x=1 HTTP/1.0\r\n\r\n", "200 OK", "a 1\n# EOF\n"),
            ("HEAD /metrics HTTP/1.1\r\n\r\n", "200 OK", ""),
            ("GET /../etc/passwd HTTP/1.1\r\n\r\n", "404 Not Found", "only /metrics is here\n"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405 Method Not Allowed", "only GET is answered\n"),
            ("nonsense\r\n\r\n", "400 Bad Request", "not a request of HTTP/1\n"),
        ] {
            let answer = asked(&listener, request.as_bytes());
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{request}: {answer}");
            assert_eq!(answer.split_once("\r\n\r\n").unwrap().1, body, "{request}");
        }
        // A head without end, and a client that says nothing and goes.
        let long = format!("GET /metrics HTTP/1.1\r\nx: {}", "y".repeat(HEAD_BYTES_MAX));
        asked(&listener, long.as_bytes());
        let silent = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        silent.shutdown(Shutdown::Both).unwrap();
        assert!(asked(&listener, b"GET /metrics HTTP/1.1\r\n\r\n").contains("a 1"));
    }
}
