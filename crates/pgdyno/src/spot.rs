//! The notice that a cloud gives before it takes a machine away, polled over plain HTTP: AWS, Azure, Google, or any
//! address that answers 200 with a text when the time has come. Each machine asks its own cloud: this one, and for another
//! one the eyes or the driver there.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use driver::far::{Outbox, WallClock};
use model::load::drive::DriverLine;
use model::telemetry::event::{Event, EventKind};
use observe::http::{Address, Response};

/// Notices come 30 s to two minutes before the end; the clouds' documentation advises polling every 5 s.
pub(crate) const PERIOD: Duration = Duration::from_secs(5);
const ANSWER_BYTES_MAX: u64 = 64 << 10;
/// How much of an answer is passed on.
const NOTICE_CHARS_MAX: usize = 500;
/// AWS asks for a token first (IMDSv2); it lasts for this many seconds.
const TOKEN_REQUEST: &str = "X-aws-ec2-metadata-token-ttl-seconds: 21600\r\n";
const TOKEN_PATH: &str = "/latest/api/token";
/// Where clouds answer each of their machines, and nobody else: AWS and Azure, Google, AWS over IPv6.
const METADATA: [&str; 3] = ["169.254.169.254:80", "metadata.google.internal:80", "[fd00:ec2::254]:80"];
/// What may be asked there for another machine: the same addresses also hand out credentials.
const NOTICES: [&str; 5] = [
    "/latest/meta-data/spot/instance-action",
    "/latest/meta-data/spot/termination-time",
    "/latest/meta-data/events/recommendations/rebalance",
    "/computeMetadata/v1/instance/preempted",
    "/computeMetadata/v1/instance/maintenance-event",
];
/// Azure's, which a version follows: `2020-07-01`.
const SCHEDULED_EVENTS: &str = "/metadata/scheduledevents?api-version=";
/// Names the address that this machine asks, whatever another one names.
const OWN: &str = "PGDYNO_SPOT_NOTICE";

/// A result of polling.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Polled {
    /// The machine will be taken away. Nothing is polled any more.
    Notice(String),
    /// The first of the errors. Polling goes on.
    Error(String),
}

/// The address of a notice.
///
/// # Errors
/// When `url` is not a plain HTTP address.
pub(crate) fn parse(url: &str) -> Result<Address> {
    let address = Address::parse(url).context("--spot-notice")?;
    ensure!(!address.is_tls, "--spot-notice: clouds give notices at http:// addresses, not https://");
    Ok(address)
}

/// The address that this machine asks for another one, which names `url`: its own, if its environment has one, else that
/// of a cloud. Otherwise whoever may order eyes or a driver could look into services that are meant for this machine alone.
///
/// # Errors
/// When it is neither.
fn for_other(url: &str, own: Option<&str>) -> Result<Address> {
    if let Some(own) = own {
        return parse(own).context(OWN);
    }
    let address = parse(url)?;
    ensure!(
        METADATA.contains(&address.host.as_str()),
        "`{}` is not where a cloud answers its machines ({}), and {OWN} does not name another address here",
        address.host,
        METADATA.join(", "),
    );
    ensure!(
        is_notice_path(&address.path),
        "`{}` is not where a cloud gives notice ({}, {SCHEDULED_EVENTS}DATE), and {OWN} does not name another address here",
        address.path,
        NOTICES.join(", ")
    );
    Ok(address)
}

fn is_notice_path(path: &str) -> bool {
    let is_date = |text: &str| text.len() == 10 && text.chars().all(|c| c.is_ascii_digit() || c == '-');
    NOTICES.contains(&path) || path.strip_prefix(SCHEDULED_EVENTS).is_some_and(is_date)
}

/// Polls `address` in a thread until there is a notice, or for as long as this process lives.
pub(crate) fn poll(address: Address, mut tell: impl FnMut(Polled) + Send + 'static) {
    std::thread::spawn(move || {
        let mut is_told = false;
        loop {
            match ask(&address) {
                Ok(Some(notice)) => return tell(Polled::Notice(notice)),
                Err(error) if !is_told => {
                    tell(Polled::Error(format!("{error:#}")));
                    is_told = true;
                }
                Ok(None) | Err(_) => {}
            }
            std::thread::sleep(PERIOD);
        }
    });
}

/// Polls for a pgdyno on another machine, which gets an event: at `url`, or at this machine's own address.
pub(crate) fn poll_for_other(url: &str, wall: WallClock, outbox: &Outbox) {
    let outbox = outbox.clone();
    let tell = move |found| {
        let (kind, text) = match found {
            Polled::Notice(text) => (EventKind::SpotNotice, text),
            Polled::Error(text) => (EventKind::SpotUnread, text),
        };
        // A parent that has gone ends this process elsewhere.
        outbox.say(&DriverLine::Event(Event::new(wall.unix_now(), kind, text))).unwrap_or_default();
    };
    match for_other(url, std::env::var(OWN).ok().as_deref()) {
        Ok(address) => poll(address, tell),
        Err(error) => tell(Polled::Error(format!("{error:#}"))),
    }
}

/// The text of a notice, if there is one.
fn ask(address: &Address) -> Result<Option<String>> {
    let mut answer = request(address, "GET", &address.path, "")?;
    if answer.status == 401 {
        let token = request(address, "PUT", TOKEN_PATH, TOKEN_REQUEST)?;
        let token = format!("X-aws-ec2-metadata-token: {}\r\n", token.body.trim());
        answer = request(address, "GET", &address.path, &token)?;
    }
    Ok(notice(&answer))
}

/// AWS answers 404 until there is a notice; Google says FALSE or NONE; Azure lists events, not all of which end the
/// machine.
fn notice(answer: &Response) -> Option<String> {
    let body = answer.body.trim();
    let is_quiet = body.is_empty() || ["FALSE", "NONE"].contains(&body.to_ascii_uppercase().as_str());
    let ends_machine = !body.contains("\"Events\"") || body.contains("Preempt") || body.contains("Terminate");
    let is_notice = answer.status == 200 && !is_quiet && ends_machine;
    let words = || body.split_whitespace().collect::<Vec<_>>().join(" ");
    is_notice.then(|| words().chars().take(NOTICE_CHARS_MAX).collect())
}

/// Azure and Google want their header.
fn request(address: &Address, method: &str, path: &str, header: &str) -> Result<Response> {
    let header = format!("Metadata: true\r\nMetadata-Flavor: Google\r\n{header}");
    address.request(None, method, path, &header, ANSWER_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_end_of_the_machine_is_a_notice() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(notice(&Response::read(text).unwrap()).as_deref(), expected, "{text}");
        };
        check("HTTP/1.0 404 Not Found\r\n\r\n<html>", None);
        check("HTTP/1.1 200 OK\r\nA: b\r\n\r\n{\"action\":\n \"stop\"}", Some("{\"action\": \"stop\"}"));
        check("HTTP/1.1 200 OK\r\n\r\n", None);
        check("HTTP/1.1 200 OK\r\n\r\nFALSE", None);
        check("HTTP/1.1 200 OK\r\n\r\nTRUE", Some("TRUE"));
        check("HTTP/1.1 200 OK\r\n\r\n{\"DocumentIncarnation\":1,\"Events\":[]}", None);
        check("HTTP/1.1 200 OK\r\n\r\n{\"Events\":[{\"EventType\":\"Freeze\"}]}", None);
        let preempt = "{\"Events\":[{\"EventType\":\"Preempt\"}]}";
        check(&format!("HTTP/1.1 200 OK\r\n\r\n{preempt}"), Some(preempt));
        let long = "x".repeat(NOTICE_CHARS_MAX + 1);
        check(&format!("HTTP/1.1 200 OK\r\n\r\n{long}"), Some(&long[1..]));
    }

    #[test]
    fn another_machine_may_name_the_addresses_of_clouds_and_no_other() {
        let check = |url: &str, own: Option<&str>, expected: Option<&str>| {
            let found = for_other(url, own).ok().map(|address| address.host);
            assert_eq!(found.as_deref(), expected, "{url}, {own:?}");
        };
        let aws = "169.254.169.254:80";
        check("http://169.254.169.254/latest/meta-data/spot/instance-action", None, Some(aws));
        check("http://169.254.169.254:80/metadata/scheduledevents?api-version=2020-07-01", None, Some(aws));
        let google = "http://metadata.google.internal/computeMetadata/v1/instance/preempted";
        check(google, None, Some("metadata.google.internal:80"));
        check(
            "http://[fd00:ec2::254]/latest/meta-data/spot/instance-action",
            None,
            Some("[fd00:ec2::254]:80"),
        );
        for url in ["169.254.169.254:8080", "169.254.169.254.example", "169.254.170.2", "127.0.0.1"] {
            check(&format!("http://{url}/"), None, None);
        }
        for path in
            ["user-data", "meta-data/iam/security-credentials/role", "meta-data/spot/instance-action/../.."]
        {
            check(&format!("http://169.254.169.254/latest/{path}"), None, None);
        }
        check("http://169.254.169.254/metadata/scheduledevents?api-version=2020-07-01&x", None, None);
        check("http://127.0.0.1/", Some("http://127.0.0.1:81/"), Some("127.0.0.1:81"));
        check(google, Some("http://127.0.0.1:81/"), Some("127.0.0.1:81"));
        check(google, Some("https://127.0.0.1:81/"), None);
    }
}
