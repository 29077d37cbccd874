//! What is answered to whom, over real connections.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use model::experiment::plan::Plan;
use model::experiment::target::lane::Lane;
use report::site::{self, BarLink, Page};
use serve::{ConnectionBounds, Makers, ServeOptions, Serving};

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
    let lane = |name: &str| Lane { targets: vec![name.to_string()], addresses: Vec::new() };
    place.add("two", &Plan { lanes: vec![lane("a<b>"), lane("b")], ..plan("y", 1, (1, 2)) }, "{}");
    let page = get(at, "/live/two?lane=1", "");
    let hosts = "<a href=\"?lane=0\">a&lt;b&gt;</a><a href=\"?lane=1\" aria-current=\"page\">b</a>";
    assert!(page.contains(hosts) && page.contains("/live/two/events?lane=1"), "{page}");
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
fn other_users_of_the_machine_need_a_token() {
    if !rustix::process::geteuid().is_root() {
        // Nobody else can be asked.
        return;
    }
    let place = Place::new();
    place.add("one", &plan("x", 1, (1, 2)), "{}");
    let ask_as = |uid: u32, serving: &Serving| {
        let at = serving.address;
        let script = format!(
            "exec 3<>/dev/tcp/{}/{}; printf 'GET /result/one HTTP/1.1\\r\\nHost: {at}\\r\\nConnection: close\\r\\n\\r\\n' >&3; cat <&3",
            at.ip(),
            at.port()
        );
        let mut command = Command::new("bash");
        let output = command.args(["-c", &script]).current_dir("/").uid(uid).gid(uid).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let serving = place.serve();
    let refused = ask_as(65534, &serving);
    assert_eq!(status(&refused), "403", "{refused}");
    assert!(refused.contains("for the user who serves them; with --token"), "{refused}");
    assert!(!refused.contains("report of one"), "{refused}");
    assert_eq!(status(&ask_as(0, &serving)), "200");
    let with_token = serve::start(ServeOptions { wants_token: true, ..place.options() }, MAKERS).unwrap();
    assert_eq!(status(&ask_as(65534, &with_token)), "401");
}

/// Somebody else could otherwise keep all places, each for as long as a request may take to come.
#[test]
fn other_users_of_the_machine_take_no_places_of_those_who_may_read() {
    if !rustix::process::geteuid().is_root() {
        // Nobody else can connect.
        return;
    }
    let place = Place::new();
    let patience = ConnectionBounds { connections_max: 3, ..ConnectionBounds::default() };
    let many_as_nobody = |serving: &Serving| {
        let (ip, port) = (serving.address.ip(), serving.address.port());
        let script = format!(
            "for fd in $(seq 10 30); do eval \"exec $fd<>/dev/tcp/{ip}/{port}\"; done; echo connected; read end"
        );
        let mut command = Command::new("bash");
        command.args(["-c", &script]).current_dir("/").uid(65534).gid(65534);
        let mut neighbour = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(neighbour.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "connected\n");
        neighbour
    };
    // Also where they may show a token.
    let with_token = ServeOptions { patience, wants_token: true, ..place.options() };
    let serving = serve::start(with_token, MAKERS).unwrap();
    let mut neighbour = many_as_nobody(&serving);
    let begun = Instant::now();
    assert_eq!(status(&get(serving.address, "/", "")), "401");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    drop(neighbour.stdin.take());
    neighbour.wait().unwrap();

    let serving = serve::start(ServeOptions { patience, ..place.options() }, MAKERS).unwrap();
    let (ip, port) = (serving.address.ip(), serving.address.port());
    let mut neighbour = many_as_nobody(&serving);
    expect_room(&serving);
    // Nor do idle ones keep another from learning why it is refused, for longer than a moment.
    let asks = format!(
        "exec 3<>/dev/tcp/{ip}/{port}; printf 'GET / HTTP/1.1\\r\\nHost: {ip}:{port}\\r\\n\\r\\n' >&3; head -n 1 <&3"
    );
    let began = Instant::now();
    loop {
        let mut other = Command::new("bash");
        other.args(["-c", &asks]).current_dir("/").uid(65534).gid(65534);
        let answer = other.stderr(Stdio::null()).output().unwrap();
        if String::from_utf8_lossy(&answer.stdout).contains(" 403 ") {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(4), "{answer:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
    drop(neighbour.stdin.take());
    neighbour.wait().unwrap();
}

#[test]
fn whoever_may_control_needs_the_token_and_the_right_origin() {
    let place = Place::new();
    place.add("one", &plan("x", 1, (1, 2)), "{}");
    let serving = serve::start(ServeOptions { may_control: true, ..place.options() }, MAKERS).unwrap();
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
    assert!(closed.contains("www-authenticate: Basic realm=\"pgdyno\""), "{closed}");
    assert_eq!(status(&get(at, "/", "Authorization: Bearer wrong\r\n")), "401");
    assert_eq!(status(&get(at, "/login", "")), "200");
    let shown = format!("Authorization: Bearer {token}\r\n");
    assert_eq!(status(&get(at, "/", &shown)), "200");
    assert!(get(at, "/plan/one", &shown).contains("Measure it again"));
    assert_eq!(status(&post("/again/one", "", &shown)), "403", "without an origin");
    let own = format!("{shown}Origin: http://{at}\r\n");
    let asked = post("/again/one", "", &own);
    assert!(asked.contains("May it do this?") && asked.contains("rm &lt;b&gt;x&lt;/b&gt;"), "{asked}");
    assert!(asked.contains("action=\"/again/one?accept=commands-1a2b\""), "{asked}");
    let accepted = post("/again/one?accept=commands-1a2b", "", &own);
    assert!(accepted.contains("begun by the test"), "{accepted}");
}

/// Waits until an ordinary request is answered, although others took all places before.
fn expect_room(serving: &Serving) {
    let begun = Instant::now();
    assert_eq!(status(&get(serving.address, "/nowhere", "")), "404");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[test]
fn connections_that_say_or_take_nothing_keep_nobody_out_for_long_and_the_server_ends_with_them() {
    let place = Place::new();
    place.add("one", &plan("x", 1, (1, 2)), "{}");
    let short = Duration::from_millis(400);
    let patience =
        ConnectionBounds { connections_max: 3, request: short, stall: short, ..ConnectionBounds::default() };
    // More than any socket holds.
    let long = |_: &Path, _: &[BarLink]| Ok(Page { html: "x".repeat(16 << 20), policy: String::new() });
    let makers = Makers { result: long, ..MAKERS };
    let serving = serve::start(ServeOptions { patience, ..place.options() }, makers).unwrap();
    let take_places = |bytes: &str| -> Vec<TcpStream> {
        let open = |_| {
            let mut stream = TcpStream::connect(serving.address).unwrap();
            stream.write_all(bytes.as_bytes()).unwrap();
            stream
        };
        (0..3).map(open).collect()
    };
    let at = serving.address;
    let silent = take_places("GET / HT");
    expect_room(&serving);
    let unread = take_places(&format!("GET /result/one HTTP/1.1\r\nHost: {at}\r\n\r\n"));
    expect_room(&serving);
    let kept = take_places(&format!("GET /nowhere HTTP/1.1\r\nHost: {at}\r\n\r\n"));
    expect_room(&serving);
    let form = take_places(&format!("POST /login HTTP/1.1\r\nHost: {at}\r\nContent-Length: 9\r\n\r\nto"));
    let begun = Instant::now();
    drop(serving);
    assert!(begun.elapsed().as_secs() < 5, "it waits for nobody");
    drop((silent, unread, kept, form));
}

#[test]
fn pages_whose_readers_have_left_are_not_drawn() {
    static N_DRAWN: AtomicUsize = AtomicUsize::new(0);
    let place = Place::new();
    place.add("one", &plan("x", 1, (1, 2)), "{}");
    let slow = |_: &Path, _: &[BarLink]| {
        N_DRAWN.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_secs(1));
        Ok(Page { html: String::new(), policy: String::new() })
    };
    let serving = serve::start(place.options(), Makers { result: slow, ..MAKERS }).unwrap();
    let at = serving.address;
    for _ in 0..10 {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.write_all(format!("GET /result/one HTTP/1.1\r\nHost: {at}\r\n\r\n").as_bytes()).unwrap();
    }
    assert_eq!(status(&get(at, "/result/one", "")), "200");
    let n_drawn = N_DRAWN.load(Ordering::Relaxed);
    assert!(n_drawn <= 3, "{n_drawn} were drawn for one reader, and two threads draw");
}

#[test]
fn lists_and_live_pages_do_not_wait_for_reports() {
    let place = Place::new();
    place.add("one", &plan("x", 1, (1, 2)), "{}");
    let slow = |_: &Path, _: &[BarLink]| {
        std::thread::sleep(Duration::from_secs(8));
        Ok(Page { html: String::new(), policy: String::new() })
    };
    let serving = serve::start(place.options(), Makers { result: slow, ..MAKERS }).unwrap();
    let at = serving.address;
    let asked: Vec<TcpStream> = (0..4)
        .map(|_| {
            let mut stream = TcpStream::connect(at).unwrap();
            stream.write_all(format!("GET /result/one HTTP/1.1\r\nHost: {at}\r\n\r\n").as_bytes()).unwrap();
            stream
        })
        .collect();
    std::thread::sleep(Duration::from_millis(500));
    let begun = Instant::now();
    for (address, code) in
        [("/", "200"), ("/live", "404"), ("/live/one", "200"), ("/plan/one", "200"), ("/x", "404")]
    {
        assert_eq!(status(&get(at, address, "")), code, "{address}");
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    drop(asked);
}

#[test]
fn the_error_of_an_address_that_is_in_use_names_the_option_that_was_given() {
    let place = Place::new();
    let listen = place.serve();
    for (companion, option) in [(None, "with --listen"), (Some("now".to_string()), "with --live=")] {
        let options = ServeOptions { listen: listen.address, companion, ..place.options() };
        let error = serve::start(options, MAKERS).unwrap_err().to_string();
        assert!(error.ends_with(option), "{error}");
    }
}

#[test]
fn nothing_of_a_result_becomes_a_part_of_a_page_and_no_link_leads_out() {
    let place = Place::new();
    let evil = "<script>alert(1)</script>\"'&";
    let mut of = plan(evil, 1, (1, 2));
    of.title = evil.to_string();
    let answer = serde_json::json!({ "headline": evil, "verdict": evil, "limiter": evil, "machine": evil });
    let name = "<img src=x onerror=alert(1)>\"'";
    place.add(name, &of, &answer.to_string());
    let damaged = place.add("damaged<script>", &of, "{}");
    std::fs::write(damaged.join("plan.json"), "{\"name\": \"<script>\"").unwrap();
    let outside = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path(), place.path().join("link")).unwrap();
    std::fs::write(outside.path().join("plan.json"), "{}").unwrap();
    let serving = place.serve();
    let encoded = site::encoded(name);
    for path in [
        "/".to_string(),
        format!("/?q={}", site::encoded(evil)),
        format!("/plan/{encoded}"),
        format!("/live/{encoded}"),
        format!("/history/{}", site::encoded(evil)),
        format!("/result/{}", site::encoded("<script>alert(1)")),
        format!("/compare?r={0}&r={0}", site::encoded("<script>alert(1)")),
    ] {
        let page = get(serving.address, &path, "");
        assert!(["200", "404"].contains(&status(&page)), "{path}");
        let body = page.split_once("\r\n\r\n").unwrap().1;
        for part in ["<script>alert", "<img src=x", "onerror=alert(1)>\"", "damaged<script>"] {
            assert!(!body.contains(part), "{part} in {path}: {body}");
        }
    }
    for (path, expected) in [
        ("/result/link", "404"),
        ("/result/%2e%2e", "404"),
        ("/result/one%00", "404"),
        ("/plan/..%2f..%2fetc", "404"),
        ("/live/link/events", "204"),
    ] {
        assert_eq!(status(&get(serving.address, path, "")), expected, "{path}");
    }
    let long = format!("X-Long: {}\r\n", "x".repeat(1 << 20));
    assert!(["431", "none"].contains(&status(&get(serving.address, "/", &long))), "a long head is refused");
}
