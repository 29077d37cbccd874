//! Starts and stops our own server: `postgres` in the foreground as our child.
//!
//! The server listens on a unix socket in a closed directory, and for drivers elsewhere only on request (`listen`). When
//! pgdyno ends, however it ends, the kernel signals the server an immediate shutdown.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use wire::session::Session;
use wire::{Conninfo, ServerError};

use crate::cluster::{Cluster, DATABASE, SUPERUSER, others};
use crate::process::command::{ending, server_command, wait_until};
use crate::process::socket::{SOCKET_PORT, SocketDir, socket_file};
use crate::process::start_error::{self, StartError, StartFault};
use crate::running::groups;
use crate::running::listen::{ListenAddress, LoadEntrance};
use crate::running::numa::Binding;
use crate::running::processes::{Frozen, ServerProcess, children_of, is_alive};
use crate::running::upstream::Upstream;
use crate::settings::check_settings;
use crate::settings::defaults::log_line_prefix;
use crate::user::account::Account;
use crate::user::untrusted;

/// How long a start may take: after a crash, the server recovers first.
const START_DEADLINE: Duration = Duration::from_secs(120);
/// How long a fast shutdown may take: it writes all dirty buffers.
const FAST_DEADLINE: Duration = Duration::from_secs(300);
/// How long an immediate shutdown may take; the postmaster kills its children after 5 s.
const IMMEDIATE_DEADLINE: Duration = Duration::from_secs(15);
/// Pause between two attempts to connect during a start.
const ATTEMPT_PAUSE: Duration = Duration::from_millis(20);
/// How long a server may take to read its configuration again.
const RELOAD_DEADLINE: Duration = Duration::from_secs(10);

/// Options of a start.
#[derive(Debug, Clone)]
pub struct StartOptions {
    /// Settings by name, all resolved.
    pub settings: BTreeMap<String, String>,
    /// Also listen for drivers on other machines, on a free port.
    pub listen: Option<ListenAddress>,
    /// How long the start may take.
    pub deadline: Duration,
    /// NUMA placement of its processes and memory; `None` leaves it to the kernel.
    pub binding: Option<Binding>,
    /// Control groups that its processes are in: the files that take their ids.
    pub groups: Vec<PathBuf>,
    /// The server that it follows as a standby, if it is one.
    pub upstream: Option<Upstream>,
}

impl Default for StartOptions {
    fn default() -> StartOptions {
        StartOptions {
            settings: BTreeMap::new(),
            listen: None,
            deadline: START_DEADLINE,
            binding: None,
            groups: Vec::new(),
            upstream: None,
        }
    }
}

/// Ways to stop a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopMode {
    /// Ends sessions and writes everything: the next start needs no recovery.
    Fast,
    /// Ends processes at once: the next start recovers from the WAL.
    Immediate,
}

/// The result of a stop.
#[derive(Debug, Clone, PartialEq)]
pub struct StopReport {
    /// How long it took, seconds.
    pub seconds: f64,
    /// Whether the shutdown was clean, so that the cluster can be copied and starts without recovery.
    pub is_clean: bool,
    /// How the process ended, in words.
    pub ending: String,
}

/// Our own running server. Dropping it stops it at once.
#[derive(Debug)]
pub struct OwnServer {
    child: Child,
    socket: SocketDir,
    data_dir: PathBuf,
    account: Account,
    log_path: PathBuf,
    /// The way in for drivers on other machines.
    door: Option<LoadEntrance>,
    /// Its end was seen, and recorded in the cluster.
    has_ended: bool,
}

impl OwnServer {
    /// Starts the cluster's server with these settings, listening on a unix socket only.
    pub fn start(cluster: &Cluster, settings: &BTreeMap<String, String>) -> Result<OwnServer, StartError> {
        OwnServer::start_with(
            cluster,
            &StartOptions { settings: settings.clone(), ..StartOptions::default() },
        )
    }

    /// Starts the cluster's server and waits until it takes connections.
    pub fn start_with(cluster: &Cluster, options: &StartOptions) -> Result<OwnServer, StartError> {
        let before = |error: anyhow::Error| StartError::before(&error, cluster.log_path());
        prepare(cluster, options).map_err(before)?;
        let mut attempts_left = 3;
        loop {
            attempts_left -= 1;
            let mut server = OwnServer::launch(cluster, options).map_err(before)?;
            match server.wait_until_ready(options.deadline) {
                Ok(()) => {
                    server.enter(&options.groups).map_err(before)?;
                    server.prepare_door().map_err(before)?;
                    return Ok(server);
                }
                // Another process may take the free port before the server does.
                Err(error)
                    if error.fault == StartFault::AddressInUse
                        && options.listen.is_some()
                        && attempts_left > 0 => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Connection settings: the unix socket, as superuser, without a password.
    pub fn conninfo(&self) -> Conninfo {
        Conninfo::new(&self.socket.path.to_string_lossy(), self.port(), SUPERUSER, DATABASE)
    }

    /// Connection settings for a load that comes over TCP, if the server listens there. Nobody can connect with them
    /// before [`OwnServer::admit`].
    pub fn load_conninfo(&self) -> Option<Conninfo> {
        self.door.as_ref().map(LoadEntrance::conninfo)
    }

    /// Lets the load in from these addresses, and from no other.
    ///
    /// # Errors
    /// When the server does not listen, its `pg_hba.conf` cannot be written, or it does not read it.
    pub fn admit(&self, cluster: &Cluster, addresses: &[IpAddr]) -> Result<()> {
        let door = self.door.as_ref().context("the server does not listen for drivers elsewhere")?;
        // A new session has the time of its postmaster, which reads `pg_hba.conf` with its settings before it takes
        // another connection.
        let loaded = || -> Result<String> {
            let mut session = Session::connect(&self.conninfo())?;
            Ok(session.query("select pg_conf_load_time()")?.scalar().unwrap_or_default().to_string())
        };
        let before = loaded()?;
        cluster.write_access(&door.access(addresses))?;
        self.reload()?;
        let end = Instant::now() + RELOAD_DEADLINE;
        while loaded()? == before {
            ensure!(Instant::now() < end, "the server does not read its pg_hba.conf again");
            thread::sleep(ATTEMPT_PAUSE);
        }
        Ok(())
    }

    /// Process id of the postmaster.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The log of this start.
    pub fn log_path(&self) -> &Path {
        &self.log_path
    }

    /// The data directory.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// Whether the postmaster is still running; if not, the error says how it ended.
    pub fn check_running(&mut self) -> Result<(), String> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(ending(status)),
            Err(error) => Err(format!("it cannot be watched: {error}")),
        }
    }

    /// What the server said when it crashed since its start, one line each: a panic, a full disk, a killed process.
    pub fn crash_lines(&self) -> Vec<String> {
        start_error::crash_lines(&self.log_text())
    }

    /// The end of the log of this start, for a message.
    pub fn last_words(&self) -> String {
        start_error::last_words(&self.log_text())
    }

    /// Makes the running server reload its configuration with other settings; those that need a restart keep their
    /// values.
    ///
    /// # Errors
    /// When its configuration cannot be written, or it is gone.
    pub fn reconfigure(&self, cluster: &Cluster, settings: &BTreeMap<String, String>) -> Result<()> {
        cluster.write_settings(settings)?;
        self.reload()
    }

    fn reload(&self) -> Result<()> {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGHUP)
            .context("have the server read its settings")
    }

    /// Directory of its unix socket.
    pub(crate) fn socket_dir(&self) -> &Path {
        &self.socket.path
    }

    /// Path of its unix socket.
    pub fn socket_path(&self) -> PathBuf {
        self.socket.path.join(socket_file(self.port()))
    }

    /// Number in the name of its unix socket.
    pub(crate) fn port(&self) -> u16 {
        self.door.as_ref().map_or(SOCKET_PORT, LoadEntrance::port)
    }

    /// Stops the server and waits for its end. A fast stop that takes too long becomes an immediate one.
    pub fn stop(mut self, mode: StopMode) -> Result<StopReport> {
        self.shut(mode)
    }

    /// Ends all its processes at once with SIGKILL, like a crash: nothing is written any more, and the next start
    /// recovers from the WAL. The operating system's cached writes are not lost. Returns the number of processes.
    pub fn crash(mut self) -> Result<usize> {
        self.kill()
    }

    /// As [`OwnServer::crash`], and keeps its socket's directory for [`OwnServer::start_again`].
    ///
    /// # Errors
    /// When a process cannot be killed, or does not end. A postmaster that was not killed goes on.
    pub fn kill(&mut self) -> Result<usize> {
        let pid = Pid::from_raw(self.child.id() as i32);
        // A stopped postmaster starts no process and reaps none, so that ids keep their meaning. It goes on where this fails.
        let _stopped = Frozen::stop_one(pid, IMMEDIATE_DEADLINE).context("stop the server's postmaster")?;
        let children = children_of(pid)?;
        for process in children.iter().chain([&pid]) {
            kill(*process, Signal::SIGKILL).context("kill the server")?;
        }
        wait_until(&mut self.child, Instant::now() + IMMEDIATE_DEADLINE)?
            .context("the killed server does not end; its disk may hang")?;
        // The next start would find their shared memory in use.
        let end = Instant::now() + IMMEDIATE_DEADLINE;
        while children.iter().any(|child| is_alive(*child)) {
            ensure!(Instant::now() < end, "a killed process of the server does not end; its disk may hang");
            thread::sleep(ATTEMPT_PAUSE);
        }
        crate::process::segments::remove_of(self.child.id(), &self.account);
        self.has_ended = true;
        Ok(children.len() + 1)
    }

    /// Stops the server, which can be [started again](OwnServer::start_again) where its clients know it.
    ///
    /// # Errors
    /// When it does not end.
    pub fn halt(&mut self, mode: StopMode) -> Result<StopReport> {
        self.shut(mode)
    }

    /// Starts a server that has ended again, with the socket that it had, and waits until it takes connections.
    ///
    /// # Errors
    /// When it does not start; says what its log says.
    pub fn start_again(&mut self, cluster: &Cluster, options: &StartOptions) -> Result<(), StartError> {
        let before = |error: anyhow::Error| StartError::before(&error, cluster.log_path());
        prepare(cluster, options).map_err(before)?;
        self.child = spawn(cluster, options, &self.socket.path, self.door.as_ref()).map_err(before)?;
        self.has_ended = false;
        groups::enter(&options.groups, self.pid()).map_err(before)?;
        self.wait_until_ready(options.deadline)?;
        self.enter(&options.groups).map_err(before)
    }

    /// The processes of a running server: the postmaster first, each with its id and its title as `ps` shows it.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn processes(&self) -> Result<Vec<ServerProcess>> {
        ServerProcess::family(Pid::from_raw(self.child.id() as i32))
    }

    fn launch(cluster: &Cluster, options: &StartOptions) -> Result<OwnServer> {
        let socket = SocketDir::create(&cluster.account)?;
        let version_num = cluster.binaries.version_num;
        let door = options
            .listen
            .map(|listen| LoadEntrance::new(listen, version_num, &socket.path, &cluster.account));
        let door = door.transpose()?;
        let child = spawn(cluster, options, &socket.path, door.as_ref())?;
        let (data_dir, log_path) = (cluster.data_dir(), cluster.log_path());
        let server = OwnServer {
            child,
            socket,
            data_dir,
            account: cluster.account.clone(),
            log_path,
            door,
            has_ended: false,
        };
        // Before it has started any process, which is then in its groups.
        groups::enter(&options.groups, server.pid())?;
        Ok(server)
    }

    /// Moves whatever was started before the postmaster was in its groups.
    fn enter(&self, groups: &[PathBuf]) -> Result<()> {
        let postmaster = Pid::from_raw(self.child.id() as i32);
        groups::expect_inside(groups, || children_of(postmaster))
    }

    fn wait_until_ready(&mut self, deadline: Duration) -> Result<(), StartError> {
        let end = Instant::now() + deadline;
        let conninfo = self.conninfo();
        loop {
            if let Err(ending) = self.check_running() {
                return Err(StartError::from_log(&self.log_text(), ending, self.log_path.clone()));
            }
            let last_error = match Session::connect(&conninfo) {
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            if let Some(refusal) = last_error.server_error().filter(|refusal| !is_passing(refusal)) {
                let detail = format!("it runs, but refuses every session: {}", refusal.message);
                return Err(StartError::from_log(&self.log_text(), detail, self.log_path.clone()));
            }
            if Instant::now() >= end {
                let detail = format!("it was not ready within {} s; last: {last_error}", deadline.as_secs());
                let mut error = StartError::from_log(&self.log_text(), detail, self.log_path.clone());
                error.fault = StartFault::Deadline;
                return Err(error);
            }
            thread::sleep(ATTEMPT_PAUSE);
        }
    }

    /// Makes the load's role with the password of this start.
    fn prepare_door(&self) -> Result<()> {
        let Some(door) = &self.door else { return Ok(()) };
        let mut session = Session::connect(&self.conninfo()).context("connect to the new server")?;
        door.make_role(&mut session).context("make the role of the load")
    }

    fn log_text(&self) -> String {
        untrusted::read_output(&self.log_path).unwrap_or_default()
    }

    fn shut(&mut self, mode: StopMode) -> Result<StopReport> {
        let began = Instant::now();
        let steps: &[(Signal, Duration)] = match mode {
            StopMode::Fast => &[
                (Signal::SIGINT, FAST_DEADLINE),
                (Signal::SIGQUIT, IMMEDIATE_DEADLINE),
                (Signal::SIGKILL, IMMEDIATE_DEADLINE),
            ],
            StopMode::Immediate => {
                &[(Signal::SIGQUIT, IMMEDIATE_DEADLINE), (Signal::SIGKILL, IMMEDIATE_DEADLINE)]
            }
        };
        for (signal, deadline) in steps {
            // The child has not been reaped, so the id cannot belong to another process.
            if self.child.try_wait()?.is_none() {
                let pid = Pid::from_raw(self.child.id() as i32);
                kill(pid, *signal).context("signal the server")?;
                // A postmaster that somebody stopped (SIGSTOP) handles no signal but these two, and ends no child.
                if *signal != Signal::SIGKILL {
                    kill(pid, Signal::SIGCONT).context("signal the server")?;
                }
            }
            if let Some(status) = wait_until(&mut self.child, Instant::now() + *deadline)? {
                if status.signal().is_some() {
                    crate::process::segments::remove_of(self.child.id(), &self.account);
                } else if !self.has_ended {
                    // Processes of a killed postmaster may still write for a moment.
                    self.data_dir.parent().into_iter().for_each(|root| others::note(root, &self.account));
                }
                self.has_ended = true;
                let is_clean = crate::cluster::control::ControlFile::read(&self.data_dir, &self.account)
                    .is_ok_and(|control| control.is_shut_down);
                let seconds = began.elapsed().as_secs_f64();
                return Ok(StopReport { seconds, is_clean, ending: ending(status) });
            }
        }
        bail!("server process {} cannot be ended; its disk may hang", self.child.id())
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        // Also if the server is gone: one that was killed leaves its shared memory. There is nobody to report an error
        // to; the kernel signals the server again when we end.
        self.shut(StopMode::Immediate).ok();
    }
}

fn prepare(cluster: &Cluster, options: &StartOptions) -> Result<()> {
    check_settings(&options.settings)?;
    cluster.wait_until_stopped("start it again")?;
    others::expect_none(&cluster.root)?;
    if let Some(snapshot) = &cluster.facts.restoring {
        bail!(
            "restoring snapshot `{snapshot}` of cluster `{}` was interrupted; restore it again",
            cluster.root.display()
        );
    }
    let data = cluster.data_dir();
    ensure!(
        data.is_dir(),
        "data directory `{}` is gone; remove the cluster and create it again",
        data.display()
    );
    cluster.write_access("")?;
    match &options.upstream {
        None => cluster.write_settings(&options.settings),
        Some(upstream) => upstream.write(cluster, &options.settings),
    }
}

/// Starts `postgres` on a cluster, with its socket in this directory.
fn spawn(
    cluster: &Cluster,
    options: &StartOptions,
    socket: &Path,
    door: Option<&LoadEntrance>,
) -> Result<Child> {
    let log = new_log(&cluster.log_path())?;
    let mut command = server_command(&cluster.binaries.program("postgres"), &cluster.account, &cluster.root);
    command.arg("-D").arg(cluster.data_dir());
    // On the command line, where neither a file nor ALTER SYSTEM overrides them.
    let of_door = match door {
        Some(door) => door.settings(),
        None => vec![("listen_addresses", String::new())],
    };
    let of_all = [
        ("port", door.map_or(SOCKET_PORT, LoadEntrance::port).to_string()),
        ("unix_socket_directories", socket.to_string_lossy().into_owned()),
        ("unix_socket_permissions", "0700".to_string()),
        ("logging_collector", "off".to_string()),
        ("log_destination", "stderr".to_string()),
        ("log_line_prefix", log_line_prefix(cluster.binaries.version_num).to_string()),
    ];
    for (name, value) in of_all.into_iter().chain(of_door) {
        command.arg("-c").arg(format!("{name}={value}"));
    }
    if let Some(binding) = &options.binding {
        binding.apply(&mut command)?;
    }
    command.stdout(log.try_clone()?).stderr(log);
    others::forget(&cluster.root)?;
    // SIGQUIT is PostgreSQL's immediate shutdown: nothing outlives us, and the WAL stays intact.
    crate::process::spawn::spawn(command, Signal::SIGQUIT).context("cannot start `postgres`")
}

/// Whether a server that refuses a session says that it will take one soon: it starts up, or has no free connection.
fn is_passing(refusal: &ServerError) -> bool {
    ["57P03", "53300"].contains(&refusal.sqlstate.as_str())
}

/// A new log for this start; that of the last one is kept under another name.
fn new_log(path: &Path) -> Result<File> {
    if path.exists() {
        fs::rename(path, path.with_extension("log.old"))
            .with_context(|| format!("rename `{}`", path.display()))?;
    }
    OpenOptions::new()
        .append(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .with_context(|| format!("create `{}`", path.display()))
}
