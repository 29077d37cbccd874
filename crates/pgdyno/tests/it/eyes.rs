//! Eyes on the host of a server by URL: what they see is recorded as if the server were here, and bad ones are named.
//!
//! The machine elsewhere is this one. Eyes that see another boot id take their clock for another one.

use model::experiment::plan::RunState;
use model::telemetry::reading::TickSource;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use testbed::{ClusterOptions, Pg, TestServer};

use crate::tool::{Ended, PACE, Place, Running, tell, wait_until};

const PROGRAM: &str = env!("CARGO_BIN_EXE_pgdyno");
const RUN: &str = "-c 2 --scale 1 --ramp-up 0s --repeats 1 --set prepare.settle=false -o out";

/// Starts a run against a server by URL whose host is reached by this command.
fn start(place: &Place, server: &str, via: &[&str], program: &str, measure: &str) -> Running {
    let text = format!(
        "[experiment]\nname = \"eyes\"\n[server]\nhost = {{name = \"db1\", via = {via:?}, program = \"{program}\"}}\n[run]\ncounters = true\n"
    );
    let file = place.write("eyes.toml", &text).display().to_string();
    let fixed = ["run", file.as_str(), "--server", server, "--measure", measure, PACE];
    place.start(place.command(&fixed.into_iter().chain(RUN.split_whitespace()).collect::<Vec<_>>()))
}

fn run(place: &Place, server: &str, via: &[&str], program: &str) -> Ended {
    start(place, server, via, program, "3s").wait()
}

#[test]
fn a_host_elsewhere_is_observed_as_if_the_server_were_here() {
    if !geteuid().is_root() {
        return tell("skipped: only root can give a process another boot id");
    }
    let (pg, place) = (Pg::shared(), Place::new());
    let boot_id = place.write("boot_id", "another\n");
    let login = format!(
        "echo Welcome\nmount --bind {} /proc/sys/kernel/random/boot_id; shift; eval \"$1\"\n",
        boot_id.display()
    );
    let login = place.write("login.sh", &login).display().to_string();
    run(&place, &pg.admin_target(&pg.database()), &["unshare", "--mount", "sh", &login, "-c"], PROGRAM)
        .expect(0);
    let run = place.first_run("out");
    let record = &run.record;
    assert_eq!(record.state, RunState::Completed, "{}", record.reason);
    let eyes = record.eyes.as_ref().unwrap();
    assert!(!eyes.is_here && eyes.name == "db1" && eyes.postmaster_pid.is_some(), "{eyes:?}");
    assert!(eyes.n_ticks >= 3 && eyes.n_ticks_lost == 0, "{eyes:?}");
    for clock in [eyes.clock_before.unwrap(), eyes.clock_after.unwrap()] {
        // It is the same clock in truth.
        assert!(clock.offset_ns.unsigned_abs() <= clock.bound_ns + 100_000, "{clock:?}");
    }
    assert!(record.server_is_local && record.driver_host.is_some());
    let host = record.host.as_ref().unwrap();
    assert!(host.mounts.contains_key("data") && host.mounts.contains_key("wal"), "{:?}", host.mounts);
    let go = record.go_unix_ns.unwrap();
    let ticks_of = |source: TickSource| {
        run.ticks.iter().filter(move |tick| tick.source == source && tick.end_unix_ns > go + 500_000_000)
    };
    // Ticks end on whole seconds of the load, by our clock.
    for tick in ticks_of(TickSource::Host).take(3) {
        let from_second = (tick.end_unix_ns - go + 500_000_000) % 1_000_000_000;
        assert!(from_second.abs_diff(500_000_000) < 100_000_000, "{from_second}");
    }
    let has = |source: TickSource, key: &str| ticks_of(source).any(|tick| tick.values.contains_key(key));
    for key in
        ["host.cpu.user[cpu0]", "host.memory.available", "server.cpu.user", "server.cpu.load", "watch.cpu"]
    {
        assert!(has(TickSource::Host, key), "{key}");
    }
    for key in ["host.cpu.user[cpu0]", "pgdyno.cpu", "driver.run_delay"] {
        assert!(has(TickSource::DriverHost, key), "{key}");
    }
    assert!(!has(TickSource::DriverHost, "server.cpu.user"));
    // Counted there, or the kernel there refuses and the record says so.
    let refused = &record.telemetry_unavailable;
    let is_refused = refused.keys().any(|what| what.contains("counters.task_clock"));
    assert_eq!(has(TickSource::Host, "counters.task_clock"), !is_refused, "{refused:?}");
    let study = analysis::study(&place.results("out"));
    let used = &study.runs[0].resources;
    assert!(used.server_cpu.unwrap() > 0.0 && used.driver_cpu.unwrap() > 0.0 && used.watch_cpu.is_some());
    assert!(used.driver_host.as_ref().unwrap().busy.unwrap() > 0.0);
    let panels: Vec<&str> = study.runs[0].series.iter().map(|series| series.panel.as_str()).collect();
    assert!(panels.contains(&"cpu") && panels.contains(&"driver_host_cpu"), "{panels:?}");
    let page = std::fs::read_to_string(place.path("out").join("report.html")).unwrap();
    assert!(page.contains("Driver&#39;s host") || page.contains("Driver's host"));
    place.expect_clean();
}

/// As an agent starts it for whoever calls: the order could name any file of the agent's user.
#[test]
fn eyes_without_the_rights_of_their_user_read_no_file_that_the_order_names() {
    if !geteuid().is_root() {
        return tell("skipped: only root can give a process another boot id");
    }
    let settings = ["logging_collector=on", "log_directory=log", "log_filename=all.log"];
    let server = TestServer::start(&ClusterOptions { settings: &settings, ..ClusterOptions::default() });
    for (more, follows) in [("", true), (" --load-only", false)] {
        let place = Place::new();
        let boot_id = place.write("boot_id", "another\n");
        let login = format!(
            "mount --bind {} /proc/sys/kernel/random/boot_id; shift; eval \"$1{more}\"\n",
            boot_id.display()
        );
        let login = place.write("login.sh", &login).display().to_string();
        let via = ["unshare", "--mount", "sh", &login, "-c"];
        run(&place, &server.admin_target("postgres"), &via, PROGRAM).expect(0);

        let record = place.first_run("out").record;
        let eyes = record.eyes.as_ref().unwrap();
        assert!(eyes.postmaster_pid.is_some(), "{eyes:?}");
        let unread = record.telemetry_unavailable.get("server.log");
        assert_eq!(unread.is_none(), follows, "{more}: {unread:?}");
        // No grant would help.
        let fits = |words: &String| words.contains("pgdyno agent --allow-shell") && !words.contains("grant");
        assert!(unread.is_none_or(fits), "{unread:?}");
        place.expect_clean();
    }
}

#[test]
fn a_host_that_cannot_be_observed_is_named_before_the_load_with_what_to_do() {
    let (pg, place) = (Pg::shared(), Place::new());
    let server = pg.admin_target(&pg.database());
    let other = place.another_build();
    for (program, expected) in [
        (other.as_str(), "`pgdyno watch` on `db1` is another build of pgdyno"),
        ("/nonexistent/pgdyno", "is pgdyno at `/nonexistent/pgdyno` there"),
    ] {
        let ended = run(&place, &server, &["sh", "-c"], program).expect(1);
        assert!(ended.stderr.contains("cannot observe the server's host `db1`"), "{ended:?}");
        assert!(ended.stderr.contains(expected), "{ended:?}");
        assert!(!place.path("out").exists(), "it is found out before data is loaded");
    }
    place.expect_clean();
}

#[test]
fn eyes_that_are_killed_leave_the_number_and_are_named() {
    let (pg, place) = (Pg::shared(), Place::new());
    let server = pg.admin_target(&pg.database());
    let running = start(&place, &server, &["setsid", "--wait", "sh", "-c"], PROGRAM, "4s");
    place.wait_for_load("out", 1);
    wait_until("the eyes", || !place.pids_of("watch").is_empty());
    let victim = place.pids_of("watch")[0];
    kill(Pid::from_raw(victim), Signal::SIGKILL).unwrap();
    running.wait().expect(0);
    let record = place.first_run("out").record;
    assert_eq!(record.state, RunState::Completed, "{}", record.reason);
    let reason = &record.telemetry_unavailable["host"];
    assert!(reason.contains("`pgdyno watch` on `db1`"), "{reason}");
    let study = analysis::study(&place.results("out"));
    let missing = study.runs[0].findings.iter().find(|finding| finding.id == "telemetry-missing");
    assert!(missing.is_some_and(|finding| finding.evidence.contains("host: `pgdyno watch`")), "{missing:?}");
    place.expect_clean();
}
