//! A throw-away server of ssh with keys and settings of its own, on 127.0.0.1. It runs as the server's user, so that nobody logs
//! in as root and the machine's own sshd and its settings play no part.

use std::fs::{self, Permissions};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::unistd::{User, geteuid};

use crate::cluster::unused_port;
use crate::process::{WAIT_MAX, end, run, spawn};
use crate::user::{Apart, as_server_user, give_to_server_user, place, server_user};

/// Where distributions put it.
const PROGRAM: &str = "/usr/sbin/sshd";

/// A running sshd, and the keys of one who may log in.
#[derive(Debug)]
pub struct Sshd {
    dir: Apart,
    process: Child,
    /// The port of 127.0.0.1.
    pub port: u16,
}

impl Sshd {
    /// Starts one with these lines of `sshd_config` more; `None` where no sshd is installed, or its user has no shell to log
    /// in to.
    ///
    /// # Panics
    /// If it is installed and does not start.
    #[must_use]
    pub fn start(more: &str) -> Option<Sshd> {
        let user = server_user().or_else(|| User::from_uid(geteuid()).unwrap())?;
        let has_shell = !user.shell.ends_with("nologin") && !user.shell.ends_with("false");
        if !Path::new(PROGRAM).exists() || !has_shell {
            return None;
        }
        let (dir, port) = (place(), unused_port());
        let path = |name: &str| dir.path().join(name).display().to_string();
        for name in ["host_key", "other_host_key", "key", "other_key"] {
            let keygen = ["-q", "-t", "ed25519", "-N", "", "-f"];
            run(Command::new("ssh-keygen").args(keygen).arg(path(name)));
        }
        give_to_server_user(&dir.path().join("host_key"));
        fs::copy(path("key.pub"), path("authorized_keys")).unwrap();
        // Logins keep nothing in the home directory of a user who is not ours.
        fs::create_dir(path("cache")).unwrap();
        give_to_server_user(&dir.path().join("cache"));
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nSetEnv XDG_CACHE_HOME={}\n\
             PidFile none\nUsePAM no\nStrictModes no\nPasswordAuthentication no\n\
             KbdInteractiveAuthentication no\n{more}\n",
            path("host_key"),
            path("authorized_keys"),
            path("cache"),
        );
        fs::write(path("sshd_config"), config).unwrap();
        for (name, key) in [("known_hosts", "host_key.pub"), ("changed_hosts", "other_host_key.pub")] {
            let key = fs::read_to_string(path(key)).unwrap();
            fs::write(path(name), format!("[127.0.0.1]:{port} {key}")).unwrap();
        }
        fs::write(path("nobody_hosts"), "").unwrap();
        fs::set_permissions(path("key"), Permissions::from_mode(0o600)).unwrap();
        let log = fs::File::create(path("log")).unwrap();
        let mut command = Command::new(PROGRAM);
        command.args(["-D", "-e", "-f", &path("sshd_config")]).stdin(Stdio::null()).stderr(log);
        as_server_user(&mut command);
        let sshd = Sshd { process: spawn(command), dir, port };
        sshd.wait();
        Some(sshd)
    }

    fn wait(&self) {
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(begun.elapsed() < WAIT_MAX, "sshd does not start: {}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The command that logs in with the right key and knows the host's.
    #[must_use]
    pub fn via(&self) -> Vec<String> {
        self.via_with("key", "known_hosts")
    }

    /// The command that logs in with another key (`other_key`), or knows another key of the host (`changed_hosts`) or none
    /// (`nobody_hosts`).
    #[must_use]
    pub fn via_with(&self, key: &str, known_hosts: &str) -> Vec<String> {
        let user =
            server_user().or_else(|| User::from_uid(geteuid()).unwrap()).expect("it had one at the start");
        let file = |name: &str| self.dir.path().join(name).display().to_string();
        let options = [
            format!("-p{}", self.port),
            "-oIdentitiesOnly=yes".to_string(),
            format!("-oIdentityFile={}", file(key)),
            format!("-oUserKnownHostsFile={}", file(known_hosts)),
            "-oGlobalKnownHostsFile=/dev/null".to_string(),
            "-oStrictHostKeyChecking=yes".to_string(),
        ];
        let words = ["ssh", "-F", "/dev/null"].map(str::to_string).into_iter().chain(options);
        words.chain(["--".to_string(), format!("{}@127.0.0.1", user.name)]).collect()
    }

    /// XDG_CACHE_HOME of logins.
    #[must_use]
    pub fn cache(&self) -> PathBuf {
        self.dir.path().join("cache")
    }

    /// The text of its log.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        end(&mut self.process, Signal::SIGTERM);
    }
}
