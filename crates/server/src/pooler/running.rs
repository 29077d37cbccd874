//! A pooler from its start to its stop.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File};
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use model::experiment::topology::pooler::{CONSOLE, PoolMode};
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
use wire::conninfo::{PasswordSource, SslMode};
use wire::session::Session;
use wire::{Conninfo, Host, Secret};

use super::config::{self, ADMIN, Places, Pool};
use super::program::Pgbouncer;
use crate::process::command::{ending, server_command};
use crate::process::socket::SocketDir;
use crate::process::spawn::spawn;
use crate::process::start_error;
use crate::running::processes::runs_in_group;
use crate::user::account::Account;
use crate::user::untrusted;

/// The port in the name of its socket: pgbouncer's usual one.
const PORT: u16 = 6432;
/// How long a start may take.
const START_DEADLINE: Duration = Duration::from_secs(20);
/// How long an end may take before it is a kill.
const STOP_DEADLINE: Duration = Duration::from_secs(3);
/// Pause between two attempts to connect during a start.
const ATTEMPT_PAUSE: Duration = Duration::from_millis(20);
/// Random bytes of a password.
const PASSWORD_BYTES: usize = 18;
const LOG: &str = "pooler.log";

/// A pooler to start.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolerOptions {
    /// The program.
    pub start: PoolerStart,
    /// For how long a client has a connection of the pool.
    pub mode: PoolMode,
    /// Connections of each process to the server.
    pub size: u32,
    /// Number of processes.
    pub n_processes: u32,
    /// Settings of pgbouncer.
    pub settings: BTreeMap<String, String>,
    /// Clients that must fit.
    pub n_clients: u32,
    /// Settings of PostgreSQL that sessions of the load begin with.
    pub session_settings: BTreeMap<String, String>,
    /// Whether its console is asked, which then has to answer before the load.
    pub is_asked: bool,
}

/// How a pooler is started.
#[derive(Debug, Clone, PartialEq)]
pub enum PoolerStart {
    /// PgBouncer with the configuration that pgdyno writes.
    Pgbouncer(Pgbouncer),
    /// PgBouncer with the user's own, in which words in braces are filled in.
    Configured {
        /// The program.
        program: Pgbouncer,
        /// The configuration.
        config: String,
    },
    /// The user's command and its arguments, in which words in braces are filled in.
    Command(Vec<String>),
}

impl PoolerStart {
    /// The program, if it is PgBouncer.
    fn pgbouncer(&self) -> Option<&Pgbouncer> {
        match self {
            PoolerStart::Pgbouncer(program) | PoolerStart::Configured { program, .. } => Some(program),
            PoolerStart::Command(_) => None,
        }
    }
}

/// A running pooler in front of our own server. Dropping it ends it at once.
#[derive(Debug)]
pub struct OwnPooler {
    processes: Vec<PoolerProcess>,
    /// The release of PgBouncer.
    version: Option<String>,
    /// Where the load connects.
    conninfo: Conninfo,
    /// The console of each process, if there is one.
    pub(super) consoles: Vec<Conninfo>,
    /// Whether transactions were held back, and nothing shows that all go on again.
    pub(super) may_be_paused: AtomicBool,
    log_path: PathBuf,
    options: PoolerOptions,
    access: Access,
    account: Account,
    // Removed after the processes have ended.
    dir: SocketDir,
}

/// A process that leads a group of its own, and those that it has started there.
#[derive(Debug)]
struct PoolerProcess {
    child: Child,
    /// How it ended, once its whole group has.
    ended: Option<ExitStatus>,
}

impl OwnPooler {
    /// Starts a pooler for a load that would connect to our server at `server`, and waits until it answers.
    ///
    /// # Errors
    /// When it does not start, or does not answer in time; says what its log says.
    pub fn start(options: &PoolerOptions, server: &Conninfo) -> Result<OwnPooler> {
        let account = Account::choose()?;
        let dir = SocketDir::create(&account)?;
        let log_path = dir.outer().join(LOG);
        let log = untrusted::create(&log_path).with_context(|| format!("create `{}`", log_path.display()))?;
        let access = Access::new(options, server, &dir, &account)?;
        let mut pooler = OwnPooler {
            processes: Vec::new(),
            version: options.start.pgbouncer().map(|program| program.version.clone()),
            conninfo: access.conninfo(server),
            consoles: access.consoles(options),
            may_be_paused: AtomicBool::new(false),
            log_path,
            options: options.clone(),
            access,
            account,
            dir,
        };
        for number in 0..options.n_processes {
            let command = pooler.command(server.hosts.first(), number)?;
            pooler.processes.push(PoolerProcess::start(command, log.try_clone()?)?);
        }
        pooler.wait_until_ready()?;
        Ok(pooler)
    }

    /// The release of PgBouncer; unknown of what a command of the user's starts.
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// Where the load connects.
    pub fn conninfo(&self) -> &Conninfo {
        &self.conninfo
    }

    /// The console of each process of pgbouncer, if it is asked.
    pub fn consoles(&self) -> &[Conninfo] {
        &self.consoles
    }

    /// Ids of its processes.
    pub fn pids(&self) -> Vec<i32> {
        self.processes.iter().map(|process| process.child.id() as i32).collect()
    }

    /// The log of this start.
    pub fn log_path(&self) -> &Path {
        &self.log_path
    }

    /// Whether all processes are running; if not, the error says how one ended, with its last words.
    fn check_running(&mut self) -> Result<()> {
        for process in &mut self.processes {
            if process.has_ended()? {
                let how = ending(process.stop()?);
                bail!("the pooler has ended: {how}; {}", last_words(&self.log_path));
            }
        }
        Ok(())
    }

    /// Ends all its processes, and lets transactions go on before if they may be held back.
    ///
    /// # Errors
    /// When one does not end.
    pub fn stop(mut self) -> Result<()> {
        // That this has failed was said when it was tried first.
        self.take_pause_back().ok();
        self.processes.iter_mut().try_for_each(|process| process.stop().map(drop))
    }

    /// Writes configurations that lead to our server at `server`. Each process goes on as it is until it reads its own again.
    ///
    /// # Errors
    /// When a file cannot be written, or a command of the user's started the pooler.
    pub(super) fn configure(&self, server: &Host) -> Result<()> {
        for number in 0..self.options.n_processes {
            self.write_configuration(&self.access.places(Some(server), number), number)?
                .context("a pooler that pooler.command starts cannot be led to another server")?;
        }
        Ok(())
    }

    /// The command of a process, whose configuration is written.
    fn command(&self, server: Option<&Host>, number: u32) -> Result<Command> {
        let places = self.access.places(server, number);
        if let PoolerStart::Command(words) = &self.options.start {
            let mut words = words.iter().map(|word| config::filled(word, &places));
            let program = words.next().context("pooler.command is empty")?;
            let mut command = server_command(Path::new(&program), &self.account, &self.dir.path);
            command.args(words);
            return Ok(command);
        }
        let written = self.write_configuration(&places, number)?;
        let (program, path) = written.context("the pooler has no configuration")?;
        let mut command = server_command(&program.path, &self.account, &self.dir.path);
        command.arg(&path);
        Ok(command)
    }

    /// Writes the configuration of a process; `None` of a pooler that a command of the user's starts.
    fn write_configuration(&self, places: &Places, number: u32) -> Result<Option<(&Pgbouncer, PathBuf)>> {
        let Some((program, text)) = configuration(&self.options, places) else { return Ok(None) };
        let path = self.dir.outer().join(format!("{number}.ini"));
        write_for(&self.account, &path, &text)?;
        Ok(Some((program, path)))
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let end = Instant::now() + START_DEADLINE;
        let places: Vec<Conninfo> = self.consoles.iter().chain([&self.conninfo]).cloned().collect();
        for place in places.into_iter().chain(self.access.entrances(self.options.n_processes)) {
            loop {
                self.check_running()?;
                let Err(error) = Session::connect(&place) else { break };
                ensure!(
                    Instant::now() < end,
                    "the pooler did not answer within {} s; last: {error}; {}",
                    START_DEADLINE.as_secs(),
                    last_words(&self.log_path)
                );
                thread::sleep(ATTEMPT_PAUSE);
            }
        }
        Ok(())
    }
}

impl PoolerProcess {
    fn start(mut command: Command, log: File) -> Result<PoolerProcess> {
        let name = command.get_program().to_string_lossy().into_owned();
        command.stdout(log.try_clone()?).stderr(log);
        // It keeps nothing that an orderly end would save.
        let child =
            spawn(command, Signal::SIGKILL).with_context(|| format!("pooler: cannot start `{name}`"))?;
        allow_connections(&child);
        Ok(PoolerProcess { child, ended: None })
    }

    /// Whether the process has ended. It is not reaped, so that its id stays that of its group alone.
    fn has_ended(&self) -> Result<bool> {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        let status = waitid(Id::Pid(self.group()), flags).context("cannot wait for the pooler")?;
        Ok(status != WaitStatus::StillAlive)
    }

    fn group(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    /// Ends the process and those that it has started in its group, which may outlive it.
    fn stop(&mut self) -> Result<ExitStatus> {
        if let Some(ended) = self.ended {
            return Ok(ended);
        }
        let group = self.group();
        for signal in [Signal::SIGTERM, Signal::SIGKILL] {
            killpg(group, signal).context("signal the pooler")?;
            let end = Instant::now() + STOP_DEADLINE;
            while runs_in_group(group)? && Instant::now() < end {
                thread::sleep(ATTEMPT_PAUSE);
            }
            if !runs_in_group(group)? {
                break;
            }
        }
        ensure!(!runs_in_group(group)?, "processes of the pooler's group {group} cannot be ended");
        let ended = self.child.wait().context("cannot wait for the pooler")?;
        self.ended = Some(ended);
        Ok(ended)
    }
}

impl Drop for PoolerProcess {
    fn drop(&mut self) {
        // There is nobody to report an error to; the kernel kills it again when we end.
        self.stop().ok();
    }
}

/// Lets a process have as many connections as it can be allowed; what it says about too few is in its log.
fn allow_connections(child: &Child) {
    let most = getrlimit(Resource::Nofile).maximum;
    let pid = rustix::process::Pid::from_raw(child.id() as i32);
    prlimit(pid, Resource::Nofile, Rlimit { current: most, maximum: most }).ok();
}

/// Where a pooler listens, and whom it lets in.
#[derive(Debug)]
struct Access {
    dir: PathBuf,
    outer: PathBuf,
    listen: String,
    port: u16,
    user: String,
    name: String,
    /// Clients over TCP have one, because every user of the machine can connect.
    password: Option<Secret>,
    auth_file: Option<String>,
    is_shared: bool,
}

impl Access {
    fn new(options: &PoolerOptions, server: &Conninfo, dir: &SocketDir, account: &Account) -> Result<Access> {
        let is_shared = options.n_processes > 1;
        let is_tcp = is_shared || options.start.pgbouncer().is_none();
        let mut access = Access {
            dir: dir.path.clone(),
            outer: dir.outer().to_path_buf(),
            listen: dir.path.display().to_string(),
            port: PORT,
            user: server.user.clone(),
            name: server.dbname.clone(),
            password: None,
            auth_file: None,
            is_shared,
        };
        if is_tcp {
            access.listen = "127.0.0.1".to_string();
            access.port = free_port()?;
        }
        if is_shared {
            let password = files::random_hex(PASSWORD_BYTES)?;
            let users = [access.user.as_str(), ADMIN].map(|user| format!("\"{user}\" \"{password}\"\n"));
            let path = access.outer.join("users");
            write_for(account, &path, &users.concat())?;
            access.auth_file = Some(path.display().to_string());
            access.password = Some(Secret::new(password));
            for number in 0..options.n_processes {
                let dir = access.socket_dir(number);
                let make = || DirBuilder::new().mode(0o700).create(&dir);
                account.act(make).with_context(|| format!("create `{}`", dir.display()))?;
            }
        }
        Ok(access)
    }

    /// The directory of the socket of a process: several cannot have the same.
    fn socket_dir(&self, number: u32) -> PathBuf {
        if self.is_shared { self.dir.join(number.to_string()) } else { self.dir.clone() }
    }

    fn places(&self, host: Option<&Host>, number: u32) -> Places {
        Places {
            host: host.map_or_else(String::new, |host| host.host.clone()),
            port: host.map_or(5432, |host| host.port),
            name: self.name.clone(),
            user: self.user.clone(),
            listen: self.listen.clone(),
            listen_port: self.port,
            dir: self.dir.display().to_string(),
            socket_dir: self.socket_dir(number).display().to_string(),
            auth_file: self.auth_file.clone(),
        }
    }

    fn conninfo(&self, server: &Conninfo) -> Conninfo {
        let place = Conninfo::new(&self.listen, self.port, &self.user, &self.name);
        let application_name = server.application_name.clone();
        self.with_password(Conninfo { application_name, sslmode: SslMode::Disable, ..place })
    }

    fn consoles(&self, options: &PoolerOptions) -> Vec<Conninfo> {
        if options.start.pgbouncer().is_none() || !options.is_asked {
            return Vec::new();
        }
        let user = if self.is_shared { ADMIN } else { &self.user };
        (0..options.n_processes).map(|number| self.socket_of(number, user, CONSOLE)).collect()
    }

    /// The socket of each process that shares the port: what answers at the port need not be all of them.
    fn entrances(&self, n_processes: u32) -> Vec<Conninfo> {
        let n = if self.is_shared { n_processes } else { 0 };
        (0..n).map(|number| self.socket_of(number, &self.user, &self.name)).collect()
    }

    fn socket_of(&self, number: u32, user: &str, database: &str) -> Conninfo {
        let dir = self.socket_dir(number).display().to_string();
        self.with_password(Conninfo::new(&dir, self.port, user, database))
    }

    fn with_password(&self, conninfo: Conninfo) -> Conninfo {
        match &self.password {
            None => conninfo,
            Some(password) => Conninfo {
                password: Some(password.clone()),
                password_source: PasswordSource::Given,
                ..conninfo
            },
        }
    }
}

/// PgBouncer, and the configuration of a process of it; `None` of a pooler that a command of the user's starts.
fn configuration<'a>(options: &'a PoolerOptions, places: &Places) -> Option<(&'a Pgbouncer, String)> {
    match &options.start {
        PoolerStart::Command(_) => None,
        PoolerStart::Configured { program, config } => Some((program, config::filled(config, places))),
        PoolerStart::Pgbouncer(program) => {
            let pool = Pool {
                mode: options.mode,
                size: options.size,
                n_clients: options.n_clients,
                keeps_prepared: options.mode != PoolMode::Session && program.can_keep_prepared(),
                settings: &options.settings,
                session_settings: &options.session_settings,
            };
            Some((program, config::text(&pool, places)))
        }
    }
}

/// Writes our file, which only the pooler's user can read.
fn write_for(account: &Account, path: &Path, text: &str) -> Result<()> {
    let mut file = untrusted::create(path).with_context(|| format!("create `{}`", path.display()))?;
    file.write_all(text.as_bytes()).with_context(|| format!("write `{}`", path.display()))?;
    account.own(path)
}

/// A port of 127.0.0.1 that nobody listens at now.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("find a free port for the pooler")?;
    Ok(listener.local_addr()?.port())
}

/// The end of a log, for a message.
fn last_words(log_path: &Path) -> String {
    start_error::last_words(&untrusted::read_output(log_path).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    #[test]
    fn what_a_pooler_has_started_ends_with_it() {
        let log = || File::options().write(true).open("/dev/null").unwrap();
        // One ends in order and leaves a child that hears no SIGTERM; one has ended before it is stopped.
        for script in ["(trap '' TERM; while :; do sleep 0.1; done) & wait", "sleep 60 & exit 3"] {
            let mut command = Command::new("sh");
            command.args(["-c", script]).stdin(Stdio::null());
            let mut process = PoolerProcess::start(command, log()).unwrap();
            let group = process.group();
            thread::sleep(Duration::from_millis(200));
            assert!(runs_in_group(group).unwrap());
            process.stop().unwrap();
            assert!(!runs_in_group(group).unwrap(), "{script}");
            process.stop().expect("it can be stopped again");
        }
    }
}
