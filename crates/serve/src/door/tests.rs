//! Requests that come in, and those that do not.

use axum::http::{HeaderName, HeaderValue};

use super::*;
use crate::ConnectionBounds;

fn door(listen: &str, wants_token: bool) -> RequestGuard {
    let options = ServeOptions {
        root: ".".into(),
        listen: listen.parse().unwrap(),
        wants_token,
        names: vec!["bench.example.org".to_string()],
        companion: None,
        may_move: false,
        may_control: false,
        machine: String::new(),
        tool_version: "0",
        patience: ConnectionBounds::default(),
    };
    RequestGuard::new(options.listen, &options).unwrap()
}

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let pair = |(name, value): &(&str, &str)| {
        (name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap())
    };
    pairs.iter().map(pair).collect()
}

fn status(door: &RequestGuard, method: Method, pairs: &[(&str, &str)]) -> u16 {
    match door.check(&method, &headers(pairs), false) {
        Ok(()) => 200,
        Err(RequestRefusal::Never(status, _)) => status.as_u16(),
        Err(RequestRefusal::NeedsToken) => 401,
        Err(RequestRefusal::Elsewhere(_)) => 307,
    }
}

#[test]
fn a_server_of_this_machine_answers_only_to_names_of_this_machine() {
    let door = door("127.0.0.1:8437", false);
    for (host, expected) in [
        ("127.0.0.1:8437", 200),
        ("localhost:8437", 200),
        ("LOCALHOST", 200),
        ("localhost:9999", 200),
        ("[::1]:8437", 200),
        ("bench.example.org", 200),
        ("evil.example.org", 403),
        ("evil.example.org:8437", 403),
        ("10.0.0.5:8437", 403),
        ("127.0.0.1.evil.example.org", 403),
        ("localhost.", 403),
        ("", 403),
    ] {
        assert_eq!(status(&door, Method::GET, &[("host", host)]), expected, "{host}");
    }
    assert_eq!(status(&door, Method::GET, &[]), 400);
    assert_eq!(status(&door, Method::GET, &[("host", "localhost"), ("host", "evil.org")]), 400);
}

#[test]
fn without_a_token_only_the_user_who_serves_and_root_come_in() {
    let own = rustix::process::geteuid().as_raw();
    let mut others = (1..).filter(|uid| *uid != own && Some(*uid) != files::trust::caller_uid());
    let stranger = others.next().unwrap();
    for (user, without_token) in [
        (Some(own), Ok(())),
        (Some(0), Ok(())),
        (files::trust::caller_uid().or(Some(own)), Ok(())),
        (Some(stranger), Err("for the user who serves them; with --token")),
        (Some(u32::MAX), Err("for the user who serves them; with --token")),
        (None, Err("does not say which user of this machine asks")),
    ] {
        let said = door("127.0.0.1:8437", false).check_user(user);
        match (&said, without_token) {
            (Ok(()), Ok(())) => {}
            (Err(RequestRefusal::Never(StatusCode::FORBIDDEN, reason)), Err(words))
                if reason.contains(words) => {}
            _ => panic!("{user:?}: {said:?}"),
        }
        // Whoever has the token may read, and is asked for it.
        for listen in ["127.0.0.1:8437", "10.0.0.5:8437"] {
            assert_eq!(door(listen, true).check_user(user), Ok(()), "{user:?} at {listen}");
        }
    }
}

#[test]
fn a_server_for_other_machines_answers_to_addresses_and_wants_a_token() {
    let door = door("10.0.0.5:8437", false);
    let token = door.token().unwrap();
    assert_eq!(token.len(), 2 * TOKEN_BYTES);
    let shown = format!("Basic {}", BASE64_STANDARD.encode(format!("anybody:{token}")));
    for (host, expected) in [("10.0.0.5:8437", 200), ("192.168.1.1:8437", 200), ("evil.example.org", 403)] {
        assert_eq!(
            status(&door, Method::GET, &[("host", host), ("authorization", &shown)]),
            expected,
            "{host}"
        );
    }
    let basic = |text: &str| format!("basic {}", BASE64_STANDARD.encode(text));
    for (shown, expected) in [
        (basic(&format!(":{token}")), 200),
        (format!("bearer {token}"), 200),
        (String::new(), 401),
        (token.to_string(), 401),
        ("Bearer".to_string(), 401),
        (format!("Bearer x{token}"), 401),
        (basic(token), 401),
        (basic(&format!("{token}:")), 401),
        (basic("anybody:x"), 401),
        (format!("Basic anybody:{token}"), 401),
    ] {
        let pairs = [("host", "10.0.0.5:8437"), ("authorization", shown.as_str())];
        assert_eq!(status(&door, Method::GET, &pairs), expected, "{shown}");
    }
    assert!(super::tests::door("127.0.0.1:1", true).token().is_some());
}

/// `localhost` has two addresses, and a browser tries both.
#[test]
fn the_token_is_asked_for_at_an_address_and_not_at_localhost() {
    for (listen, host, expected) in [
        ("127.0.0.1:8437", "localhost:8437", "http://127.0.0.1:8437"),
        ("127.0.0.1:8437", "LocalHost", "http://127.0.0.1"),
        ("0.0.0.0:8437", "localhost:9000", "http://127.0.0.1:9000"),
        ("[::1]:8437", "localhost:8437", "http://[::1]:8437"),
    ] {
        let found = door(listen, true).check(&Method::GET, &headers(&[("host", host)]), true);
        assert_eq!(found, Err(RequestRefusal::Elsewhere(expected.to_string())), "{host} at {listen}");
    }
    assert_eq!(status(&door("127.0.0.1:8437", false), Method::GET, &[("host", "localhost:8437")]), 200);
}

/// A browser sends cookies to every port of a name, and another user of the machine may listen there.
#[test]
fn a_cookie_opens_nothing() {
    let door = door("127.0.0.1:8437", true);
    let cookie = format!("pgdyno_8437={}", door.token().unwrap());
    assert_eq!(status(&door, Method::GET, &[("host", "127.0.0.1:8437"), ("cookie", &cookie)]), 401);
}

#[test]
fn only_pages_of_the_server_change_something_and_no_other_site_reads() {
    let door = door("127.0.0.1:8437", false);
    let host = ("host", "127.0.0.1:8437");
    for (method, more, expected) in [
        (Method::POST, vec![], 403),
        (Method::POST, vec![("origin", "null")], 403),
        (Method::POST, vec![("origin", "http://evil.example.org")], 403),
        (Method::POST, vec![("origin", "http://localhost:8437")], 403),
        (Method::POST, vec![("origin", "http://127.0.0.1:8437")], 200),
        (Method::PUT, vec![("origin", "http://127.0.0.1:8437")], 405),
        (Method::DELETE, vec![], 405),
        (Method::OPTIONS, vec![("origin", "http://evil.example.org")], 405),
        (Method::HEAD, vec![], 200),
        (Method::GET, vec![("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")], 403),
        (Method::GET, vec![("sec-fetch-site", "same-site"), ("sec-fetch-mode", "cors")], 403),
        (
            Method::GET,
            vec![
                ("sec-fetch-site", "cross-site"),
                ("sec-fetch-mode", "navigate"),
                ("sec-fetch-dest", "iframe"),
            ],
            403,
        ),
        (
            Method::GET,
            vec![
                ("sec-fetch-site", "cross-site"),
                ("sec-fetch-mode", "navigate"),
                ("sec-fetch-dest", "document"),
            ],
            200,
        ),
        (Method::GET, vec![("sec-fetch-site", "same-origin"), ("sec-fetch-mode", "cors")], 200),
    ] {
        let all: Vec<(&str, &str)> = [host].into_iter().chain(more).collect();
        assert_eq!(status(&door, method.clone(), &all), expected, "{method} {all:?}");
    }
}
