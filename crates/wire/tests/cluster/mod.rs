//! A PostgreSQL server for tests: made in a temporary directory, killed when dropped.

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, chown, geteuid};
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};
use wire::{Conninfo, Session};

/// The password of every role that has one: nothing may ever print it.
pub(crate) const PASSWORD: &str = "S3cretPw";

const HBA: &str = "
local   all postgres          trust
local   all trusty            trust
local   all md5er             md5
local   all scrammer          scram-sha-256
host    all trusty   all      trust
host    all clear    all      password
host    all md5er    all      md5
host    all scrammer all      scram-sha-256
hostssl all tlsonly  all      scram-sha-256
hostssl all certer   all      cert
";

/// Which certificate the server shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Certificate {
    /// Signed by `root.crt`, for the host name `db.test`.
    Signed,
    /// Signed by itself as `openssl req -x509` does, with a common name only.
    SelfSigned,
    /// Of version 1, without any extension.
    Version1,
}

/// A running server.
pub(crate) struct Cluster {
    dir: tempfile::TempDir,
    bin: PathBuf,
    postmaster: Child,
    pub(crate) port: u16,
}

impl Cluster {
    /// The server that the tests share; stopped when the last test using it ends.
    pub(crate) fn shared() -> Arc<Cluster> {
        static SHARED: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(cluster) = shared.upgrade() {
            return cluster;
        }
        let cluster = Arc::new(Cluster::start(Certificate::Signed));
        *shared = Arc::downgrade(&cluster);
        cluster
    }

    pub(crate) fn start(certificate: Certificate) -> Cluster {
        let bin = binaries();
        let dir = tempfile::Builder::new().prefix("wire").tempdir_in("/tmp").unwrap();
        make_certificates(dir.path(), certificate);
        let data = dir.path().join("data");
        let mut initdb = Command::new(bin.join("initdb"));
        initdb.args([
            "--no-sync",
            "--auth=trust",
            "--username=postgres",
            "--encoding=UTF8",
            "--locale=C",
            "-D",
        ]);
        give_to_postgres(dir.path());
        run(as_postgres(initdb.arg(&data)));
        fs::write(data.join("pg_hba.conf"), HBA).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let file = |name: &str| dir.path().join(name).display().to_string();
        let mut postgres = Command::new(bin.join("postgres"));
        postgres.arg("-D").arg(&data).args(["-p", &port.to_string(), "-k"]).arg(dir.path());
        for setting in [
            "listen_addresses=127.0.0.1".to_owned(),
            "fsync=off".to_owned(),
            "shared_buffers=16MB".to_owned(),
            "max_connections=20".to_owned(),
            "ssl=on".to_owned(),
            format!("ssl_cert_file={}", file("server.crt")),
            format!("ssl_key_file={}", file("server.key")),
            format!("ssl_ca_file={}", file("root.crt")),
        ] {
            postgres.args(["-c", &setting]);
        }
        let log = fs::File::create(dir.path().join("log")).unwrap();
        let postmaster = as_postgres(postgres.stderr(log).stdout(Stdio::null())).spawn().unwrap();
        let cluster = Cluster { dir, bin, postmaster, port };
        cluster.make_roles();
        cluster
    }

    /// Settings for the unix socket, from an empty environment.
    pub(crate) fn socket(&self, user: &str) -> Conninfo {
        Conninfo::new(&self.path("").display().to_string(), self.port, user, "postgres")
    }

    /// Settings for TCP from a key=value string with `extra` added.
    pub(crate) fn tcp(&self, user: &str, extra: &str) -> Conninfo {
        let text = format!("host=127.0.0.1 port={} dbname=postgres user={user} {extra}", self.port);
        Conninfo::resolve_in(&text, &Default::default()).unwrap()
    }

    /// The server's first process.
    pub(crate) fn postmaster_pid(&self) -> i32 {
        i32::try_from(self.postmaster.id()).unwrap()
    }

    /// A file of the server's directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.dir.path().to_owned() } else { self.dir.path().join(name) }
    }

    /// The program `name` of the server's installation.
    pub(crate) fn program(&self, name: &str) -> Command {
        Command::new(self.bin.join(name))
    }

    fn make_roles(&self) {
        let deadline = Instant::now() + Duration::from_secs(30);
        let mut session = loop {
            match Session::connect(&self.socket("postgres")) {
                Ok(session) => break session,
                Err(error) if Instant::now() > deadline => {
                    let log = fs::read_to_string(self.path("log")).unwrap_or_default();
                    panic!("the server did not start: {error}\n{log}");
                }
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        session
            .execute(&format!(
                "create role trusty login; create role certer login;
                 set password_encryption = 'md5'; create role md5er login password '{PASSWORD}';
                 set password_encryption = 'scram-sha-256'; create role scrammer login password '{PASSWORD}';
                 create role clear login password '{PASSWORD}'; create role tlsonly login password '{PASSWORD}'"
            ))
            .unwrap();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // SIGQUIT: the postmaster ends its children at once and then itself.
        let pid = Pid::from_raw(self.postmaster_pid());
        let _ = kill(pid, Signal::SIGQUIT);
        // A test that failed may have stopped it.
        let _ = kill(pid, Signal::SIGCONT);
        let _ = self.postmaster.wait();
    }
}

/// A port of this machine at which nobody listens.
pub(crate) fn unused_port() -> u16 {
    loop {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        if TcpStream::connect(("127.0.0.1", port)).is_err() {
            return port;
        }
    }
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
        let server_key = dir.join("server.key");
        for path in [dir, &server_key] {
            chown(path, Some(user.uid), Some(user.gid)).unwrap();
        }
    }
}

fn postgres_user() -> User {
    User::from_name("postgres").unwrap().expect("no user `postgres`; `./check` installs PostgreSQL")
}

fn make_certificates(dir: &Path, certificate: Certificate) {
    let openssl = |line: &str| {
        run(Command::new("openssl").args(line.split_whitespace()).current_dir(dir));
    };
    let new_key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    fs::write(dir.join("san"), "subjectAltName=DNS:db.test,IP:127.0.0.2\n").unwrap();
    openssl(&format!("req -x509 {new_key} -days 2 -subj /CN=root -keyout root.key -out root.crt"));
    let sign = "-CA root.crt -CAkey root.key -CAcreateserial -days 2";
    match certificate {
        Certificate::Signed => {
            openssl(&format!("req {new_key} -subj /CN=x -keyout server.key -out server.csr"));
            openssl(&format!("x509 -req -in server.csr {sign} -extfile san -out server.crt"));
        }
        Certificate::SelfSigned => {
            openssl(&format!(
                "req -x509 {new_key} -days 2 -subj /CN=db.test -keyout server.key -out server.crt"
            ));
        }
        Certificate::Version1 => {
            openssl(&format!("req {new_key} -subj /CN=db.test -keyout server.key -out server.csr"));
            openssl(&format!("x509 -req -in server.csr {sign} -out server.crt"));
        }
    }
    // A client certificate has extensions too, for webpki reads only version 3.
    openssl(&format!("req {new_key} -subj /CN=certer -keyout client.key -out client.csr"));
    openssl(&format!("x509 -req -in client.csr {sign} -extfile san -out client.crt"));
    for key in ["server.key", "client.key"] {
        fs::set_permissions(dir.join(key), fs::Permissions::from_mode(0o600)).unwrap();
    }
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
}
