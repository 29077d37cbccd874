//! The notice that a cloud gives before it takes a machine away, polled over plain HTTP: AWS, Azure, Google, or any
//! address that answers 200 with a text when the time has come.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use observe::http::{Address, Answer};

use crate::{say, signals};

/// Notices come 30 s to two minutes before the end; the clouds' documentation advises polling every 5 s.
const PERIOD: Duration = Duration::from_secs(5);
const ANSWER_BYTES_MAX: u64 = 64 << 10;
/// AWS asks for a token first (IMDSv2); it lasts for this many seconds.
const TOKEN_REQUEST: &str = "X-aws-ec2-metadata-token-ttl-seconds: 21600\r\n";
const TOKEN_PATH: &str = "/latest/api/token";

/// Polls `url` as long as this process lives; a notice asks for a stop, as a signal would.
///
/// # Errors
/// When `url` is not a plain HTTP address.
pub(crate) fn watch(url: &str) -> Result<()> {
    let address = Address::parse(url).context("--spot-notice")?;
    ensure!(!address.is_tls, "--spot-notice: clouds give notices at http:// addresses, not https://");
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

/// Azure and Google want their header.
fn request(address: &Address, method: &str, path: &str, header: &str) -> Result<Answer> {
    let header = format!("Metadata: true\r\nMetadata-Flavor: Google\r\n{header}");
    address.request(None, method, (path, &header), ANSWER_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_end_of_the_machine_is_a_notice() {
        let check = |text: &str, expected: bool| {
            assert_eq!(is_notice(&Answer::read(text).unwrap()), expected, "{text}");
        };
        check("HTTP/1.0 404 Not Found\r\n\r\n<html>", false);
        check("HTTP/1.1 200 OK\r\nA: b\r\n\r\n{\"action\": \"terminate\"}", true);
        check("HTTP/1.1 200 OK\r\n\r\n", false);
        check("HTTP/1.1 200 OK\r\n\r\nFALSE", false);
        check("HTTP/1.1 200 OK\r\n\r\nTRUE", true);
        check("HTTP/1.1 200 OK\r\n\r\n{\"DocumentIncarnation\":1,\"Events\":[]}", false);
        check("HTTP/1.1 200 OK\r\n\r\n{\"Events\":[{\"EventType\":\"Freeze\"}]}", false);
        check("HTTP/1.1 200 OK\r\n\r\n{\"Events\":[{\"EventType\":\"Preempt\"}]}", true);
    }
}
