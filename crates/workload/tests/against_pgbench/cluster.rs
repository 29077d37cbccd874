//! A throw-away PostgreSQL on a unix socket, and its client programs.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Longest time that the server may take to start.
const START_SECONDS_MAX: u64 = 60;

pub(crate) struct Cluster {
    bin: PathBuf,
    /// Holds the data, the socket, and scripts under test.
    pub(crate) dir: PathBuf,
    /// PostgreSQL refuses to run as root.
    user: Option<(u32, u32)>,
    postgres: Child,
}

impl Cluster {
    pub(crate) fn start() -> Cluster {
        let bin = find_programs();
        let user = unprivileged_user();
        let dir = std::env::temp_dir().join(format!("workload-test-{}", std::process::id()));
        std::fs::create_dir(&dir).expect("the directory for the test's server is new");
        if let Some((uid, gid)) = user {
            std::os::unix::fs::chown(&dir, Some(uid), Some(gid)).expect("root may give a directory away");
        }
        let data = dir.join("data");
        let mut initdb = as_user(&bin.join("initdb"), user, &dir);
        let initdb = initdb.args(["-A", "trust", "-U", "postgres", "--no-sync", "-D"]).arg(&data);
        succeeded("initdb", initdb.output().expect("initdb starts"));
        let log = std::fs::File::create(dir.join("log")).expect("the log is writable");
        let postgres = as_user(&bin.join("postgres"), user, &dir)
            .args(["-c", "listen_addresses=", "-c", "fsync=off", "-D"])
            .arg(&data)
            .arg("-k")
            .arg(&dir)
            .stdin(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("postgres starts");
        let cluster = Cluster { bin, dir, user, postgres };
        let started = Instant::now();
        while !cluster.client("pg_isready", &["-q"]).status().expect("pg_isready starts").success() {
            assert!(
                started.elapsed() < Duration::from_secs(START_SECONDS_MAX),
                "the test's server does not start"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        cluster
    }

    fn client(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.bin.join(program));
        command
            .current_dir(&self.dir)
            .env("PGDATABASE", "postgres")
            .env_remove("PGPORT")
            .env_remove("PGOPTIONS")
            .arg("-h")
            .arg(&self.dir)
            .args(["-U", "postgres"])
            .args(arguments);
        command
    }

    /// Standard output of a client program that succeeds.
    pub(crate) fn run(&self, program: &str, arguments: &[&str]) -> String {
        succeeded(program, self.client(program, arguments).output().expect("client programs start"))
    }

    /// What pgbench says on stderr, whatever becomes of it, without the name in front of errors.
    pub(crate) fn pgbench(&self, arguments: &[&str]) -> String {
        let output = self.client("pgbench", arguments).output().expect("pgbench starts");
        let words = String::from_utf8(output.stderr).expect("pgbench speaks UTF-8");
        words.replace("pgbench: error: ", "")
    }

    /// Rows of a query, unaligned.
    pub(crate) fn query(&self, database: &str, sql: &str) -> String {
        self.run("psql", &["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-d", database, "-c", sql])
    }

    /// Runs a psql script; for COPY data in line.
    pub(crate) fn script(&self, database: &str, script: &[u8]) {
        let mut psql = self
            .client("psql", &["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", database])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("psql starts");
        psql.stdin.take().expect("piped").write_all(script).expect("psql reads");
        assert!(psql.wait().expect("psql ends").success(), "psql failed in {database}");
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.dir.join(name), text).expect("scripts are writable");
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let mut stop = as_user(&self.bin.join("pg_ctl"), self.user, &self.dir);
        let stopped = stop.args(["stop", "-m", "immediate", "-s", "-D"]).arg(self.dir.join("data")).status();
        if !stopped.is_ok_and(|status| status.success()) {
            let _ = self.postgres.kill();
        }
        let _ = self.postgres.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
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

/// The newest installed PostgreSQL that pgbench comes with.
fn find_programs() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let debian = versions.map(|version| version.path().join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let mut found: Vec<PathBuf> = debian
        .chain(on_path)
        .filter(|bin| ["initdb", "pgbench"].iter().all(|name| bin.join(name).is_file()))
        .collect();
    found.sort();
    found.pop().expect("this test needs a PostgreSQL server and pgbench; `./check` says how to get them")
}

/// User and group to run the server as, when we are root.
fn unprivileged_user() -> Option<(u32, u32)> {
    let id = |arguments: &[&str]| {
        let output = Command::new("id").args(arguments).output().expect("`id` runs");
        String::from_utf8_lossy(&output.stdout).trim().parse::<u32>().ok()
    };
    if id(&["-u"]) != Some(0) {
        return None;
    }
    ["postgres", "nobody"].into_iter().find_map(|name| Some((id(&["-u", name])?, id(&["-g", name])?)))
}

fn succeeded(program: &str, output: Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} failed: {said}");
    String::from_utf8(output.stdout).expect("the programs speak UTF-8")
}
