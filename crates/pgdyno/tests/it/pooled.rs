//! PgBouncer that pgdyno runs between a load and its own server, where it is installed: as a level of a factor, its queue, its pause, and
//! what is left of it.

use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use model::experiment::topology::pooler::{PoolMode, PoolerKind};
use model::load::Protocol;
use model::run::RunData;
use model::telemetry::reading::TickSource;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use server::pooler::program::Pgbouncer;
use server::{OwnPooler, PoolerOptions, PoolerStart};
use testbed::{ClusterOptions, TestServer, bin_dir};
use wire::session::Session;
use wire::{Conninfo, Host};

use crate::poolers::SKIPPED;
use crate::tool::{Ended, Place, Running, SMALL, committed_in, expect_found, expect_sound, tell, wait_until};

/// The program, where there is one.
fn installed() -> Option<Pgbouncer> {
    Pgbouncer::find(None).ok()
}

/// A short run on a server of these binaries.
fn start(place: &Place, command: &str, more: &str) -> Running {
    let words = format!(
        "{command} --ramp-up 0s --set prepare.settle=false --set {SMALL} --set server.bin_dir={} {more}",
        bin_dir().display()
    );
    place.start(place.command(&words.split_whitespace().collect::<Vec<&str>>()))
}

fn run(place: &Place, command: &str, more: &str) -> Ended {
    start(place, command, more).wait()
}

/// The directory of the socket of a pooler that runs.
fn socket_dir(place: &Place) -> Option<PathBuf> {
    let dirs = fs::read_dir(place.path("tmp")).ok()?.flatten().map(|entry| entry.path().join("d"));
    dirs.into_iter().find(|dir| dir.join(".s.PGSQL.6432").exists())
}

/// Values of a reading of the pooler's console, in the order of time.
fn readings(run: &RunData, key: &str) -> Vec<f64> {
    let of_pooler = run.ticks.iter().filter(|tick| tick.source == TickSource::Pooler);
    of_pooler.filter_map(|tick| tick.values.get(key)).collect()
}

#[test]
fn a_pooler_is_a_level_and_built_in_workloads_work_through_it() {
    let Some(pgbouncer) = installed() else { return tell(SKIPPED) };
    let place = Place::new();
    let more = "--scale 1 -c 4 --pace 100/s --measure 2s --repeats 1 --set pooler.size=3 -o out";
    run(&place, "run -w tpcb --pooler none,pgbouncer", more).expect(0);
    let data = place.results("out");
    assert_eq!(data.runs.len(), 2);
    for run in &data.runs {
        expect_sound(run);
        let record = &run.record;
        let protocol = record.case.workload.protocol;
        assert!(
            pgbouncer.can_keep_prepared() || protocol == Protocol::Extended,
            "in all cases: {protocol:?}"
        );
        let is_pooled = record.case.get(model::experiment::keys::pooler::KIND) == PoolerKind::Pgbouncer;
        assert_eq!(record.pooler.is_some(), is_pooled);
        assert_eq!(crate::tool::history_growth(run), record.done.as_ref().unwrap().counts.committed);
        let n: f64 = readings(run, "pooler.transactions").iter().sum();
        assert_eq!(n > 0.0, is_pooled, "{n}");
        assert_eq!(record.connections.len(), 0);
    }
    let pooled = data.runs.iter().find(|run| run.record.pooler.is_some()).unwrap();
    assert_eq!(pooled.record.pooler.as_ref().unwrap().version, Some(pgbouncer.version));
    expect_found(&place, "out", &["behind-pooler"]);
    let study = analysis::study(&data);
    let found: Vec<&str> =
        study.runs.iter().flat_map(|run| &run.findings).map(|finding| finding.id).collect();
    assert!(!found.contains(&"in-between") && !found.contains(&"pooler-idle-pool"), "{found:?}");
    place.expect_clean();

    // Isolation is a setting of sessions, which a pooler hands on to nobody.
    fs::remove_dir_all(place.path("out")).unwrap();
    let more = "--scale 1 -c 3 --pace 60/s --measure 4s --repeats 1 -o out --set";
    run(&place, "run -w tpcc --pooler pgbouncer", &format!("{more} workload.isolation=serializable"))
        .expect(0);
    let run = place.first_run("out");
    let settings = run.record.done.as_ref().unwrap().sessions.as_ref().unwrap();
    let level = settings.settings.iter().find(|setting| setting.name == "default_transaction_isolation");
    assert_eq!(level.map(|setting| setting.value.as_str()), Some("serializable"), "{settings:?}");
    expect_found(&place, "out", &["pooler-idle-pool"]);
    place.expect_clean();
}

#[test]
fn clients_that_wait_for_a_small_pool_are_its_queue_and_its_size_the_limit() {
    if installed().is_none() {
        return tell(SKIPPED);
    }
    let place = Place::new();
    place.write("sleep.sql", "select pg_sleep(0.01);\n");
    let more =
        "-c 50 --measure 5s --repeats 1 --set workload.data=none --set run.repeat_disturbed=0 -o out --json";
    let ended = run(&place, "run -f sleep.sql --pooler pgbouncer --set pooler.size=5", more).expect(0);
    let study: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let data = place.first_run("out");
    expect_sound(&data);

    // Five connections do a hundred transactions of 10 ms a second each, at most.
    let n: f64 = readings(&data, "pooler.transactions").iter().sum();
    let s: f64 = data
        .ticks
        .iter()
        .filter(|tick| tick.source == TickSource::Pooler)
        .map(|tick| tick.length_ns as f64 / 1e9)
        .sum();
    assert!((50.0..=510.0).contains(&(n / s)), "{} tps", n / s);
    let wait_ms = 1e3 * readings(&data, "pooler.wait").iter().sum::<f64>() / n;
    // 45 of 50 clients are in the queue: nine times as long as the transaction takes, which is 10 ms or more.
    assert!((60.0..1_000.0).contains(&wait_ms), "{wait_ms} ms");
    let waiting = readings(&data, "pooler.clients[waiting]");
    assert!(waiting.iter().any(|n| (30.0..=45.0).contains(n)), "{waiting:?}");
    let active = readings(&data, "pooler.servers[active]");
    assert!(active.iter().all(|n| *n <= 5.0) && active.contains(&5.0), "{active:?}");

    let limiter = &study["cases"][0]["limiter"];
    // Other tests may use all processors meanwhile.
    let name = limiter["name"].as_str().unwrap();
    assert!(["pooler-size", "foreign-cpu", "steal"].contains(&name), "{limiter}");
    if name == "pooler-size" {
        assert_eq!(limiter["next"], "Raise pooler.size.", "{limiter}");
    }
    let log = fs::read_to_string(place.path("out/runs/0001/pooler.log")).unwrap();
    assert!(log.contains("process up"), "{log}");
    place.expect_clean();
}

#[test]
fn processes_share_a_port_and_a_password_lets_the_load_in() {
    if installed().is_none() {
        return tell(SKIPPED);
    }
    let place = Place::new();
    place.write("one.sql", "select 1;\n");
    let more = "-c 6 --pace 100/s --measure 2s --repeats 1 --set workload.data=none -o out";
    run(&place, "run -f one.sql --pooler pgbouncer --set pooler.processes=2 --set pooler.size=2", more)
        .expect(0);
    let data = place.first_run("out");
    expect_sound(&data);
    let n: f64 = readings(&data, "pooler.transactions").iter().sum();
    let committed = data.record.done.as_ref().unwrap().counts.committed as f64;
    // The first tick begins with the load or a moment later, and settings are asked for after it.
    assert!((0.5 * committed..committed + 10.0).contains(&n), "{n} of {committed}");
    let target = &data.record.load.as_ref().unwrap().target;
    assert!(target["host"] == "127.0.0.1" && !target.contains_key("password"), "{target:?}");
    place.expect_clean();
}

#[test]
fn a_pooler_whose_console_is_not_asked_needs_none() {
    if installed().is_none() {
        return tell(SKIPPED);
    }
    let place = Place::new();
    place.write("one.sql", "select 1;\n");
    // Nobody may use its console.
    let text = "[databases]\n{name} = host={host} port={port} user={user}\n[pgbouncer]\nlisten_addr =\nlisten_port = {listen_port}\n\
                unix_socket_dir = {dir}\nauth_type = any\npool_mode = transaction\nignore_startup_parameters = extra_float_digits\n";
    let config = place.write("own.ini", text);
    let more = "-c 2 --pace 100/s --measure 2s --repeats 1 --set workload.data=none -o out --set";
    let more = format!("{more} pooler.admin=none --set pooler.config={}", config.display());
    run(&place, "run -f one.sql --pooler pgbouncer", &more).expect(0);
    let data = place.first_run("out");
    expect_sound(&data);
    assert_eq!(readings(&data, "pooler.transactions"), [0.0; 0], "nobody was asked");
    place.expect_clean();
}

#[test]
fn what_does_not_work_through_a_pool_of_transactions_is_refused_before_anything_begins() {
    let Some(pgbouncer) = installed() else { return tell(SKIPPED) };
    let place = Place::new();
    place.write("set.sql", "select 1;\nset jit = off;\n");
    place.write("one.sql", "select 1;\n");
    let refused = |command: &str, more: &str, expected: &str| {
        let ended = run(&place, command, &format!("{more} --pooler pgbouncer --set workload.data=none"));
        let said = ended.expect(1).stderr;
        assert!(said.contains(expected), "{said}");
    };
    refused(
        "plan -f set.sql",
        "",
        "set.sql:2: SET lasts for the session: use SET LOCAL within a transaction",
    );
    refused("plan -f one.sql", "--set pooler.mode=session -c 21", "so that 20 clients at once have one");
    refused("plan -f one.sql", "--set pooler.program=/bin/true", "does not say that it is PgBouncer");
    refused("plan -f one.sql", "--set pooler.settings.listen_addr=*", "pgdyno decides this itself");
    if !pgbouncer.can_keep_prepared() {
        let expected = "prepared statements are lost between transactions; use --protocol simple or extended";
        refused("plan -f one.sql", "--protocol prepared", expected);
    }
    let by_url =
        ["plan", "--pooler", "pgbouncer", "--server", "postgresql://127.0.0.1:1/x", "-w", "tpcb-select"];
    let said = place.run(&by_url).expect(1).stderr;
    assert!(said.contains("only in front of a server that it runs itself"), "{said}");
    place.expect_clean();
}

#[test]
fn a_pause_is_a_gap_without_errors() {
    if installed().is_none() {
        return tell(SKIPPED);
    }
    let place = Place::new();
    place.write("one.sql", "select 1;\n");
    let more = "-c 4 --measure 8s --repeats 1 --set workload.data=none --set run.repeat_disturbed=0 -o out";
    let load = start(&place, "run -f one.sql --pooler pgbouncer", more);
    place.wait_for_load("out", 2);
    let dir = socket_dir(&place).unwrap();
    let console = Conninfo::new(&dir.to_string_lossy(), 6432, "postgres", "pgbouncer");
    let mut console = Session::connect(&console).unwrap();
    console.query("pause").unwrap();
    std::thread::sleep(Duration::from_millis(2_100));
    console.query("resume").unwrap();
    drop(console);
    load.wait().expect(0);

    let data = place.first_run("out");
    expect_sound(&data);
    let last = data.record.case.window.measure_s;
    let silent: Vec<u32> = (0..last).filter(|t| committed_in(&data, *t) == 0).collect();
    assert!((1..=3).contains(&silent.len()), "{silent:?}");
    assert!(committed_in(&data, last - 1) > 0, "the load goes on");
    place.expect_clean();
}

/// A pooler whose console is asked.
fn asked(program: Pgbouncer) -> PoolerOptions {
    PoolerOptions {
        start: PoolerStart::Pgbouncer(program),
        mode: PoolMode::Transaction,
        size: 2,
        is_asked: true,
        n_processes: 1,
        settings: Default::default(),
        n_clients: 4,
        session_settings: Default::default(),
    }
}

#[test]
fn a_pause_that_takes_too_long_is_taken_back() {
    let Some(program) = installed() else { return tell(SKIPPED) };
    let server = TestServer::start(&ClusterOptions::default());
    let pooler = OwnPooler::start(&asked(program), &server.socket("postgres")).unwrap();
    let mut long = Session::connect(pooler.conninfo()).unwrap();
    long.execute("begin").unwrap();
    let refused = format!("{:#}", pooler.pause(Duration::from_millis(300)).unwrap_err());
    assert!(refused.contains("transactions that run may take longer"), "{refused}");

    let mut other = Session::connect(pooler.conninfo()).unwrap();
    other.set_timeout(Some(Duration::from_secs(20)));
    assert_eq!(other.query("select 1").unwrap().scalar(), Some("1"), "nobody waits");
    assert!(pooler.resume().is_err(), "nothing is paused");
    long.execute("commit").unwrap();
    pooler.pause(Duration::from_secs(20)).unwrap();
    pooler.resume().unwrap();
    let elsewhere = Host { host: "/nowhere".to_string(), port: 1, ..pooler.conninfo().hosts[0].clone() };
    pooler.lead_to(&elsewhere).unwrap();
    assert!(other.query("select 1").is_err(), "the pooler leads there");
}

#[test]
fn a_resume_that_fails_is_said_and_tried_again_before_the_pooler_ends() {
    let Some(program) = installed() else { return tell(SKIPPED) };
    let server = TestServer::start(&ClusterOptions::default());
    let pooler = OwnPooler::start(&asked(program), &server.socket("postgres")).unwrap();
    let signal = |signal: Signal| {
        pooler.pids().into_iter().for_each(|pid| kill(Pid::from_raw(pid), signal).unwrap());
    };
    // A process that is stopped does not answer.
    signal(Signal::SIGSTOP);
    let refused = format!("{:#}", pooler.pause(Duration::from_millis(300)).unwrap_err());
    signal(Signal::SIGCONT);
    assert!(refused.contains("the pooler may stay paused (RESUME"), "{refused}");
    assert!(refused.contains("PAUSE, within"), "{refused}");

    pooler.pause(Duration::from_secs(20)).unwrap();
    signal(Signal::SIGSTOP);
    let refused = format!("{:#}", pooler.resume().unwrap_err());
    signal(Signal::SIGCONT);
    assert!(refused.starts_with("RESUME"), "{refused}");
    // It goes with the pooler, and is read all the same.
    let mut log = File::open(pooler.log_path()).unwrap();
    pooler.stop().unwrap();
    let mut said = String::new();
    log.read_to_string(&mut said).unwrap();
    assert_eq!(said.matches("RESUME command issued").count(), 1, "{said}");
}

#[test]
fn nothing_is_left_of_a_pooler_whose_pgdyno_was_killed() {
    if installed().is_none() {
        return tell(SKIPPED);
    }
    let place = Place::new();
    place.write("one.sql", "select 1;\n");
    let more = "-c 4 --measure 20s --repeats 1 --set workload.data=none -o out";
    let load = start(&place, "run -f one.sql --pooler pgbouncer", more);
    place.wait_for_load("out", 1);
    assert!(socket_dir(&place).is_some());
    load.signal(Signal::SIGKILL);
    drop(load);
    wait_until("the end of all processes", || place.processes().is_empty());
    place.run(&["clean"]).expect(0);
    place.expect_clean();
}
