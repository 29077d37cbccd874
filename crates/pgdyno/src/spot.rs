//! The notice that a cloud gives before it takes a machine away, polled over plain HTTP: AWS, Azure, Google, or any
//! address that answers 200 with a text when the time has come.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::{say, signals};

/// Notices come 30 s to two minutes before the end; the clouds' documents advise to poll every 5 s.
const PERIOD: Duration = Duration::from_secs(5);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
const ANSWER_BYTES_MAX: u64 = 64 << 10;
/// AWS asks for a token first (IMDSv2); it lasts for this many seconds.
const TOKEN_REQUEST: &str = "X-aws-ec2-metadata-token-ttl-seconds: 21600\r\n";
const TOKEN_PATH: &str = "/latest/api/token";

/// An address to be polled.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Address {
    /// With the port.
    host: String,
    path: String,
}

/// What came back.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: u16,
    body: String,
}

/// Polls `url` as long as this process lives; a notice asks to stop, as a signal would.
///
/// # Errors
/// When `url` is not one of plain HTTP.
pub(crate) fn watch(url: &str) -> Result<()> {
    let address = Address::parse(url)?;
    std::thread::spawn(move || {
        let mut is_told = false;
        loop {
            match poll(&address) {
                Ok(Some(notice)) => {
                    say(&format!("this machine will be taken away ({notice}): stopping"));
                    return signals::ask_to_stop();
                }
                Ok(None) => {}
                Err(error) if !is_told => {
                    say(&format!(
                        "note: --spot-notice: {error:#}; trying again every {} s",
                        PERIOD.as_secs()
                    ));
                    is_told = true;
                }
                Err(_) => {}
            }
            std::thread::sleep(PERIOD);
        }
    });
    Ok(())
}

/// The text of a notice, if there is one.
fn poll(address: &Address) -> Result<Option<String>> {
    let mut answer = request(address, "GET", &address.path, "")?;
    if answer.status == 401 {
        let token = request(address, "PUT", TOKEN_PATH, TOKEN_REQUEST)?;
        let token = format!("X-aws-ec2-metadata-token: {}\r\n", token.body.trim());
        answer = request(address, "GET", &address.path, &token)?;
    }
    Ok(is_notice(&answer).then(|| answer.body.split_whitespace().collect::<Vec<_>>().join(" ")))
}

/// AWS answers 404 until there is a notice; Google says FALSE or NONE; Azure lists events, not all of which end the
/// machine.
fn is_notice(answer: &Answer) -> bool {
    let body = answer.body.trim();
    let is_quiet = body.is_empty() || ["FALSE", "NONE"].contains(&body.to_ascii_uppercase().as_str());
    let ends_machine = !body.contains("\"Events\"") || body.contains("Preempt") || body.contains("Terminate");
    answer.status == 200 && !is_quiet && ends_machine
}

fn request(address: &Address, method: &str, path: &str, header: &str) -> Result<Answer> {
    let host = &address.host;
    let place = host.to_socket_addrs().ok().and_then(|mut found| found.next());
    let place = place.with_context(|| format!("the host of `{host}` is not known"))?;
    let mut stream = TcpStream::connect_timeout(&place, ANSWER_TIMEOUT)
        .with_context(|| format!("cannot connect to `{host}`"))?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
    // Version 1.0: the answer ends with the connection. Azure and Google want their header.
    let head = format!(
        "{method} {path} HTTP/1.0\r\nHost: {host}\r\nMetadata: true\r\nMetadata-Flavor: Google\r\n{header}\r\n"
    );
    let mut text = Vec::new();
    stream
        .write_all(head.as_bytes())
        .and_then(|()| stream.take(ANSWER_BYTES_MAX).read_to_end(&mut text).map(drop))
        .with_context(|| format!("`{host}` does not answer"))?;
    answer(&String::from_utf8_lossy(&text)).with_context(|| format!("`{host}` does not answer in HTTP"))
}

fn answer(text: &str) -> Option<Answer> {
    let (head, body) = text.split_once("\r\n\r\n").or_else(|| text.split_once("\n\n"))?;
    let status = head.strip_prefix("HTTP/")?.split_whitespace().nth(1)?.parse().ok()?;
    Some(Answer { status, body: body.to_string() })
}

impl Address {
    fn parse(url: &str) -> Result<Address> {
        let Some(rest) = url.strip_prefix("http://") else {
            bail!(
                "--spot-notice: `{url}` must begin with http://; clouds tell of the end of a machine without TLS"
            );
        };
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        ensure!(!host.is_empty(), "--spot-notice: `{url}` names no host");
        ensure!(
            !url.contains(char::is_whitespace) && !host.contains('@'),
            "--spot-notice: `{url}` is not an address; example: http://169.254.169.254/latest/meta-data/spot/instance-action"
        );
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        Ok(Address {
            host: if has_port { host.to_string() } else { format!("{host}:80") },
            path: if path.is_empty() { "/".to_string() } else { path.to_string() },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_end_of_the_machine_is_a_notice() {
        let check = |text: &str, expected: bool| {
            assert_eq!(is_notice(&answer(text).unwrap()), expected, "{text}");
        };
        check("HTTP/1.0 404 Not Found\r\n\r\n<html>", false);
        check("HTTP/1.1 200 OK\r\nA: b\r\n\r\n{\"action\": \"terminate\"}", true);
        check("HTTP/1.1 200 OK\r\n\r\n", false);
        check("HTTP/1.1 200 OK\r\n\r\nFALSE", false);
        check("HTTP/1.1 200 OK\r\n\r\nTRUE", true);
        check("HTTP/1.1 200 OK\r\n\r\n{\"DocumentIncarnation\":1,\"Events\":[]}", false);
        check("HTTP/1.1 200 OK\r\n\r\n{\"Events\":[{\"EventType\":\"Freeze\"}]}", false);
        check("HTTP/1.1 200 OK\r\n\r\n{\"Events\":[{\"EventType\":\"Preempt\"}]}", true);
        assert_eq!(answer("SSH-2.0"), None);
    }

    #[test]
    fn addresses_are_of_plain_http() {
        let check = |url: &str, expected: (&str, &str)| {
            let address = Address::parse(url).unwrap();
            assert_eq!((address.host.as_str(), address.path.as_str()), expected);
        };
        check("http://169.254.169.254/a/b?c=d", ("169.254.169.254:80", "/a/b?c=d"));
        check("http://h:8080", ("h:8080", "/"));
        for url in ["https://h/a", "h/a", "http://", "http://u:p@h/", "http://h/a b"] {
            assert!(Address::parse(url).is_err(), "{url}");
        }
    }
}
