//! Drivers that wait at a NATS server: they share a load as others do, and what breaks on the way ends the run with its
//! name. The server is a real one with TLS, whose users may speak for themselves only.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use model::experiment::plan::RunState;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testbed::{Nats, Pg};

use crate::tool::{Place, Running, tell, wait_until};

const RUN: &str =
    "-c 4 --pace=100/s --scale 1 --ramp-up 0s --repeats 1 --set prepare.settle=false -w tpcb-select";
const SKIPPED: &str = "skipped: no nats-server (Debian: nats-server)";

fn agent(place: &Place, nats: &Nats, name: &str, creds: &str) -> Running {
    let (url, creds, ca) = (nats.url(), nats.creds(creds), nats.ca());
    let label = if name == "b" { "az=y" } else { "az=x" };
    let args = ["agent", "--nats", &url, "--creds", &creds, "--ca", &ca, "--name", name, "--label", label];
    place.start(place.command(&args))
}

fn as_conductor(place: &Place, nats: &Nats, args: &[&str]) -> std::process::Command {
    let mut command = place.command(args);
    command.env("PGDYNO_NATS", nats.url()).env("PGDYNO_NATS_CREDS", nats.creds("conductor"));
    command.env("PGDYNO_NATS_CA", nats.ca());
    command
}

fn wait_for_agents(place: &Place, nats: &Nats, expected: &str) {
    let begun = Instant::now();
    loop {
        let listed = place.start(as_conductor(place, nats, &["agents"])).wait();
        let names: Vec<&str> =
            listed.stdout.lines().skip(1).filter_map(|line| line.split("  ").next()).collect();
        if names.iter().map(|name| name.trim()).collect::<Vec<_>>().join(" ") == expected {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{expected}: {listed:?}");
    }
}

fn start(place: &Place, nats: &Nats, server: &str, out: &str, more: &[&str]) -> Running {
    let fixed = ["run", "--server", server, "-o", out].into_iter().chain(RUN.split_whitespace());
    place.start(as_conductor(place, nats, &fixed.chain(more.iter().copied()).collect::<Vec<_>>()))
}

#[test]
fn agents_that_dial_out_share_a_load_and_speak_for_nobody_else() {
    let Some(nats) = Nats::start(&["a", "b", "c"]) else { return tell(SKIPPED) };
    let (pg, place) = (Pg::shared(), Place::new());
    let agents =
        [agent(&place, &nats, "a", "a"), agent(&place, &nats, "b", "b"), agent(&place, &nats, "c", "c")];
    wait_for_agents(&place, &nats, "a b c");
    let server = pg.admin_target(&pg.database());
    start(&place, &nats, &server, "out", &["--agents", "az=x", "--measure", "3s"]).wait().expect(0);
    let run = place.first_run("out");
    assert_eq!(run.record.state, RunState::Completed, "{}", run.record.reason);
    let names: Vec<&str> = run.record.drivers.iter().map(|driver| driver.name.as_str()).collect();
    assert_eq!(names, ["a", "c"]);
    assert!(run.record.drivers.iter().all(|driver| driver.counts.committed > 0));
    crate::tool::expect_sound(&run);
    // The server lets no agent take another one's name, nor two have one.
    let thief = agent(&place, &nats, "b", "a").wait().expect(1);
    assert!(thief.stderr.contains("does not let this user be agent `b`"), "{}", thief.stderr);
    let twin = agent(&place, &nats, "a", "a").wait().expect(1);
    assert!(twin.stderr.contains("there is an agent `a` already"), "{}", twin.stderr);
    let few = start(&place, &nats, &server, "few", &["--agents", "az=x*3"]).wait().expect(1);
    assert!(few.stderr.contains("2 of 3 agents") && few.stderr.contains("3 are needed"), "{}", few.stderr);
    for name in ["a", "b", "c", "conductor"] {
        let found = std::process::Command::new("grep")
            .args(["-r", &format!("secret-of-{name}")])
            .arg(place.path("out"))
            .output();
        assert_eq!(found.unwrap().status.code(), Some(1), "the password of {name} is in the results");
    }
    for agent in agents {
        agent.signal(Signal::SIGTERM);
        agent.wait().expect(0);
    }
    place.expect_clean();
}

#[test]
fn what_comes_by_message_executes_nothing_unless_the_agent_allows_it() {
    let Some(nats) = Nats::start(&["a"]) else { return tell(SKIPPED) };
    let (pg, place) = (Pg::shared(), Place::new());
    let server = pg.admin_target(&pg.database());
    let made = place.path("made");
    place.write("shell.sql", &format!("\\shell touch {}\nSELECT 1;\n", made.display()));
    let run = |out: &str| {
        let args = ["run", "--server", &server, "-o", out, "-f", "shell.sql", "-c", "1", "--measure", "2s"];
        let more = ["--ramp-up", "0s", "--repeats", "1", "--agents", "all"];
        place.start(as_conductor(&place, &nats, &[&args[..], &more].concat())).wait()
    };
    let obedient = agent(&place, &nats, "a", "a");
    wait_for_agents(&place, &nats, "a");
    let refused = run("refused");
    assert!(refused.stderr.contains("--allow-shell") && !made.exists(), "{}", refused.stderr);
    obedient.signal(Signal::SIGTERM);
    obedient.wait().expect(0);

    let (url, creds, ca) = (nats.url(), nats.creds("a"), nats.ca());
    let args = ["agent", "--nats", &url, "--creds", &creds, "--ca", &ca, "--name", "a", "--allow-shell"];
    let generous = place.start(place.command(&args));
    wait_for_agents(&place, &nats, "a");
    run("allowed").expect(0);
    assert!(made.exists());
    generous.signal(Signal::SIGTERM);
    generous.wait().expect(0);
    place.expect_clean();
}

/// A server that lets everybody in, and answers the first subscription with a message that has no end.
fn endless_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let info =
            r#"INFO {"server_id":"x","version":"2.9.0","proto":1,"headers":true,"max_payload":1048576}"#;
        writeln!(stream, "{info}\r").unwrap();
        let asked = BufReader::new(stream.try_clone().unwrap());
        for line in asked.lines().map_while(Result::ok) {
            if line.starts_with("PING") {
                write!(stream, "PONG\r\n").unwrap();
            }
            if line.starts_with("SUB pgdyno.find") {
                write!(stream, "MSG pgdyno.find 1 40000000000\r\n").unwrap();
                let many = vec![b'x'; 1 << 20];
                while stream.write_all(&many).is_ok() {}
            }
        }
    });
    address
}

#[test]
fn a_nats_server_that_sends_without_end_does_not_take_all_memory() {
    let place = Place::new();
    let url = format!("nats://{}", endless_server());
    let agent = place.start(place.command(&["agent", "--nats", &url, "--name", "a"]));
    let begun = Instant::now();
    let ended = agent.wait();
    assert!(begun.elapsed() < Duration::from_secs(120) && ended.stderr.contains("memory"), "{ended:?}");
}

#[test]
#[ignore = "takes a minute of silences; docs/agents.md says how to run it"]
fn what_breaks_on_the_way_to_an_agent_ends_the_run_on_both_sides() {
    let Some(mut nats) = Nats::start(&["a", "b"]) else { return tell(SKIPPED) };
    let (pg, place) = (Pg::shared(), Place::new());
    let agents = [agent(&place, &nats, "a", "a"), agent(&place, &nats, "b", "b")];
    wait_for_agents(&place, &nats, "a b");
    let server = pg.admin_target(&pg.database());
    let broken = |nats: &mut Nats, out: &str, breaks: &dyn Fn(&mut Nats)| {
        let running = start(&place, nats, &server, out, &["--agents", "all", "--measure", "30s"]);
        place.wait_for_load(out, 1);
        let begun = Instant::now();
        breaks(nats);
        running.wait();
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        let record = place.first_run(out).record;
        assert_eq!(record.state, RunState::Failed, "{}", record.reason);
        wait_until("the end of the drivers", || place.pids_of("drive").is_empty());
        record.reason
    };
    // Nobody waits for a server that is away for too long; the agents find it again.
    let reason = broken(&mut nats, "restarted", &|nats| nats.restart(Duration::from_secs(7)));
    assert!(reason.contains("driver `a`") || reason.contains("driver `b`"), "{reason}");
    wait_for_agents(&place, &nats, "a b");
    // A reader that does not read.
    let reason = broken(&mut nats, "suspended", &|_| {
        kill(Pid::from_raw(place.pids_of("dial")[0]), Signal::SIGSTOP).unwrap();
    });
    assert!(reason.contains("driver `"), "{reason}");
    wait_for_agents(&place, &nats, "a b");
    let reason = broken(&mut nats, "killed", &|_| agents[0].signal(Signal::SIGKILL));
    assert!(reason.contains("driver `a`"), "{reason}");
    wait_for_agents(&place, &nats, "b");
    let [a, b] = agents;
    a.wait();
    b.signal(Signal::SIGTERM);
    b.wait().expect(0);
    place.expect_clean();
}
