//! A throw-away PostgreSQL on a unix socket that logs every statement, and the two programs to be compared on it.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Longest time that the server may take to start.
const START_MAX: Duration = Duration::from_secs(60);

/// Which program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    /// The pgbench that is installed.
    Genuine,
    /// pgdyno called as `pgbench`.
    Ours,
}

/// What a program said, and the code that it ended with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

pub(crate) struct Cluster {
    bin: PathBuf,
    pgbench: PathBuf,
    /// Holds the data, the socket, and scripts under test.
    pub(crate) dir: PathBuf,
    /// The release of the genuine pgbench, as ours takes it.
    compat: &'static str,
    user: Option<(u32, u32)>,
    postgres: Child,
    n_runs: std::cell::Cell<u32>,
}

impl Cluster {
    pub(crate) fn start() -> Cluster {
        let bin = find_programs();
        // Another release than the installed one can be tried on the same server.
        let pgbench = std::env::var_os("GENUINE_PGBENCH").map_or_else(|| bin.join("pgbench"), PathBuf::from);
        let compat = release(&pgbench);
        let user = unprivileged_user();
        let dir = tempfile::Builder::new().prefix("pgbench-test-").tempdir().expect("a new directory").keep();
        std::fs::create_dir(dir.join("ours")).expect("a new directory");
        std::fs::create_dir(dir.join("space")).expect("a new directory");
        if let Some((uid, gid)) = user {
            for path in [dir.clone(), dir.join("space")] {
                std::os::unix::fs::chown(path, Some(uid), Some(gid)).expect("root may give a directory away");
            }
        }
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_pgdyno"), dir.join("ours/pgbench"))
            .expect("a new link");
        let data = dir.join("data");
        let initdb = as_user(&bin.join("initdb"), user, &dir)
            .args(["-A", "trust", "-U", "postgres", "--no-sync", "--locale", "C", "-D"])
            .arg(&data)
            .output()
            .expect("initdb starts");
        assert!(initdb.status.success(), "{}", String::from_utf8_lossy(&initdb.stderr));
        let settings = ["listen_addresses=", "fsync=off", "logging_collector=on", "log_destination=jsonlog"];
        let logs = ["log_directory=.", "log_filename=statements", "log_statement=all", "log_rotation_size=0"];
        let mut server = as_user(&bin.join("postgres"), user, &dir);
        for setting in settings.iter().chain(&logs) {
            server.args(["-c", setting]);
        }
        let postgres = server
            .arg("-D")
            .arg(&data)
            .arg("-k")
            .arg(&dir)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("postgres starts");
        let cluster = Cluster { bin, pgbench, dir, compat, user, postgres, n_runs: 0.into() };
        let started = Instant::now();
        while !cluster.client("pg_isready").arg("-q").status().expect("pg_isready starts").success() {
            assert!(started.elapsed() < START_MAX, "the test's server does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
        let space = cluster.dir.join("space").display().to_string();
        cluster.sql("postgres", &format!("create tablespace space location '{space}'"));
        for database in ["genuine", "ours"] {
            cluster.sql("postgres", &format!("create database {database}"));
        }
        cluster
    }

    fn client(&self, program: &str) -> Command {
        let mut command = Command::new(self.bin.join(program));
        self.surround(&mut command);
        command
    }

    fn surround(&self, command: &mut Command) {
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("PG") {
                command.env_remove(name);
            }
        }
        command
            .current_dir(&self.dir)
            .env("PGHOST", &self.dir)
            .env("PGUSER", "postgres")
            .env("PGDYNO_COMPAT", self.compat);
    }

    /// Runs statements.
    pub(crate) fn sql(&self, database: &str, sql: &str) -> String {
        let psql =
            self.client("psql").args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-d", database, "-c", sql]).output();
        let output = psql.expect("psql starts");
        assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.dir.join(name), text).expect("scripts are writable");
    }

    /// A program with its own database.
    pub(crate) fn command(&self, who: Who, arguments: &str) -> Command {
        let program = match who {
            Who::Genuine => self.pgbench.clone(),
            Who::Ours => self.dir.join("ours/pgbench"),
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

    /// Runs a program to its end with more in its environment.
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
        let input = std::fs::File::open(self.dir.join("input")).expect("the file was just written");
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

    /// Runs a program and gives what reached the server, by connection: each statement with its parameters. The
    /// connections are in alphabetical order, for they may be made in any.
    pub(crate) fn statements(&self, who: Who, arguments: &str) -> (Said, Vec<Vec<String>>) {
        let run = self.n_runs.get() + 1;
        self.n_runs.set(run);
        let name = format!("{who:?} {run}");
        let mut command = self.command(who, arguments);
        command.env("PGAPPNAME", &name);
        let said = self.finish(command);
        // What a session said is in the log before it ends, and this comes last.
        let end = format!("end of {name}");
        self.sql("postgres", &format!("select '{end}'"));
        (said, self.logged(&name, &end))
    }

    fn logged(&self, name: &str, end: &str) -> Vec<Vec<String>> {
        let path = self.dir.join("data/statements.json");
        let waited = Instant::now();
        let log = loop {
            let log = std::fs::read_to_string(&path).unwrap_or_default();
            if log.contains(end) {
                break log;
            }
            assert!(waited.elapsed() < START_MAX, "the log does not grow");
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

impl Drop for Cluster {
    fn drop(&mut self) {
        let mut stop = as_user(&self.bin.join("pg_ctl"), self.user, &self.dir);
        let stopped = stop.args(["stop", "-m", "immediate", "-s", "-D"]).arg(self.dir.join("data")).status();
        if !stopped.is_ok_and(|status| status.success()) {
            self.postgres.kill().ok();
        }
        self.postgres.wait().ok();
        std::fs::remove_dir_all(&self.dir).ok();
    }
}

fn as_user(program: &Path, user: Option<(u32, u32)>, dir: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(dir);
    if let Some((uid, gid)) = user {
        command.uid(uid).gid(gid);
    }
    command
}

/// The programs of Debian's newest PostgreSQL from 15 on: before, the log has no JSON.
fn find_programs() -> PathBuf {
    ["18", "17", "16", "15"]
        .into_iter()
        .map(|major| PathBuf::from(format!("/usr/lib/postgresql/{major}/bin")))
        .find(|bin| ["initdb", "pgbench", "psql"].iter().all(|name| bin.join(name).is_file()))
        .expect("this test needs a PostgreSQL server and pgbench; `./check` says how to get them")
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

/// User and group to run the server as, when we are root.
fn unprivileged_user() -> Option<(u32, u32)> {
    if !nix::unistd::geteuid().is_root() {
        return None;
    }
    ["postgres", "nobody"].into_iter().find_map(|name| {
        let user = nix::unistd::User::from_name(name).ok().flatten()?;
        Some((user.uid.as_raw(), user.gid.as_raw()))
    })
}
