//! Ctrl-C and SIGKILL at every stage of a run: results are readable, and no process is left.

use std::time::{Duration, Instant};

use model::experiment::plan::RunState;
use nix::sys::signal::Signal;
use testbed::Pg;

use crate::tool::{PACE, Place, expect_identity, history_growth, wait_until};

/// An experiment on data of scale 1, with these options.
fn args(options: &str) -> Vec<&str> {
    let fixed = ["run", "--scale", "1", PACE, "--set", "prepare.settle=false"];
    fixed.into_iter().chain(options.split_whitespace()).collect()
}

#[test]
fn ctrl_c_in_the_measure_leaves_a_partial_result() {
    let place = Place::with_binaries(&["18"]);
    let running = place.start(place.command(&args("-c 2 --measure 30s --ramp-up 0s --repeats 2 -o out")));
    place.wait_for_load("out", 2);
    assert!(running.descendants().len() > 5, "driver and server: {:?}", running.descendants());
    running.signal(Signal::SIGINT);
    let began = Instant::now();
    let ended = running.wait().expect(2);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert!(ended.stderr.contains("stopped: 0 runs completed, 1 interrupted"), "{}", ended.stderr);
    let of_run = ended.stderr.lines().find(|line| line.starts_with("run 1/2")).unwrap();
    assert!(of_run.ends_with("stopped on request"), "the other run is not made: {of_run}");
    place.expect_clean();

    let data = place.results("out");
    assert_eq!(data.runs.len(), 1);
    let run = &data.runs[0];
    assert_eq!((run.record.state, run.record.reason.as_str()), (RunState::Partial, "stopped on request"));
    expect_identity(run);
    assert_eq!(history_growth(run), run.record.done.as_ref().unwrap().counts.committed);
    let report = place.run(&["report", "out"]).expect(0);
    assert!(report.stdout.contains("partial"), "{}", report.stdout);
    let list = place.run(&["list", "."]).expect(0);
    assert!(list.stdout.contains("0/2 runs") && list.stdout.contains("partial"), "{}", list.stdout);
    place.run(&["check"]).expect(0);
    place.expect_clean();
}

#[test]
fn ctrl_c_while_loading_leaves_no_data_that_counts_as_complete() {
    let place = Place::with_binaries(&["18"]);
    let start = || place.start(place.command(&["run", "--scale", "10", "-c", "1", "-o", "out"]));
    let running = start();
    running.wait_for("loading scale 10");
    running.signal(Signal::SIGINT);
    let ended = running.wait().expect(2);
    assert!(ended.stderr.contains("stopped before the first run"), "{}", ended.stderr);
    place.expect_clean();
    let report = place.run(&["report", "out"]).expect(0);
    assert!(report.stdout.contains("partial"), "{}", report.stdout);

    let again = place.run(&["init", "--scale", "10"]).expect(0);
    assert!(again.stderr.contains("loading scale 10"), "what was there is not used: {}", again.stderr);
    place.run(&["check", "--scale", "10"]).expect(0);
    place.expect_clean();
}

#[test]
fn a_killed_run_takes_driver_and_server_with_it_and_can_be_read() {
    let place = Place::with_binaries(&["18"]);
    let running = place.start(place.command(&args("-c 2 --measure 30s --ramp-up 0s --repeats 1 -o out")));
    place.wait_for_load("out", 2);
    let below = running.descendants();
    assert!(below.len() > 5, "driver and server: {below:?}");
    running.signal(Signal::SIGKILL);
    running.wait();
    let began = Instant::now();
    let lives = |pid: &i32| std::fs::metadata(format!("/proc/{pid}")).is_ok();
    wait_until("the end of driver and server", || !below.iter().any(lives));
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());

    let run = place.first_run("out");
    assert_eq!(run.record.state, RunState::Started);
    assert!(run.intervals.len() >= 2);
    let report = place.run(&["report", "out"]).expect(0);
    assert!(report.stdout.contains("partial"), "{}", report.stdout);
    // The next one finds the cluster in the middle of a run, and the socket's directory without an owner.
    place.run(&args("-c 2 --measure 2s --ramp-up 0s --repeats 1 -o next")).expect(0);
    place.expect_clean();
}

#[test]
fn ctrl_c_during_a_run_by_url_ends_its_sessions() {
    let (place, pg) = (Place::new(), Pg::shared());
    let database = pg.database();
    let server = pg.admin_target(&database);
    let mut args = args("-c 4 --measure 30s --ramp-up 1s --repeats 1 -o out");
    args.extend(["--server", &server]);
    let running = place.start(place.command(&args));
    // In the ramp-up: nothing was measured yet.
    place.wait_for_load("out", 1);
    running.signal(Signal::SIGTERM);
    running.wait().expect(2);
    let sessions = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()";
    wait_until("the end of all sessions", || pg.ask(&database, sessions) == "0");
    assert_eq!(place.first_run("out").record.state, RunState::Partial);
    place.run(&["check", "--server", &server]).expect(0);
    place.expect_clean();
}
