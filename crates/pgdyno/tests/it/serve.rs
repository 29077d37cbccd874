//! A run that shows itself on a page, and its result on a server: over real connections, from a real run.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde_json::json;
use testbed::Pg;
use testbed::browser::{Tab, TabStop, WindowLook};

use crate::formats;
use crate::tool::{Place, Running, wait_until};

/// The address that a process has printed after these words.
pub(crate) fn address_after(running: &Running, words: &str) -> String {
    let mut found = None;
    wait_until(words, || {
        found = running.said().lines().find_map(|line| Some(line.split_once(words)?.1.to_string()));
        found.is_some()
    });
    found.unwrap().trim_start_matches("http://").to_string()
}

fn request(address: &str, head: &str, token: &str) -> TcpStream {
    let host = address.split('/').next().unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
        .write_all(
            format!(
                "{head} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
            )
            .as_bytes(),
        )
        .unwrap();
    stream
}

fn get(address: &str, path: &str) -> String {
    let mut answer = String::new();
    request(address, &format!("GET {path}"), "").read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_run_shows_itself_while_it_runs_and_its_report_is_served() {
    let (place, pg) = (Place::new(), Pg::shared());
    let server = pg.admin_target(&pg.database());
    place.write("own.sql", "SELECT 1;\n");
    std::fs::create_dir(place.path("results")).unwrap();
    let args = "run -f own.sql -c 1 --measure 8s --pace=100/s --ramp-up 0s --repeats 1 --set prepare.settle=false -o results/now \
                --live=127.0.0.1:0 --server";
    let args: Vec<&str> = args.split_whitespace().chain([server.as_str()]).collect();
    let running = place.start(place.command(&args));
    let address = address_after(&running, "live: ");
    assert!(address.ends_with("/live/now"), "{address}");
    assert!(get(&address, "/live/now").contains("Findings so far"));
    let mut events = BufReader::new(request(&address, "GET /live/now/events", ""));
    let mut seen = String::new();
    // The stream ends with the run, and says where the report is.
    while !seen.contains("event: ended") && events.read_line(&mut seen).unwrap() > 0 {}
    for part in
        ["\"title\":\"Throughput\"", "\"name\":\"p99\"", "event: more", "measuring, second", "Run 1 of 1"]
    {
        assert!(seen.contains(part), "{part}: {seen}");
    }
    let report = get(&address, "/result/now");
    assert!(report.contains("<h2 id=\"disclosure-h\">"), "the report is there before the server goes");
    running.wait().expect(0);
    assert!(!place.path("results/now/now.json").exists());
    assert!(TcpStream::connect(address.split('/').next().unwrap()).is_err(), "it ended with the run");

    // Of another machine, which a shell here stands for.
    let program = Path::new(env!("CARGO_BIN_EXE_pgdyno")).parent().unwrap();
    let via = format!("env PATH={}:/usr/bin:/bin sh -c", program.display());
    let dir = place.path("results").display().to_string();
    let serving =
        place.start(place.command(&["serve", &dir, "--via", &via, "--token", "--listen", "127.0.0.1:0"]));
    let (address, token) = {
        let printed = address_after(&serving, "of `sh` at ");
        let (address, token) = printed.split_once("/login#").expect("the printed address has the token");
        (address.to_string(), token.to_string())
    };
    assert!(get(&address, "/").contains("The token, please"));
    let get = |address: &str, path: &str| {
        let mut answer = String::new();
        request(address, &format!("GET {path}"), &token).read_to_string(&mut answer).unwrap();
        answer
    };
    let list = get(&address, "/");
    assert!(list.contains(&format!("sh: {dir}")) && list.contains("1 client"), "{list}");
    let page = get(&address, "/result/now");
    assert!(page.contains("All results") && page.contains("id=\"disclosure-h\""));
    // The pipe is lost; the next page logs in again.
    nix::sys::signal::kill(Pid::from_raw(serving.descendants()[0]), Signal::SIGKILL).unwrap();
    serving.wait_for("was killed");
    wait_until("another login", || get(&address, "/").contains("/result/now"));
    assert!(
        get(&address, "/compare?r=now&r=now").contains("class=\"verdict"),
        "a result compared with itself"
    );
    serving.signal(Signal::SIGINT);
    serving.wait().expect(0);
    place.expect_clean();
}

/// Presses the tabulator key until the element with this name has the focus, and then Enter.
fn follow(tab: &mut Tab, name: &str) {
    let is_there = format!("document.activeElement.textContent === '{name}'");
    for _ in 0..100 {
        tab.key("Tab");
        if tab.eval(&is_there) == json!(true) {
            tab.key("Enter");
            return;
        }
    }
    panic!("the keyboard does not reach `{name}`");
}

fn has(stops: &[TabStop], role: &str, name: &str) {
    assert!(stops.iter().any(|stop| stop.role == role && stop.name == name), "{role} `{name}`: {stops:?}");
}

/// Nothing of the page is beyond the edges of the window, and all of it was drawn.
fn fits(tab: &mut Tab) {
    tab.wait_for("document.documentElement.scrollWidth === document.documentElement.clientWidth");
    assert_eq!(tab.eval("document.body.dataset.errors ?? ''"), json!(""));
}

/// A screen reader finds these roles and names.
fn says(tab: &mut Tab, expected: &[(&str, &str)]) {
    let mut roles = tab.roles();
    roles.retain(|(role, _)| !["StaticText", "InlineTextBox", "generic"].contains(&role.as_str()));
    for (role, name) in expected {
        assert!(roles.iter().any(|(r, n)| r == role && n == name), "{role} `{name}`: {roles:?}");
    }
}

#[test]
fn comparisons_histories_and_plans_are_used_by_keyboard_and_say_what_they_are() {
    let place = Place::new();
    for kind in ["run", "again"] {
        formats::unpack(&place, &formats::newest(), kind);
    }
    let serving = place.start(place.command(&["serve", "results", "--control", "--listen", "127.0.0.1:0"]));
    let address = address_after(&serving, "serving `results` at ");
    let directory = tempfile::tempdir().unwrap();
    let mut tab = Tab::open(directory.path(), WindowLook { width: 1280, height: 900, is_dark: false });
    let (host, token) = address.split_once("/login#").expect("the printed address has the token");
    let at = |path: &str| format!("http://{host}{path}");

    tab.go(&at("/login"));
    has(&tab.expect_usable(), "textbox", "Token");
    tab.eval(&format!("token.value = '{token}'; document.querySelector('.act').click()"));
    tab.wait_for("document.querySelector('.results')");

    tab.go(&at("/compare?r=run&r=again"));
    let stops = tab.expect_usable();
    let first: Vec<&str> = stops.iter().take(7).map(|stop| stop.name.as_str()).collect();
    let expected = [
        "Skip to the report",
        "pgdyno",
        "All results",
        "Swap A and B",
        "Report of A",
        "Report of B",
        "A and B",
    ];
    assert_eq!(first, expected);
    has(&stops, "button", "Switch between light and dark");
    has(&stops, "DisclosureTriangle", "Table: Throughput");
    has(&stops, "DisclosureTriangle", "Details: The sides were not measured in turns");
    let chart = "Runs of A and of B by throughput, against the median of A. No verdict.";
    says(
        &mut tab,
        &[("table", "A and B"), ("columnheader", "A, median"), ("image", chart), ("navigation", "Sections")],
    );
    tab.eval("document.activeElement.blur(); 0");
    follow(&mut tab, "Swap A and B");
    tab.wait_for("document.querySelector('h1')?.textContent.endsWith('results/again')");

    tab.resize(WindowLook { width: 390, height: 800, is_dark: true });
    tab.go(&at("/history/sample"));
    fits(&mut tab);
    let stops = tab.expect_usable();
    has(&stops, "DisclosureTriangle", "Table: Throughput of each run");
    assert!(stops.iter().all(|stop| stop.name != "run"), "closed");
    follow(&mut tab, "Table");
    follow(&mut tab, "again");
    tab.wait_for("location.pathname === '/result/again'");

    follow(&mut tab, "Plan");
    tab.wait_for("location.pathname === '/plan/again' && document.querySelector('.plan')");
    has(&tab.expect_usable(), "button", "Measure it again");
    says(&mut tab, &[("table", "Runs"), ("columnheader", "State"), ("rowheader", "1"), ("region", "Runs")]);
    fits(&mut tab);
    tab.go(&at("/compare?r=run&r=again"));
    fits(&mut tab);
    drop(tab);
    serving.signal(Signal::SIGINT);
    serving.wait().expect(0);
}

/// A browser sends cookies to every port of a name, and another user of the machine may listen at one of them.
#[test]
fn a_neighbour_at_another_port_gets_nothing_that_opens_the_pages() {
    let place = Place::new();
    formats::unpack(&place, &formats::newest(), "run");
    let serving = place.start(place.command(&["serve", "results", "--control", "--listen", "127.0.0.1:0"]));
    let address = address_after(&serving, "serving `results` at ");
    let (host, token) = address.split_once("/login#").expect("the printed address has the token");
    let neighbour = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = neighbour.local_addr().unwrap();
    let overheard = std::thread::spawn(move || overhear(&neighbour));

    let directory = tempfile::tempdir().unwrap();
    let mut tab = Tab::open(directory.path(), WindowLook { width: 1280, height: 900, is_dark: false });
    tab.go(&format!("http://{host}/login#wrong"));
    tab.wait_for("!document.querySelector('.banner').hidden");
    tab.eval(&format!("location.hash = '{token}'; 0"));
    tab.wait_for("document.querySelector('.results')");
    assert_eq!(tab.eval("location.href"), json!(format!("http://{host}/")));

    tab.go(&format!("http://{other}/thief"));
    tab.wait_for("document.body?.textContent === 'done'");
    let heard = overheard.join().unwrap();
    assert!(heard.contains("/again/run") && !heard.contains(token), "{heard}");
    for header in ["cookie:", "authorization:"] {
        assert!(!heard.to_ascii_lowercase().contains(header), "{heard}");
    }
    tab.go(&format!("http://{host}/result/run"));
    tab.wait_for("document.querySelector('#disclosure-h')");
    drop(tab);
    serving.signal(Signal::SIGINT);
    serving.wait().expect(0);
}

/// Answers with a page that asks for another one of its own; returns all that it was sent until then.
fn overhear(listener: &TcpListener) -> String {
    const PAGE: &str =
        "<body><script>fetch('/again/run').then(() => document.body.textContent = 'done')</script>";
    let mut heard = String::new();
    while !heard.contains("/again/run") {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap());
        while lines.read_line(&mut heard).unwrap_or(0) > 2 {}
        let length = PAGE.len();
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close";
        let _ = stream.write_all(format!("{head}\r\nContent-Length: {length}\r\n\r\n{PAGE}").as_bytes());
    }
    heard
}

#[test]
fn a_page_whose_drawing_ends_ends_nothing_else() {
    let place = Place::new();
    formats::unpack(&place, &formats::newest(), "run");
    let serve = |point: &str| {
        let mut command = place.command(&["serve", "results", "--listen", "127.0.0.1:0"]);
        command.env("PGDYNO_TEST_PANIC", point);
        let serving = place.start(command);
        let address = address_after(&serving, "serving `results` at ");
        (serving, address)
    };
    let (serving, address) = serve("draw");
    for path in ["/result/run", "/history/sample"] {
        let answer = get(&address, path);
        assert!(answer.contains("the process that draws it has ended"), "{path}: {answer}");
    }
    assert!(serving.is_alive());
    assert!(get(&address, "/").starts_with("HTTP/1.1 200"));
    drop(serving);
    let (_serving, address) = serve("nothing");
    for path in ["/result/run", "/history/sample"] {
        assert!(get(&address, path).starts_with("HTTP/1.1 200"), "{path}");
    }
    let broken = place.path("results/broken");
    std::fs::create_dir(&broken).unwrap();
    let plan = std::fs::read_to_string(place.path("results/run/plan.json")).unwrap();
    std::fs::write(broken.join("plan.json"), plan.replace("\"measure_s\": 3", "\"measure_s\": 4000000000"))
        .unwrap();
    for (path, word) in [("/", "broken: plan.json: `measure_s`"), ("/history/sample", "tps")] {
        let answer = get(&address, path);
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(word), "{path}: {answer:.2000}");
    }
}

#[test]
fn an_experiment_that_a_page_stops_twice_ends_in_order() {
    let (place, pg) = (Place::new(), Pg::shared());
    let server = pg.admin_target(&pg.database());
    let args = "run -w tpcb-select -s 1 -c 1 --pace=100/s --measure 60s --ramp-up 0s --repeats 1 --set prepare.settle=false \
                -o results/out --server";
    let running = place.start(place.command(&args.split_whitespace().chain([&*server]).collect::<Vec<_>>()));
    let serving = place.start(place.command(&["serve", "results", "--control", "--listen", "127.0.0.1:0"]));
    let address = address_after(&serving, "serving `results` at ");
    let (host, token) = address.split_once("/login#").expect("the printed address has the token");
    let directory = tempfile::tempdir().unwrap();
    let mut tab = Tab::open(directory.path(), WindowLook { width: 1280, height: 900, is_dark: false });
    tab.go(&format!("http://{host}/login"));
    tab.eval(&format!("token.value = '{token}'; document.querySelector('.act').click()"));
    tab.wait_for("document.querySelector('.results')");
    wait_until("the load", || place.path("results/out/runs/0001/intervals.jsonl").exists());
    tab.go(&format!("http://{host}/live/out"));
    tab.wait_for("document.querySelector('form[action=\"/stop/out\"]')");
    // Another server over the same directory does not know what the first one has asked.
    let other = place.start(place.command(&["serve", "results", "--control", "--listen", "127.0.0.1:0"]));
    let address = address_after(&other, "serving `results` at ");
    let (other_host, token) = address.split_once("/login#").expect("the printed address has the token");
    let own = format!("{token}\r\nOrigin: http://{other_host}\r\nContent-Length: 0");
    let mut answer = String::new();
    request(other_host, "POST /stop/out", &own).read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 303"), "{answer}");
    tab.eval(
        "window.answers = []; \
         for (const _ of [1, 2, 3]) fetch('/stop/out', {method: 'POST'}).then(a => answers.push(a.status)); 0",
    );
    let ended = running.wait();
    tab.wait_for("answers.length === 3");
    assert!(ended.stderr.contains("stopped"), "{}", ended.stderr);
    let state = std::fs::read_to_string(place.path("results/out/state.jsonl")).unwrap();
    let last: serde_json::Value = serde_json::from_str(state.lines().last().unwrap()).unwrap();
    assert_eq!((&last["run"], &last["state"]), (&0.into(), &"partial".into()), "{state}");
    assert!(place.path("results/out/report.html").exists());
    drop(tab);
    for server in [serving, other] {
        server.signal(Signal::SIGINT);
        server.wait().expect(0);
    }
}
