//! Standbys that pgdyno runs, behind their primary by a time that is known.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use model::run::RunData;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testbed::children_of;
use wire::{Conninfo, Session};

use crate::judge::{expect, json, words};
use crate::tool::{PACE, Place, committed_in, expect_found};

/// How long replay is stopped.
const FROZEN: Duration = Duration::from_secs(3);

/// A run of this many seconds on a server with one standby.
fn run<'a>(measure: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let args = "run --scale 1 -c 2 --standbys 1 --ramp-up 1s --repeats 1 -o out --json --set";
    let args = args.split(' ').chain(["prepare.settle=false", PACE, "--measure", measure]);
    args.chain(more.iter().copied()).collect()
}

/// The values of a key, with the seconds since the load began at which each was read.
fn readings(run: &RunData, key: &str) -> Vec<(f64, f64)> {
    let go = run.record.go_unix_ns.unwrap();
    let at_s = |end_unix_ns: u64| (end_unix_ns as f64 - go as f64) / 1e9;
    let ticks = run.ticks.iter();
    ticks.filter_map(|tick| Some((at_s(tick.end_unix_ns), tick.values.get(key)?))).collect()
}

fn most(values: &[(f64, f64)]) -> f64 {
    values.iter().map(|(_, value)| *value).fold(0.0, f64::max)
}

#[test]
fn a_delay_of_replay_is_its_lag_in_time_and_no_stall() {
    let place = Place::with_binaries(&["18"]);
    let args = run("7s", &["--set", "topology.standby_settings.recovery_min_apply_delay=2s"]);
    let ended = place.run(&args).expect(0);
    let data = place.first_run("out");
    let steady = |key: &str| -> Vec<f64> {
        let all = readings(&data, key).into_iter().filter(|(at_s, _)| (3.5..8.0).contains(at_s));
        let mut values: Vec<f64> = all.map(|(_, value)| value).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let (replay, receive) = (steady("standby.replay_lag[s1]"), steady("standby.receive_lag[s1]"));
    assert!(replay.len() >= 3, "{replay:?}");
    let median = replay[replay.len() / 2];
    assert!((1.7..=2.3).contains(&median), "{replay:?}");
    assert!(receive[receive.len() / 2] < 0.5, "{receive:?}");
    assert!(steady("standby.replay_lag_bytes[s1]").iter().all(|bytes| *bytes > 0.0));
    let found = words(&json(&ended)["runs"][0]["findings"]);
    assert!(!found.iter().any(|text| text.starts_with("replay-stalled")), "{found:#?}");
    place.expect_clean();
}

/// Where a server of this place can be reached that is a primary, and has this database.
fn primary(place: &Place, database: &str) -> Session {
    let servers = fs::read_dir(place.path("tmp")).unwrap().flatten().map(|entry| entry.path().join("d"));
    let sessions = servers.filter_map(|dir| {
        let mut files = fs::read_dir(&dir).ok()?.flatten().map(|file| file.file_name());
        let port = files.find_map(|name| name.to_str()?.strip_prefix(".s.PGSQL.")?.parse().ok())?;
        let conninfo = Conninfo::new(&dir.to_string_lossy(), port, "postgres", database);
        let mut session = Session::connect(&conninfo).ok()?;
        let rows = session.query("select pg_is_in_recovery()::text").ok()?;
        (rows.scalar() == Some("false")).then_some(session)
    });
    sessions.into_iter().next().expect("a primary runs")
}

#[test]
fn reads_of_a_standby_are_as_stale_as_its_replay_is_delayed() {
    let place = Place::new();
    let args = "run -w tpcb-select --scale 1 -c 2 --standbys 1 --ramp-up 1s --repeats 1 -o out --set prepare.settle=false --set \
                workload.reads=standbys --set topology.standby_settings.recovery_min_apply_delay=2s --set run.repeat_disturbed=0";
    let more = [PACE, "--measure", "6s"];
    let args: Vec<&str> = args.split_whitespace().chain(more).collect();
    let running = place.start(place.command(&args));
    place.wait_for_load("out", 1);
    let mut session = primary(&place, "postgres");
    session.execute("create table noted (n int)").unwrap();
    let began = Instant::now();
    let mut n_written = 0;
    while began.elapsed() < Duration::from_secs(7) && session.execute("insert into noted values (1)").is_ok()
    {
        n_written += 1;
        thread::sleep(Duration::from_millis(20));
    }
    drop(session);
    let ended = running.wait();
    assert!(ended.code().is_some_and(|code| code < 2), "{}", ended.stderr);

    let data = place.first_run("out");
    let steady = |key: &str| -> Vec<f64> {
        let all = readings(&data, key).into_iter().filter(|(at_s, _)| (4.5..7.0).contains(at_s));
        all.map(|(_, value)| value).collect()
    };
    let (stale, n) = (steady("reads.stale[s1]"), steady("reads.stale_commits[s1]"));
    assert!(!stale.is_empty() && n_written > 100, "{stale:?} {n_written}");
    // Looked at ten times a second, and a commit is begun up to 0.1 s after the one before.
    assert!(stale.iter().all(|s| (1.8..=2.6).contains(s)), "{stale:?}");
    assert!(n.iter().all(|n| (20.0..=130.0).contains(n)), "{n:?}");
    expect_found(&place, "out", &["stale-reads"]);
    place.expect_clean();
}

/// A process that goes on when this is dropped.
struct Stopped(Pid);

impl Stopped {
    fn stop(pid: i32) -> Stopped {
        kill(Pid::from_raw(pid), Signal::SIGSTOP).unwrap();
        Stopped(Pid::from_raw(pid))
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        kill(self.0, Signal::SIGCONT).ok();
    }
}

/// The process that replays WAL, below the postmaster of the only standby.
fn startup_process(place: &Place) -> i32 {
    let title = |pid: i32| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let of_servers = place.processes().into_iter().flat_map(children_of);
    let startup: Vec<i32> = of_servers.filter(|pid| title(*pid).starts_with("postgres: startup")).collect();
    assert_eq!(startup.len(), 1, "{startup:?}");
    startup[0]
}

#[test]
fn replay_that_is_stopped_is_found_and_holds_up_no_commit_that_does_not_wait_for_it() {
    let place = Place::with_binaries(&["18"]);
    let args = run("9s", &["--set", "server.settings.synchronous_commit=remote_write"]);
    let running = place.start(place.command(&args));
    place.wait_for_load("out", 3);
    let stopped = Stopped::stop(startup_process(&place));
    thread::sleep(FROZEN);
    drop(stopped);
    let ended = running.wait().expect(0);

    let data = place.first_run("out");
    let (stall, lag) =
        (readings(&data, "standby.replay_stall[s1]"), readings(&data, "standby.replay_lag[s1]"));
    assert!((2.0..4.5).contains(&most(&stall)), "{stall:?}");
    assert!((2.0..4.5).contains(&most(&lag)), "{lag:?}");
    let (end_s, _) = stall.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
    let frozen = (end_s - 2.0) as u32..end_s as u32;
    assert!(frozen.clone().all(|t| committed_in(&data, t) > 0), "{frozen:?}: {:?}", data.intervals);

    let study = json(&ended);
    let found = words(&study["runs"][0]["findings"]);
    expect(&found, "replay-stalled doubt", "`s1` replayed nothing for ");
    // Its processes are known, and no strangers.
    let used = |kind: &str| -> f64 {
        readings(&data, &format!("standby.cpu[s1/{kind}]")).iter().map(|(_, s)| s).sum()
    };
    assert!(used("walreceiver") + used("startup") + used("other") > 0.0);
    let panels = study["runs"][0]["series"].as_array().unwrap();
    for unit in ["MiB", "s"] {
        let is_meant =
            |series: &&serde_json::Value| series["panel"] == "standby s1" && series["unit"] == unit;
        assert!(panels.iter().any(|series| is_meant(&series)), "{unit}");
    }
    place.expect_clean();
}
