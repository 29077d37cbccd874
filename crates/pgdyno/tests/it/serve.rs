//! A run that shows itself on a page, and its result on a server: over real connections, from a real run.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use testbed::Pg;

use crate::tool::{Place, Running, wait_until};

/// The address that a process has printed after these words.
fn address_after(running: &Running, words: &str) -> String {
    let mut found = None;
    wait_until(words, || {
        found = running.said().lines().find_map(|line| Some(line.split_once(words)?.1.to_string()));
        found.is_some()
    });
    found.unwrap().trim_start_matches("http://").to_string()
}

fn request(address: &str, head: &str, cookie: &str) -> TcpStream {
    let host = address.split('/').next().unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
        .write_all(
            format!("{head} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n")
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
    let cookie = format!("pgdyno_{}={token}", address.rsplit_once(':').unwrap().1);
    let get = |address: &str, path: &str| {
        let mut answer = String::new();
        request(address, &format!("GET {path}"), &cookie).read_to_string(&mut answer).unwrap();
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
