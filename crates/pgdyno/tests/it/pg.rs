//! A PostgreSQL of Debian for tests: made in a temporary directory, ended with everything when dropped.
//!
//! The superuser `postgres` comes in by the unix socket, everybody else by TCP with a password (SCRAM), TLS or not.

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, chown, geteuid};
use wire::{Conninfo, Session};

/// The password of `bench`: nothing may ever print it.
pub(crate) const PASSWORD: &str = "S3cretPw";

const HBA: &str = "local all postgres trust\nhost all bench 127.0.0.1/32 scram-sha-256\n";
/// Longest wait for a start or an end.
const DEADLINE: Duration = Duration::from_secs(30);

/// A running server.
pub(crate) struct Pg {
    dir: tempfile::TempDir,
    postmaster: Child,
    pub(crate) port: u16,
}

impl Pg {
    /// The server that tests share which do it no harm; it ends with the last test that uses it.
    pub(crate) fn shared() -> Arc<Pg> {
        static SHARED: Mutex<Weak<Pg>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pg) = shared.upgrade() {
            return pg;
        }
        let pg = Arc::new(Pg::start());
        *shared = Arc::downgrade(&pg);
        pg
    }

    /// A server of one's own.
    pub(crate) fn start() -> Pg {
        let dir = tempfile::Builder::new().prefix("pgdyno-pg-").tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        make_certificate(dir.path());
        give_to_server_user(dir.path());
        let data = dir.path().join("data");
        let mut initdb = program("initdb");
        initdb.args(["--no-sync", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "-D"]);
        run(as_server_user(initdb.arg(&data)));
        fs::write(data.join("pg_hba.conf"), HBA).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let postmaster = launch(dir.path(), port);
        let pg = Pg { dir, postmaster, port };
        let mut admin = pg.wait_admin();
        admin.execute("set password_encryption = 'scram-sha-256'").unwrap();
        admin.execute(&format!("create role bench login password '{PASSWORD}'")).unwrap();
        // From 15 on, a user that is no superuser may be allowed to checkpoint.
        if admin.server_version_num() >= 150_000 {
            admin.execute("grant pg_checkpoint to bench").unwrap();
        }
        pg
    }

    /// A session as superuser in `database`.
    pub(crate) fn admin(&self, database: &str) -> Session {
        Session::connect(&self.socket(database)).unwrap()
    }

    /// The unix socket, as superuser.
    pub(crate) fn socket(&self, database: &str) -> Conninfo {
        Conninfo::new(&self.dir.path().display().to_string(), self.port, "postgres", database)
    }

    /// A new database that belongs to `bench`; its name.
    pub(crate) fn database(&self) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let name = format!("db{}", NEXT.fetch_add(1, Ordering::Relaxed));
        self.admin("postgres").execute(&format!("create database {name} owner bench")).unwrap();
        name
    }

    /// Target text for the superuser, without any secret.
    pub(crate) fn admin_target(&self, database: &str) -> String {
        format!("host={} port={} user=postgres dbname={database}", self.dir.path().display(), self.port)
    }

    /// The one value that `sql` returns in `database`.
    pub(crate) fn ask(&self, database: &str, sql: &str) -> String {
        let mut session = self.admin(database);
        let rows = session.query(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        rows.scalar().unwrap_or_default().to_string()
    }

    /// A program of the server's installation, as our user, that connects to `database` as superuser.
    pub(crate) fn client(&self, name: &str, database: &str) -> Command {
        let mut command = program(name);
        command.env("PGHOST", self.dir.path()).env("PGPORT", self.port.to_string());
        command.env("PGUSER", "postgres").env("PGDATABASE", database);
        command
    }

    /// The postmaster and its children.
    pub(crate) fn pids(&self) -> Vec<i32> {
        let postmaster = self.postmaster.id() as i32;
        let mut pids = vec![postmaster];
        pids.extend(children_of(postmaster));
        pids
    }

    /// Signals all processes of the server.
    pub(crate) fn signal_all(&self, signal: Signal) {
        for pid in self.pids() {
            // One that has just ended needs no signal.
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }

    /// Signals the postmaster: SIGQUIT ends the server at once.
    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.postmaster.id() as i32), signal).unwrap();
    }

    /// Starts it again as a standby, which gets nothing from anywhere.
    pub(crate) fn make_standby(&mut self) {
        self.signal(Signal::SIGINT);
        self.postmaster.wait().unwrap();
        let mark = self.dir.path().join("data/standby.signal");
        fs::write(&mark, "").unwrap();
        // The server opens it for writing, to have it on disk.
        fs::set_permissions(&mark, Permissions::from_mode(0o666)).unwrap();
        self.postmaster = launch(self.dir.path(), self.port);
        self.wait_admin();
    }

    fn wait_admin(&self) -> Session {
        let deadline = Instant::now() + DEADLINE;
        loop {
            match Session::connect(&self.socket("postgres")) {
                Ok(session) => return session,
                Err(error) if Instant::now() > deadline => {
                    let log = fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
                    panic!("the test's server does not start: {error}\n{log}");
                }
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }
}

impl Drop for Pg {
    fn drop(&mut self) {
        let pids = self.pids();
        // SIGQUIT: the postmaster ends its children at once and then itself, once it is not stopped.
        let _ = kill(Pid::from_raw(self.postmaster.id() as i32), Signal::SIGQUIT);
        self.signal_all(Signal::SIGCONT);
        let deadline = Instant::now() + DEADLINE;
        while matches!(self.postmaster.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                for pid in &pids {
                    let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL);
                }
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Children of a process.
pub(crate) fn children_of(pid: i32) -> Vec<i32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let texts = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    texts
        .flat_map(|text| text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>())
        .collect()
}

/// Where Debian has the programs of the newest server.
pub(crate) fn bin_dir() -> PathBuf {
    let installed = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> =
        installed.map(|entry| entry.path().join("bin")).filter(|bin| bin.join("postgres").exists()).collect();
    found.sort();
    found.pop().expect("no PostgreSQL server below /usr/lib/postgresql; `./check` installs one")
}

/// A program of the server's installation.
fn program(name: &str) -> Command {
    let mut command = Command::new(bin_dir().join(name));
    command.env_clear().env("PATH", "/usr/bin:/bin").env("LC_ALL", "C").current_dir("/tmp");
    command
}

fn launch(dir: &Path, port: u16) -> Child {
    let file = |name: &str| dir.join(name).display().to_string();
    let mut postgres = program("postgres");
    postgres.arg("-D").arg(dir.join("data")).args(["-p", &port.to_string(), "-k"]).arg(dir);
    for setting in [
        "listen_addresses=127.0.0.1".to_string(),
        "fsync=off".to_string(),
        "shared_buffers=32MB".to_string(),
        "max_connections=40".to_string(),
        "deadlock_timeout=50ms".to_string(),
        "ssl=on".to_string(),
        format!("ssl_cert_file={}", file("server.crt")),
        format!("ssl_key_file={}", file("server.key")),
    ] {
        postgres.args(["-c", &setting]);
    }
    let log = fs::File::create(dir.join("log")).unwrap();
    // A group of its own: Ctrl-C in the terminal is for the tests, whose end ends the server.
    as_server_user(postgres.stderr(log).stdin(Stdio::null()).stdout(Stdio::null()))
        .process_group(0)
        .spawn()
        .unwrap()
}

/// PostgreSQL refuses to run as root.
fn as_server_user(command: &mut Command) -> &mut Command {
    if geteuid().is_root() {
        let user = server_user();
        command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
    }
    command
}

fn give_to_server_user(dir: &Path) {
    if geteuid().is_root() {
        let user = server_user();
        for path in [dir.to_path_buf(), dir.join("server.key")] {
            chown(&path, Some(user.uid), Some(user.gid)).unwrap();
        }
    }
}

fn server_user() -> User {
    User::from_name("postgres").unwrap().expect("no user `postgres`; `./check` installs PostgreSQL")
}

fn make_certificate(dir: &Path) {
    let line = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
                -keyout server.key -out server.crt";
    run(Command::new("openssl").args(line.split_whitespace()).current_dir(dir));
    fs::set_permissions(dir.join("server.key"), Permissions::from_mode(0o600)).unwrap();
}

/// Runs a program to its end and takes no failure.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
