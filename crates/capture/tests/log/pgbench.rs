//! Logs of a real server under pgbench: what is read equals what pgbench says it has done, in each format, protocol and setting.

use std::fs;
use std::path::Path;

use capture::log::{ExecutedStatement, LogReading, Protocol, ReadOptions};
use nix::sys::signal::Signal;
use testbed::{ClusterOptions, TestServer, run};

use crate::{Collected, file, read_files};

const SETTINGS: &[&str] = &[
    "logging_collector=on",
    "log_filename='run.log'",
    "log_line_prefix='%m [%p] %c %v %x %q%u@%d '",
    "log_rotation_age=0",
    "log_rotation_size=0",
];

/// Transactions of each run.
const TRANSACTIONS: usize = 60;

/// Statements of a TPC-B-like transaction, with BEGIN and END.
const STATEMENTS: usize = 7;

/// What the log of a run should contain.
struct Run<'a> {
    version_num: u32,
    settings: &'a [&'a str],
    has_durations: bool,
    protocol: &'a str,
}

/// Runs pgbench on a stopped server with these settings of the log, and returns the directory of its files.
fn log_of(server: &TestServer, case: &Run) -> std::path::PathBuf {
    let directory = server.path("data/log");
    let _ = fs::remove_dir_all(&directory);
    let mut settings = [SETTINGS, case.settings].concat();
    let has_json = case.version_num >= 150_000;
    settings.push(if has_json {
        "log_destination='stderr,csvlog,jsonlog'"
    } else {
        "log_destination='stderr,csvlog'"
    });
    if case.version_num >= 140_000 {
        settings.push("compute_query_id=on");
    }
    fs::write(server.path("data/postgresql.auto.conf"), format!("{}\n", settings.join("\n")))
        .expect("the settings are written");
    server.start_again();
    let mut pgbench = server.client("pgbench", "postgres");
    pgbench.args(["-n", "-c", "3", "-j", "1", "-t", &(TRANSACTIONS / 3).to_string(), "-M", case.protocol]);
    run(&mut pgbench);
    // The end of the server ends its collector, which writes the rest.
    server.stop(Signal::SIGINT);
    directory
}

fn read(directory: &Path, ending: &str) -> (Collected, LogReading) {
    let bytes = fs::read(directory.join(format!("run.{ending}"))).expect("the log is there");
    read_files(vec![file(ending, bytes)], &ReadOptions::default()).expect("the log is read")
}

/// Statements of pgbench's clients, without what it asks before.
fn of_load(collected: &Collected) -> Vec<&ExecutedStatement> {
    let is_load = |text: &str| {
        text.contains("pgbench_") && !text.starts_with("select")
            || text.starts_with("BEGIN")
            || text.starts_with("END")
    };
    collected.statements.iter().filter(|statement| is_load(&statement.text)).collect()
}

#[track_caller]
fn check(server: &TestServer, case: &Run) {
    let directory = log_of(server, case);
    let mut all = Vec::new();
    let endings: &[&str] =
        if case.version_num >= 150_000 { &["csv", "log", "json"] } else { &["csv", "log"] };
    for ending in endings {
        let name = format!("{} {:?} {ending}", case.protocol, case.settings);
        let (collected, reading) = read(&directory, ending);
        let load = of_load(&collected);
        assert_eq!(load.len(), TRANSACTIONS * STATEMENTS, "{name}: {reading:?}");
        let count = |word: &str| load.iter().filter(|one| one.text.starts_with(word)).count();
        assert_eq!(
            ["BEGIN", "UPDATE", "SELECT", "INSERT", "END"].map(count),
            [1, 3, 1, 1, 1].map(|n| n * TRANSACTIONS),
            "{name}"
        );
        assert!(load.iter().all(|one| one.duration_us.is_some() == case.has_durations), "{name}");
        let is_as_asked = |one: &&ExecutedStatement| match (&one.protocol, case.protocol) {
            (Protocol::Simple, "simple") | (Protocol::Extended, "extended") => {
                one.parameters.is_empty() || case.protocol == "extended"
            }
            (Protocol::Named(_), "prepared") => true,
            _ => false,
        };
        assert!(load.iter().all(is_as_asked), "{name}");
        let n_values: usize = load.iter().map(|one| one.parameters.len()).sum();
        // 2 + 1 + 2 + 2 + 4 values.
        assert_eq!(n_values, if case.protocol == "simple" { 0 } else { 11 * TRANSACTIONS }, "{name}");
        assert!(load.iter().all(|one| one.transaction.is_some()), "{name}");
        let sessions: std::collections::BTreeSet<u32> = load.iter().map(|one| one.session).collect();
        assert_eq!(sessions.len(), 3, "{name}");
        // The collector writes the lines of several processes into each file in an order of its own.
        let mut said: Vec<String> = load
            .into_iter()
            .map(|one| format!("{} {} {:?} {:?}", one.start_us, one.text, one.parameters, one.duration_us))
            .collect();
        said.sort();
        all.push(said);
    }
    for (ending, other) in endings.iter().zip(&all) {
        assert_eq!(*other, all[0], "csvlog and {ending} say the same");
    }
}

#[test]
fn what_is_read_equals_what_pgbench_did() {
    let server = TestServer::start(&ClusterOptions {
        settings: &["shared_buffers=32MB"],
        ..ClusterOptions::default()
    });
    let version_num = server.admin("postgres").server_version_num();
    let mut init = server.client("pgbench", "postgres");
    run(init.args(["-i", "-q", "-s", "1"]));
    server.stop(Signal::SIGINT);
    let durations: &[&str] = &["log_min_duration_statement = 0"];
    let texts: &[&str] = &["log_statement = 'all'"];
    let both: &[&str] = &["log_statement = 'all'", "log_min_duration_statement = 0"];
    let old: &[&str] = &["log_statement = 'all'", "log_duration = on"];
    let sampled: &[&str] = &["log_transaction_sample_rate = 1"];
    for protocol in ["simple", "extended", "prepared"] {
        check(&server, &Run { settings: durations, has_durations: true, protocol, version_num });
        check(&server, &Run { settings: both, has_durations: true, protocol, version_num });
        check(&server, &Run { settings: texts, has_durations: false, protocol, version_num });
        check(&server, &Run { settings: old, has_durations: true, protocol, version_num });
    }
    if version_num >= 120_000 {
        check(&server, &Run { settings: sampled, has_durations: true, protocol: "prepared", version_num });
    }
    server.start_again();
}
