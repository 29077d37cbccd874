//! A PostgreSQL server for tests: made in a temporary directory, killed when dropped.

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, chown, geteuid};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};
use wire::{Conninfo, Session};

/// A running server.
pub(crate) struct Cluster {
    dir: tempfile::TempDir,
    bin: PathBuf,
    postmaster: Mutex<Child>,
    port: u16,
}

impl Cluster {
    /// The server that the tests share; stopped when the last test using it ends.
    pub(crate) fn shared() -> Arc<Cluster> {
        static SHARED: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(cluster) = shared.upgrade() {
            return cluster;
        }
        let cluster = Arc::new(Cluster::start());
        *shared = Arc::downgrade(&cluster);
        cluster
    }

    /// A server of one's own.
    pub(crate) fn start() -> Cluster {
        let bin = binaries();
        let dir = tempfile::Builder::new().prefix("driver").tempdir_in("/tmp").unwrap();
        give_to_postgres(dir.path());
        let data = dir.path().join("data");
        let mut initdb = Command::new(bin.join("initdb"));
        initdb.args(["--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C"]);
        run(as_postgres(initdb.arg("-D").arg(&data)));
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let postmaster = spawn(&bin, dir.path(), port);
        let cluster = Cluster { dir, bin, postmaster: Mutex::new(postmaster), port };
        cluster.session();
        cluster
    }

    /// Settings for the unix socket.
    pub(crate) fn conninfo(&self) -> Conninfo {
        Conninfo::new(&self.dir.path().display().to_string(), self.port, "postgres", "postgres")
    }

    /// A session, as soon as the server lets one in.
    pub(crate) fn session(&self) -> Session {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            match Session::connect(&self.conninfo()) {
                Ok(session) => return session,
                Err(error) if Instant::now() > deadline => {
                    let log = fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
                    panic!("the server did not start: {error}\n{log}");
                }
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// Kills the server and starts it again after `pause`.
    pub(crate) fn restart(&self, pause: Duration) {
        let mut postmaster = self.postmaster.lock().unwrap();
        quit(&mut postmaster);
        std::thread::sleep(pause);
        *postmaster = spawn(&self.bin, self.dir.path(), self.port);
    }

    /// What the server has logged so far.
    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.dir.path().join("log")).unwrap()).into_owned()
    }

    /// Runs the genuine pgbench; `args` without what is needed to connect. Gives standard output and error.
    pub(crate) fn pgbench(&self, args: &[&str]) -> (String, String) {
        let mut command = Command::new(self.bin.join("pgbench"));
        command.arg("-h").arg(self.dir.path()).args(["-p", &self.port.to_string(), "-U", "postgres"]);
        let output = as_postgres(command.args(args).arg("dbname=postgres options='-c log_statement=all'"))
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&output.stdout), text(&output.stderr))
    }

    /// A file that pgbench may read.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.dir.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        quit(&mut self.postmaster.lock().unwrap());
    }
}

fn spawn(bin: &Path, dir: &Path, port: u16) -> Child {
    let mut postgres = Command::new(bin.join("postgres"));
    postgres.arg("-D").arg(dir.join("data")).args(["-p", &port.to_string(), "-k"]).arg(dir);
    for setting in [
        "listen_addresses=",
        "fsync=off",
        "shared_buffers=16MB",
        "max_connections=100",
        "deadlock_timeout=50ms",
        "log_line_prefix=%a|%c|",
    ] {
        postgres.args(["-c", setting]);
    }
    let log = fs::OpenOptions::new().create(true).append(true).open(dir.join("log")).unwrap();
    as_postgres(postgres.stderr(log).stdout(Stdio::null())).spawn().unwrap()
}

/// SIGQUIT: the postmaster ends its children at once and then itself. Asked again each second: one that is just starting
/// may miss the first.
fn quit(postmaster: &mut Child) {
    let pid = Pid::from_raw(i32::try_from(postmaster.id()).unwrap());
    for _ in 0..30 {
        let _ = kill(pid, Signal::SIGQUIT);
        let asked = Instant::now();
        while asked.elapsed() < Duration::from_secs(1) {
            if !matches!(postmaster.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    let _ = postmaster.kill();
    let _ = postmaster.wait();
}

fn binaries() -> PathBuf {
    let installed = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> =
        installed.map(|entry| entry.path().join("bin")).filter(|bin| bin.join("postgres").exists()).collect();
    found.sort();
    found.pop().expect("no PostgreSQL server below /usr/lib/postgresql; `./check` installs one")
}

/// PostgreSQL refuses to run as root.
fn as_postgres(command: &mut Command) -> &mut Command {
    command.env_clear().env("PATH", "/usr/bin:/bin").env("LC_ALL", "C").current_dir("/tmp");
    if geteuid().is_root() {
        let user = postgres_user();
        command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
    }
    command
}

fn give_to_postgres(dir: &Path) {
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
    if geteuid().is_root() {
        let user = postgres_user();
        chown(dir, Some(user.uid), Some(user.gid)).unwrap();
    }
}

fn postgres_user() -> User {
    User::from_name("postgres").unwrap().expect("no user `postgres`; `./check` installs PostgreSQL")
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
}
