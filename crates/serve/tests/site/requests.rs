//! What is answered to whom, over real connections.

use std::io::Write;
use std::net::TcpStream;

use serve::Options;

use crate::place::{MAKERS, Place, ask, get, plan, status};

#[test]
fn pages_are_for_those_who_know_the_server_and_protect_themselves() {
    let place = Place::new();
    place.add("one", &plan("x", 1, (1, 2)), "{}");
    let serving = place.serve();
    let at = serving.address;
    let page = get(at, "/result/one", "");
    assert_eq!(status(&page), "200", "{page}");
    assert!(page.contains("report of one"));
    let headers = page.split("\r\n\r\n").next().unwrap().to_ascii_lowercase();
    for expected in [
        "content-security-policy: default-src 'none'; script-src 'sha256-",
        "frame-ancestors 'none'",
        "x-content-type-options: nosniff",
        "cross-origin-resource-policy: same-origin",
        "cache-control: no-store",
    ] {
        assert!(headers.contains(expected), "{expected}: {headers}");
    }
    assert!(!headers.contains("access-control"), "{headers}");
    let with_host =
        |host: &str| ask(at, &format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"));
    assert_eq!(status(&with_host("evil.example.org")), "403");
    assert_eq!(status(&with_host("localhost:1")), "200");
    for (path, expected) in [
        ("/result/none", "404"),
        ("/result/..", "404"),
        ("/result/%2e%2e%2f%2e%2e%2fetc", "404"),
        ("/result/one/plan.json", "404"),
        ("/nowhere", "404"),
        ("/compare", "400"),
        ("/compare?r=one&r=none", "404"),
        ("/history/none", "404"),
        ("/history/x", "200"),
        ("/plan/one", "200"),
        ("/live", "404"),
        ("/live/none/events", "204"),
        ("/stop/one", "405"),
    ] {
        assert_eq!(status(&get(at, path, "")), expected, "{path}");
    }
    let post = |path: &str, origin: &str| {
        let head =
            format!("POST {path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\nContent-Length: 0\r\n");
        ask(at, &format!("{head}Origin: {origin}\r\n\r\n"))
    };
    assert_eq!(status(&post("/stop/one", "http://evil.example.org")), "403");
    let refused = post("/stop/one", &format!("http://{at}"));
    assert!(refused.contains("started with --control"), "{refused}");
}

#[test]
fn whoever_may_control_needs_the_token_and_the_right_origin() {
    let place = Place::new();
    place.add("one", &plan("x", 1, (1, 2)), "{}");
    let serving = serve::start(Options { may_control: true, ..place.options() }, MAKERS).unwrap();
    let (at, token) = (serving.address, serving.token.clone().unwrap());
    let closed = get(at, "/", "");
    assert_eq!(status(&closed), "401");
    assert!(closed.contains("The token, please") && !closed.contains("Title of x"));
    let post = |path: &str, body: &str, more: &str| {
        let length = body.len();
        ask(
            at,
            &format!(
                "POST {path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\nContent-Length: {length}\r\n{more}\r\n{body}"
            ),
        )
    };
    assert_eq!(status(&post("/login", "token=wrong", "")), "403");
    let opened = post("/login", &format!("token={token}"), "Origin: null\r\n");
    assert_eq!(status(&opened), "200");
    let cookie = opened.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let cookie = format!("Cookie: {}\r\n", cookie.split(';').next().unwrap());
    assert_eq!(status(&get(at, "/", &cookie)), "200");
    assert!(get(at, "/plan/one", &cookie).contains("Measure it again"));
    assert_eq!(status(&post("/again/one", "", &cookie)), "403", "without an origin");
    let asked = post("/again/one", "", &format!("{cookie}Origin: http://{at}\r\n"));
    assert!(asked.contains("begun by the test"), "{asked}");
    assert_eq!(status(&post("/login", &"x".repeat(9000), "")), "403", "a long form is refused");
}

#[test]
fn connections_that_say_nothing_do_not_keep_others_out_for_ever_and_the_server_ends_with_them() {
    let place = Place::new();
    let serving = place.serve();
    let silent: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(serving.address).unwrap()).collect();
    for mut stream in &silent {
        stream.write_all(b"GET / HT").unwrap();
    }
    assert_eq!(status(&get(serving.address, "/", "")), "200");
    let begun = std::time::Instant::now();
    drop(serving);
    assert!(begun.elapsed().as_secs() < 5, "it waits for nobody");
}
