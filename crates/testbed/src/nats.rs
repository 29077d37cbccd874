//! A throw-away NATS server with TLS on 127.0.0.1, whose users may do what agents and a conductor need and no more.

use std::fs::{self, Permissions};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::certificates::{self, ShownCertificate};
use crate::cluster::unused_port;
use crate::process::{WAIT_MAX, end, pid_of, spawn};
use crate::user::{Apart, as_server_user, give_to_server_user, place};

/// Where distributions put it.
const PROGRAMS: [&str; 3] = ["/usr/sbin/nats-server", "/usr/bin/nats-server", "/usr/local/bin/nats-server"];

/// A running NATS server.
#[derive(Debug)]
pub struct Nats {
    dir: Apart,
    process: Child,
    port: u16,
}

impl Nats {
    /// Starts one for agents of these names; `None` where none is installed.
    ///
    /// # Panics
    /// If it is installed and does not start.
    #[must_use]
    pub fn start(agents: &[&str]) -> Option<Nats> {
        let named = std::env::var_os("PGDYNO_NATS_SERVER").map(PathBuf::from);
        let program = named.into_iter().chain(PROGRAMS.map(PathBuf::from)).find(|path| path.exists())?;
        let (dir, port) = (place(), unused_port());
        certificates::make(dir.path(), ShownCertificate::Signed);
        let path = |name: &str| dir.path().join(name);
        for user in agents.iter().chain(&["conductor"]) {
            fs::write(path(user), format!("{user}:secret-of-{user}\n")).unwrap();
            fs::set_permissions(path(user), Permissions::from_mode(0o600)).unwrap();
        }
        fs::write(path("nats.conf"), configuration(dir.path(), port, agents)).unwrap();
        for name in ["server.key", "nats.conf"] {
            give_to_server_user(&path(name));
        }
        let process = start(&program, dir.path());
        let nats = Nats { dir, process, port };
        nats.wait();
        Some(nats)
    }

    fn wait(&self) {
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.2", self.port)).is_err() {
            assert!(begun.elapsed() < WAIT_MAX, "nats-server does not start: {}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends it at once, as a power cut would, and starts it again after a pause.
    ///
    /// # Panics
    /// If it does not start.
    pub fn restart(&mut self, pause: Duration) {
        let program = fs::read_link(format!("/proc/{}/exe", pid_of(&self.process))).unwrap();
        end(&mut self.process, Signal::SIGKILL);
        std::thread::sleep(pause);
        self.process = start(&program, self.dir.path());
        self.wait();
    }

    /// The process id of the server.
    #[must_use]
    pub fn pid(&self) -> i32 {
        pid_of(&self.process)
    }

    /// Its URL; the certificate is for the name in it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("tls://127.0.0.2:{}", self.port)
    }

    /// The file with the credentials of an agent, or of `conductor`.
    #[must_use]
    pub fn creds(&self, user: &str) -> String {
        self.dir.path().join(user).display().to_string()
    }

    /// The file with the certificate of the authority that signed its own.
    #[must_use]
    pub fn ca(&self) -> String {
        self.dir.path().join("root.crt").display().to_string()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }
}

fn start(program: &Path, dir: &Path) -> Child {
    let log = fs::OpenOptions::new().create(true).append(true).open(dir.join("log")).unwrap();
    let mut command = Command::new(program);
    command.arg("-c").arg(dir.join("nats.conf")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    as_server_user(&mut command);
    spawn(command)
}

/// Its configuration. These permissions are those that `docs/agents.md` shows.
fn configuration(dir: &Path, port: u16, agents: &[&str]) -> String {
    let file = |name: &str| dir.join(name).display().to_string();
    let user = |name: &str, publish: &str, subscribe: &str| {
        format!(
            "{{user: {name}, password: secret-of-{name}, permissions: {{publish: [{publish}], subscribe: [{subscribe}]}}}}\n"
        )
    };
    let agents = agents.iter().map(|name| {
        let publish = format!(r#""pgdyno.find", "pgdyno.from.{name}.>""#);
        user(name, &publish, &format!(r#""pgdyno.find", "pgdyno.to.{name}.>", "pgdyno.from.{name}.here.*""#))
    });
    let users: String =
        agents.chain([user("conductor", r#""pgdyno.find", "pgdyno.to.>""#, r#""pgdyno.from.>""#)]).collect();
    format!(
        "listen: \"127.0.0.2:{port}\"\ntls {{cert_file: \"{}\", key_file: \"{}\"}}\nauthorization {{users: [\n{users}]}}\n",
        file("server.crt"),
        file("server.key"),
    )
}

impl Drop for Nats {
    fn drop(&mut self) {
        end(&mut self.process, Signal::SIGTERM);
    }
}
