//! Known loads on a real server, captured from its log: templates, roles and rates are those of the load.

#![allow(clippy::unwrap_used, reason = "whatever fails here has to fail the test")]

mod loads;
mod tpcb;

use std::collections::BTreeMap;
use std::fs;
use std::fs::File;

use capture::directory::{MadeDirectory, Making, make};
use capture::log::{LogFile, ReadOptions, read};
use capture::privacy::Privacy;
use capture::reader::{LogReader, WindowChoice};
use nix::sys::signal::Signal;
use testbed::{ClusterOptions, TestServer, run};

const SETTINGS: &[&str] = &[
    "shared_buffers=32MB",
    "logging_collector=on",
    "log_destination=csvlog",
    "log_filename=run.log",
    "log_rotation_age=0",
    "log_rotation_size=0",
    "log_min_messages=warning",
];

/// Statements that the server logs.
const ALL: &str = "log_min_duration_statement=0";

/// A server with TPC-B's tables at scale 10, and a log that begins when it is wanted.
struct Source {
    server: TestServer,
}

impl Source {
    fn start() -> Source {
        let server = TestServer::start(&ClusterOptions { settings: SETTINGS, ..ClusterOptions::default() });
        run(server.client("pgbench", "postgres").args(["-i", "-s", "10", "-q"]));
        Source { server }
    }

    /// What pgbench does with these options, captured.
    fn captured(&self, setting: &str, options: &[&str], privacy: Privacy) -> MadeDirectory {
        self.logged(setting, || {
            run(self.server.client("pgbench", "postgres").args(["-n", "-j", "1"]).args(options));
        });
        self.made(privacy).unwrap()
    }

    /// Does something while the server logs.
    fn logged(&self, setting: &str, load: impl FnOnce()) {
        self.server.stop(Signal::SIGINT);
        let _ = fs::remove_dir_all(self.server.path("data/log"));
        self.server.start_again();
        for name in ["log_min_duration_statement", "log_transaction_sample_rate"] {
            self.server.execute("postgres", &format!("alter system reset {name}"));
        }
        self.server.execute("postgres", &format!("alter system set {setting}"));
        self.server.execute("postgres", "select pg_reload_conf()");
        // Backends see the setting when they begin.
        std::thread::sleep(std::time::Duration::from_millis(300));
        load();
        self.server.stop(Signal::SIGINT);
    }

    fn made(&self, privacy: Privacy) -> anyhow::Result<MadeDirectory> {
        let path = self.server.path("data/log/run.csv");
        let mut sink = LogReader::new(WindowChoice::All);
        let file = LogFile { name: "run.csv".to_string(), bytes: Box::new(File::open(path)?) };
        read([file], &ReadOptions::default(), &mut sink)?;
        let mut read = sink.finish();
        let making = Making {
            name: "captured",
            privacy,
            key: [3; 32],
            facts: &BTreeMap::new(),
            statistics: None,
            server: Some("15.1"),
            system_identifier: None,
            log: "csvlog",
            n_clients: None,
        };
        make(&mut read, &making)
    }
}

/// Whether `n` of `of` is within 99 % of the binomial distribution with this share (normal approximation).
fn is_within_binomial(n: u64, of: u64, share: f64) -> bool {
    let of = of as f64;
    (n as f64 - share * of).abs() <= 2.576 * (of * share * (1.0 - share)).sqrt() + 1.0
}

/// The text of a file.
fn text(made: &MadeDirectory, name: &str) -> String {
    String::from_utf8(
        made.files.get(name).unwrap_or_else(|| panic!("no {name}: {:?}", made.files.keys())).clone(),
    )
    .unwrap()
}

/// Rows of captured values.
fn rows(made: &MadeDirectory, name: &str) -> Vec<String> {
    let bytes = zstd::decode_all(&made.files[name][..]).unwrap();
    String::from_utf8(bytes).unwrap().lines().map(str::to_string).collect()
}

/// Writes the files, if a directory for them is named, to be looked at.
fn keep(made: &MadeDirectory, name: &str) {
    let Ok(dir) = std::env::var("PGDYNO_KEEP_CAPTURED") else { return };
    for (file, bytes) in &made.files {
        let path = std::path::Path::new(&dir).join(name).join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}
