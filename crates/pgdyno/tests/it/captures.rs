//! `pgdyno capture log` and `capture show`, from a real server's log to a directory, and what is refused.

use std::fs;

use nix::sys::signal::Signal;
use testbed::{ClusterOptions, TestServer, run};

use crate::tool::Place;

const SETTINGS: &[&str] = &[
    "logging_collector=on",
    "log_destination=csvlog",
    "log_filename=run.log",
    "log_rotation_age=0",
    "log_rotation_size=0",
    "log_min_duration_statement=0",
];

#[test]
fn a_log_becomes_a_directory_and_a_copy_says_which_keys_there_are() {
    let server = TestServer::start(&ClusterOptions { settings: SETTINGS, ..ClusterOptions::default() });
    run(server.client("pgbench", "postgres").args(["-i", "-s", "1", "-q"]));
    server.stop(Signal::SIGINT);
    fs::remove_dir_all(server.path("data/log")).unwrap();
    server.start_again();
    run(server.client("pgbench", "postgres").args(["-n", "-t", "200", "-M", "prepared"]));
    server.stop(Signal::SIGINT);
    let place = Place::new();
    fs::copy(server.path("data/log/run.csv"), place.path("run.csv")).unwrap();
    server.start_again();

    let target =
        format!("host={} port={} user=postgres dbname=postgres", server.dir().display(), server.port);
    let args = ["capture", "log", "run.csv", "--privacy", "values", "--server", &target, "-o", "shop"];
    let made = place.run(&args).expect(0);
    for part in [
        "of the time is reproduced",
        "update-pgbench-",
        ":aid key of pgbench_accounts.aid",
        "personal: values are in clear",
        "pgdyno run -w ./shop",
    ] {
        assert!(made.stdout.contains(part), "{part}\n{}\n{}", made.stdout, made.stderr);
    }
    let manifest = fs::read_to_string(place.path("shop/workload.toml")).unwrap();
    assert!(manifest.contains("near(draw.aid, 1, 100000)"), "{manifest}");
    // That of the copy which was asked is not the source's.
    assert!(!manifest.contains("system_identifier"), "{manifest}");

    let shown = place.run(&["capture", "show", "shop", "--json"]).expect(0);
    let summary: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
    let templates = summary["templates"].as_array().unwrap();
    assert!(
        templates.iter().any(|one| one["n"] == 200 && one["statements"].as_array().unwrap().len() == 7),
        "{summary}"
    );
    let verbose = place.run(&["capture", "show", "./shop", "--verbose"]).expect(0);
    assert!(
        verbose.stdout.contains("| UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2"),
        "{}",
        verbose.stdout
    );

    let refused = place.run(&args).expect(1);
    assert!(refused.stderr.contains("is not empty"), "{}", refused.stderr);
    let hashed = place.run(&["capture", "log", "run.csv", "-o", "hashed"]).expect(0);
    assert!(hashed.stdout.contains("HASHED VALUES FIND NO ROWS"), "{}", hashed.stdout);
}

#[test]
fn what_is_no_log_and_no_window_is_refused() {
    let place = Place::new();
    place.write("notes.txt", "milk\nbread\n");
    for (args, part) in [
        (&["capture", "log", "missing.csv", "-o", "x"][..], "there is no file `missing.csv`"),
        (&["capture", "log", "notes.txt", "-o", "x"], "notes.txt"),
        (
            &["capture", "log", "notes.txt", "--window", "noon", "-o", "x"],
            "--window `noon` is no part of a log",
        ),
        (&["capture", "log", "notes.txt", "--stats", "notes.txt", "-o", "x"], "notes.txt"),
        (&["capture", "show", "."], "has no `capture.json`"),
    ] {
        let refused = place.run(args).expect(1);
        assert!(refused.stderr.contains(part), "{args:?}\n{}", refused.stderr);
        assert!(!place.path("x").exists(), "{args:?}");
    }
}
