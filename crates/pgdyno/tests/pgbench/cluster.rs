//! A server that logs every statement, and the two programs to be compared on it.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use testbed::{ClusterOptions, TestServer, as_server_user, bin_dir};

/// The longest time until a session's statements are in the server's log.
const LOG_MAX: Duration = Duration::from_secs(60);

/// The server logs every statement as JSON, which it can from release 15 on.
const OPTIONS: ClusterOptions = ClusterOptions {
    settings: &[
        "logging_collector=on",
        "log_destination=jsonlog",
        "log_directory=.",
        "log_filename=statements",
        "log_statement=all",
        "log_rotation_size=0",
    ],
    hba: None,
    has_tcp: false,
    certificate: None,
    is_on_disk: false,
    bin_dir: None,
};

/// The program to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    /// The pgbench that is installed.
    Genuine,
    /// pgdyno called as `pgbench`.
    Ours,
}

/// A program's output and exit code.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

pub(crate) struct Cluster {
    server: TestServer,
    pgbench: PathBuf,
    /// The release of the genuine pgbench, as ours takes it.
    compat: &'static str,
    n_runs: std::cell::Cell<u32>,
}

impl Cluster {
    pub(crate) fn start() -> Cluster {
        // Another release than the installed one can be tried on the same server.
        let pgbench =
            std::env::var_os("GENUINE_PGBENCH").map_or_else(|| bin_dir().join("pgbench"), PathBuf::from);
        let compat = release(&pgbench);
        let server = TestServer::start(&OPTIONS);
        std::fs::create_dir(server.path("ours")).expect("a new directory");
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_pgdyno"), server.path("ours/pgbench"))
            .expect("a new link");
        let space = server.path("space");
        testbed::run(as_server_user(Command::new("mkdir").arg(&space)));
        let cluster = Cluster { server, pgbench, compat, n_runs: 0.into() };
        cluster.sql("postgres", &format!("create tablespace space location '{}'", space.display()));
        for database in ["genuine", "ours"] {
            cluster.sql("postgres", &format!("create database {database}"));
        }
        cluster
    }

    /// Holds the data, the socket, and scripts under test.
    pub(crate) fn dir(&self) -> &Path {
        self.server.dir()
    }

    /// Gives a command the environment of both programs: directory, server, and no other PG* variable.
    pub(crate) fn surround(&self, command: &mut Command) {
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("PG") {
                command.env_remove(name);
            }
        }
        command
            .current_dir(self.dir())
            .env("PGHOST", self.dir())
            .env("PGUSER", "postgres")
            .env("PGDYNO_COMPAT", self.compat);
    }

    /// Runs statements.
    pub(crate) fn sql(&self, database: &str, sql: &str) -> String {
        let mut psql = self.server.client("psql", database);
        testbed::run(psql.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-c", sql]))
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.server.path(name), text).expect("scripts are writable");
    }

    /// A program with its own database.
    pub(crate) fn command(&self, who: Who, arguments: &str) -> Command {
        let program = match who {
            Who::Genuine => self.pgbench.clone(),
            Who::Ours => self.server.path("ours/pgbench"),
        };
        let mut command = Command::new(program);
        self.surround(&mut command);
        command.arg0("pgbench").env("PGDATABASE", database(who)).args(arguments.split_whitespace());
        command
    }

    /// Runs a program to its end.
    pub(crate) fn run(&self, who: Who, arguments: &str) -> Said {
        self.finish(self.command(who, arguments))
    }

    /// Runs a program to its end with additional variables.
    pub(crate) fn run_in(&self, environment: &[(&str, &str)], who: Who, arguments: &str) -> Said {
        let mut command = self.command(who, arguments);
        command.envs(environment.iter().copied());
        self.finish(command)
    }

    /// Runs a program to its end with `input` and without a terminal.
    pub(crate) fn answer(&self, input: &str, who: Who, arguments: &str) -> Said {
        let inner = self.command(who, arguments);
        let mut command = Command::new("setsid");
        self.surround(&mut command);
        command
            .arg("--wait")
            .arg(inner.get_program())
            .args(inner.get_args())
            .env("PGDATABASE", database(who));
        self.write("input", input);
        let input = std::fs::File::open(self.server.path("input")).expect("the file was just written");
        self.finish_with(command, Stdio::from(input))
    }

    /// Runs a command to its end, without input.
    pub(crate) fn finish(&self, command: Command) -> Said {
        self.finish_with(command, Stdio::null())
    }

    fn finish_with(&self, mut command: Command, input: Stdio) -> Said {
        let output = command.stdin(input).output().expect("both programs start");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("both programs speak UTF-8");
        Said { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// Runs a program and returns what reached the server, by connection: each statement with its parameters. The
    /// connections are in alphabetical order, for they may be made in any.
    pub(crate) fn statements(&self, who: Who, arguments: &str) -> (Said, Vec<Vec<String>>) {
        let run = self.n_runs.get() + 1;
        self.n_runs.set(run);
        let name = format!("{who:?} {run}");
        let mut command = self.command(who, arguments);
        command.env("PGAPPNAME", &name);
        let said = self.finish(command);
        // A session's statements are logged before it ends, and this is logged last.
        let end = format!("end of {name}");
        self.sql("postgres", &format!("select '{end}'"));
        (said, self.logged(&name, &end))
    }

    fn logged(&self, name: &str, end: &str) -> Vec<Vec<String>> {
        let path = self.server.path("data/statements.json");
        let waited = Instant::now();
        let log = loop {
            let log = std::fs::read_to_string(&path).unwrap_or_default();
            if log.contains(end) {
                break log;
            }
            assert!(waited.elapsed() < LOG_MAX, "the log does not grow");
            std::thread::sleep(Duration::from_millis(10));
        };
        let mut sessions = std::collections::BTreeMap::<String, Vec<String>>::new();
        for line in log.lines() {
            let Ok(entry) = serde_json::from_str::<Value>(line) else { continue };
            let text = |key: &str| entry[key].as_str().unwrap_or_default();
            if text("application_name") == name && text("error_severity") == "LOG" {
                let statement = format!("{} {}", text("message"), text("detail"));
                sessions.entry(text("session_id").to_string()).or_default().push(statement);
            }
        }
        let mut sessions: Vec<_> = sessions.into_values().collect();
        sessions.sort();
        sessions
    }
}

/// The database of a program.
pub(crate) fn database(who: Who) -> &'static str {
    match who {
        Who::Genuine => "genuine",
        Who::Ours => "ours",
    }
}

/// The release of a pgbench: `pgbench (PostgreSQL) 15.18 (...)`.
fn release(pgbench: &Path) -> &'static str {
    let output = Command::new(pgbench).arg("--version").output().expect("pgbench starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match text.split(") ").nth(1).and_then(|version| version.split('.').next()) {
        Some("18") => "18",
        Some("17") => "17",
        Some("15" | "16") => "15",
        _ => panic!("a pgbench of another release: {text}"),
    }
}
