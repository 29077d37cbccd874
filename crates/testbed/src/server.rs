//! A running server: started, stopped, started again, signalled; ended and removed when dropped.

mod by_hand;

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use wire::Session;

use crate::binaries::program;
use crate::cluster::{ClusterOptions, TestCluster};
use crate::process::{WAIT_MAX, children_of, end, pid_of, spawn};
use crate::user::as_server_user;

pub use by_hand::ByHand;

/// A server, of the newest installed PostgreSQL unless the options name another one. It ends with the test, also with one that fails or is killed.
#[derive(Debug)]
pub struct TestServer {
    cluster: TestCluster,
    postmaster: Mutex<Child>,
    /// The port on 127.0.0.1, if it listens there, and in the name of its socket.
    pub port: u16,
}

impl TestServer {
    /// Initializes a cluster and starts its server, which lets sessions in when this returns.
    ///
    /// # Panics
    /// If there is no PostgreSQL or it does not start.
    #[must_use]
    pub fn start(options: &ClusterOptions) -> TestServer {
        let cluster = TestCluster::create(options);
        let (postmaster, port) = (Mutex::new(launch(&cluster)), cluster.port);
        let server = TestServer { cluster, postmaster, port };
        server.wait_ready();
        server
    }

    /// Starts a standby of this server, which follows it over its socket.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    pub fn standby(&self) -> TestServer {
        let cluster = TestCluster::standby_of(&self.cluster);
        let (postmaster, port) = (Mutex::new(launch(&cluster)), cluster.port);
        let server = TestServer { cluster, postmaster, port };
        server.wait_ready();
        server
    }

    /// The directory of the socket, of the log, and of `data`; the test may put files there.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.cluster.dir()
    }

    /// A file in that directory.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    /// What the server has logged so far.
    #[must_use]
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.cluster.log()).unwrap_or_default()).into_owned()
    }

    /// The postmaster's process id.
    #[must_use]
    pub fn pid(&self) -> i32 {
        pid_of(&self.postmaster())
    }

    /// The process ids of the postmaster and its children.
    #[must_use]
    pub fn pids(&self) -> Vec<i32> {
        let pid = self.pid();
        [pid].into_iter().chain(children_of(pid)).collect()
    }

    /// Signals the postmaster.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).unwrap();
    }

    /// Signals all processes of the server.
    pub fn signal_all(&self, signal: Signal) {
        for pid in self.pids() {
            // One that has just ended needs no signal.
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }

    /// Stops it by a signal to the postmaster: SIGQUIT at once, SIGINT in order.
    pub fn stop(&self, signal: Signal) {
        end(&mut self.postmaster(), signal);
    }

    /// Starts it after a stop, and waits until it lets sessions in.
    pub fn start_again(&self) {
        *self.postmaster() = launch(&self.cluster);
        self.wait_ready();
    }

    /// Ends it at once, and starts it again after `pause` without waiting for it.
    pub fn restart(&self, pause: Duration) {
        let mut postmaster = self.postmaster();
        end(&mut postmaster, Signal::SIGQUIT);
        std::thread::sleep(pause);
        *postmaster = launch(&self.cluster);
    }

    /// Starts it again as a standby without a primary.
    pub fn make_standby(&self) {
        self.stop(Signal::SIGINT);
        let mark = self.cluster.data().join("standby.signal");
        fs::write(&mark, "").unwrap();
        // The server opens it for writing, to flush it to disk.
        fs::set_permissions(&mark, Permissions::from_mode(0o666)).unwrap();
        self.start_again();
    }

    /// A session of the superuser in database `postgres`, as soon as the server lets one in.
    ///
    /// # Panics
    /// If it does not in time.
    pub fn wait_ready(&self) -> Session {
        let began = Instant::now();
        loop {
            match Session::connect(&self.socket("postgres")) {
                Ok(session) => return session,
                Err(error) if began.elapsed() > WAIT_MAX => {
                    panic!("the test's server does not start: {error}\n{}", self.log())
                }
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// A program of the server's installation, with a clean environment.
    #[must_use]
    pub fn program(&self, name: &str) -> Command {
        program(name)
    }

    fn postmaster(&self) -> MutexGuard<'_, Child> {
        self.postmaster.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lines of its log with which a server accompanies the failure of a test.
const LINES_OF_FAILURE: usize = 40;

impl Drop for TestServer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            let last = lines[lines.len().saturating_sub(LINES_OF_FAILURE)..].join("\n");
            let text = format!("the end of the log of the server in {}:\n{last}\n", self.dir().display());
            // The test fails all the same if nobody reads it.
            let _ = std::io::stderr().write_all(text.as_bytes());
        }
        end(&mut self.postmaster(), Signal::SIGQUIT);
    }
}

fn launch(cluster: &TestCluster) -> Child {
    let mut postgres = cluster.program("postgres");
    postgres.arg("-D").arg(cluster.data()).args(["-p", &cluster.port.to_string(), "-k"]).arg(cluster.dir());
    for setting in &cluster.settings {
        postgres.args(["-c", setting]);
    }
    let log = File::options().create(true).append(true).open(cluster.log()).unwrap();
    as_server_user(postgres.stderr(log).stdin(Stdio::null()).stdout(Stdio::null()));
    spawn(postgres)
}
